"""The JSON Schema of a spec says of its shape what the loader says; jsonschema reads it for an editor."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from precheck_lib.checks import KINDS, kind_named
from precheck_lib.spec import SpecError
from precheck_lib.spec.load import built_in_folder, built_in_names
from precheck_lib.spec.schema import about_kind, schema_text, spec_schema
from precheck_lib.spec.typed import convert
from precheck_lib.spec.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = spec_schema()


def refused(document, schema=SCHEMA):
    """What a validator that is not ours says against a document."""
    whole = {"$schema": SCHEMA["$schema"], "$defs": SCHEMA["$defs"], **schema}
    return [error.message for error in jsonschema.Draft202012Validator(whole).iter_errors(document)]


def document_of(text):
    return read_yaml(text.encode(), "it.yml")[0]


def test_the_file_is_in_step_with_the_types():
    there = (ROOT / "specs" / "precheck.schema.json").read_text(encoding="utf-8")
    assert there == schema_text(), "run scripts/docs"


def test_it_is_a_schema_of_the_draft_that_it_names():
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text()))


@pytest.mark.parametrize("name", built_in_names())
def test_every_built_in_spec_fits(name):
    text = Path(built_in_folder(), f"{name}.yml").read_text(encoding="utf-8")
    assert refused(document_of(text)) == []
    # An editor reads YAML its own way: what is text to us must be text to it.
    assert refused(yaml.safe_load(text)) == []


SPEC = "version: 1\nname: x\nchecks:\n  - id: one\n    tcp: {url: h}\n"
ENV = SPEC.replace("tcp: {url: h}", "env: {required: {A: {}}}")

WRONG = {
    "no mapping": "- a\n",
    "no version": SPEC.replace("version: 1\n", ""),
    "another version": SPEC.replace("version: 1", "version: 2"),
    "a version in quotes": SPEC.replace("version: 1", 'version: "1"'),
    "no name": SPEC.replace("name: x\n", ""),
    "a name that is a number": SPEC.replace("name: x", "name: 5"),
    "no checks": "version: 1\nname: x\n",
    "an empty list of checks": "version: 1\nname: x\nchecks: []\n",
    "checks as a mapping": "version: 1\nname: x\nchecks: {one: {}}\n",
    "an unknown key of the head": SPEC + "colour: red\n",
    "an unknown choice": SPEC + "exit_codes: crul\n",
    "a word for a truth": SPEC + "fail_fast: yes\n",
    "a budget without a unit": SPEC + "budget: 30\n",
    "a budget of words": SPEC + "budget: soon\n",
    "an empty budget": SPEC + 'budget: ""\n',
    "a check that is text": SPEC + "  - tcp\n",
    "a check without an id": SPEC.replace("id: one", "title: one"),
    "an id of another sort": SPEC.replace("id: one", "id: One"),
    "an id that is too long": SPEC.replace("id: one", f"id: {'a' * 65}"),
    "no kind": SPEC.replace("    tcp: {url: h}\n", ""),
    "two kinds": SPEC + "    env:\n",
    "an unknown kind": SPEC.replace("tcp", "tpc"),
    "an unknown key of a check": SPEC + "    bugdet: 5s\n",
    "needs that are text": SPEC + "    needs: one\n",
    "needs that are numbers": SPEC + "    needs: [1]\n",
    "an unknown severity": SPEC + "    severity: info\n",
    "a wait that is a duration": SPEC + "    wait: 5s\n",
    "a wait for nothing": SPEC + "    wait: {stable: 2}\n",
    "a wait that is stable never": SPEC + "    wait: {for: 5s, stable: 0}\n",
    "an unknown key of a wait": SPEC + "    wait: {for: 5s, every: 1s}\n",
    "a when without a variable": SPEC + "    when: {equals: x}\n",
    "a when that equals a number": SPEC + "    when: {env: A, equals: 1}\n",
    "an option that is missing": SPEC.replace("{url: h}", "{}"),
    "options that are nothing": SPEC.replace("{url: h}", ""),
    "an unknown option": SPEC.replace("url: h", "url: h, ulr: h"),
    "an option of another type": SPEC.replace("url: h", "url: [h]"),
    "an unknown key of a role": ENV.replace("{}", "{sceret: true}"),
    "a role that is nothing": ENV.replace("{}", ""),
    "a role that is text": ENV.replace("{}", "secret"),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_the_loader_refuses_for_its_shape_the_schema_refuses_too(desk, text):
    with pytest.raises(SpecError):
        desk.load(text)
    assert refused(document_of(text))


RIGHT = {
    "the smallest one": SPEC,
    "all defaults of a kind": SPEC.replace("tcp: {url: h}", "env:"),
    "a whole head": SPEC + "success: s\nbudget: 1h2m3.5s500ms\nexit_codes: curl\nfail_fast: true\n",
    "what may be nothing": SPEC + "success:\nbudget:\npins:\n",
    "a whole frame": SPEC
    + "    title: t\n    needs: []\n    budget: 5s\n    wait: {for: 60s, stable: 2}\n"
    + "    severity: warning\n    when: {env: A, equals: b}\n",
    "sizes": SPEC.replace("tcp: {url: h}", "memory: {available: 1.5GiB, total: 20 GiB, swap_free: 0B}"),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_the_loader_takes_the_schema_takes(desk, text):
    desk.load(text)
    assert refused(document_of(text)) == []


VALUES = (
    None,
    True,
    5,
    -1,
    0.5,
    "text",
    "2s",
    "1m30s",
    "20GiB",
    "5",
    "",
    [],
    ["text"],
    [5],
    [[]],
    {},
    {"a": {}},
    {"a": 5},
)


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_option_the_schema_and_the_loader_take_the_same_values(kind):
    options = kind_named(kind).options
    needed = dict.fromkeys(SCHEMA["$defs"][kind]["required"])
    different = []
    for key, schema in SCHEMA["$defs"][kind]["properties"].items():
        for value in VALUES:
            said = []
            convert({**needed, key: value}, options, (), lambda path, text, said=said: said.append((path, text)))
            loader = [text for path, text in said if path[:1] == (key,)]
            if bool(loader) != bool(refused(value, schema)):
                different.append(f"{key}: {value!r}: the loader says {loader}")
    assert different == []


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_in_the_schema_are_those_of_the_types(kind):
    properties = SCHEMA["$defs"][kind]["properties"]
    for field in msgspec.structs.fields(kind_named(kind).options):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if default is msgspec.NODEFAULT or default is None:
            assert "default" not in properties[field.name]
        else:
            assert convert(properties[field.name]["default"], field.type, (), print) == default


def test_durations_and_sizes_have_defaults_as_a_spec_writes_them():
    assert SCHEMA["$defs"]["residency"]["properties"]["load"]["default"] == "6m"
    assert SCHEMA["$defs"]["residency"]["properties"]["small"]["default"] == "256MiB"


def test_the_head_the_frame_and_every_kind_are_described():
    def bare(schema):
        return [key for key, value in schema["properties"].items() if not value.get("description")]

    assert bare(SCHEMA) == []
    assert bare(SCHEMA["$defs"]["check"]) == []
    assert bare(SCHEMA["$defs"]["check"]["properties"]["wait"]) == []
    assert bare(SCHEMA["$defs"]["check"]["properties"]["when"]) == []
    assert [kind for kind in KINDS if not about_kind(kind)] == []
    assert [kind for kind in KINDS if not SCHEMA["$defs"][kind]["description"]] == []


def test_its_patterns_are_ones_that_javascript_has_too():
    patterns = re.findall(r'"pattern": "([^"]*)"', schema_text())
    assert patterns
    assert [pattern for pattern in patterns if re.search(r"\(\?P|\\Z|\\A|\(\?<", pattern)] == []
