"""C1 to C3: the pins, the two commands on PATH, and the running servers are one and the same version."""

from __future__ import annotations

import contextlib
import shlex

import pytest

from precheck_lib.simulate import CodexStandIn, Command
from tests.contract.harness import (
    BRIEF,
    FORKING,
    SPECS,
    Family,
    nothing_was_contacted,
    open_stage,
    run_all,
    run_precheck,
    write_script,
    write_strict,
)

CODEX_LINE = "- Codex App Server: `rust-v0.171.0`\n"
OPENCODE_LINE = "- OpenCode Server: `v1.18.33`\n"


def pins_of(spec):
    return spec.parent / "SPECIFICATIONS.md"


# C1 --------------------------------------------------------------------------------------------------------------


def test_the_pins_stand_in_specifications_md_once_and_in_their_form():
    lines = (SPECS / "SPECIFICATIONS.md").read_text(encoding="utf-8").splitlines(keepends=True)
    assert [line for line in lines if line.startswith("- Codex App Server:")] == [CODEX_LINE]
    assert [line for line in lines if line.startswith("- OpenCode Server:")] == [OPENCODE_LINE]


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (CODEX_LINE, "", "Codex App Server"),
        (OPENCODE_LINE, "", "OpenCode Server"),
        (CODEX_LINE, CODEX_LINE * 2, "Codex App Server"),
        (OPENCODE_LINE, OPENCODE_LINE + "\nText.\n\n- OpenCode Server: `v1.18.34`\n", "OpenCode Server"),
        (OPENCODE_LINE, "- OpenCode Server: v1.18.33\n", "OpenCode Server"),
        (OPENCODE_LINE, "- OpenCode Server: ``\n", "OpenCode Server"),
    ],
    ids=["codex-missing", "opencode-missing", "the-same-twice", "two-versions", "no-backticks", "empty"],
)
def test_a_missing_or_doubled_pin_is_an_error_of_the_spec(before, after, name, stage, small_strict):
    text = pins_of(small_strict).read_text()
    assert before in text
    pins_of(small_strict).write_text(text.replace(before, after))
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 2, ended
    assert ended.json["verdict"] == "error"
    assert name in ended.messages[0]
    assert nothing_was_contacted(stage)


def test_a_pins_file_that_is_not_there_is_an_error_of_the_spec(stage, small_strict):
    pins_of(small_strict).unlink()
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 2
    assert "SPECIFICATIONS.md" in ended.messages[0]


def test_the_pins_file_lies_beside_the_spec_and_not_in_the_working_folder(stage, small_strict, tmp_path):
    (tmp_path / "SPECIFICATIONS.md").write_text("- Codex App Server: `rust-v9.9.9`\n")
    assert run_precheck(stage, spec="spec/strict.yml", cwd=tmp_path).code == 0


def test_moved_pins_are_what_the_commands_and_the_servers_have_to_be(make_stage, small_strict):
    text = pins_of(small_strict).read_text().replace("v0.171.0", "v0.200.0-beta.1").replace("v1.18.33", "v2.0.0")
    pins_of(small_strict).write_text(text)
    stage = make_stage(
        codex_command="0.200.0-beta.1",
        opencode_command="2.0.0",
        faults={"codex": "wrong-version", "opencode": "wrong-version"},
        fault_options={"codex": {"version": "0.200.0-beta.1"}, "opencode": {"version": "2.0.0"}},
    )
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 0, ended


# C2 --------------------------------------------------------------------------------------------------------------

RIGHT = {
    "crlf": ("opencode", Command("1.18.33", crlf=True)),
    "noise-on-stderr": ("codex", Command("codex-cli 0.171.0", stderr="warning: 0.1.0\ncodex-cli 0.1.0\n")),
}


@pytest.mark.parametrize(("name", "command"), RIGHT.values(), ids=RIGHT.keys())
def test_one_right_line_on_stdout_is_enough(name, command, make_stage, small_strict):
    stage = make_stage(**{f"{name}_command": command})
    assert run_precheck(stage, spec=small_strict).code == 0


WRONG = {
    "another-version": ("codex", Command("codex-cli 0.170.2"), "0.170.2"),
    "another-opencode": ("opencode", Command("1.18.34"), "1.18.34"),
    "a-longer-version": ("opencode", Command("1.18.330"), "1.18.330"),
    "a-pre-release": ("codex", Command("codex-cli 0.171.0-alpha.1"), "0.171.0-alpha.1"),
    "a-v-before-it": ("opencode", Command("v1.18.33"), "v1.18.33"),
    "the-name-missing": ("codex", Command("0.171.0"), "0.171.0"),
    "a-line-before": ("codex", Command("codex-cli 0.171.0", before="an update is there\n"), "an update is there"),
    "a-line-after": ("opencode", Command("1.18.33", after="an update is there\n"), "1.18.33"),
    "an-empty-line-after": ("opencode", Command("1.18.33", after="\n"), "1.18.33"),
    "a-blank-before": ("opencode", Command(" 1.18.33"), " 1.18.33"),
    "only-on-stderr": ("codex", Command("", stderr="codex-cli 0.171.0\n"), "nothing"),
}


