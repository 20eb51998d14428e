"""docs/spec.md: every example in it is a spec, and its tables are those of the schema."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import jsonschema
import pytest

from precheck_lib.checks import KINDS
from precheck_lib.spec.schema import schema_text, spec_schema
from precheck_lib.spec.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

SCHEMA = json.loads(schema_text())


def whole(example):
    """A whole spec of an example that shows checks alone."""
    if not example.startswith("- id:"):
        return example
    return "version: 1\nname: example\nchecks:\n" + "".join(f"  {line}\n" for line in example.splitlines())


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_spec_to_the_loader_and_to_an_editor(desk, example):
    spec = desk.load(whole(example))
    assert spec.checks
    # The schema itself is held in test_schema; to check it again for each example takes longer than all the rest.
    jsonschema.Draft202012Validator(SCHEMA).validate(read_yaml(whole(example).encode(), "it.yml")[0])


def test_every_kind_has_a_section_with_an_example_and_a_table():
    for kind in KINDS:
        section = re.search(rf"^## `{kind}`: .*?(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
        assert section is not None, kind
        assert re.search(rf"^- id: (?:.*\n)*?  {kind}:", section[0], re.MULTILINE), kind
        assert f"<!-- options: {kind} -->" in section[0]


def test_the_first_example_has_a_dozen_lines_and_every_idea():
    lines = [line for line in EXAMPLES[0].splitlines() if not line.startswith("#")]
    assert len(lines) == 12
    assert {"needs", "wait", "version", "name", "checks"} <= set(re.findall(r"(\w+):", EXAMPLES[0]))


def test_its_tables_are_in_step_with_the_schema():
    there = importlib.util.spec_from_file_location("spec_tables", ROOT / "scripts" / "spec_tables.py")
    tables = importlib.util.module_from_spec(there)
    there.loader.exec_module(tables)
    assert tables.with_tables(PAGE, spec_schema()) == PAGE, "run scripts/docs"


def test_its_tables_name_every_option_there_is():
    schema = spec_schema()
    for kind in KINDS:
        table = PAGE.partition(f"<!-- options: {kind} -->")[2].partition("<!-- end of options -->")[0]
        named = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
        assert [name for name in named if not re.search(r"[.\[]", name)] == list(schema["$defs"][kind]["properties"])
