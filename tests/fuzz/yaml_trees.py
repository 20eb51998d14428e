"""Specs as their authors get them wrong: the strict spec as a tree with some of its nodes spoilt, and written again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from hypothesis import strategies as st

from tests.fuzz.values import TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

STRICT = (Path(__file__).resolve().parents[2] / "specs" / "strict.yml").read_text(encoding="utf-8")
PINS = "- Codex App Server: `rust-v0.171.0`\n- OpenCode Server: `v1.18.33`\n"


class Raw(NamedTuple):
    """A piece of YAML that is written as it is."""

    text: str


class Pairs(NamedTuple):
    """A mapping whose keys may stand twice."""

    items: tuple[tuple[Any, Any], ...]


def _tree(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return Pairs(tuple((_tree(key), _tree(value)) for key, value in node.value))
    if isinstance(node, yaml.SequenceNode):
        return [_tree(part) for part in node.value]
    return Raw(node.value) if node.style is None else node.value


TREE = _tree(yaml.compose(STRICT, Loader=yaml.CSafeLoader))

WORDS = [
    *(
        "true",
        "false",
        "null",
        "~",
        "yes",
        "on",
        "0",
        "1",
        "-1",
        "1.5",
        "1e999",
        ".nan",
        ".inf",
        "0x10",
        "0o7",
        "1_000",
    ),
    *(
        "9" * 17,
        "9" * 19,
        "9" * 400,
        "9" * 4400,
        "12:30",
        "2001-01-01",
        "",
        "=",
        "<<",
        "!",
        "!!int 5",
        "!!str",
        "!!binary aGk=",
    ),
    *(
        "!!python/object:os.system x",
        "!<tag:yaml.org,2002:str> x",
        "&a x",
        "*a",
        "&a [*a]",
        "{<<: *a}",
        "? [a]",
        "- - -",
    ),
    *("0s", "2s", "1m30s", "500ms", "999999999999h", "1000000000000h", "2.5.5s", "-2s", "1s1m", "0.0000000000001s"),
    *("0B", "20GiB", "999999999999TiB", "1.999999999999TiB", "1e3MiB", "5 B", "5  B", "1.5B"),
    *(
        "${",
        "${}",
        "${A}",
        "${A:-b}",
        "${A#/x/~2}",
        "${A#}",
        "${pin:Codex App Server}",
        "${pin:none}",
        "$$",
        "${{ x }}",
    ),
    *(
        "[]",
        "{}",
        "[[]]",
        "[{}]",
        "{a: }",
        "[a, b",
        "{a",
        "'",
        '"',
        '"\\x00"',
        '"\\ud800"',
        "|\n  x",
        ">\n",
        "@a",
        "`a`",
    ),
    *(
        "roles",
        "residency",
        "strict",
        "TEST_OPENAI_API_KEY",
        "health",
        "tcp",
        "codex",
        "required",
        "a" * 70,
        "é",
        "\u202e",
    ),
]

KEYS = [
    *("id", "title", "needs", "budget", "env", "tcp", "command", "codex", "opencode", "ollama", "residency", "version"),
    *(
        "name",
        "checks",
        "pins",
        "success",
        "exit_codes",
        "fail_fast",
        "url",
        "models",
        "stay",
        "commands",
        "argv",
        "read",
    ),
    *(
        "required",
        "optional",
        "together",
        "json_object",
        "key_of",
        "without",
        "stdout",
        "<<",
        "?",
        "1",
        "true",
        "",
        "idd",
    ),
]

_LEAVES = st.one_of(
    st.sampled_from(WORDS).map(Raw), st.sampled_from(WORDS), st.integers().map(lambda n: Raw(str(n))), TEXT
)
NODES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(st.one_of(st.sampled_from(KEYS).map(Raw), _LEAVES), inner), max_size=3).map(
            lambda items: Pairs(tuple(items))
        ),
    ),
    max_leaves=5,
)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    children = enumerate(tree) if isinstance(tree, list) else enumerate(tree.items) if isinstance(tree, Pairs) else ()
    for index, child in children:
        found += _places(child[1] if isinstance(tree, Pairs) else child, (*path, index))
    return found


PLACES = _places(TREE)[1:]


def _at(tree: Any, path: tuple[int, ...]) -> Any:
    for index in path:
        tree = tree.items[index][1] if isinstance(tree, Pairs) else tree[index]
    return tree


# What is right at another place is the likeliest to get through at this one.
_ELSEWHERE = st.sampled_from(PLACES).map(lambda path: _at(TREE, path))


def _changed(tree: Any, path: tuple[int, ...], change: Callable[[list[Any], int, bool], None]) -> Any:
    """Return the tree with the children of one node changed, by their list and the index in it."""
    if not path or not isinstance(tree, (list, Pairs)):
        return tree  # an earlier change took that place away
    children = list(tree.items) if isinstance(tree, Pairs) else list(tree)
    at = path[0] % max(1, len(children))
    if len(path) == 1:
        change(children, at, isinstance(tree, Pairs))
    elif children:
        child = children[at]
        inner = _changed(child[1] if isinstance(tree, Pairs) else child, path[1:], change)
        children[at] = (child[0], inner) if isinstance(tree, Pairs) else inner
    return Pairs(tuple(children)) if isinstance(tree, Pairs) else children


class Change(NamedTuple):
    """What is done at one place of a tree."""

    path: tuple[int, ...]
    how: str
    node: Any
    key: Any
    other: int

    def of(self, tree: Any) -> Any:
        return _changed(tree, self.path, self._do)

    def _do(self, children: list[Any], at: int, pairs: bool) -> None:
        entry = (self.key, self.node) if pairs else self.node
        if not children or self.how == "insert":
            children.insert(at, entry)
        elif self.how == "delete":
            del children[at]
        elif self.how == "twice":
            children.insert(at, children[at])
        elif self.how == "replace":
            children[at] = (children[at][0], self.node) if pairs else self.node
        elif self.how == "rename":
            children[at] = (self.key, children[at][1]) if pairs else self.node
        elif self.how == "swap":
            other = self.other % len(children)
            children[at], children[other] = children[other], children[at]


CHANGES = st.builds(
    Change,
    path=st.sampled_from(PLACES),
    how=st.sampled_from(["insert", "delete", "twice", "replace", "replace", "rename", "swap"]),
    node=st.one_of(NODES, _ELSEWHERE),
    key=st.one_of(st.sampled_from(KEYS).map(Raw), _LEAVES),
    other=st.integers(0, 20),
)


def written(node: Any, indent: str = "", *, flow: bool = False) -> str:
    """Write a tree as YAML, in blocks or in one line."""
    if isinstance(node, Raw):
        return node.text
    if isinstance(node, str):
        return '"' + node.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if flow or not (node.items if isinstance(node, Pairs) else node):
        if isinstance(node, Pairs):
            inside = (f"{written(key, flow=True)}: {written(value, flow=True)}" for key, value in node.items)
            return "{" + ", ".join(inside) + "}"
        return "[" + ", ".join(written(part, flow=True) for part in node) + "]"
    deeper = indent + "  "
    if isinstance(node, Pairs):
        lines = (
            f"{indent}{written(key, flow=True)}:{_below(value)}{written(value, deeper)}" for key, value in node.items
        )
    else:
        lines = (f"{indent}-{_below(part)}{written(part, deeper)}" for part in node)
    return "\n".join(lines)


def _below(node: Any) -> str:
    children = node.items if isinstance(node, Pairs) else node if isinstance(node, list) else ()
    return "\n" if children else " "


def _whole(changes: list[Change], flow: bool) -> str:
    tree = TREE
    for change in changes:
        tree = change.of(tree)
    return written(tree, flow=flow) + "\n"


_SOME = st.one_of(st.tuples(CHANGES).map(list), st.lists(CHANGES, min_size=1, max_size=4))
SPOILT = st.builds(_whole, _SOME, st.integers(0, 9).map(lambda one: one == 0))
"""The strict spec with one to four of its nodes spoilt."""

_MARKS = [
    *(
        "\t",
        "\n",
        "\r",
        "\r\n",
        " ",
        "  ",
        ":",
        ": ",
        "- ",
        "? ",
        "#",
        "&a",
        "*a",
        "!",
        "|",
        ">",
        "%",
        "%YAML 1.2\n",
        "---",
    ),
    *(
        "\n---\n",
        "\n...\n",
        "[",
        "]",
        "{",
        "}",
        ",",
        "'",
        '"',
        "\\",
        "\x00",
        "\x85",
        "\u2028",
        "\ufeff",
        "\x1b",
        "\ud7ff",
    ),
    *("<<: *a\n", "checks:\n", "version: 1\n", "- id: x\n", "  ", "é", "\U0001f600", "`", "@"),
]


def _cut(text: str, edits: list[tuple[int, int, str]]) -> str:
    for at, length, new in edits:
        place = at % (len(text) + 1)
        text = text[:place] + new + text[place + length :]
    return text


EDITED = st.builds(
    _cut,
    st.sampled_from([STRICT, written(TREE) + "\n", STRICT.replace("\n", "\r\n")]),
    st.lists(
        st.tuples(
            st.integers(0, 10_000), st.integers(0, 6), st.one_of(st.sampled_from(_MARKS), st.sampled_from(WORDS))
        ),
        min_size=1,
        max_size=4,
    ),
)
"""The text of the strict spec with some characters cut out and others put in."""

DEEP = st.builds(
    lambda head, ends, times: head + ends[0] * times + "x" + ends[1] * times,
    st.sampled_from(["", "version: 1\nname: x\nchecks: ", "version: 1\nname: x\nchecks:\n"]),
    st.sampled_from([("[", "]"), ("{a: ", "}"), ("[{a: ", "}]"), ("- ", ""), ("? ", "")]),
    st.sampled_from([60, 64, 65, 70, 300, 900, 5000]),
)
REPEATED = st.builds(
    lambda head, piece, times, tail: head + piece * times + tail,
    st.sampled_from(["", "version: 1\nname: x\nchecks:\n", "a: &a x\nb: ", "x: [", "x: {"]),
    st.one_of(
        st.sampled_from([*_MARKS, *WORDS]), st.lists(st.sampled_from(_MARKS), min_size=1, max_size=4).map("".join)
    ),
    st.sampled_from([2, 60, 70, 500, 3000, 10_000]),
    st.sampled_from(["", "\n", "]", "}", "x"]),
).map(lambda text: text[:60_000])
"""Small pieces very often: what is nested, or grows, without end."""