@pytest.fixture(scope="module")
def wrong_ends(request, tmp_path_factory):
    """Each wrong command's stage and run."""
    place = tmp_path_factory.mktemp("wrong")
    spec = write_strict(place / "spec")

    def run(case):
        name, command, _ = WRONG[case]
        with open_stage(place / case, **{f"{name}_command": command}) as stage:
            return stage, run_precheck(stage, spec=spec)

    return Family(request, "test_anything_else_on_stdout_is_a_wrong_version", WRONG, run)


@pytest.mark.parametrize("case", WRONG)
def test_anything_else_on_stdout_is_a_wrong_version(case, wrong_ends):
    name, _, found = WRONG[case]
    stage, ended = wrong_ends[case]
    assert ended.code == 1, ended
    assert ended.blockers == ["commands"]
    assert ended.words["commands"] == "failed"
    (message,) = ended.messages
    assert "command" in message
    assert f"{name} --version" in message
    assert ("0.171.0" if name == "codex" else "1.18.33") in message
    assert found in message
    assert nothing_was_contacted(stage)


def _not_there(path):
    path.unlink()


def _not_executable(path):
    path.chmod(0o644)


def _a_folder(path):
    path.unlink()
    path.mkdir()


def _no_interpreter(path):
    path.write_text("#!/nowhere/at/all\n")


SPOIL = {spoil.__name__.strip("_"): spoil for spoil in (_not_there, _not_executable, _a_folder, _no_interpreter)}


@pytest.fixture(scope="module")
def spoilt(request, tmp_path_factory):
    """The stage and the run with each command that cannot be run."""
    place = tmp_path_factory.mktemp("spoilt")
    spec = write_strict(place / "spec")

    def run(name):
        with open_stage(place / name) as stage:
            with FORKING:
                SPOIL[name](stage.commands["codex"])
            folder = str(stage.commands["codex"].parent)
            return stage, run_precheck({**stage.environment, "PATH": folder}, spec=spec)

    return Family(request, "test_a_command_that_cannot_be_run_could_not_be_found_out", SPOIL, run)


@pytest.mark.parametrize("name", SPOIL)
def test_a_command_that_cannot_be_run_could_not_be_found_out(name, spoilt):
    stage, ended = spoilt[name]
    assert ended.code == 1, ended
    assert ended.blockers == ["commands"]
    assert ended.words["commands"] == "error"
    assert "codex --version" in ended.messages[0]
    assert nothing_was_contacted(stage)


@pytest.mark.parametrize("ending", ["exit 3", "kill -9 $$"], ids=["status", "signal"])
def test_a_command_that_prints_the_right_line_and_does_not_end_well_is_refused(ending, stage, small_strict):
    write_script(stage.commands["codex"], "echo codex-cli 0.171.0", ending)
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert ended.blockers == ["commands"]
    assert "codex --version" in ended.messages[0]


def test_both_wrong_commands_are_named(make_stage, small_strict):
    stage = make_stage(codex_command="0.1.0", opencode_command="0.2.0")
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1
    assert len(ended.messages) == 2
    assert "0.1.0" in ended.messages[0]
    assert "0.2.0" in ended.messages[1]


def test_a_command_that_hangs_is_ended_at_its_bound(make_stage, tmp_path):
    # That it and what it started are gone is seen by the fixture that watches every test.
    command = Command("", sleep_seconds=60, ignore_term=True, grandchild_seconds=60)
    stage = make_stage(codex_command=command)
    ended = run_precheck(stage, spec=write_strict(tmp_path / "spec", BRIEF))
    assert ended.code == 28, ended
    assert ended.blockers == ["commands"]
    assert ended.words["commands"] == "error"
    assert "codex --version" in ended.messages[0]
    assert "deadline of 1 s elapsed" in ended.messages[0]
    assert "curl: (28)" in ended.err
    assert 1 <= ended.check("commands")["elapsed_s"] < 1.6


def test_a_command_that_floods_stdout_is_ended(stage, small_strict):
    write_script(stage.commands["codex"], "while :; do echo codex-cli 0.171.0; done")
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert ended.blockers == ["commands"]


def test_both_commands_run_at_the_same_time(make_stage, small_strict):
    slow = {"sleep_seconds": 0.5}
    stage = make_stage(codex_command=Command("codex-cli 0.171.0", **slow), opencode_command=Command("1.18.33", **slow))
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 0, ended
    assert 0.5 <= ended.check("commands")["elapsed_s"] < 0.9


