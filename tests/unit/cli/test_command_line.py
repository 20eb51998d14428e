"""Arguments in, exit code out: which command is meant, what is refused, and which ending is said."""

from __future__ import annotations

import json
import os

import pytest

from precheck_lib import __version__

# Which command --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["run", "precheck.yml"], ["--budget", "5s"], ["--budget=5", "precheck.yml"]]
)
def test_the_command_alone_means_run_with_the_precheck_yml_of_the_folder(command, mine, arguments):
    ended = command(*arguments)
    assert ended.code == 0
    assert ended.out[-1] == "mine: ready"
    assert ended.err == []


def test_a_precheck_yml_counts_before_the_roles_of_strict(command, mine):
    assert command(TEST_CODEX_WS_URL="ws://127.0.0.1:1").out[-1] == "mine: ready"


def test_without_one_the_roles_of_strict_mean_strict(command):
    ended = command(TEST_CODEX_WS_URL="ws://127.0.0.1:1")
    assert ended.code == 1
    assert "precheck: roles: missing or empty: TEST_CODEX_HOME, " in ended.err[0]


@pytest.mark.parametrize("value", [None, ""])
def test_without_anything_it_says_what_one_can_do(command, value):
    ended = command(**({} if value is None else {"TEST_CODEX_WS_URL": value}))
    assert ended.code == 2
    assert ended.out == []
    for word in ("precheck demo", "precheck init", "precheck run strict"):
        assert word in ended.err[0]


def test_the_version_is_one_line(command, capfd):
    ended = command("--version")
    assert (ended.code, ended.out, ended.err) == (0, [f"precheck {__version__}"], [])


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], ["plan", "-h"]])
def test_help_is_on_stdout_and_ends_with_0(command, arguments):
    ended = command(*arguments)
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[0].startswith("usage: precheck")


def test_help_names_the_exit_codes(command):
    text = " ".join(command("--help").out)
    for part in ("0 ready", "1 a requirement is not met", "2 spec or usage", "70 internal", "128 + n"):
        assert part in text


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["run", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["run", "precheck.yml", "strict"], "unrecognized arguments: strict"),
        (["--jso", "x"], "unrecognized arguments: --jso"),
        (["run", "--json"], "argument --json: expected one argument"),
        (["--vers"], "unrecognized arguments: --vers"),
        (["--budget", "soon"], "--budget: 'soon' is not a duration such as 2s, 1m30s or 500ms"),
        (["--budget", ""], "--budget: '' is not a duration"),
        (["--budget", "-5"], "--budget: '-5' is not a duration"),
        (["--budget", "1.2.3"], "--budget: '1.2.3' is not a duration"),
        (["--budget", "1e3"], "--budget: '1e3' is not a duration"),
        (["plan", "--budget", "soon"], "--budget: 'soon' is not a duration"),
        (["plan", "--junit", "x"], "unrecognized arguments: --junit"),
        (["validate", "--budget", "1s"], "unrecognized arguments: --budget"),
    ],
)
def test_arguments_that_cannot_be_used_end_with_2_and_say_why(command, mine, arguments, said):
    ended = command(*arguments)
    assert ended.code == 2
    assert ended.out == []
    assert ended.err[0].startswith("precheck: usage: ")
    assert said in ended.err[0]
    assert not any("Traceback" in line for line in ended.err)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("0.5", 0.5), ("90s", 90.0), ("1m30s", 90.0)])
def test_a_budget_is_a_duration_or_bare_seconds(command, mine, tmp_path, text, seconds):
    assert command("--budget", text, "--json", "report.json").code == 0
    assert json.loads((tmp_path / "report.json").read_text())["budget_s"] == seconds


def test_a_budget_that_is_too_small_is_refused_with_the_smallest_that_works(command):
    ended = command("run", "strict", "--budget", "10s")
    assert ended.code == 2
    assert "the smallest one that works is 65s" in ended.err[0]


def test_a_spec_that_cannot_be_used_has_all_its_problems_on_stderr(command, mine):
    mine.write_text("version: 1\nname: x\nzzz: 1\nchecks: [{id: a, tpc: {}}]\n", encoding="utf-8")
    ended = command()
    assert ended.code == 2
    assert [line for line in ended.err if not line.startswith(" ")] == [
        'precheck: spec: precheck.yml:3:1: unknown key "zzz"',
        'precheck: spec: precheck.yml:4:18: unknown key "tpc" in check "a"; did you mean "tcp"?',
    ]
    assert ended.out == []


