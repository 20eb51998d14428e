"""`validate`, `schema`, `list`, `plan --json`: for whoever writes a spec."""

from __future__ import annotations

import json

import pytest

from precheck_lib.checks import KINDS
from precheck_lib.spec.load import built_in_names
from precheck_lib.spec.schema import schema_text

WRONG = "version: 1\nname: x\nzzz: 1\nchecks:\n  - id: ollama\n    bugdet: 5s\n    tcp: {url: h}\n"


def test_a_right_spec_is_said_to_be_right_with_the_number_of_its_checks(command, mine):
    ended = command("validate")
    assert (ended.code, ended.out, ended.err) == (0, ["precheck.yml: right, 1 check"], [])
    assert command("validate", "strict").out == ["strict: right, 10 checks"]


def test_a_wrong_spec_has_each_problem_on_a_line_with_its_place(command, mine):
    mine.write_text(WRONG, encoding="utf-8")
    ended = command("validate")
    assert (ended.code, ended.err) == (2, [])
    assert ended.out == [
        'precheck.yml:3:1: unknown key "zzz"',
        'precheck.yml:6:5: unknown key "bugdet" in check "ollama"; did you mean "budget"?',
    ]


def test_under_actions_the_problems_are_annotations_on_the_lines_of_the_spec(command, mine, tmp_path):
    mine.write_text(WRONG, encoding="utf-8")
    ended = command("validate", GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(tmp_path))
    assert ended.code == 2
    annotations = [line for line in ended.out if line.startswith("::error ")]
    assert [line.partition(",title")[0] for line in annotations] == [
        "::error file=precheck.yml,line=3",
        "::error file=precheck.yml,line=6",
    ]
    assert 'unknown key "bugdet" in check "ollama"' in annotations[1]


def test_what_a_wrong_spec_says_is_harmless_and_no_secret(command, mine):
    mine.write_text('version: 1\nname: x\n"a\\n::error::b": 1\n"sk-a-long-secret": 2\nchecks: []\n', encoding="utf-8")
    ended = command("validate", MY_KEY="sk-a-long-secret")
    assert ended.code == 2
    assert not any(line.startswith("::") for line in ended.out)
    assert not any("sk-a-long-secret" in line for line in ended.out)


def test_validate_needs_no_variable_to_be_set(command, mine):
    mine.write_text("version: 1\nname: x\nchecks: [{id: a, tcp: {url: '${NOT_SET}'}}]\n", encoding="utf-8")
    assert command("validate").code == 0


def test_the_schema_is_printed_as_it_is(command):
    ended = command("schema")
    assert (ended.code, ended.err) == (0, [])
    assert "\n".join(ended.out) + "\n" == schema_text()


def test_the_list_has_every_built_in_spec_and_kind_with_what_it_is(command):
    ended = command("list")
    assert (ended.code, ended.err) == (0, [])
    rows = [line.split(maxsplit=1) for line in ended.out if line.startswith("  ")]
    assert [name for name, _ in rows] == [*built_in_names(), *KINDS]  # a spec may have the name of a kind
    said = dict(rows)
    assert said["tcp"] == "a server takes a TCP connection."
    assert said["strict"].startswith("The strict precheck: ")


def test_a_plan_for_programs_has_the_checks_in_order_with_budgets_and_deeds(command):
    ended = command("plan", "strict", "--json")
    assert (ended.code, ended.err) == (0, [])
    plan = json.loads("\n".join(ended.out))
    assert (plan["version"], plan["spec"]["name"], plan["budget_s"]) == (1, "strict", None)
    assert (plan["total_s"], plan["reserve_s"], plan["smallest_s"]) == (577.0, 60.0, 65)
    assert plan["each_further_model"] == {"total_s": 522.0, "reserve_s": 30.0, "smallest_s": 32.0}
    first, last = plan["checks"][0], plan["checks"][-1]
    assert (first["id"], first["kind"], first["budget_s"], first["needs"], first["changes"]) == (
        "roles",
        "env",
        2.0,
        [],
        False,
    )
    assert (last["id"], last["needs"], last["changes"], last["models"]) == ("residency", ["ollama-tags"], True, None)
    assert {"reads": any(not deed["changes"] for deed in last["deeds"])} == {"reads": True}
    assert any(deed["changes"] and "unload" in deed["text"] for deed in last["deeds"])


def test_a_plan_for_programs_says_the_budget_that_is_given(command, mine):
    assert json.loads("\n".join(command("plan", "--json", "--budget", "5s").out))["budget_s"] == 5.0
    assert json.loads("\n".join(command("plan", "--json").out))["each_further_model"] is None


@pytest.mark.parametrize("arguments", [["plan", "--json", "precheck.yml", "--nonsense"], ["plan", "--json"]])
def test_a_plan_never_writes_over_the_spec(command, mine, arguments):
    before = mine.read_bytes()
    command(*arguments)
    assert mine.read_bytes() == before
