"""A spec file to a `Spec`: types, names, references between checks, pins."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from precheck_lib.checks import KINDS, kind_named
from precheck_lib.outcome import Source, SpecIdentity
from precheck_lib.spec.model import CheckSpec, Problem, Spec, SpecError
from precheck_lib.spec.yaml_text import MAX_BYTES, Places, read_yaml
from precheck_lib.units import Bytes, Seconds, parse_duration, parse_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from precheck_lib.spec.yaml_text import Path

_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}\Z")
_PIN = re.compile(r"- ([^:`]+): `(?:rust-)?v([0-9A-Za-z][0-9A-Za-z.+-]*)`")
_PIN_REFERENCE = re.compile(r"(?<!\$)\$\{pin:([^}]*)\}")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_WHERE = re.compile(r" - at `(?:key in )?\$([^`]*)`\Z")
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+|\.\.\.)\]")
_MOST_PROBLEMS = 20


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    name: str
    checks: list[Any]
    success: str | None = None
    budget: Seconds | None = None
    pins: str | None = None
    exit_codes: Literal["plain", "curl"] = "plain"
    fail_fast: bool = False


class _Frame(msgspec.Struct, frozen=True):
    id: str
    title: str = ""
    needs: list[str] = []
    budget: Seconds | None = None


def built_in_folder() -> str:
    """Return the folder of the built-in specs: inside the package where it is installed, beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "specs")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "specs")


def built_in_names() -> list[str]:
    """Return the names of the built-in specs."""
    try:
        files = os.listdir(built_in_folder())
    except OSError:
        return []
    return sorted(file[:-4] for file in files if file.endswith(".yml"))


def load_spec(name: str) -> Spec:
    """Load the built-in spec of that name, or else the spec file at that path; raises `SpecError`."""
    path = name
    if re.fullmatch(r"[a-z0-9-]+", name) and name in built_in_names():
        path = os.path.join(built_in_folder(), f"{name}.yml")
    data = _read(path, hint=name == path and os.sep not in name)
    identity = SpecIdentity(name=None, path=path, digest=hashlib.sha256(data).hexdigest())
    try:
        return _Loader(data, path, identity).spec()
    except SpecError as error:
        error.identity = identity
        raise


def _read(path: str, *, hint: bool) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        text = f"the spec cannot be read: {error.strerror}"
        if hint:
            text += f"; built-in specs are {', '.join(built_in_names())}"
        raise SpecError([Problem(path, 1, 1, text)]) from None
    return data or b""


