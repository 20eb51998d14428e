"""The signals of A6, H3 and G6: SIGINT, SIGTERM and SIGHUP end a run in order, with its reports and its cleanup."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sys
import termios
import time

import pytest

from precheck_lib.simulate import Model
from tests.contract.harness import (
    COMMAND,
    ORDER,
    ROOT,
    SUCCESS,
    assert_sound,
    command_of,
    ignoring,
    read_fifo,
    run_precheck,
    start_precheck,
    write_script,
    write_strict,
)

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
UNCONFIRMED = "native residency remains unconfirmed"
CLEANUP_FAILED = "Ollama cleanup unload/observation failed"


def assert_cancelled(ended, number, at):
    """Assert the row of the table for a signal that came during the check `at`."""
    assert_sound(ended)
    assert ended.code == 128 + number, ended
    assert ended.json["verdict"] == "cancelled"
    index = ORDER.index(at)
    words = ["passed"] * index + ["error"] + ["skipped"] * (len(ORDER) - index - 1)
    assert ended.words == dict(zip(ORDER, words, strict=True)), ended
    assert ended.blockers == [at]
    assert signal.Signals(number).name in ended.err


def loading(stage, name="qwen3:8b"):
    return lambda: stage.ollama.state().get(name) == "loading"


def one_model(**more):
    return {"models": {"qwen3:8b": Model(**more)}}


@pytest.mark.parametrize(("number", "code"), SIGNALS.items(), ids=[number.name for number in SIGNALS])
def test_a_signal_during_a_read_ends_the_run_at_once(number, code, make_stage):
    stage = make_stage(faults={"opencode": "silence"})
    with start_precheck(stage) as running:  # the real bounds: 10 s for this read
        assert stage.opencode.wait_for(lambda: stage.opencode.seen, 10)
        sent = time.monotonic()
        running.signal(number)
        ended = running.finish()
        assert time.monotonic() - sent < 2
    assert ended.code == code
    assert_cancelled(ended, number, "opencode-health")
    assert stage.ollama.seen == []


def test_a_signal_during_a_command_ends_it_too(stage, tmp_path):
    began = tmp_path / "began"
    write_script(stage.commands["opencode"], f'echo > "{began}"', "command -p sleep 60")
    with start_precheck(stage) as running:
        end = time.monotonic() + 10
        while not began.exists():
            assert time.monotonic() < end
            time.sleep(0.002)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGTERM, "commands")
    assert ended.elapsed < 5


def test_a_signal_during_the_websocket_exchange_ends_the_run(make_stage):
    stage = make_stage(faults={"codex": "never-answers-account"})
    with start_precheck(stage) as running:
        asked = lambda: any(call.method == "account/read" for call in stage.codex.calls)  # noqa: E731
        assert stage.codex.wait_for(asked, 10)
        running.signal(signal.SIGINT)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGINT, "codex")


@pytest.mark.parametrize("module", ["argparse", "msgspec", "requests"])
def test_a_signal_while_a_module_is_imported_is_not_missed(module, stage, small_strict):
    """The signal comes as soon as the module is asked for: the handlers have to be set by then."""
    spy = (
        "import sys, os, signal\n"
        "class Spy:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Spy())\n"
    )
    command = (sys.executable, "-c", spy + COMMAND[2])
    ended = run_precheck(stage, spec=small_strict, command=command)
    assert ended.code == 143, ended
    assert ended.json["verdict"] == "cancelled"
    assert ended.words["residency"] == "skipped"
    assert stage.codex.connections == []


def test_a_signal_that_was_ignored_when_the_run_began_stays_ignored(make_stage, small_strict):
    stage = make_stage(**one_model(load_seconds=0.4))
    ignored = ignoring(signal.SIGINT, signal.SIGHUP)
    with start_precheck(stage, spec=small_strict, preexec_fn=ignored) as running:
        assert stage.ollama.wait_for(loading(stage), 10)
        running.signal(signal.SIGINT)
        running.signal(signal.SIGHUP)
        ended = running.finish()
    assert_sound(ended)
    assert ended.code == 0, ended


def test_a_signal_that_was_not_ignored_counts_where_others_were(make_stage, small_strict):
    stage = make_stage(**one_model(load_seconds=0.4))
    with start_precheck(stage, spec=small_strict, preexec_fn=ignoring(signal.SIGINT)) as running:
        assert stage.ollama.wait_for(loading(stage), 10)
        running.signal(signal.SIGINT)
        running.signal(signal.SIGHUP)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGHUP, "residency")


def test_signals_that_are_blocked_when_the_run_begins_do_not_break_it(stage, small_strict):
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS.keys())
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    assert run_precheck(stage, spec=small_strict, preexec_fn=block).code == 0


# While the reports are written ------------------------------------------------------------------------------------


def test_a_first_signal_while_the_reports_are_written_is_held_off(stage, small_strict, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # less than a report of the strict spec
        with start_precheck(stage, "--json", str(fifo), spec=small_strict, reports=False) as running:
            end = time.monotonic() + 10
            while _waiting(reader) < 4096:
                assert time.monotonic() < end
                time.sleep(0.002)
            running.signal(signal.SIGTERM)
            os.set_blocking(reader, True)
            with os.fdopen(os.dup(reader), "rb") as file:
                report = json.loads(file.read())
            ended = running.finish()
    finally:
        os.close(reader)
    assert ended.code == 0, ended
    assert report["verdict"] == "ready"
    assert ended.out.splitlines()[-1] == SUCCESS


def _waiting(descriptor: int) -> int:
    """Say how many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4), sys.byteorder)


