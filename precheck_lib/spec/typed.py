"""Plain values to typed ones: every fault at once, each at its own place and in the words of a spec's author."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from precheck_lib.spec.model import quoted
from precheck_lib.units import Bytes, Seconds, parse_duration, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from precheck_lib.spec.yaml_text import Path

    Note = Callable[[Path, str], None]

_MOST_KNOWN = 1000
"""Names among which a guess is made: among more it would take longer than anybody waits for a hint."""

BAD = object()
"""What comes of a value that could not be converted; its faults have been noted."""

_PARSERS: dict[Any, tuple[Callable[[object], Any], str]] = {
    Seconds: (parse_duration, "a duration such as 2s or 1m30s"),
    Bytes: (parse_size, "a size such as 20GiB or 256MiB"),
}
_PLAIN = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def convert(value: Any, type_: Any, path: Path, note: Note) -> Any:
    """Return `value` as `type_`, or `BAD`; each fault goes to `note` with its path.

    Knows the types that options have: text, numbers, truth, durations and sizes, `Literal`, lists, mappings, structs,
    each of them optional.
    """
    if get_origin(type_) is Annotated:  # its description is for the schema
        type_ = get_args(type_)[0]
    if type_ is Any:
        return value
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (type_,) = (argument for argument in arguments if argument is not type(None))
        return convert(value, type_, path, note)
    if origin is not None:
        return _COMPOSED[origin](value, arguments, path, note)
    if issubclass(type_, msgspec.Struct):
        return struct(value, type_, path, note)
    return _scalar(value, type_, path, note)


def struct(value: Any, type_: type[msgspec.Struct], path: Path, note: Note, *, ignore: Iterable[str] = ()) -> Any:
    """Return a mapping as a struct, or `BAD`; keys that it does not have are faults unless `ignore` names them."""
    if not isinstance(value, dict):
        note(path, f"{_named(path)}a mapping is needed, not {_what(value)}")
        return BAD
    fields = _fields(type_)
    for key in value:
        if key not in fields and key not in ignore:
            note((*path, key, "?"), f"{unknown_key(key)}{guess(key, fields)}")
    made = {
        field.name: convert(value[key], field.type, (*path, key), note) for key, field in fields.items() if key in value
    }
    for key, field in fields.items():
        if field.required and key not in value:
            note(path, f"{_named(path)}the key {quoted(key)} is missing")
            made[field.name] = BAD
    return BAD if BAD in made.values() else type_(**made)


@functools.cache
def _fields(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a struct by their keys; to read them evaluates annotations, too slow for every check."""
    return {field.encode_name: field for field in msgspec.structs.fields(type_)}


def unknown_key(key: str) -> str:
    """Begin the sentence about a key that nothing has; what was probably meant comes behind it."""
    return f"unknown key {quoted(key)}"


def guess(key: str, known: Iterable[Any]) -> str:
    """Return what was probably meant, as the end of a sentence; empty where nothing is near."""
    import difflib

    names = [name for name in known if isinstance(name, str)]
    near = difflib.get_close_matches(key, names, n=1) if len(names) <= _MOST_KNOWN else []
    return f"; did you mean {quoted(near[0])}?" if near else ""


def _scalar(value: Any, type_: Any, path: Path, note: Note) -> Any:
    if type_ in _PARSERS:
        return _parsed(value, *_PARSERS[type_], path, note)
    # Not isinstance: True is an int to Python, and not to a reader.
    if type(value) is type_ or (type_ is float and type(value) is int):
        return value
    hint = "; put it in quotes" if type_ is str and isinstance(value, (bool, int, float)) else ""
    note(path, f"{_named(path)}{_PLAIN[type_]} is needed, not {_what(value)}{hint}")
    return BAD


def _choice(value: Any, choices: tuple[Any, ...], path: Path, note: Note) -> Any:
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    allowed = " or ".join(quoted(choice) if isinstance(choice, str) else str(choice) for choice in choices)
    near = guess(value, choices) if isinstance(value, str) else ""
    note(path, f"{_named(path)}{allowed} is needed, not {_what(value)}{near}")
    return BAD


def _parsed(value: Any, parse: Callable[[object], Any], needed: str, path: Path, note: Note) -> Any:
    if not isinstance(value, str):
        note(path, f"{_named(path)}{needed} is needed, not {_what(value)}")
        return BAD
    try:
        return parse(value)
    except ValueError as error:
        note(path, f"{_named(path)}{error}")
        return BAD


def _list(value: Any, of: tuple[Any, ...], path: Path, note: Note) -> Any:
    if not isinstance(value, list):
        note(path, f"{_named(path)}a list is needed, not {_what(value)}")
        return BAD
    made = [convert(part, of[0], (*path, index), note) for index, part in enumerate(value)]
    return BAD if BAD in made else made


def _dict(value: Any, of: tuple[Any, ...], path: Path, note: Note) -> Any:
    if not isinstance(value, dict):
        names = isinstance(value, list) and value and all(isinstance(name, str) for name in value)
        hint = f"; write each name as a key, `{quoted(value[0])[1:-1]}: {{}}`" if names else ""
        note(path, f"{_named(path)}a mapping is needed, not {_what(value)}{hint}")
        return BAD
    made = {key: convert(part, of[1], (*path, key), note) for key, part in value.items()}
    return BAD if BAD in made.values() else made


_COMPOSED: dict[Any, Callable[[Any, tuple[Any, ...], Path, Note], Any]] = {Literal: _choice, list: _list, dict: _dict}


def _named(path: Path) -> str:
    """Begin a sentence with what it is about."""
    items = ""
    while path and isinstance(path[-1], int):
        items += f"item {path[-1] + 1} of "
        path = path[:-1]
    return f"{items}{path[-1]}: " if path else ""


def _what(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {quoted(value)}" if len(value) <= 40 else f"the text {quoted(value[:40])}…"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a mapping"
