"""What somebody found who tried to break it: signals after the verdict, secrets in other clothes, odd answers."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from precheck_lib.simulate import HostileServer, Model
from tests.bounded.hostile import held_up
from tests.contract.harness import COMMAND, ROOT, run_precheck, write_strict
from tests.runner_grammar import read_outputs


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_after_the_success_line_does_not_change_how_it_ends(stage, small_strict, number):
    """A6: the process ends with its code, never by the signal, also while the interpreter is taken down."""
    child = subprocess.Popen(
        [*COMMAND, "run", str(small_strict)], env=stage.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with child:
        assert any(line == b"strict live precheck passed\n" for line in child.stdout)
        child.send_signal(number)
        assert child.wait(10) == 0


def test_the_header_of_basic_authentication_is_never_shown(make_stage, small_strict):
    """F1: an echo of it in a version or an error is hidden like the password itself."""
    stage = make_stage(password="right-password-42")
    token = base64.b64encode(b"opencode:right-password-42").decode()
    stage.opencode.version = f"Basic {token}"
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1
    for text in (ended.out, ended.err, str(ended.json)):
        assert token.rstrip("=") not in text


@pytest.mark.parametrize("home", ["/a\0b", "", "x" * 100_000])
def test_an_odd_home_of_codex_is_another_home(make_stage, small_strict, home):
    stage = make_stage(faults={"codex": "foreign-home"}, fault_options={"codex": {"home": home}})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert ended.json["checks"][3]["findings"][0]["code"] == "codex.home"


def test_a_version_of_a_megabyte_is_cut(make_stage, small_strict):
    stage = make_stage(faults={"opencode": "wrong-version"}, fault_options={"opencode": {"version": "1" * 1_000_000}})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert len(str(ended.json)) < 50_000


def test_a_budget_too_small_for_large_models_is_refused_before_anything_is_changed(make_stage):
    """H3: the sizes are known by then, and nobody's model has been unloaded."""
    stage = make_stage(models={"qwen3:8b": Model(size=1 << 30), "gpt-oss:20b": Model(size=1 << 30)})
    ended = run_precheck(stage, "--budget", "92s")
    assert ended.code == 2, ended
    assert "smallest one that works" in ended.err
    assert stage.ollama.actions == []