class _Loader:
    def __init__(self, data: bytes, path: str, identity: SpecIdentity) -> None:
        self.path = path
        self.identity = identity
        self.problems: list[Problem] = []
        self.document, self.places = read_yaml(data, path)

    def spec(self) -> Spec:
        if not isinstance(self.document, dict):
            raise SpecError([Problem(self.path, 1, 1, "a spec is a mapping with version, name and checks")])
        head = self._convert(self.document, _Head, ())
        items = self.document.get("checks")
        checks = [
            self._check(item, ("checks", index)) for index, item in enumerate(items if isinstance(items, list) else [])
        ]
        made = [check for check in checks if check is not None]
        if not made and not self.problems:
            self._problem(("checks",), "a spec needs at least one check")
        self._references(made)
        pins = self._pins(head.pins) if head is not None and head.pins is not None else {}
        self._pin_references(self.document, (), pins)
        if self.problems or head is None:
            raise SpecError(sorted(self.problems, key=lambda problem: (problem.line, problem.column))[:_MOST_PROBLEMS])
        return Spec(
            identity=SpecIdentity(name=head.name, path=self.identity.path, digest=self.identity.digest),
            checks=tuple(made),
            success=head.success if head.success is not None else f"{head.name}: ready",
            pins=pins,
            budget=head.budget,
            exit_codes=head.exit_codes,
            fail_fast=head.fail_fast,
        )

    def _check(self, item: Any, path: Path) -> CheckSpec | None:
        if not isinstance(item, dict):
            self._problem(path, "a check is a mapping with an id and one kind")
            return None
        frame = self._convert({key: item[key] for key in _Frame.__struct_fields__ if key in item}, _Frame, path)
        if frame is not None and not _ID.match(frame.id):
            self._problem((*path, "id"), f"the id {frame.id!r} is not lower-case letters, digits, '-', '_' and '.'")
        kinds = [key for key in item if key in KINDS]
        for key in item:
            if key not in KINDS and key not in _Frame.__struct_fields__:
                of = f" in check {frame.id!r}" if frame is not None else ""
                self._problem(
                    (*path, key, "?"),
                    f"unknown key {key!r}{of}{self._guess(key, (*KINDS, *_Frame.__struct_fields__))}",
                )
        if len(kinds) != 1:
            have = "none" if not kinds else " and ".join(kinds)
            self._problem(path, f"a check has exactly one kind ({', '.join(KINDS)}), this one has {have}")
            return None
        options = self._convert(item[kinds[0]] or {}, kind_named(kinds[0]).options, (*path, kinds[0]))
        if frame is None or options is None:
            return None
        return CheckSpec(
            id=frame.id,
            title=frame.title or frame.id,
            kind=kinds[0],
            options=options,
            source=Source(self.path, self.places[path][0]),
            needs=tuple(frame.needs),
            budget=frame.budget,
        )

    def _references(self, checks: list[CheckSpec]) -> None:
        seen: set[str] = set()
        every = {check.id for check in checks}
        for check in checks:
            place = Problem(self.path, check.source.line, 1, "")
            if check.id in seen:
                self.problems.append(
                    msgspec.structs.replace(place, text=f"the id {check.id!r} stands here a second time")
                )
            for need in check.needs:
                if need not in seen:
                    why = (
                        "comes later; a check needs only what stands before it"
                        if need in every and need != check.id
                        else f"is not a check of this spec{self._guess(need, every)}"
                    )
                    self.problems.append(
                        msgspec.structs.replace(place, text=f"check {check.id!r} needs {need!r}, which {why}")
                    )
            seen.add(check.id)

    def _pins(self, file: str) -> dict[str, str]:
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), file)
        try:
            text = _read(path, hint=False).decode("utf-8")
        except (SpecError, UnicodeDecodeError) as error:
            reason = error.problems[0].text if isinstance(error, SpecError) else "it is not UTF-8"
            self._problem(("pins",), f"the pins file {file!r} cannot be used: {reason}")
            return {}
        pins: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            match = _PIN.fullmatch(line)
            if match is None:
                continue
            if match[1] in pins:
                self.problems.append(Problem(path, number, 1, f"the pin {match[1]!r} stands here a second time"))
            pins[match[1]] = match[2]
        return pins

    def _pin_references(self, value: Any, path: Path, pins: dict[str, str]) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                self._pin_references(part, (*path, key), pins)
        elif isinstance(value, list):
            for index, part in enumerate(value):
                self._pin_references(part, (*path, index), pins)
        elif isinstance(value, str):
            for name in _PIN_REFERENCE.findall(value):
                if name not in pins:
                    source = self.document.get("pins") if isinstance(self.document, dict) else None
                    self._problem(
                        path,
                        f"the pin {name!r} is not in {source or 'a pins file: the spec names none (pins:)'}",
                    )

    def _convert(self, value: Any, type_: Any, path: Path) -> Any:
        try:
            return msgspec.convert(value, type_, dec_hook=_hook)
        except msgspec.ValidationError as error:
            text = str(error)
            where = _WHERE.search(text)
            steps = _STEP.findall(where[1]) if where else []
            below: Path = tuple(name or (int(index) if index.isdigit() else index) for name, index in steps)
            text = text[: where.start()] if where else text
            unknown = _UNKNOWN.match(text)
            if unknown is not None:
                fields = getattr(type_, "__struct_fields__", ()) if not below else ()
                text = f"unknown key {unknown[1]!r}{self._guess(unknown[1], fields)}"
                below = (*below, unknown[1], "?")
            self._problem((*path, *below), text.replace("Object ", "it ").replace("`", "'"))
            return None

    def _problem(self, path: Path, text: str) -> None:
        """Note a problem at a path, or at the nearest place above it that has one."""
        while path not in self.places and path:
            path = path[:-1]
        line, column = self.places.get(path, (1, 1))
        self.problems.append(Problem(self.path, line, column, text))

    @staticmethod
    def _guess(key: str, known: Iterable[str]) -> str:
        import difflib

        near = difflib.get_close_matches(key, list(known), n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


def _hook(type_: Any, value: Any) -> Any:
    if type_ is Seconds:
        return parse_duration(value)
    if type_ is Bytes:
        return parse_size(value)
    raise NotImplementedError


__all__ = ["Places", "built_in_folder", "built_in_names", "load_spec"]
