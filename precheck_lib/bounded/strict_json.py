"""JSON as RFC 8259 has it, and nothing that only a lenient parser lets through."""

from __future__ import annotations

import json
from typing import Any

from precheck_lib.errors import AnswerError

_JUDGED = frozenset(("models", "name", "size", "size_vram", "context_length", "digest", "remote_host"))
"""Keys that decide something in a document that is read leniently: none of them may stand twice."""

MAX_DEPTH = 200
"""How deep a document may be nested: those who walk through it recurse, and newer Pythons parse far deeper ones."""


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has the same key twice")
    return made


def _unique_where_it_counts(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs if key in _JUDGED]
    if len(set(keys)) != len(keys):
        raise ValueError("an object has the same key twice")
    return dict(pairs)


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # more than 4,300 digits
        return float(text)


def parse(text: str | bytes, *, lenient: bool = False) -> Any:
    """Parse one JSON document; raises `ValueError` with a reason that quotes none of it.

    Refused beside bad syntax: bytes that are not UTF-8 (a byte order mark too), NaN and Infinity, numbers beyond a
    double, the same key twice in an object, lone surrogates, nesting beyond `MAX_DEPTH`, digits without end. `lenient`
    is for documents whose every value is judged where it is used, and which nothing else may make invalid (CONTRACT
    G3): then a number beyond a double is an infinite float, keys that decide nothing may stand twice, and a document
    may be nested as deeply as Python can read it.
    """
    try:
        # A string may hold undecodable bytes as lone surrogates: `os.environ` puts them there.
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        else:
            text.encode("utf-8")
    except UnicodeError:
        raise ValueError("it is not UTF-8") from None
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=float if lenient else _finite,
            parse_int=_integer if lenient else int,
            object_pairs_hook=_unique_where_it_counts if lenient else _unique,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        # Of 5,000-digit integers Python's own message speaks of sys.set_int_max_str_digits.
        raise ValueError("a number is too long" if "int_max_str" in str(error) else str(error)) from None
    if lenient:
        return value
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise ValueError("it is nested too deeply")
    if "\\u" in text:
        # Only an escape can still bring a lone surrogate in; it would break later, when a report is written.
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("a string holds half of a surrogate pair") from None
    return value


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            part
            for holder in level
            for part in (holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ())
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True


def parse_object(body: bytes, what: str, *, lenient: bool = False) -> dict[str, Any]:
    """Parse the body of an answer that has to be one JSON object; raises `AnswerError` that says `what` it was."""
    try:
        value = parse(body, lenient=lenient)
    except ValueError as error:
        raise AnswerError(f"{what} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise AnswerError(f"{what} is not a JSON object but {kind_of(value)}")
    return value


def kind_of(value: Any) -> str:
    """Name the JSON type of a value, for messages that must not show the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"
