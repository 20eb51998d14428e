"""`--only`, `--skip`, `--read-only`, `--env-file`: a run of a part of a spec, and its variables from a file."""

from __future__ import annotations

import json

import pytest

SPEC = """\
version: 1
name: mine
checks:
  - {id: one, env: {required: {MY_ROLE: {}}}}
  - {id: two, needs: [one], env: {required: {NOT_SET: {}}}}
  - {id: three, needs: [one], env: {required: {MY_ROLE: {}}}}
  - {id: gpu, needs: [two], residency: {url: http://127.0.0.1:9/api, models: [m], stay: [m]}}
"""


@pytest.fixture
def spec(mine):
    mine.write_text(SPEC, encoding="utf-8")
    return mine


@pytest.fixture
def outcomes(command, spec, tmp_path):
    """Run with these arguments; return the exit code, what became of each check, and the report."""

    def run(*arguments, **env):
        ended = command("run", "--json", "report.json", *arguments, **env)
        report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
        return ended, {check["id"]: check["unmet"] or check["outcome"] for check in report["checks"]}, report

    return run


def test_only_runs_what_is_named_and_what_that_needs(outcomes):
    ended, became, report = outcomes("--only", "three")
    left = "left out by --only"
    assert became == {"one": "passed", "two": left, "three": "passed", "gpu": left}
    assert (ended.code, report["verdict"]) == (0, "ready")


def test_what_is_skipped_is_skipped_and_says_so_and_what_needs_it_runs(outcomes):
    ended, became, _ = outcomes("--skip", "one,gpu", "--skip", "two")
    left = "left out by --skip"
    assert became == {"one": left, "two": left, "three": "passed", "gpu": left}
    assert ended.code == 0


def test_skip_counts_before_only(outcomes):
    _, became, _ = outcomes("--only", "three", "--skip", "one")
    assert became["one"] == "left out by --skip"
    assert became["three"] == "passed"


def test_read_only_leaves_out_what_changes_a_server_and_nothing_else(outcomes):
    ended, became, _ = outcomes("--read-only", NOT_SET="set")
    assert became["gpu"] == "left out by --read-only: it changes a server"
    assert [became[id_] for id_ in ("one", "two", "three")] == ["passed"] * 3
    assert ended.code == 0


def test_a_run_of_a_part_says_so_everywhere(command, outcomes, tmp_path):
    said = "only a part of the spec was run; left out: two, gpu"
    summary = tmp_path / "summary.md"
    ended, _, report = outcomes(
        "--only", "three", "--junit", "report.xml", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary)
    )
    assert report["notes"] == [said]
    assert ended.err == [f"precheck: {said}"]
    assert said in (tmp_path / "report.xml").read_text(encoding="utf-8")
    assert f"- {said}" in summary.read_text(encoding="utf-8")
    # It is no fault: nothing is annotated as one.
    assert not any(line.startswith(("::error", "::warning")) for line in ended.out)


def test_a_whole_run_has_no_such_note(outcomes):
    assert outcomes()[2]["notes"] == []


def test_what_is_left_out_takes_no_part_of_the_budget(outcomes):
    ended, _, report = outcomes("--only", "three", "--budget", "5s")
    assert (ended.code, report["budget_s"]) == (0, 5.0)
    assert outcomes("--budget", "5s")[0].code == 2  # the reserve of the residency check
    assert outcomes("--only", "three")[2]["budget_s"] == 4.0


def test_a_run_of_nothing_is_no_pass(outcomes):
    ended, _, report = outcomes("--skip", "one,two,three,gpu")
    assert (ended.code, report["verdict"]) == (2, "error")
    assert "left out, so nothing was checked" in ended.err[0]


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_id_that_no_check_has_is_refused_with_what_was_meant(command, spec, option):
    ended = command(option, "thre")
    assert ended.code == 2
    assert ended.err[0] == f"precheck: usage: {option}: there is no check 'thre' in this spec; did you mean \"three\"?"
    assert ended.out == []


# Variables from a file ------------------------------------------------------------------------------------------------


@pytest.fixture
def env_file(tmp_path):
    def write(data):
        (tmp_path / "it.env").write_bytes(data if isinstance(data, bytes) else data.encode())

    return write


def test_a_variable_of_the_file_is_there_and_the_environment_wins(command, mine, env_file):
    mine.write_text(
        "version: 1\nname: x\nchecks: [{id: a, env: {required: {FROM: {one_of: [file]}, BOTH: {one_of: [env]}}}}]\n"
    )
    env_file("FROM=file\nBOTH=file\n")
    assert command("--env-file", "it.env", BOTH="env").code == 0
    assert command("--env-file", "it.env").code == 1
    assert command("--env-file", "it.env", BOTH="").code == 1  # set to nothing is set, as docker compose has it


def test_a_value_is_all_that_follows_and_no_shell_reads_it(env_file, tmp_path):
    from precheck_lib.env_file import with_env_file

    env_file(
        "\ufeff# a comment\n\n  A=1 # no comment\nB='q' \"r\"\r\nC=$A ${A} `x` \\n\nD=\nE=a=b\n\tF=\u00e4\nALONE\n"
    )
    assert with_env_file({"ALONE": "env"}, str(tmp_path / "it.env")) == {
        "A": "1 # no comment",
        "B": "'q' \"r\"",
        "C": "$A ${A} `x` \\n",
        "D": "",
        "E": "a=b",
        "F": "\u00e4",
        "ALONE": "env",
    }


def test_what_is_wrong_with_the_file_is_said_with_its_line_and_never_with_its_text(command, mine, env_file):
    env_file("A=1\nexport B=hidden1\n=hidden2\nhidden 3\nE=\0hidden4\n")
    ended = command("--env-file", "it.env")
    assert ended.code == 2
    lines = [line for line in ended.err if line.startswith("precheck: ")]
    assert [line.split(": ")[2] for line in lines] == ["it.env:2:1", "it.env:3:1", "it.env:4:1", "it.env:5:1"]
    assert "`export` is a shell's" in lines[0]
    assert "hidden" not in "\n".join(ended.err)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"A=\xff\n", "it.env:1:3: the file is not UTF-8"),
        (b"A=" + b"x" * (1 << 20), "it.env:1:1: the file is larger than 1 MiB"),
        (None, "it.env:1:1: the env file cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(command, mine, env_file, data, said):
    if data is not None:
        env_file(data)
    ended = command("--env-file", "it.env")
    assert ended.code == 2
    assert said in ended.err[0]


def test_a_secret_of_the_file_is_hidden_like_any_other(command, mine, env_file, tmp_path):
    mine.write_text("version: 1\nname: x\nchecks: [{id: a, tcp: {url: 'http://${MY_TOKEN}.invalid:1'}}]\n")
    env_file("MY_TOKEN=a-very-secret-name\n")
    ended = command("--env-file", "it.env", GITHUB_ACTIONS="true")
    assert "::add-mask::a-very-secret-name" in ended.out
    assert "a-very-secret-name" not in "\n".join([*ended.err, *ended.out[1:]])


def test_the_strict_spec_is_found_by_the_variables_of_the_file(command, env_file):
    env_file("TEST_CODEX_WS_URL=ws://127.0.0.1:9\n")
    ended = command("--env-file", "it.env")
    assert ended.code == 1
    assert any("roles" in line for line in ended.out)
