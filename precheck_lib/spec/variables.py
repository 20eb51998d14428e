"""`${...}` in the text of a spec, expanded when a check runs.

${NAME}             an environment variable; it has to be set
${NAME:-default}    the same, with a default where it is unset or empty
${NAME#/a/b}        what is at a JSON pointer inside a variable that holds JSON; `${NAME#}` is all of it
${pin:NAME}         a version of the spec's pins file
$$                  a dollar
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from precheck_lib.errors import AnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REFERENCE = re.compile(r"\$(?:(\$)|\{(?:pin:([^}]*)|([A-Za-z_][A-Za-z0-9_]*)(?:(#)([^}]*)|:-([^}]*))?)\})")


def expand(value: Any, env: Mapping[str, str], pins: Mapping[str, str]) -> Any:
    """Replace the references in a text, or in all text inside a list or mapping.

    A text that is one reference and nothing else becomes the value itself, so that `${NAME#/a}` can be an object.
    Raises `AnswerError` that names the variable, never its value.
    """
    if isinstance(value, list):
        return [expand(part, env, pins) for part in value]
    if isinstance(value, dict):
        return {key: expand(part, env, pins) for key, part in value.items()}
    if not isinstance(value, str) or "$" not in value:
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole is not None:
        return _one(whole, env, pins)

    def text(match: re.Match[str]) -> str:
        found = _one(match, env, pins)
        if not isinstance(found, str):
            raise AnswerError(f"{match[0]} is not text and cannot stand inside of it")
        return found

    return _REFERENCE.sub(text, value)


def names(value: Any) -> Iterator[str]:
    """Yield the environment variables that a value of a spec refers to."""
    if isinstance(value, str):
        for match in _REFERENCE.finditer(value):
            if match[3] is not None:
                yield match[3]
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from names(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from names(part)


def _one(match: re.Match[str], env: Mapping[str, str], pins: Mapping[str, str]) -> Any:
    dollar, pin, name, hash_, pointer, default = match.groups()
    if dollar is not None:
        return "$"
    if pin is not None:
        if pin not in pins:
            raise AnswerError(f"the pin {pin!r} is not known")
        return pins[pin]
    value = env.get(name, "")
    if not value.strip():
        if default is not None:
            return default
        raise AnswerError(f"the environment variable {name} is not set")
    if hash_ is None:
        return value
    from precheck_lib.bounded.strict_json import parse
    from precheck_lib.checks.env import at_pointer

    try:
        return at_pointer(parse(value), pointer)
    except ValueError:
        raise AnswerError(f"the environment variable {name} does not hold JSON") from None
