"""A spec file to a `Spec`: types, names, references between checks, pins."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

from precheck_lib.checks import KINDS, changes_server, kind_named
from precheck_lib.outcome import Source, SpecIdentity
from precheck_lib.spec.exposed import exposed, secret_roles
from precheck_lib.spec.files import UnreadableError, read_file
from precheck_lib.spec.model import CheckSpec, Problem, Spec, SpecError, Wait, quoted
from precheck_lib.spec.needs import Draft, no_need
from precheck_lib.spec.pins import read_pins
from precheck_lib.spec.plain import plain_data
from precheck_lib.spec.shape import IS_ID, Frame, Head
from precheck_lib.spec.typed import BAD, convert, guess, struct, unknown_key
from precheck_lib.spec.variables import MalformedError, references
from precheck_lib.spec.yaml_text import read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from precheck_lib.spec.yaml_text import Path, Places

_BUILT = "spec"
"""What stands for the file in the problems of a spec that comes from none."""

_MOST_PROBLEMS = 20
_MOST_GUESSES = 100
"""Problems, in the order in which they are found, that get a guess: each costs a look at every name there is."""


def built_in_folder() -> str:
    """Return the folder of the built-in specs: inside the package where it is installed, beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "specs")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "specs")


def is_built_in(path: str) -> bool:
    """Say whether a path is that of a built-in spec, which is no file of the job's."""
    return os.path.dirname(os.path.abspath(path)) == built_in_folder()


def built_in_names() -> list[str]:
    """Return the names of the built-in specs."""
    try:
        files = os.listdir(built_in_folder())
    except OSError:
        return []
    return sorted(file[:-4] for file in files if file.endswith(".yml"))


def load_spec(name: str, *, read: Callable[[str], bytes] = read_file) -> Spec:
    """Load the built-in spec of that name, or else the spec file at that path; raises `SpecError`.

    `read` returns the contents of a file by its path, of the pins file too, or raises `UnreadableError`.
    """
    path = name
    if re.fullmatch(r"[a-z0-9-]+", name) and name in built_in_names():
        path = os.path.join(built_in_folder(), f"{name}.yml")
        read = read_file
    try:
        data = read(path)
    except UnreadableError as error:
        text = f"the spec cannot be read: {error}"
        if name == path and os.sep not in name:
            text += f"; built-in specs are {', '.join(built_in_names())}{guess(name, built_in_names())}"
        raise SpecError([Problem(path, 1, 1, text)], SpecIdentity(name=None, path=path)) from None
    identity = SpecIdentity(name=None, path=path, digest=hashlib.sha256(data).hexdigest())
    try:
        return _Loader(*read_yaml(data, path), path, identity, read).spec()
    except SpecError as error:
        # The file itself comes first, then the pins file.
        problems = sorted(dict.fromkeys(error.problems), key=lambda one: (one.file != path, one.line, one.column))
        raise SpecError(problems[:_MOST_PROBLEMS], identity) from None


def build_spec(document: Mapping[str, Any]) -> Spec:
    """Build a spec from plain data of the same shape as a spec file; raises `SpecError` with all that is wrong.

    What YAML writes as text is text here too (durations `"2s"`, sizes `"20GiB"`, references `"${NAME}"`). A pins file
    lies relative to the working folder. The problems have no line: they name the check and the key.
    """
    plain = plain_data(document)
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
    identity = SpecIdentity(name=None, path=None, digest=hashlib.sha256(text.encode()).hexdigest())
    try:
        return _Loader(plain, {}, _BUILT, identity).spec()
    except SpecError as error:
        raise SpecError(list(dict.fromkeys(error.problems))[:_MOST_PROBLEMS], identity) from None