def test_a_first_signal_after_the_last_check_does_not_change_its_exit_code(make_stage, small_strict, tmp_path):
    # The reader of the FIFO comes only after the signal: the run waits for it, and its failure stays what it is.
    stage = make_stage(faults={"opencode": "unhealthy"})
    fifo, place = tmp_path / "fifo", tmp_path / "reports"
    os.mkfifo(fifo)
    place.mkdir()
    arguments = ("--json", str(fifo), "--junit", str(place / "report.xml"))
    with start_precheck(stage, *arguments, spec=small_strict, reports=False) as running:
        end = time.monotonic() + 10
        while not os.listdir(place):  # it is prepared beside its place
            assert time.monotonic() < end
            time.sleep(0.002)
        running.signal(signal.SIGTERM)
        report = json.loads(read_fifo(fifo))
        ended = running.finish()
    assert ended.code == 1, ended
    assert report["verdict"] == "not-ready"
    assert os.listdir(place) == ["report.xml"]


def test_a_second_signal_while_the_reports_are_written_leaves_no_file_behind(make_stage, small_strict, tmp_path):
    stage = make_stage(faults={"opencode": "silence"})
    fifo, place = tmp_path / "fifo", tmp_path / "reports"
    os.mkfifo(fifo)
    place.mkdir()
    arguments = ("--json", str(fifo), "--junit", str(place / "report.xml"))
    with start_precheck(stage, *arguments, spec=small_strict, reports=False) as running:
        assert stage.opencode.wait_for(lambda: stage.opencode.seen, 10)
        running.signal(signal.SIGTERM)
        end = time.monotonic() + 10
        while not os.listdir(place):
            assert time.monotonic() < end
            time.sleep(0.001)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert ended.code == 143, ended
    assert set(os.listdir(place)) <= {"report.xml"}


# Cleanup (G6) -----------------------------------------------------------------------------------------------------


def test_a_signal_during_a_load_gives_it_up_and_unloads_the_model(make_stage, small_strict):
    stage = make_stage(**one_model(load_seconds=30))
    with start_precheck(stage, spec=small_strict) as running:
        assert stage.ollama.wait_for(loading(stage), 10)
        running.signal(signal.SIGHUP)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGHUP, "residency")
    assert stage.ollama.aborted == ["qwen3:8b"]
    assert [what for what, _ in stage.ollama.actions] == ["unload", "load", "unload"]
    assert stage.ollama.resident == []
    assert UNCONFIRMED not in ended.err
    assert CLEANUP_FAILED not in ended.err
    # The load had no answer: absence counts only when it has held (`hold`, 0.2 s here).
    reads = [request.at for request in stage.ollama.seen if request.path == "/api/ps"]
    unload = [request.at for request in stage.ollama.seen if request.path == "/api/generate"][-1]
    assert reads[-1] - next(at for at in reads if at > unload) >= 0.2 - 0.01


def test_a_signal_before_any_load_unloads_nothing(make_stage, small_strict):
    stage = make_stage(faults={"ollama": "never-leaves"}, **one_model())
    with start_precheck(stage, spec=small_strict) as running:
        assert stage.ollama.wait_for(lambda: ("unload", "qwen3:8b") in stage.ollama.actions, 10)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGTERM, "residency")
    assert stage.ollama.actions == [("unload", "qwen3:8b")]
    assert UNCONFIRMED not in ended.err


def test_after_a_signal_what_was_loaded_is_unloaded_in_reverse_order(make_stage, tmp_path):
    # All three are to stay, so nothing is unloaded again before the next cycle.
    models = {"a:1": Model(), "b:1": Model(), "c:1": Model(load_seconds=30)}
    stage = make_stage(models=models)
    spec = write_strict(tmp_path / "spec", {"residency": {"stay": ["a:1", "b:1", "c:1"]}})
    with start_precheck(stage, spec=spec) as running:
        assert stage.ollama.wait_for(loading(stage, "c:1"), 10)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGTERM, "residency")
    loads = [("unload", "a:1"), ("load", "a:1"), ("unload", "b:1"), ("load", "b:1"), ("unload", "c:1")]
    cleanup = [("load", "c:1"), ("unload", "c:1"), ("unload", "b:1"), ("unload", "a:1")]
    assert stage.ollama.actions == loads + cleanup
    assert stage.ollama.resident == []
    assert UNCONFIRMED not in ended.err


