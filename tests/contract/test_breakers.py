"""What somebody found who tried to break it: signals after the verdict, secrets in other clothes, odd answers."""

from __future__ import annotations

import base64
import os
import signal
import subprocess

import pytest

from precheck_lib.simulate import Model
from tests.contract.harness import COMMAND, run_precheck


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
