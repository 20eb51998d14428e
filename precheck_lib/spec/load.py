"""A spec file to a `Spec`: types, names, references between checks, pins."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from precheck_lib.checks import KINDS, kind_named
from precheck_lib.outcome import Source, SpecIdentity
from precheck_lib.spec.model import CheckSpec, Problem, Spec, SpecError, Wait, When
from precheck_lib.spec.typed import BAD, convert, guess, struct
from precheck_lib.spec.variables import MalformedError, references
from precheck_lib.spec.yaml_text import MAX_BYTES, decode, lines_of, read_yaml
from precheck_lib.units import Seconds  # noqa: TC001 - read when a struct is made

if TYPE_CHECKING:
    from collections.abc import Iterable

    from precheck_lib.spec.yaml_text import Path

_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}\Z")
_PIN = re.compile(r"- ([^:`]+): `(?:rust-)?v([0-9A-Za-z][0-9A-Za-z.+-]*)`")
_MOST_PROBLEMS = 20
_MOST_GUESSES = 100
"""Problems, in the order in which they are found, that get a guess: each costs a look at every name there is."""


class _Head(msgspec.Struct, frozen=True):
    version: Literal[1]
    name: str
    checks: list[Any]
    success: str | None = None
    budget: Seconds | None = None
    pins: str | None = None
    exit_codes: Literal["plain", "curl"] = "plain"
    fail_fast: bool = False


class _Wait(msgspec.Struct, frozen=True):
    for_: Seconds = msgspec.field(name="for")
    stable: int = 1


class _Frame(msgspec.Struct, frozen=True):
    id: str
    title: str = ""
    needs: list[str] = []
    budget: Seconds | None = None
    wait: _Wait | None = None
    severity: Literal["error", "warning"] = "error"
    when: When | None = None


class _Draft(NamedTuple):
    """A check as far as it could be read: its place in the document, and what is known of it."""

    path: Path
    frame: _Frame
    kind: str | None
    check: CheckSpec | None


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
    try:
        data = _read(path)
    except _UnreadableError as error:
        text = f"the spec cannot be read: {error}"
        if name == path and os.sep not in name:
            text += f"; built-in specs are {', '.join(built_in_names())}{guess(name, built_in_names())}"
        raise SpecError([Problem(path, 1, 1, text)], SpecIdentity(name=None, path=path)) from None
    identity = SpecIdentity(name=None, path=path, digest=hashlib.sha256(data).hexdigest())
    try:
        return _Loader(data, path, identity).spec()
    except SpecError as error:
        # The file itself comes first, then the pins file.
        problems = sorted(dict.fromkeys(error.problems), key=lambda one: (one.file != path, one.line, one.column))
        raise SpecError(problems[:_MOST_PROBLEMS], identity) from None


class _UnreadableError(Exception):
    """A file that cannot be read; the message says why."""


def _read(path: str) -> bytes:
    """Read a file, one byte more than it may have at most; what is no regular file could hold us for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _UnreadableError(error.strerror) from None
    except ValueError:  # a NUL, or half of a surrogate pair
        raise _UnreadableError("no path can be that") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _UnreadableError("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1) or b""  # None: something under /proc has nothing to say now
    except OSError as error:
        raise _UnreadableError(error.strerror) from None
    finally:
        os.close(descriptor)


class _Loader:
    def __init__(self, data: bytes, path: str, identity: SpecIdentity) -> None:
        self.path = path
        self.identity = identity
        self.problems: list[Problem] = []
        self.document, self.places = read_yaml(data, path)

    def spec(self) -> Spec:
        if not isinstance(self.document, dict):
            raise SpecError([Problem(self.path, 1, 1, "a spec is a mapping with version, name and checks")])
        head = self._head(self.document)
        items = self.document.get("checks")
        drafts = [
            self._draft(item, ("checks", index)) for index, item in enumerate(items if isinstance(items, list) else [])
        ]
        if items == []:
            self._problem(("checks",), "a spec needs at least one check")
        known = [draft for draft in drafts if draft is not None]
        self._needs(known)
        source = self.document.get("pins")
        pins = self._pins(source) if isinstance(source, str) else {}
        self._references(known, pins)
        checks = [draft.check for draft in known if draft.check is not None]
        if self.problems or head is BAD:
            raise SpecError(self.problems)
        return Spec(
            identity=SpecIdentity(name=head.name, path=self.identity.path, digest=self.identity.digest),
            checks=tuple(checks),
            success=head.success if head.success is not None else f"{head.name}: ready",
            pins=pins or {},
            budget=head.budget,
            exit_codes=head.exit_codes,
            fail_fast=head.fail_fast,
        )

    def _head(self, document: dict[str, Any]) -> Any:
        if document.get("version", 1) != 1 and isinstance(document["version"], int):
            text = f"version {document['version']} is not known to this precheck, which reads version 1"
            self._problem(("version",), text)
            document = {**document, "version": 1}
        head = struct(document, _Head, (), self._problem)
        if head is not BAD:
            self._positive(head.budget, ("budget",))
        return head

    def _draft(self, item: Any, path: Path) -> _Draft | None:
        if not isinstance(item, dict):
            self._problem(path, "a check is a mapping with an id and one kind")
            return None
        kinds = [key for key in item if key in KINDS]
        unknown = [key for key in item if key not in KINDS and key not in _Frame.__struct_fields__]
        for key in unknown:
            near = self._guess(key, (*KINDS, *_Frame.__struct_fields__))
            self._problem((*path, key, "?"), f"unknown key {key!r}{near}")
        if len(kinds) > 1 or not (kinds or unknown):  # an unknown key is probably the kind
            have = "none" if not kinds else " and ".join(kinds)
            self._problem(path, f"a check has exactly one kind ({', '.join(KINDS)}), this one has {have}")
        frame = struct(item, _Frame, path, self._problem, ignore=item)
        made = None
        if len(kinds) == 1:
            given = {} if item[kinds[0]] is None else item[kinds[0]]
            options = convert(given, kind_named(kinds[0]).options, (*path, kinds[0]), self._problem)
            if frame is not BAD and options is not BAD:
                made = CheckSpec(
                    id=frame.id,
                    title=frame.title or frame.id,
                    kind=kinds[0],
                    options=options,
                    source=Source(self.path, self.places[path][0]),
                    needs=tuple(frame.needs),
                    budget=frame.budget,
                    wait=None if frame.wait is None else Wait(seconds=frame.wait.for_, stable=frame.wait.stable),
                    severity=frame.severity,
                    when=frame.when,
                )
                self._wait(made, path)
        if frame is BAD:
            # What else is wrong with its id and needs can be said all the same, where it has them.
            frame = self._what_is_there(item)
        elif not _ID.match(frame.id):
            text = f"the id {frame.id!r} is not lower-case letters, digits, '-', '_' and '.', at most 64"
            self._problem((*path, "id"), text)
        self._positive(frame.budget, (*path, "budget"))
        return _Draft(path, frame, kinds[0] if len(kinds) == 1 else None, made)

    def _wait(self, check: CheckSpec, path: Path) -> None:
        if check.wait is None:
            return
        if kind_named(check.kind).changes:
            text = f"a check that changes a server ({check.kind}) is not asked again and again; it waits by itself"
            self._problem((*path, "wait"), text)
        if check.wait.seconds <= 0:
            self._problem((*path, "wait", "for"), "for: it has to be more than 0s")
        if check.wait.stable < 1:
            self._problem((*path, "wait", "stable"), "stable: it has to be at least 1")

    @staticmethod
    def _what_is_there(item: dict[str, Any]) -> _Frame:
        id_ = item.get("id")
        needs = item.get("needs")
        return _Frame(
            id=id_ if isinstance(id_, str) else "",
            needs=[need if isinstance(need, str) else "" for need in needs] if isinstance(needs, list) else [],
        )

    def _needs(self, drafts: list[_Draft]) -> None:
        every = {draft.frame.id: draft for draft in drafts if draft.frame.id}
        seen: dict[str, _Draft] = {}
        for draft in drafts:
            id_ = draft.frame.id
            if id_ in seen:
                first = self.places[seen[id_].path][0]
                self._problem((*draft.path, "id"), f"the id {id_!r} stands here a second time (first in line {first})")
            for index, need in enumerate(draft.frame.needs):
                why = self._no_need(draft, need, seen, every) if need else ""
                if why:
                    self._problem((*draft.path, "needs", index), f"check {id_!r} needs {need!r}, which {why}")
            if id_:
                seen.setdefault(id_, draft)

    def _no_need(self, draft: _Draft, need: str, seen: dict[str, _Draft], every: dict[str, _Draft]) -> str:
        """Say why a check cannot need another, as the end of a sentence; empty where it can."""
        if need == draft.frame.id:
            return "is itself"
        if need not in every:
            return f"is not a check of this spec{self._guess(need, every)}"
        if need not in seen:
            return "comes later; a check needs only what stands before it"
        if draft.kind is None or kind_named(draft.kind).changes:
            return ""
        other = seen[need].kind
        if other is None or not kind_named(other).changes:
            return ""
        return (
            f"changes a server ({other}) and so runs after all that only reads ({draft.kind}): "
            "nothing is changed before everything that can be read is right"
        )

    def _pins(self, file: str) -> dict[str, str] | None:
        """Read the pins file, which lies relative to the spec; `None` where it cannot be used (said by then)."""
        path = os.path.join(os.path.dirname(self.path), file)
        try:
            text = decode(_read(path), path)
        except _UnreadableError as error:
            self._problem(("pins",), f"the pins file {file!r} cannot be used: {error}")
            return None
        except SpecError as error:
            self.problems += error.problems
            return None
        pins: dict[str, str] = {}
        for number, line in enumerate(lines_of(text), 1):
            match = _PIN.fullmatch(line)
            if match is None:
                continue
            if match[1] in pins:
                self.problems.append(Problem(path, number, 1, f"the pin {match[1]!r} stands here a second time"))
            pins[match[1]] = match[2]
        return pins

    def _references(self, drafts: list[_Draft], pins: dict[str, str] | None) -> None:
        """Look at every `${...}` in the options of the checks."""
        for draft in drafts:
            if draft.kind is not None:
                path = (*draft.path, draft.kind)
                self._references_in(self.document["checks"][draft.path[1]][draft.kind], path, pins)

    def _references_in(self, value: Any, path: Path, pins: dict[str, str] | None) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                self._references_in(part, (*path, key), pins)
        elif isinstance(value, list):
            for index, part in enumerate(value):
                self._references_in(part, (*path, index), pins)
        elif isinstance(value, str):
            try:
                found = list(references(value))
            except MalformedError as error:
                self._problem(path, str(error))
                return
            for one in found:
                if one.pin is not None and pins is not None and one.pin not in pins:
                    self._problem(path, self._no_pin(one.pin, pins))

    def _no_pin(self, name: str, pins: dict[str, str]) -> str:
        source = self.document.get("pins")
        if source is None:
            return f"the pin {name!r} is used, but the spec names no pins file (pins:)"
        return f"the pin {name!r} is not in {source}{self._guess(name, pins)}"

    def _guess(self, name: str, known: Iterable[str]) -> str:
        return guess(name, known) if len(self.problems) < _MOST_GUESSES else ""

    def _positive(self, seconds: float | None, path: Path) -> None:
        if seconds is not None and seconds <= 0:
            self._problem(path, "budget: it has to be more than 0s")

    def _problem(self, path: Path, text: str) -> None:
        """Note a problem at a path, or at the nearest place above it that has one."""
        while path not in self.places and path:
            path = path[:-1]
        line, column = self.places.get(path, (1, 1))
        self.problems.append(Problem(self.path, line, column, text))


__all__ = ["built_in_folder", "built_in_names", "load_spec"]
