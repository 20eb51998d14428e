"""A spec file is a spec or says what is wrong with it and where, whatever is in it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import event, example, given
from hypothesis import strategies as st

from precheck_lib.engine import Plan
from precheck_lib.plan import plan_lines
from precheck_lib.spec import Spec, SpecError, load_spec
from precheck_lib.spec.variables import names
from tests.fuzz.values import JSON, TEXT, ordinary_stack
from tests.fuzz.yaml_trees import DEEP, EDITED, PINS, REPEATED, SPOILT, STRICT

if TYPE_CHECKING:
    from pathlib import Path

LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
SECONDS = 3.0
"""Far above what any file needs that a person would write, so that a busy machine does not matter; in CPU time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("specs")
    (made / "SPECIFICATIONS.md").write_text(PINS)
    return made


def lines_of(data: bytes) -> list[str]:
    """The lines as an editor and YAML count them; what is no UTF-8 is one character a byte."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return LINE_BREAK.split(text)


def loaded(data: bytes, folder: Path, pins: bytes | None = None) -> Spec | list[tuple[int, int, str]]:
    """Load it, and hold what comes to its promises; returns the spec, or the problems of the spec file."""
    path = folder / "it.yml"
    path.write_bytes(data)
    files = {str(path): data, str(folder / "SPECIFICATIONS.md"): PINS.encode() if pins is None else pins}
    began = time.thread_time()
    try:
        with ordinary_stack():
            spec = load_spec(str(path))
    except SpecError as error:
        took = time.thread_time() - began
        assert took < SECONDS
        assert 1 <= len(error.problems) <= 20
        places = [(one.file != str(path), one.line, one.column) for one in error.problems]
        assert places == sorted(places)
        assert len(set(error.problems)) == len(error.problems)
        assert error.identity.path == str(path)
        assert error.identity.digest
        for one in error.problems:
            assert str(one) == f"{one.file}:{one.line}:{one.column}: {one.text}"
            assert one.text.strip()
            # Of another pins file that the spec names, only that it is told once.
            if one.file in files:
                lines = lines_of(files[one.file])
                assert 1 <= one.line <= len(lines), f"{one} is beyond the file's {len(lines)} lines"
                assert 1 <= one.column <= len(lines[one.line - 1]) + 1, f"{one} is beyond its line"
        return [(one.line, one.column, one.text) for one in error.problems]
    assert time.thread_time() - began < SECONDS
    is_plain(yaml.compose(data.decode("utf-8-sig"), Loader=yaml.CSafeLoader))
    return spec


def is_plain(node: yaml.Node, depth: int = 0) -> None:
    """What was loaded has no key twice, no key that is no text, no tag and no depth beyond reason."""
    assert depth <= 65
    assert node.tag.startswith("tag:yaml.org,2002:")
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        assert all(isinstance(key, str) for key in keys)
        assert len(set(keys)) == len(keys)
        assert not any(key.tag.endswith(":merge") for key, _ in node.value)
    if not isinstance(node, yaml.ScalarNode):
        for part in node.value:
            is_plain(part[1] if isinstance(part, tuple) else part, depth + 1)


def can_be_planned(spec: Spec, env: dict[str, str]) -> None:
    began = time.thread_time()
    for given_env in ({}, env):
        lines = plan_lines(spec, given_env)
        assert all("\n" not in line and "\x1b" not in line for line in lines)
        plan = Plan(spec, given_env)
        assert set(plan.parts) == {check.id for check in spec.checks}
        assert 0 <= plan.total < float("inf")
        assert plan.smallest >= 1
    assert time.thread_time() - began < SECONDS


ENVIRONMENTS = st.dictionaries(
    st.sampled_from(["OPENCODE_CONFIG_CONTENT", "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT", "A", "TEST_CODEX_WS_URL"]),
    st.one_of(
        TEXT,
        st.sampled_from(['{"provider":{"ollama":{"models":{"a":{},"b":{"id":"c"}}}}}', "[" * 5000, '["a"]', "{}"]),
    ),
)


@example(STRICT, {})
@example(STRICT.replace("context_length: 65536", f"context_length: {'9' * 4400}"), {})
@example(STRICT.replace("    budget: 2s\n", "    budget: 2s\n    budget: 3s\n", 1), {})
@given(SPOILT, ENVIRONMENTS)
def test_the_strict_spec_with_spoilt_nodes(folder, text, env):
    found = loaded(text.encode("utf-8", "surrogatepass"), folder)
    event("loaded" if isinstance(found, Spec) else "refused")
    if isinstance(found, Spec):
        can_be_planned(found, env)


@given(EDITED)
def test_the_strict_spec_with_its_text_cut(folder, text):
    found = loaded(text.encode("utf-8", "surrogatepass"), folder)
    event("loaded" if isinstance(found, Spec) else "refused")
    if isinstance(found, Spec):
        can_be_planned(found, {})


@given(st.one_of(TEXT, REPEATED))
def test_any_text_is_a_spec_or_is_refused_in_a_moment(folder, text):
    assert not isinstance(loaded(text.encode("utf-8", "surrogatepass"), folder), Spec)


@given(DEEP)
def test_nesting_of_any_depth_is_refused_in_a_moment(folder, text):
    assert not isinstance(loaded(text.encode(), folder), Spec)


@given(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(st.integers(0, len(STRICT)), st.binary(min_size=1, max_size=4)).map(
            lambda cut: STRICT[: cut[0]].encode() + cut[1] + STRICT[cut[0] :].encode()
        ),
        st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "latin-1"]).map((STRICT + "# é").encode),
    )
)
def test_any_bytes_are_a_spec_or_are_refused(folder, data):
    found = loaded(data, folder)
    if isinstance(found, Spec):
        can_be_planned(found, {})


MANY = {
    "checks that each need another": lambda n: "".join(f"- {{id: a{i}, needs: [b{i}], env: }}\n" for i in range(2 * n)),
    "checks that need all before": lambda n: "".join(
        f"- {{id: a{i}, needs: [{', '.join(f'a{j}' for j in range(min(i, 15)))}], env: }}\n" for i in range(n)
    ),
    "one id": lambda n: "- {id: a, env: }\n" * n,
    "unknown keys": lambda n: "- {id: a, env: }\n- {" + ", ".join(f"requird{i}: x" for i in range(n)) + "}\n",
    "unknown options": lambda n: "- {id: a, env: {" + ", ".join(f"requird{i}: x" for i in range(n)) + "}}\n",
    "roles": lambda n: "- {id: a, env: {required: {" + ", ".join(f"R{i}: {{urll: x}}" for i in range(n)) + "}}}\n",
    "references": lambda n: "- {id: a, tcp: {url: '" + "${pin:x}" * n + "'}}\n",
    "no references": lambda n: "- {id: a, tcp: {url: '" + "${" * n + "'}}\n",
    "a long id": lambda n: f"- {{id: {'a' * n}, needs: [{'a' * n}b], env: }}\n",
    "a long key": lambda n: f"- {{id: a, {'env' * n}: }}\n",
    "needs": lambda n: f"- {{id: a, env: , needs: [{', '.join(f'a{i}' for i in range(n))}]}}\n",
    "few checks that each need many others": lambda n: "".join(
        f"- {{id: a{i}, needs: [{', '.join(f'b{j}' for j in range(n // 20))}], env: }}\n" for i in range(200)
    ),
    "commands": lambda n: "- {id: a, command: {commands: [" + "{argv: [a, b], stdout: x}, " * n + "]}}\n",
}


@pytest.mark.parametrize("what", MANY)
def test_a_spec_with_very_many_of_something_is_loaded_or_refused_in_a_moment(folder, what):
    found = loaded(f"version: 1\nname: x\nchecks:\n{MANY[what](1500)}".encode(), folder)
    if isinstance(found, Spec):
        can_be_planned(found, {})


PIN_NAMES = st.text("abcXYZ 019-_.", min_size=1, max_size=8)
PIN_VERSIONS = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,8}", fullmatch=True)
PIN_LINES = st.one_of(
    st.tuples(PIN_NAMES, st.sampled_from(["v", "rust-v"]), PIN_VERSIONS),
    TEXT.map(lambda text: LINE_BREAK.sub(" ", text)).map(lambda text: "".join(text.splitlines())),
)


@given(st.lists(PIN_LINES, max_size=8), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]))
def test_of_a_pins_file_the_pins_are_read_and_all_else_is_passed_over(folder, lines, ending, mark):
    expected: dict[str, str] = {}
    doubled = 0
    for line in lines:
        if not isinstance(line, str):
            doubled += line[0] in expected
            expected[line[0]] = line[2]
    text = mark + "".join(
        (line if isinstance(line, str) else f"- {line[0]}: `{line[1]}{line[2]}`") + ending for line in lines
    )
    data = text.encode("utf-8", "surrogatepass")
    (folder / "SPECIFICATIONS.md").write_bytes(data)
    try:
        found = loaded(b"version: 1\nname: x\npins: SPECIFICATIONS.md\nchecks: [{id: a, env: }]\n", folder, data)
    finally:
        (folder / "SPECIFICATIONS.md").write_text(PINS)
    if any(0xD800 <= ord(character) < 0xE000 for character in text):
        assert found == [(found[0][0], found[0][1], "the file is not UTF-8; save it as UTF-8")]
    elif doubled:
        assert len(found) == min(doubled, 20)
        assert all("a second time" in said for _, _, said in found)
    else:
        assert found.pins == expected


@given(st.one_of(TEXT, st.binary(max_size=40)))
def test_any_pins_file_is_read_or_said_to_be_wrong_at_its_place(folder, text):
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    (folder / "SPECIFICATIONS.md").write_bytes(data + f"\n{PINS}{PINS}".encode())
    try:
        found = loaded(STRICT.encode(), folder, data + f"\n{PINS}{PINS}".encode())
    finally:
        (folder / "SPECIFICATIONS.md").write_text(PINS)
    assert not isinstance(found, Spec)
    lines = lines_of(data + f"\n{PINS}{PINS}".encode())
    for line, _, said in found:
        assert "not UTF-8" in said or lines[line - 1] in PINS.splitlines() or lines[line - 1].startswith("- ")


@given(JSON)
def test_any_json_is_read_as_yaml_without_a_surprise(folder, value):
    import json

    found = loaded(json.dumps(value).encode(), folder)
    assert not isinstance(found, Spec)


@given(TEXT)
def test_the_names_in_a_text_are_found_without_an_error(text):
    assert all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names([text, {"a": text}]))