def test_an_output_file_that_is_a_fifo_without_a_reader_holds_nothing(stage, small_strict, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    env = {**stage.environment, "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(fifo)}
    ended = run_precheck(env, spec=small_strict)
    assert ended.code == 70, ended
    assert ended.elapsed < 10


# Readers that do not read ------------------------------------------------------------------------------------------


def full_pipe():
    """Give the ends of a pipe that holds all that it can."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    os.set_blocking(write, True)
    return read, write


def test_a_second_signal_ends_a_process_whose_streams_nobody_reads(make_stage, small_strict):
    stage = make_stage(
        models={"qwen3:8b": Model()}, faults={"ollama": "silence"}, fault_options={"ollama": {"at": "load"}}
    )

    def asked(step):
        return [stage.ollama.step(request) for request in stage.ollama.seen].count(step)

    spec = write_strict(small_strict.parent / "slow", {"residency": {"load": "20s"}})
    read, write = os.pipe()
    child = subprocess.Popen([*COMMAND, "run", str(spec)], env=stage.environment, stdout=write, stderr=write)
    try:
        with child:
            assert stage.ollama.wait_for(lambda: asked("load") == 1, 10)
            os.set_blocking(write, False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(write, b"x")
            child.send_signal(signal.SIGTERM)
            assert stage.ollama.wait_for(lambda: asked("unload") == 2, 10)  # the cleanup has begun
            child.send_signal(signal.SIGTERM)
            assert child.wait(3) == 143
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")], ids=" and ".join)
def test_streams_that_nobody_reads_do_not_put_the_end_off(streams, tmp_path):
    """H3: the run has a budget of 1 s, and a server that never answers uses all of it."""
    spec = tmp_path / "it.yml"
    with HostileServer("tcp-never-accepted") as server, contextlib.ExitStack() as stack:
        check = f"{{id: a, budget: 30s, opencode: {{read: health, url: '{server.url}'}}}}"
        spec.write_text(f"version: 1\nname: it\nchecks: [{check}]\n")
        given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for stream in streams:
            read, write = full_pipe()
            stack.callback(os.close, read)
            stack.callback(os.close, write)
            given[stream] = write
        before, began = held_up(), time.monotonic()
        command = [*COMMAND, "run", str(spec), "--budget", "1s", "--json", str(tmp_path / "report.json")]
        child = subprocess.Popen(command, env={"PATH": "/usr/bin:/bin"}, **given)
        assert child.wait(20) == 3
        assert time.monotonic() - began <= 1.5 + 0.5 + max(0.0, held_up() - before)  # and the interpreter's own start
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "not-ready"


def test_a_reader_that_takes_a_line_now_and_then_does_not_put_the_end_off(tmp_path):
    """A hundred skipped checks are a hundred lines after the budget is over."""
    spec = tmp_path / "it.yml"
    with HostileServer("tcp-never-accepted") as server:
        checks = [f"  - {{id: a, budget: 30s, opencode: {{read: health, url: '{server.url}'}}}}"]
        checks += [f"  - {{id: c{number}, needs: [a], tcp: {{url: 'ws://127.0.0.1:1'}}}}" for number in range(100)]
        spec.write_text("\n".join(["version: 1", "name: it", "checks:", *checks, ""]))
        read, write = full_pipe()
        closing = threading.Event()

        def read_slowly():
            while not closing.wait(0.3):
                os.read(read, 4096)

        reader = threading.Thread(target=read_slowly)
        reader.start()
        began = time.monotonic()
        command = [*COMMAND, "run", str(spec), "--budget", "1s"]
        child = subprocess.Popen(command, env={"PATH": "/usr/bin:/bin"}, stdout=write, stderr=write)
        try:
            assert child.wait(20) == 3
            assert time.monotonic() - began < 5
        finally:
            child.kill()
            closing.set()
            os.close(write)
            reader.join()
            os.close(read)


# The runner's files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"])
def test_a_file_of_the_runner_that_is_full_makes_no_report_say_ready(full, stage, small_strict, tmp_path):
    other = {"GITHUB_STEP_SUMMARY": "GITHUB_OUTPUT", "GITHUB_OUTPUT": "GITHUB_STEP_SUMMARY"}[full]
    kept = tmp_path / "kept"
    kept.write_text("of=others\n")
    env = {**stage.environment, "GITHUB_ACTIONS": "true", full: "/dev/full", other: str(kept)}
    ended = run_precheck(env, spec=small_strict)
    assert ended.code == 70, ended
    assert ended.json["verdict"] == "error"
    assert ended.words["reports"] == "error"
    text = kept.read_text()
    assert text.startswith("of=others\n")
    if other == "GITHUB_OUTPUT":
        assert read_outputs(text)["status"] == "error"
        assert read_outputs(text)["exit-code"] == "70"
    assert "ready" not in text.replace("not-ready", "").replace("on-not-ready", "")


def test_a_file_of_the_runner_gets_no_torso(stage, small_strict, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("of=others\n")

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    env = {**stage.environment, "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(kept)}
    ended = run_precheck(env, spec=small_strict, preexec_fn=little_room, reports=False, verify=False)
    assert ended.code == 70, ended
    assert "GITHUB_OUTPUT cannot be written: File too large" in ended.err
    assert kept.read_text() == "of=others\n"


# Places that are not there -----------------------------------------------------------------------------------------


def test_a_working_folder_that_is_gone_costs_only_the_reports_that_lie_in_it(stage, small_strict, tmp_path):
    gone, there = tmp_path / "gone", tmp_path / "report.xml"
    gone.mkdir()
    code = f"import os; os.rmdir({str(gone)!r}); exec({COMMAND[2]!r})"
    command = [sys.executable, "-c", code, "run", str(small_strict), "--json", "it.json", "--junit", str(there)]
    ended = subprocess.run(command, env=stage.environment, cwd=gone, capture_output=True, text=True, check=False)
    assert ended.returncode == 70, ended
    assert "it.json" in ended.stderr
    assert "internal error" not in ended.stderr
    assert 'name="residency"' in there.read_text()


def test_an_action_without_a_folder_for_its_reports_says_which_one(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path / "none"), "PRECHECK_SPEC": "strict"}
    ended = subprocess.run([*COMMAND, "action"], env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended
    assert "no folder for the reports can be made in RUNNER_TEMP: No such file or directory" in ended.stderr


def test_a_process_that_may_open_nothing_ends_with_one_sentence():
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
    code = f"import resource, sys; sys.path[0] = {str(ROOT)!r}; from precheck_lib.__main__ import main; {limit}; main()"
    command = [sys.executable, "-c", code.replace("main()", "sys.exit(main())"), "run", "strict"]
    ended = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert ended.returncode == 70
    assert ended.stderr == "precheck: it cannot run here: Too many open files (see `ulimit -n`)\n"
