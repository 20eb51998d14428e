"""The inputs of the action as a command line."""

from __future__ import annotations

import json

import pytest

from precheck_lib.action_inputs import Inputs
from precheck_lib.exits import UsageError


def arguments(**inputs):
    return Inputs({f"PRECHECK_{name.upper()}": value for name, value in inputs.items()}).arguments("/out")


def test_inputs_that_were_not_given_leave_all_as_it_is_without_them():
    assert arguments(spec="", mode="", budget=" ") == ["run", "--out", "/out", "--on-not-ready", "fail"]


def test_each_input_has_its_argument():
    assert arguments(spec="my spec.yml", budget="5m", on_not_ready="warn", args="--skip 'a,b' --read-only") == [
        *["run", "--out", "/out", "--on-not-ready", "warn", "--budget", "5m"],
        *["--skip", "a,b", "--read-only", "--", "my spec.yml"],
    ]


def test_a_name_that_begins_with_a_dash_is_a_name():
    assert arguments(spec="--help")[-2:] == ["--", "--help"]


def test_verify_takes_the_report_and_not_the_spec():
    made = arguments(mode="verify", spec="precheck.yml", report="/r/precheck.json")
    assert made == ["verify", "--out", "/out", "--on-not-ready", "fail", "--", "/r/precheck.json"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"mode": "check"}, "the input mode is 'check', not run or verify"),
        ({"mode": "verify"}, "mode verify needs the input report"),
        ({"on_not_ready": "ignore"}, "the input on-not-ready is 'ignore', not fail or warn"),
        ({"summary": "no"}, "the input summary is 'no', not true or false"),
        ({"args": "--skip 'a"}, "the input args cannot be read: No closing quotation"),
    ],
)
def test_an_input_that_cannot_be_used_is_refused_with_what_can_be(inputs, said):
    with pytest.raises(UsageError, match=said):
        arguments(**inputs)


def test_an_input_that_cannot_be_used_has_reports_too(command, tmp_path):
    assert command("action", PRECHECK_MODE="check", PRECHECK_OUT=str(tmp_path / "out")).code == 2
    report = json.loads((tmp_path / "out" / "precheck.json").read_text(encoding="utf-8"))
    assert "the input mode" in report["checks"][0]["findings"][0]["message"]


@pytest.mark.parametrize(("given", "written"), [("true", True), ("false", False), ("", True)])
def test_the_job_summary_is_left_alone_where_that_is_asked_for(given, written, command, mine, tmp_path):
    summary = tmp_path / "summary.md"
    out = str(tmp_path / "out")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary), "PRECHECK_OUT": out}
    assert command("action", PRECHECK_SUMMARY=given, PRECHECK_SPEC=str(mine), **env).code == 0
    assert summary.exists() == written
    assert (tmp_path / "out" / "summary.md").read_text(encoding="utf-8").startswith("### ✅")


def test_a_folder_of_reports_has_all_three(command, mine, tmp_path):
    command("run", str(mine), "--out", "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["junit.xml", "precheck.json", "summary.md"]