def test_bytes_in_arguments_that_are_not_utf_8_are_shown_and_do_no_harm(command):
    ended = command("run", "no\udcff.yml")
    assert ended.code == 2
    assert "the spec cannot be read" in ended.err[0]


# Reports --------------------------------------------------------------------------------------------------------------


def test_out_takes_both_reports_and_a_place_of_its_own_counts_before_it(command, mine, tmp_path):
    assert command("--out", "reports", "--junit", "other.xml").code == 0
    assert sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.[jx]*")) == [
        "other.xml",
        "reports/precheck.json",
    ]


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["--budget", "soon"], ["fly"], ["run", "none.yml"], ["run", "precheck.yml", "too much"]],
)
def test_what_cannot_be_used_is_reported_too(command, mine, tmp_path, arguments):
    ended = command(*arguments, "--json", "report.json")
    assert ended.code == 2
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["exit_code"]) == ("error", 2)
    assert [check["outcome"] for check in report["checks"]] == ["error"]


# Endings --------------------------------------------------------------------------------------------------------------


def test_a_failure_is_on_stderr_and_its_line_on_stdout(command, mine):
    ended = command(MY_ROLE="")
    assert ended.code == 1
    assert len(ended.out) == 1
    assert ended.out[0].startswith("FAILED")
    assert ended.err[0] == "precheck: roles: missing or empty: MY_ROLE"


def test_an_internal_error_ends_with_70_and_a_report(command, mine, tmp_path, monkeypatch):
    def stumble(_name):
        raise ValueError("left foot")

    monkeypatch.setattr("precheck_lib.spec.load_spec", stumble)
    ended = command("--json", "report.json")
    assert ended.code == 70
    assert ended.err[0] == "precheck: precheck: internal error: ValueError: left foot"
    assert json.loads((tmp_path / "report.json").read_text())["exit_code"] == 70
    assert ended.out == []


def test_an_internal_error_of_the_ending_itself_still_ends_with_70(command, mine, monkeypatch):
    def stumble(*_):
        raise ValueError("left foot")

    monkeypatch.setattr("precheck_lib.report.finding_lines", stumble)
    ended = command(MY_ROLE="")
    assert ended.code == 70
    assert ended.err == ["precheck: internal error: ValueError, then ValueError"]


def test_a_signal_while_everything_was_imported_cancels_the_run(command, mine, tmp_path):
    ended = command("--json", "report.json", signal=15)
    assert ended.code == 143
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "cancelled"
    assert "mine: ready" not in ended.out


def test_a_signal_before_a_spec_that_cannot_be_used_cancels_it_too(command, tmp_path):
    assert command("run", "none.yml", "--json", "report.json", signal=2).code == 130
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["exit_code"]) == ("cancelled", 130)


@pytest.mark.parametrize("arguments", [["run"], ["run", "none.yml"], ["--nonsense"], ["--version"], ["plan"]])
def test_at_the_end_a_signal_can_change_nothing_any_more(command, mine, arguments):
    ended = command(*arguments)
    assert ended.interrupts.final
    ended.interrupts._handle(15, None)
    assert not ended.interrupts.stop.is_set


# plan -----------------------------------------------------------------------------------------------------------------


def test_a_plan_is_on_stdout(command, mine):
    ended = command("plan")
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[0] == "mine (precheck.yml)"
    assert command("plan", "strict", "--budget", "20m").out[-3] == "budget given: 20m"


def test_a_plan_of_a_spec_that_cannot_be_used_says_why_on_stderr(command):
    ended = command("plan", "none.yml")
    assert (ended.code, ended.out) == (2, [])
    problem = "none.yml:1:1: the spec cannot be read: No such file or directory"
    assert ended.err == [f"precheck: {problem}; built-in specs are ollama, openai, strict"]


def test_a_plan_that_nobody_can_see_is_no_success(command, mine):
    kept = os.dup(1)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    try:
        ended = command("plan")
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(full)
    assert ended.code == 70
    assert ended.err == ["precheck: stdout cannot be written"]