def test_a_signal_after_the_load_unloads_the_model(make_stage, tmp_path):
    # Held back before the last inventory: the model is there and right, and is unloaded all the same.
    stage = make_stage(**one_model(size=1 << 30))
    spec = write_strict(tmp_path / "spec", {"residency": {"hold": "20s", "settle": "0s"}})
    with start_precheck(stage, spec=spec) as running:
        read_after_load = lambda: stage.ollama.resident and stage.ollama.seen[-1].path == "/api/ps"  # noqa: E731
        assert stage.ollama.wait_for(read_after_load, 10)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert_cancelled(ended, signal.SIGTERM, "residency")
    assert [what for what, _ in stage.ollama.actions] == ["unload", "load", "unload"]
    assert stage.ollama.resident == []
    assert UNCONFIRMED not in ended.err


def _stuck_stage(make_stage):
    """A stage whose Ollama answers nothing from the load on, the unload of the cleanup neither."""
    return make_stage(faults={"ollama": "silence"}, fault_options={"ollama": {"skip": 3}}, **one_model(load_seconds=30))


def test_after_a_signal_cleanup_and_reports_end_within_5_seconds(make_stage, tmp_path):
    stage = _stuck_stage(make_stage)
    with start_precheck(stage) as running:  # the real bounds: 30 s for an unload, 60 s for the cleanup
        assert stage.ollama.wait_for(lambda: len(stage.ollama.seen) == 4, 10)
        sent = time.monotonic()
        running.signal(signal.SIGTERM)
        ended = running.finish()
        took = time.monotonic() - sent
    assert 3 < took < 5.2
    assert_cancelled(ended, signal.SIGTERM, "residency")
    assert f"{CLEANUP_FAILED} (exit 28)" in ended.err
    assert UNCONFIRMED in ended.err
    assert [what for what, _ in stage.ollama.actions] == ["unload", "load", "unload"]


def test_a_second_signal_ends_the_cleanup_and_says_what_is_not_known(make_stage):
    stage = _stuck_stage(make_stage)
    with start_precheck(stage) as running:
        assert stage.ollama.wait_for(lambda: len(stage.ollama.seen) == 4, 10)
        running.signal(signal.SIGTERM)
        assert stage.ollama.wait_for(lambda: len(stage.ollama.seen) == 5, 10)
        sent = time.monotonic()
        running.signal(signal.SIGINT)
        ended = running.finish()
        assert time.monotonic() - sent < 1
    assert_cancelled(ended, signal.SIGTERM, "residency")
    assert UNCONFIRMED in ended.err


def test_a_second_signal_without_a_load_does_not_speak_of_residency(make_stage, tmp_path):
    # A command that the run cannot end at once: it ignores SIGTERM, and is killed a moment later.
    began, stage = tmp_path / "began", make_stage()
    write_script(stage.commands["codex"], "trap '' TERM", f'echo > "{began}"', "command -p sleep 60")
    with start_precheck(stage) as running:
        end = time.monotonic() + 10
        while not began.exists():
            assert time.monotonic() < end
            time.sleep(0.002)
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGINT)
        ended = running.finish()
    assert ended.code in (143, 130), ended  # two signals that are pending are delivered in an order of the system's
    assert_sound(ended)
    assert UNCONFIRMED not in ended.err


def test_a_second_signal_ends_a_process_that_is_stuck(make_stage, tmp_path):
    # A copy of the package whose cleanup never looks at a signal: the last resort has to end it.
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "precheck_lib", copy / "precheck_lib")
    shutil.copytree(ROOT / "specs", copy / "specs")
    path = copy / "precheck_lib" / "residency" / "cleanup.py"
    text = path.read_text()
    assert "    remarks = []\n" in text
    stuck, marker = "    import time\n    while True:\n        time.sleep(0.01)\n", tmp_path / "stuck"
    path.write_text(
        text.replace("    remarks = []\n", f"    open({str(marker)!r}, 'w').close()\n{stuck}    remarks = []\n")
    )
    stage = make_stage(**one_model(load_seconds=30))
    with start_precheck(stage, command=command_of(copy)) as running:
        assert stage.ollama.wait_for(loading(stage), 10)
        running.signal(signal.SIGTERM)
        end = time.monotonic() + 10
        while not marker.exists():
            assert time.monotonic() < end
            time.sleep(0.002)
        sent = time.monotonic()
        running.signal(signal.SIGTERM)
        ended = running.finish()
        assert time.monotonic() - sent < 1
    assert ended.code == 143, ended
    assert UNCONFIRMED in ended.err
    assert SUCCESS not in ended.out
