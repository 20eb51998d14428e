"""YAML to plain values, with the place of each, and nothing that YAML lets through by mistake.

Refused: the same key twice (YAML takes the last), tags, merge keys, documents that are no UTF-8, larger than 1 MiB,
nested or aliased without end. `yes`, `on` and `12:30` stay text: YAML 1.1 would make them a boolean and a number.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from precheck_lib.spec.model import Problem, SpecError, quoted

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_MAX_NODES = 20_000
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})\Z")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{1,18}\Z")
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_UNSEEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {"true": True, "false": False, "": None, "~": None, "null": None}
_STANDARD = "tag:yaml.org,2002:"
_TEXT = _STANDARD + "str"
_PLAIN_TAGS = frozenset(
    _STANDARD + name for name in ("bool", "float", "int", "merge", "null", "str", "timestamp", "value")
)

Path = tuple[str | int, ...]
Places = dict[Path, tuple[int, int]]
"""Line and column (1-based) of the value at a path, and of a key at the path `(..., key, "?")`."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(data: bytes, file: str) -> tuple[Any, Places]:
    """Parse one YAML document; raises `SpecError` with the place of what is wrong."""
    text = decode(data, file)
    unseen = _UNSEEN.search(text)
    if unseen is not None:
        line, column = _place_of(text, unseen.start())
        reason = f"the character U+{ord(unseen[0]):04X} cannot stand in YAML"
        raise SpecError([Problem(file, line, column, f"not YAML: {reason}")])
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The end of a text whose last line has no end is one line too far down to YAML.
        line, column = _place_of(text, min(mark.index, len(text))) if mark is not None else (1, 1)
        raise SpecError([Problem(file, line, column, f"not YAML: {_reason(error, text)}")]) from None
    except RecursionError:  # only where PyYAML has no libyaml, which has a limit of its own
        raise SpecError([Problem(file, 1, 1, "it is nested too deeply")]) from None
    except yaml.YAMLError as error:
        raise SpecError([Problem(file, 1, 1, f"not YAML: {str(error).splitlines()[0]}")]) from None
    if node is None:
        raise SpecError([Problem(file, 1, 1, "the file is empty")])
    builder = _Builder(file)
    value = builder.value(node, ())
    if builder.problems:
        raise SpecError(builder.problems)
    return value, builder.places


def decode(data: bytes, file: str) -> str:
    """Turn the bytes of a file into text, without its byte order mark; raises `SpecError`."""
    if len(data) > MAX_BYTES:
        raise SpecError([Problem(file, 1, 1, f"the file is larger than {MAX_BYTES >> 20} MiB")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Its positions do not count the byte order mark that it has taken off.
        right = error.object[: error.start].decode("utf-8")
        line, column = _place_of(right, len(right))
        raise SpecError([Problem(file, line, column, "the file is not UTF-8; save it as UTF-8")]) from None


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, counted as YAML and editors count them: `str.splitlines` knows more breaks."""
    return _BREAK.split(text)


def _place_of(text: str, index: int) -> tuple[int, int]:
    """Return line and column of the character at `index`, counted as YAML counts them."""
    breaks = [match.end() for match in _BREAK.finditer(text, 0, index)]
    return len(breaks) + 1, index - (breaks[-1] if breaks else 0) + 1


_QUOTES = "put the value in quotes"
_REMEDIES = (
    ("cannot start any token", _QUOTES),
    ("undefined alias", f"`*` begins an alias, so {_QUOTES}"),
    ("block scalar", f"`>` and `|` begin a text of several lines, so {_QUOTES}"),  # version: >=2
    ("mapping values are not allowed", f"see the indentation, and where a value has `: ` in it, {_QUOTES}"),
)
"""What helps where a parser's words do not: parts of its reasons."""


def _reason(error: yaml.MarkedYAMLError, text: str) -> str:
    """Say what a parser found, and where that began which it was reading."""
    mark = error.problem_mark
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        return "a tab cannot indent; use spaces"
    if "another document" in (error.problem or ""):
        return "a second document begins here; a spec is one"
    if "nesting depth" in (error.problem or ""):
        return "it is nested too deeply"
    reason = error.problem or error.context or "it cannot be read"
    if error.context and error.context_mark is not None and "next token" not in error.context:
        reason += f", {error.context} that begins in line {error.context_mark.line + 1}"
    return next((f"{reason}; {remedy}" for part, remedy in _REMEDIES if part in reason), reason)


class _Builder:
    def __init__(self, file: str) -> None:
        self.file = file
        self.places: Places = {}
        self.problems: list[Problem] = []
        self.nodes = 0

    def value(self, node: Any, path: Path) -> Any:
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            if self.nodes == _MAX_NODES + 1:
                self._problem(node, "too many values (an alias that repeats itself?)")
            return None
        if len(path) > MAX_DEPTH:
            self._problem(node, "it is nested too deeply (or an alias holds itself)")
            self.nodes = _MAX_NODES + 1  # one such place is enough
            return None
        self.places[path] = _place(node)
        if isinstance(node, yaml.MappingNode):
            self._known_tag(node, "map")
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._known_tag(node, "seq")
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if self.nodes > _MAX_NODES:
                break
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, "a key has to be text")
                continue
            key = key_node.value
            if key == "<<" and key_node.tag.endswith(":merge"):
                self._problem(key_node, "merge keys (<<) are not supported; write the keys out")
                continue
            if key in made:
                self._problem(key_node, f"the key {quoted(key)} stands here a second time")
                continue
            self._scalar(key_node)  # for its tag
            key_path: Path = (*path, key, "?")
            self.places[key_path] = _place(key_node)
            made[key] = self.value(value_node, (*path, key))
        return made

    def _scalar(self, node: Any) -> Any:
        text: str = node.value
        if node.style in ("'", '"', "|", ">"):
            self._known_tag(node, "str")
            return text
        if node.tag not in _PLAIN_TAGS:
            self._problem(node, _no_tag(node.tag))
        if node.tag == _TEXT:  # which `!!str 5` has too
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.match(text):
            return int(text)
        return float(text) if _FLOAT.match(text) else text

    def _known_tag(self, node: Any, name: str) -> None:
        if node.tag != _STANDARD + name:
            self._problem(node, _no_tag(node.tag))

    def _problem(self, node: Any, text: str) -> None:
        line, column = _place(node)
        self.problems.append(Problem(self.file, line, column, text))


def _no_tag(tag: str) -> str:
    name = tag.replace(_STANDARD, "!!")
    return f"the tag {quoted(name)} is not supported; leave it out (text that begins with '!' needs quotes)"


def _place(node: Any) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