class _Loader:
    def __init__(
        self,
        document: Any,
        places: Places,
        path: str,
        identity: SpecIdentity,
        read: Callable[[str], bytes] = read_file,
    ) -> None:
        self.document = document
        self.places = places
        self.path = path
        self.identity = identity
        self.read = read
        self.problems: list[Problem] = []
        self.shared: set[tuple[tuple[int, int], str]] = set()

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
        self._exposed(known, secret_roles(checks))
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
        head = struct(document, Head, (), self._problem)
        if head is not BAD:
            self._positive(head.budget, ("budget",))
        return head

    def _draft(self, item: Any, path: Path) -> Draft | None:
        if not isinstance(item, dict):
            self._problem(path, "a check is a mapping with an id and one kind")
            return None
        kinds = [key for key in item if key in KINDS]
        unknown = [key for key in item if key not in KINDS and key not in Frame.__struct_fields__]
        for key in unknown:
            near = self._guess(key, (*KINDS, *Frame.__struct_fields__))
            self._in_check((*path, key, "?"), f"{unknown_key(key)}{near}")
        if len(kinds) > 1 or not (kinds or unknown):  # an unknown key is probably the kind
            have = "none" if not kinds else " and ".join(kinds)
            self._problem(path, f"a check has exactly one kind ({', '.join(KINDS)}), this one has {have}")
        frame = struct(item, Frame, path, self._in_check, ignore=item)
        made = None
        if len(kinds) == 1:
            given = {} if item[kinds[0]] is None else item[kinds[0]]
            options = convert(given, kind_named(kinds[0]).options, (*path, kinds[0]), self._in_check)
            if frame is not BAD and options is not BAD:
                made = CheckSpec(
                    id=frame.id,
                    title=frame.title or frame.id,
                    kind=kinds[0],
                    options=options,
                    source=Source(self.path, self.places[path][0]) if path in self.places else None,
                    needs=tuple(frame.needs),
                    budget=frame.budget,
                    wait=None if frame.wait is None else Wait(seconds=frame.wait.for_, stable=frame.wait.stable),
                    severity=frame.severity,
                    when=frame.when,
                )
                self._wait(made, path)
            # What no type can say: the kinds that know it have words of their own.
            for place, text in options.problems() if options is not BAD else ():
                self._in_check((*path, kinds[0], *place), text)
        if frame is BAD:
            # What else is wrong with its id and needs can be said all the same, where it has them.
            frame = self._what_is_there(item)
        elif not IS_ID(frame.id):
            text = f"the id {quoted(frame.id)} is not lower-case letters, digits, '-', '_' and '.', at most 64"
            self._problem((*path, "id"), text)
        self._positive(frame.budget, (*path, "budget"))
        return Draft(path, frame, kinds[0] if len(kinds) == 1 else None, made)

    def _wait(self, check: CheckSpec, path: Path) -> None:
        if check.wait is None:
            return
        if changes_server(check):
            text = f"a check that changes a server ({check.kind}) is not asked again and again; it waits by itself"
            self._in_check((*path, "wait"), text)
        if check.wait.seconds <= 0:
            self._in_check((*path, "wait", "for"), "for: it has to be more than 0s")
        if check.wait.stable < 1:
            self._in_check((*path, "wait", "stable"), "stable: it has to be at least 1")

    @staticmethod
    def _what_is_there(item: dict[str, Any]) -> Frame:
        id_ = item.get("id")
        needs = item.get("needs")
        return Frame(
            id=id_ if isinstance(id_, str) else "",
            needs=[need if isinstance(need, str) else "" for need in needs] if isinstance(needs, list) else [],
        )

    def _needs(self, drafts: list[Draft]) -> None:
        every = {draft.frame.id: draft for draft in drafts if draft.frame.id}
        seen: dict[str, Draft] = {}
        for draft in drafts:
            id_ = draft.frame.id
            if id_ in seen:
                first = self.places.get(seen[id_].path)
                where = f" (first in line {first[0]})" if first is not None else ""
                self._problem((*draft.path, "id"), f"the id {quoted(id_)} stands here a second time{where}")
            for index, need in enumerate(draft.frame.needs):
                why = no_need(draft, need, seen, every, self._guess) if need else ""
                if why:
                    self._problem(
                        (*draft.path, "needs", index), f"check {quoted(id_)} needs {quoted(need)}, which {why}"
                    )
            if id_:
                seen.setdefault(id_, draft)

    def _pins(self, file: str) -> dict[str, str] | None:
        """Read the pins file, which lies relative to the spec; `None` where it cannot be used (said by then)."""
        path = os.path.join(os.path.dirname(self.path), file)
        try:
            return read_pins(self.read(path), path, self.problems)
        except UnreadableError as error:
            self._problem(("pins",), f"the pins file {quoted(file)} cannot be used: {error}")
        except SpecError as error:
            self.problems += error.problems
        return None

    def _references(self, drafts: list[Draft], pins: dict[str, str] | None) -> None:
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
                self._in_check(path, str(error))
                return
            for one in found:
                if one.pin is not None and pins is not None and one.pin not in pins:
                    self._in_check(path, self._no_pin(one.pin, pins))

    def _exposed(self, drafts: list[Draft], secret: set[str]) -> None:
        for draft in drafts:
            if draft.kind is not None:
                options = self.document["checks"][draft.path[1]][draft.kind]
                for path, text in exposed(options, (*draft.path, draft.kind), secret):
                    self._in_check(path, text)

    def _no_pin(self, name: str, pins: dict[str, str]) -> str:
        source = self.document.get("pins")
        if source is None:
            return f"the pin {quoted(name)} is used, but the spec names no pins file (pins:)"
        return f"the pin {quoted(name)} is not in {source}{self._guess(name, pins)}"

    def _guess(self, name: str, known: Iterable[str]) -> str:
        return guess(name, known) if len(self.problems) < _MOST_GUESSES else ""

    def _positive(self, seconds: float | None, path: Path) -> None:
        if seconds is not None and seconds <= 0:
            self._in_check(path, "budget: it has to be more than 0s")

    def _in_check(self, path: Path, text: str) -> None:
        """Note a problem inside a check, and say in which; what is wrong with the head is said as it is."""
        check = self._check_of(path)
        if check is None:
            self._problem(path, text)
            return
        place = self._place(path)
        if self.places and (place, text) in self.shared:  # an alias: what is wrong behind it is said once
            return
        self.shared.add((place, text))
        begin = unknown_key(str(path[-2])) if path[-1] == "?" else ""
        self._problem(path, f"{begin} in {check}{text[len(begin) :]}" if begin else f"{check}: {text}")

    def _check_of(self, path: Path) -> str | None:
        """Name the check that a path leads into: by its id, else by its number."""
        if len(path) < 3 or path[0] != "checks" or not isinstance(path[1], int):
            return None
        id_ = self.document["checks"][path[1]].get("id")
        return f"check {quoted(id_) if isinstance(id_, str) and len(id_) <= 64 else path[1] + 1}"

    def _place(self, path: Path) -> tuple[int, int]:
        """Return the place of a path, or the nearest one above it that has one."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def _problem(self, path: Path, text: str) -> None:
        line, column = self._place(path)
        self.problems.append(Problem(self.path, line, column, text))