def test_a_command_is_given_an_allow_list_and_no_secret(stage, small_strict, tmp_path):
    seen = tmp_path / "seen"
    write_script(stage.commands["codex"], f"command -p env -0 > {shlex.quote(str(seen))}", "echo codex-cli 0.171.0")
    allowed = {
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "LC_TIME": "C",
        "TMPDIR": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    refused = {
        "GITHUB_TOKEN": "canary-1",
        "LANGUAGE": "canary-2",
        "OPENAI_API_KEY": "canary-3",
        "MY_PATH": "canary-4",
        "CODEX_HOME": "canary-5",
        "xdg_cache": "canary-6",
        "LD_LIBRARY_PATH": "/canary-7",
        "NODE_OPTIONS": "canary-8",
    }
    ended = run_precheck({**stage.environment, **allowed, **refused}, spec=small_strict)
    assert ended.code == 0, ended
    given = dict(entry.split("=", 1) for entry in seen.read_text().split("\0") if entry)
    by_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    own_mark = {name for name in given if name.startswith("XDG_PRECHECK")}
    assert given.keys() - by_the_shell - own_mark == {"PATH", *allowed}
    assert {name: given[name] for name in allowed} == allowed
    assert given["PATH"] == stage.environment["PATH"]
    assert "canary" not in seen.read_text()
    assert "stand-in" not in "".join(given[name] for name in own_mark)


def test_a_command_reads_nothing_from_stdin(stage, small_strict, tmp_path):
    marker, text = tmp_path / "read", tmp_path / "stdin"
    text.write_text("a line of the caller\n")
    write_script(
        stage.commands["codex"],
        f'if read -r line; then echo "$line" > {shlex.quote(str(marker))}; fi',
        "echo codex-cli 0.171.0",
    )
    with text.open() as stdin:
        ended = run_precheck(stage, spec=small_strict, stdin=stdin)
    assert ended.code == 0, ended
    assert not marker.exists()


def test_the_first_command_along_path_counts_as_in_a_shell(stage, small_strict, tmp_path):
    first = write_script(tmp_path / "first" / "codex", "echo codex-cli 0.1.0")
    env = {**stage.environment, "PATH": f"{first.parent}:{stage.environment['PATH']}"}
    assert run_precheck(env, spec=small_strict).code == 1
    first.chmod(0o644)
    assert run_precheck(env, spec=small_strict).code == 0


# C3 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "found", "pinned", "check", "name"),
    [
        ("codex", "0.170.2", "0.171.0", "codex", "Codex App Server"),
        ("opencode", "1.18.20", "1.18.33", "opencode-health", "OpenCode Server"),
    ],
)
def test_a_running_server_at_another_version_is_named_as_what_is_off(
    server, found, pinned, check, name, make_stage, small_strict
):
    stage = make_stage(faults={server: "wrong-version"}, fault_options={server: {"version": found}})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert ended.blockers == [check]
    assert ended.words[check] == "failed"
    (message,) = ended.messages
    assert name in message
    assert found in message
    assert pinned in message
    assert "running" in message or "server is off" in message
    assert "the command" not in message


@pytest.mark.parametrize("version", ["0.171.0-alpha.1", "10.171.0"])
def test_a_version_that_only_contains_the_pin_is_another_one(version, make_stage, small_strict):
    stage = make_stage(faults={"codex": "wrong-version"}, fault_options={"codex": {"version": version}})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert version in ended.messages[0]


ORIGINATORS = (None, "codex_cli_rs", "my-tool/0.170.2 (x; y)", "Codex Desktop 0.170.2")


def test_the_version_of_codex_is_found_whoever_named_the_server_first(make_stage, small_strict):
    with contextlib.ExitStack() as stack:
        calls = []
        for originator in ORIGINATORS:
            stage = make_stage()  # one for each: they change what is resident
            home = stage.environment["TEST_CODEX_HOME"]
            codex = stack.enter_context(CodexStandIn(home, originator=originator))
            env = {**stage.environment, "TEST_CODEX_WS_URL": codex.url}
            calls.append(lambda env=env: run_precheck(env, spec=small_strict))
        ended = run_all(calls)
    assert [one.code for one in ended] == [0] * len(ORIGINATORS), ended


def test_the_pinned_version_in_the_originator_does_not_make_an_old_server_right(stage, small_strict):
    home = stage.environment["TEST_CODEX_HOME"]
    with CodexStandIn(home, version="0.170.2", originator="my-tool/0.171.0 (x; y)") as codex:
        ended = run_precheck({**stage.environment, "TEST_CODEX_WS_URL": codex.url}, spec=small_strict)
    assert ended.code == 1, ended
    assert "0.170.2" in ended.messages[0]
