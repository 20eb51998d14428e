"""`isolate.call_isolated`: a call that may block for ever, in C and with the interpreter lock, is given up in time."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from precheck_lib.bounded import isolate
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.isolate import HeldError, call_isolated
from precheck_lib.bounded.process import ChildResult
from precheck_lib.errors import AnswerError, Cancelled, DeadlineError
from tests.bounded.hostile import at_the_same_time, deadline_when, told

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 0.5
"""Seconds: an interpreter has to start in them."""


CALLS = """
import ctypes, os, signal, sys, time

def note(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))

def echo(value):
    return {"got": value, "environment": sorted(os.environ)}

def fail(text):
    raise ValueError(text)

def leave(status):
    sys.exit(status)

def vanish(status):
    os._exit(status)

def end_by(number):
    os.kill(os.getpid(), number)

def chatter(_):
    print("a driver says hello", flush=True)
    os.write(1, b"and its library too")
    return "the answer"

def no_json(_):
    return {1, 2}

def not_a_number(_):
    return float("nan")

def large(count):
    return "x" * count

def flood(_):
    while True:
        os.write(1, b"x" * 65536)

def sleep(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path)
    time.sleep(60)

def pause(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path)
    ctypes.CDLL(None).pause()

def pause_with_the_lock(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path)
    ctypes.PyDLL(None).pause()
"""


@pytest.fixture(autouse=True)
def _calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "calls_of_this_test.py").write_text(CALLS)
    monkeypatch.syspath_prepend(tmp_path)


def call(name: str, argument: Any = None, seconds: float = 10, **options: Any) -> Any:
    budget = options.pop("budget", None) or Budget(seconds)
    return call_isolated(f"calls_of_this_test:{name}", argument, budget=budget, env={"PATH": "/bin"}, **options)


def test_a_value_goes_in_and_comes_out():
    value = {"a": [1, 2.5, None, True, "ä€😀\0"]}
    answer = call("echo", value)
    assert answer["got"] == value
    assert set(answer["environment"]) <= {"PATH", "LC_CTYPE", "XDG_PRECHECK_CHILD"}


def test_a_call_of_the_standard_library_is_as_good():
    assert call_isolated("math:sqrt", 9, budget=Budget(10), env={}) == 3.0


FAILURES = {
    "fail": ("no GPU", "calls_of_this_test:fail: ValueError: no GPU"),
    "no_json": (None, "calls_of_this_test:no_json: TypeError: Object of type set is not JSON serializable"),
    "no_such_call": (None, "AttributeError: module 'calls_of_this_test' has no attribute 'no_such_call'"),
    "leave": (3, "calls_of_this_test:leave: SystemExit: 3"),
    "vanish": (3, "calls_of_this_test:vanish ended with 3 and no answer: "),
    "end_by": (int(signal.SIGSEGV), "calls_of_this_test:end_by was ended by signal 11"),
    "not_a_number": (None, "NaN is not JSON"),
}


def test_calls_that_fail_are_errors_that_say_why():
    ended = at_the_same_time({name: lambda name=name: call(name, FAILURES[name][0]) for name in FAILURES})
    assert {type(end.error) for end in ended.values()} == {AnswerError}
    for name, (_, said) in FAILURES.items():
        assert said in str(ended[name].error)


def test_a_module_that_is_missing_is_an_error_that_says_so():
    with pytest.raises(AnswerError, match="ModuleNotFoundError: No module named 'no_such_module'"):
        call_isolated("no_such_module:f", None, budget=Budget(10), env={})


def test_an_interpreter_that_is_missing_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(isolate.sys, "executable", "/no/such/python")
    with pytest.raises(AnswerError, match="echo could not be started: /no/such/python"):
        call("echo")


def test_what_a_library_prints_does_not_garble_the_answer():
    assert call("chatter") == "the answer"


def test_an_answer_that_is_too_large_is_an_error_that_says_so(ends_within):
    with ends_within(1, flood=True), pytest.raises(AnswerError, match="large answered with more than 1000 bytes"):
        call("large", 5_000_000, max_bytes=1000)


def test_a_call_that_prints_without_end_ends_in_time(ends_within):
    with ends_within(LIMIT, overrun=0.5, flood=True), pytest.raises(DeadlineError):
        call("flood", None, LIMIT)


def test_calls_that_block_for_ever_end_in_time_and_their_children_are_gone(tmp_path):
    names = ["sleep", "pause", "pause_with_the_lock"]
    files = [tmp_path / name for name in names]
    with deadline_when(lambda: all(file.exists() and file.read_text() for file in files)) as budget:
        calls = {name: lambda name=name: call(name, str(tmp_path / name), budget=budget) for name in names}
        ended = at_the_same_time(calls)
    assert {name: told(end.error) for name, end in ended.items()} == dict.fromkeys(names, (DeadlineError, "child", 28))
    assert not [name for name in names if psutil.pid_exists(int((tmp_path / name).read_text()))]


def test_a_signal_ends_the_call_at_once(tmp_path, cancel, ends_within):
    def once_it_blocks() -> None:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        cancel.set(15)

    watcher = threading.Thread(target=once_it_blocks)
    watcher.start()
    with ends_within(1, overrun=0.5), pytest.raises(Cancelled):
        call("pause_with_the_lock", str(tmp_path / "pid"), budget=Budget(30, cancel=cancel))
    watcher.join()
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_child_that_the_kernel_holds_is_named(monkeypatch):
    held = ChildResult(ended="deadline", held=(4711, 4712))
    monkeypatch.setattr(isolate, "run_children", lambda *_, **__: [held])
    with pytest.raises(HeldError, match=r"the kernel holds its process \(pid 4711, 4712\)$") as caught:
        call("echo")
    assert (caught.value.pids, caught.value.phase) == ((4711, 4712), "child")


def test_the_environment_of_this_process_is_not_the_childs(monkeypatch):
    monkeypatch.setenv("TEST_OPENAI_API_KEY", "hush")
    assert "TEST_OPENAI_API_KEY" in os.environ
    assert "TEST_OPENAI_API_KEY" not in call("echo")["environment"]


def test_what_lies_in_the_working_folder_is_not_imported(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(folder)
    assert call("echo", 5)["got"] == 5
    with pytest.raises(AnswerError, match="no attribute"):
        call_isolated("math:nothing", 1, budget=Budget(10), env={"PYTHONPATH": str(folder)})
