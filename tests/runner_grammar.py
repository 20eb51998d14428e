"""What GitHub reads of a step, written down a second time and apart from precheck: commands, outputs, tables.

Commands after `ActionCommand.cs` of actions/runner: `::name key=value,key=value::data` where a line begins with it,
behind any white space, and the older `##[name key=value;key=value]data` **anywhere** in a line. It reads stdout and
stderr alike. Where it is in doubt, this parser finds a command: it reports names too that the runner does not know.
"""

from __future__ import annotations

import re
from typing import NamedTuple

KNOWN = frozenset(
    (
        "add-mask",
        "add-matcher",
        "add-path",
        "debug",
        "echo",
        "endgroup",
        "error",
        "group",
        "notice",
        "pause-logging",
        "remove-matcher",
        "save-state",
        "set-env",
        "set-output",
        "set-secret",
        "stop-commands",
        "warning",
    )
)
"""What the runner obeys, or has obeyed in some version, in lower case: it compares without case."""

_LINE = re.compile(r"\r\n|\r|\n")
"""What ends a line for the runner (.NET's `ReadLine`): a lone carriage return too, and no other separator."""

_DATA = (("%0D", "\r"), ("%0A", "\n"))
_PROPERTY = (*_DATA, ("%3A", ":"), ("%2C", ","))
_OLD = (*_DATA, ("%3B", ";"), ("%5D", "]"))


class Command(NamedTuple):
    """A workflow command as the runner has understood it; the name is in lower case."""

    name: str
    properties: dict[str, str]
    value: str


def commands(text: bytes | str) -> list[Command]:
    """Find all workflow commands in what was written to stdout or to stderr."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return [command for line in _LINE.split(text) for command in _in_line(line)]


def _in_line(line: str) -> list[Command]:
    new, old = _new_form(line.lstrip()), _old_form(line)
    # A line is one command to the runner. Only where it does not know the name of the first form it tries the other.
    if new is not None and (new.name in KNOWN or old is None):
        return [new]
    return [command for command in (new, old) if command is not None]


def _new_form(line: str) -> Command | None:
    if not line.startswith("::"):
        return None
    head, ended, value = line[2:].partition("::")
    name, _, properties = head.partition(" ")
    if not ended or not name:
        return None
    return Command(name.lower(), _properties(properties, ",", _PROPERTY), _unescaped(value, _DATA))


def _old_form(line: str) -> Command | None:
    _, begun, rest = line.partition("##[")
    head, ended, value = rest.partition("]")
    name, _, properties = head.partition(" ")
    if not begun or not ended or not name:
        return None
    return Command(name.lower(), _properties(properties, ";", _OLD), _unescaped(value, _OLD))


def _properties(text: str, separator: str, escapes: tuple[tuple[str, str], ...]) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(separator))
    return {name.strip(): _unescaped(value, escapes) for name, is_pair, value in pairs if is_pair and value}


def _unescaped(text: str, escapes: tuple[tuple[str, str], ...]) -> str:
    # `%25` comes last, so that `%250A` is the text `%0A`.
    for code, character in (*escapes, ("%25", "%")):
        text = text.replace(code, character)
    return text


def read_outputs(text: str) -> dict[str, str]:
    """Read a file of outputs as the runner does: `NAME=VALUE`, or `NAME<<DELIMITER` and lines up to the delimiter."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, heredoc, delimiter = line.partition("<<")
        if heredoc and "=" not in name:
            value = []
            while (part := next(lines)) != delimiter:
                value.append(part)
            found[name] = "\n".join(value)
        else:
            name, is_pair, value_there = line.partition("=")
            assert is_pair, line
            found[name] = value_there
    return found


_BAR = re.compile(r"(?<!\\)\|")


def rows(summary: str) -> list[list[str]]:
    """Give the cells of each row of each table in a summary: a backslash before a bar makes it a part of its cell."""
    lines = [line for line in summary.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in _BAR.split(line)[1:-1]] for line in lines]
