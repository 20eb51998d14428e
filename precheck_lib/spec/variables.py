"""`${...}` in the options of a check, expanded when it runs.

${NAME}             an environment variable; it has to be set
${NAME:-default}    the same, with a default where it is unset or blank; the default is taken as it is
${NAME#/a/b}        what is at a JSON pointer inside a variable that holds JSON; `${NAME#}` is all of it
${pin:NAME}         a version of the spec's pins file
$$                  a dollar

Any other `${` is a mistake, and so is a brace in a default; a `$` before anything else is a dollar.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from precheck_lib.findings import not_ready

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOKEN = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_INSIDE = re.compile(
    r"pin:(?P<pin>[^{}]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:#(?P<pointer>(?:/(?:[^}~]|~[01])*)?)|:-(?P<default>[^{}]*))?"
)


class Reference(NamedTuple):
    """One `${...}`: its `text`, and either a `pin` or an environment variable `name` with what may follow it."""

    text: str
    pin: str | None
    name: str | None
    pointer: str | None
    default: str | None


class MalformedError(ValueError):
    """A `${` that is none of the known forms."""


def references(value: Any) -> Iterator[Reference]:
    """Yield the references in a text, or in all text inside a value; raises `MalformedError`."""
    for text in _texts(value):
        yield from (part for part in _parts(text) if isinstance(part, Reference))


def names(value: Any) -> Iterator[str]:
    """Yield the environment variables that a value of a spec refers to."""
    for text in _texts(value):
        for match in _TOKEN.finditer(text):
            inside = _INSIDE.fullmatch(match[1] or "")
            if inside is not None and inside["name"] is not None:
                yield inside["name"]


def expand(value: Any, env: Mapping[str, str], pins: Mapping[str, str]) -> Any:
    """Replace the references in a text, or in all text inside a list or mapping.

    A text that is one reference and nothing else becomes the value itself, so that `${NAME#/a}` can be an object.
    Raises `NotReadyError` that names the variable, never its value.
    """
    if isinstance(value, list):
        return [expand(part, env, pins) for part in value]
    if isinstance(value, dict):
        return {key: expand(part, env, pins) for key, part in value.items()}
    if not isinstance(value, str) or "$" not in value:
        return value
    try:
        parts = _parts(value)
    except MalformedError as error:
        raise not_ready("spec.invalid", str(error)) from None
    if len(parts) == 1:
        return _one(parts[0], env, pins)
    made = ""
    for part in parts:
        found = _one(part, env, pins)
        if not isinstance(found, str):
            text = part if isinstance(part, str) else part.text
            raise not_ready("roles.malformed", f"{text} is not text and cannot stand inside of it")
        made += found
    return made


def _texts(value: Any) -> Iterator[str]:
    """Yield the text in a value: in lists, in mappings (not their keys), in options."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _texts(getattr(value, field))


def _parts(text: str) -> list[str | Reference]:
    """Split a text into what stands there as it is and the references between."""
    parts: list[str | Reference] = []
    done = 0
    for match in _TOKEN.finditer(text):
        parts.append(text[done : match.start()])
        parts.append(_reference(match))
        done = match.end()
    parts.append(text[done:])
    return [part for part in parts if part != ""] or [""]


def _reference(match: re.Match[str]) -> str | Reference:
    if match[0] == "$$":
        return "$"
    inside = _INSIDE.fullmatch(match[1]) if match[2] else None
    if inside is None:
        shown = match[0] if len(match[0]) <= 60 else f"{match[0][:60]}…"
        why = "has no end" if not match[2] else "is not understood"
        hint = "; ${{ }} is GitHub's and belongs in a workflow" if match[1].startswith("{") else ""
        raise MalformedError(
            f"{shown!r} {why}: write ${{NAME}}, ${{NAME:-default}}, ${{NAME#/pointer}} or ${{pin:NAME}}, "
            f"and $$ for a dollar{hint}"
        )
    return Reference(match[0], inside["pin"], inside["name"], inside["pointer"], inside["default"])


def _one(part: str | Reference, env: Mapping[str, str], pins: Mapping[str, str]) -> Any:
    if isinstance(part, str):
        return part
    if part.pin is not None:
        if part.pin not in pins:
            raise not_ready("spec.invalid", f"the pin {part.pin!r} is not known")
        return pins[part.pin]
    value = env.get(part.name or "", "")
    if not value.strip():
        if part.default is not None:
            return part.default
        raise not_ready("roles.missing", f"the environment variable {part.name} is not set")
    if part.pointer is None:
        return value
    from precheck_lib.bounded.strict_json import parse
    from precheck_lib.checks.env import at_pointer

    try:
        document = parse(value)
    except ValueError:
        raise not_ready("roles.malformed", f"the environment variable {part.name} does not hold JSON") from None
    found = at_pointer(document, part.pointer)
    if found is None:
        where = part.pointer or "its root"
        raise not_ready("roles.malformed", f"the environment variable {part.name} has nothing at {where}")
    return found
