"""YAML to plain values, with the place of each, and nothing that YAML lets through by mistake.

Refused: the same key twice (YAML takes the last), documents that are no UTF-8, larger than 1 MiB, nested or aliased
without end. `yes`, `on` and `12:30` stay text: YAML 1.1 would make them a boolean and a number.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from precheck_lib.spec.model import Problem, SpecError

MAX_BYTES = 1 << 20
_MAX_NODES = 100_000
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?\Z")

Path = tuple[str | int, ...]
Places = dict[Path, tuple[int, int]]
"""Line and column (1-based) of the value at a path, and of a key at the path `(..., key, "?")`."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(data: bytes, file: str) -> tuple[Any, Places]:
    """Parse one YAML document; raises `SpecError` with the place of what is wrong."""
    if len(data) > MAX_BYTES:
        raise SpecError([Problem(file, 1, 1, f"the file is larger than {MAX_BYTES >> 20} MiB")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SpecError([Problem(file, line, 1, "the file is not UTF-8; save it as UTF-8")]) from None
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise SpecError([Problem(file, line, column, f"not YAML: {_plain(error)}")]) from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        raise SpecError([Problem(file, 1, 1, f"not YAML: {reason}")]) from None
    if node is None:
        raise SpecError([Problem(file, 1, 1, "the file is empty")])
    builder = _Builder(file)
    try:
        value = builder.value(node, ())
    except RecursionError:
        builder.problems.append(Problem(file, 1, 1, "it is nested too deeply"))
        value = None
    if builder.problems:
        raise SpecError(builder.problems[:20])
    return value, builder.places


def _plain(error: yaml.MarkedYAMLError) -> str:
    text = error.problem or error.context or "it cannot be read"
    if "\\t" in text or "'\\t'" in text:
        return "a tab cannot indent; use spaces"
    return text


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
        self.places[path] = _place(node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, "a key has to be text")
                continue
            key = key_node.value
            if key == "<<" and key_node.tag.endswith(":merge"):
                self._problem(key_node, "merge keys (<<) are not supported; write the keys out")
                continue
            if key in made:
                self._problem(key_node, f"the key {key!r} stands here a second time")
                continue
            key_path: Path = (*path, key, "?")
            self.places[key_path] = _place(key_node)
            made[key] = self.value(value_node, (*path, key))
        return made

    def _scalar(self, node: Any) -> Any:
        text: str = node.value
        if node.style in ("'", '"', "|", ">"):
            return text
        if node.tag not in ("tag:yaml.org,2002:" + name for name in _PLAIN_TAGS):
            self._problem(node, f"the tag {node.tag!r} is not supported")
            return None
        if text in ("true", "false"):
            return text == "true"
        if text in ("", "~", "null"):
            return None
        if _INTEGER.match(text) and len(text) < 20:
            return int(text)
        return float(text) if _FLOAT.match(text) else text

    def _problem(self, node: Any, text: str) -> None:
        line, column = _place(node)
        self.problems.append(Problem(self.file, line, column, text))


_PLAIN_TAGS = ("bool", "float", "int", "merge", "null", "str", "timestamp", "value")


def _place(node: Any) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
