"""`process.run_children`: whatever a child does, it ends by its budget and half a second, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from precheck_lib.bounded import child, marked, process
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.process import MARK, ChildResult, Command, find_program, run_children
from precheck_lib.errors import Cancelled, DeadlineError
from tests.bounded.offspring import ENV, LEAVE, OVERRUN, SLEEP, Offspring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 0.3


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Offspring]:
    made = Offspring(tmp_path / "ready")
    yield made
    left = made.alive()
    for one in left:
        with contextlib.suppress(psutil.Error):
            one.kill()
    assert not left, "something is alive"


def run(command: Command, seconds: float = 10, **options: object) -> ChildResult:
    (result,) = run_children([command], budget=Budget(seconds), **options)
    return result


# What children do ---------------------------------------------------------------------------------------------------


def test_a_child_that_ends_is_told_with_what_it_printed(family):
    result = run(family.python("print('hi'); print('oh', file=sys.stderr)"))
    assert result == ChildResult(ended="exit", code=0, stdout=b"hi\n", stderr=b"oh\n", stderr_bytes=3)


def test_a_quick_child_is_not_waited_for():
    took = []
    for _ in range(5):
        started = time.monotonic()
        assert run(Command(argv=["true"], env=ENV)).ended == "exit"
        took.append(time.monotonic() - started)
    assert min(took) < 0.04


def test_an_exit_status_is_told(family):
    result = run(family.python("sys.exit(3)"))
    assert (result.ended, result.code) == ("exit", 3)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_that_ended_it_is_told(number, family):
    result = run(family.python(f"os.kill(os.getpid(), {int(number)})"))
    assert (result.ended, result.code) == ("signal", number)


STAY = {
    "sleeps": "print('hi', flush=True)\n" + SLEEP,
    "ignores-sigterm": "signal.signal(15, signal.SIG_IGN); print('hi', flush=True)\n" + SLEEP,
    "is-stopped": "print('hi', flush=True); ready(); os.kill(os.getpid(), signal.SIGSTOP)",
    "closes-its-pipes": "print('hi', flush=True); os.close(1); os.close(2)\n" + SLEEP,
    "says-goodbye": "signal.signal(15, lambda *_: os._exit(0)); print('hi', flush=True)\n" + SLEEP,
    "drips": "print('hi', flush=True); ready()\nwhile True: os.write(2, b'x'); time.sleep(0.05)",
}


def test_children_that_stay_are_ended_at_the_deadline_and_half_a_second(family):
    with family.deadline_when_ready(len(STAY)) as budget:
        results = dict(
            zip(STAY, run_children([family.python(code) for code in STAY.values()], budget=budget), strict=True)
        )
    ended = {name: (one.ended, one.stdout, one.leftover, one.held) for name, one in results.items()}
    assert ended == dict.fromkeys(STAY, ("deadline", b"hi\n", False, ()))
    assert [name for name, one in results.items() if one.stopped] == ["is-stopped"]
    assert [name for name, one in results.items() if one.stubborn] == ["ignores-sigterm", "is-stopped"]


def test_a_child_that_closes_its_pipes_and_ends_later_is_waited_for(family):
    result = run(family.python("os.close(1); os.close(2); time.sleep(0.2); os._exit(4)"))
    assert (result.ended, result.code) == ("exit", 4)


def test_a_child_that_is_asked_to_end_may_clean_up(family, tmp_path):
    code = f"signal.signal(15, lambda *_: (open({str(tmp_path / 'clean')!r}, 'w'), os._exit(0)))\n"
    with family.deadline_when_ready() as budget:
        (result,) = run_children([family.python(code + SLEEP)], budget=budget)
    assert result.ended == "deadline"
    assert (tmp_path / "clean").exists()


def test_a_flood_on_stdout_ends_the_child_at_once(family, ends_within):
    with ends_within(0.5, flood=True):
        result = run(family.python("while True: os.write(1, b'x' * 65536)"))
    assert (result.ended, result.stdout) == ("flood", b"x" * 65536)


def test_as_much_as_is_allowed_is_no_flood(family):
    result = run(family.python("os.write(1, b'x' * 100)"), max_stdout=100)
    assert (result.ended, result.stdout) == ("exit", b"x" * 100)


def test_a_flood_on_stderr_is_read_away_and_its_beginning_kept(family, ends_within):
    code = "print('hi', flush=True); ready()\nwhile True: os.write(2, b'x' * 65536)"
    with ends_within(1, flood=True), family.deadline_when_ready() as budget:
        (result,) = run_children([family.python(code)], budget=budget)
    assert (result.ended, result.stdout, result.stderr) == ("deadline", b"hi\n", b"x" * 2048 + "…".encode())
    assert result.stderr_bytes > 1 << 20


def test_much_on_stderr_keeps_nobody_from_ending(family):
    result = run(family.python("os.write(2, b'x' * 1000000); print('hi')"))
    assert (result.ended, result.stdout, len(result.stderr)) == ("exit", b"hi\n", 2048 + len("…".encode()))


def test_bytes_that_are_not_utf_8_are_kept_as_they_are(family):
    assert run(family.python(r"os.write(1, b'\xff\xfe\x00'); os.write(2, b'\xff')")).stdout == b"\xff\xfe\0"


def test_a_child_that_reads_stdin_finds_its_end_although_ours_has_none(family):
    ours, read, write = os.dup(0), *os.pipe()
    os.dup2(read, 0)
    try:
        assert run(family.python("print(repr(sys.stdin.read()))"), 2).stdout == b"''\n"
    finally:
        os.dup2(ours, 0)
        for descriptor in (ours, read, write):
            os.close(descriptor)


def test_a_child_has_its_own_session_the_environment_it_was_given_and_no_descriptor_of_ours(family):
    with open(os.devnull, "rb") as null:
        os.set_inheritable(null.fileno(), True)
        code = "print(os.getsid(0) == os.getpid(), sorted(os.environ), sorted(os.listdir('/proc/self/fd')))"
        result = run(family.python(code, env={"PATH": "/bin", "LC_ALL": "C"}))
    assert result.stdout.decode() == f"True {['LC_ALL', 'PATH', MARK]} {['0', '1', '2', '3']}\n"


# What children leave behind -----------------------------------------------------------------------------------------

AWAIT = "while len(os.listdir({folder!r})) < {count}: time.sleep(0.01)\n"
"""Wait until so many of the others are ready."""


def leaving(family: Offspring, after: str) -> list[Command]:
    return [family.python(code.format(sleep=SLEEP.strip()) + "\n" + after) for code in LEAVE.values()]


def test_what_children_that_have_ended_left_behind_is_ended(family, ends_within):
    others = AWAIT.format(folder=str(family.folder), count=len(LEAVE))
    commands = leaving(family, others + "print('hi', flush=True)")
    with ends_within(0.7, overrun=OVERRUN):
        results = dict(zip(LEAVE, run_children(commands, budget=Budget(10)), strict=True))
    assert results == {
        name: ChildResult(
            ended="exit",
            stdout=b"hi\n",
            leftover=True,
            others=1,
            away=int("in-the-group" not in name),
            pipe_held="with-the-pipe" in name or "sigterm" in name,
        )
        for name in LEAVE
    }
    assert family.alive() == []


def test_what_children_at_their_deadline_have_started_is_ended(family):
    with family.deadline_when_ready(2 * len(LEAVE)) as budget:
        results = run_children(leaving(family, SLEEP), budget=budget)
    told = {name: (one.ended, one.others, one.held) for name, one in zip(LEAVE, results, strict=True)}
    # What obeys the SIGTERM that its group gets is gone before anybody counts.
    obeys = ("in-the-group-with-the-pipe", "in-the-group-without-the-pipe")
    assert told == {name: ("deadline", int(name not in obeys), ()) for name in LEAVE}
    assert family.alive() == []


def test_a_pipe_that_a_grandchild_holds_does_not_hide_that_the_child_has_ended(family, ends_within):
    # Printed and gone in the same moment: nothing comes through the pipe any more that could wake anybody.
    with ends_within(0.4):
        result = run(family.python(f"if os.fork() == 0: {SLEEP}print('hi', flush=True); os._exit(0)"))
    assert (result.ended, result.code, result.stdout, result.leftover) == ("exit", 0, b"hi\n", True)


def test_what_has_emptied_its_environment_is_ended_with_the_group(family):
    code = (
        "if os.fork() == 0:\n"
        " sleeper = ['x', '-I', '-S', '-c', 'import time; time.sleep(60)', sys.argv[1]]\n"
        " os.execve(sys.executable, sleeper, {})\n"
        "time.sleep(0.2)"
    )
    assert run(family.python(code)).ended == "exit"
    assert family.alive() == []


def test_a_bush_of_orphans_is_ended(family, ends_within):
    code = (
        "for _ in range(40):\n"
        " if os.fork() == 0:\n"
        "  os.setsid()\n"
        f"  if os.fork() == 0: {SLEEP.strip()}\n"
        "  os._exit(0)\n"
    )
    after = AWAIT.format(folder=str(family.folder), count=40) + "print('hi', flush=True)"
    with ends_within(0.7, overrun=OVERRUN):
        result = run(family.python(code + after))
    assert (result.stdout, result.leftover, result.held) == (b"hi\n", True, ())
    assert family.alive() == []


def test_one_that_goes_on_forking_while_it_is_ended_is_ended(family, ends_within):
    code = (
        "for _ in range(500):\n"
        " if os.fork() == 0:\n"
        "  os.setsid(); signal.signal(15, signal.SIG_IGN); time.sleep(60)\n"
        " time.sleep(0.002)"
    )
    with ends_within(0.3, overrun=OVERRUN):
        result = run(family.python("signal.signal(15, signal.SIG_IGN)\n" + code), 0.3)
    assert (result.ended, result.held) == ("deadline", ())
    assert family.alive() == []


# Programs that are none -----------------------------------------------------------------------------------------------


def test_a_program_that_is_missing_is_told():
    result = run(Command(argv=["no-such-program"], env=ENV))
    assert (result.ended, result.stderr) == ("missing", b"no-such-program")


@pytest.mark.parametrize("name", ["tool", "./tool"])
def test_a_program_that_is_not_executable_is_told(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool").write_text("#!/bin/sh\necho hi\n")
    result = run(Command(argv=[name], env={"PATH": str(tmp_path)}))
    assert result.ended == "not-executable"
    assert result.stderr.decode().endswith("tool")


def test_a_program_that_is_a_folder_is_told(tmp_path):
    (tmp_path / "tool").mkdir()
    assert run(Command(argv=["tool"], env={"PATH": str(tmp_path)})).ended == "folder"


def test_a_program_further_along_the_path_is_found(tmp_path):
    for name in ("folder", "plain", "right"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "tool").mkdir()
    (tmp_path / "plain" / "tool").touch()
    right = tmp_path / "right" / "tool"
    right.write_text("#!/bin/sh\necho right\n")
    right.chmod(0o755)
    path = os.pathsep.join(str(tmp_path / name) for name in ("none", "folder", "plain", "right"))
    assert find_program("tool", path) == ("exit", str(right))
    assert run(Command(argv=["tool"], env={"PATH": path})).stdout == b"right\n"


def test_an_empty_part_of_the_path_is_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho here\n")
    tool.chmod(0o755)
    assert run(Command(argv=["tool"], env={"PATH": "/nonexistent::/bin"})).stdout == b"here\n"


UNFIT = {
    "nothing-known": (b"\0\0\0\0", "wrong-format", ""),
    "no-first-line": (b"echo hi\n", "wrong-format", ""),
    "empty": (b"", "wrong-format", ""),
    "another-processor": (b"\x7fELF" + b"\0" * 60, "wrong-format", "ELF"),
    "no-interpreter": (b"#!/no/such/interpreter\n", "no-interpreter", "/no/such/interpreter"),
    "windows-line-end": (b"#!/bin/sh\r\necho hi\r\n", "no-interpreter", "/bin/sh\r"),
    "interpreter-with-options": (b"#! /no/such/one -x\n", "no-interpreter", "/no/such/one"),
    "an-empty-first-line": (b"#!\n", "wrong-format", ""),
}


def test_a_program_that_cannot_be_started_is_told(tmp_path):
    for name, (content, _, _) in UNFIT.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o755)
    results = run_children([Command(argv=[str(tmp_path / name)], env=ENV) for name in UNFIT], budget=Budget(10))
    told = {name: (one.ended, one.stderr.decode()) for name, one in zip(UNFIT, results, strict=True)}
    assert told == {name: (ended, said) for name, (_, ended, said) in UNFIT.items()}


def test_a_program_whose_loader_is_missing_is_told(tmp_path):
    # As a release for another C library is: the file is there, and the system says that there is no such file.
    tool, loader = tmp_path / "tool", b"/lib64/ld-linux-x86-64.so.2"
    image = Path(sys.executable).resolve().read_bytes()
    if loader not in image[:4096]:
        pytest.skip("this interpreter has no such loader")
    tool.write_bytes(image.replace(loader, b"/lib64/ld-nowhere-86-64.so.2"[: len(loader)], 1))
    tool.chmod(0o755)
    result = run(Command(argv=[str(tool)], env=ENV))
    assert (result.ended, result.stderr) == ("no-interpreter", b"its dynamic loader")


@pytest.mark.parametrize("ended_by", ["deadline", "signal"])
def test_a_start_that_does_not_come_back_is_given_up_and_ended_should_it_begin_after_all(
    ended_by, family, cancel, monkeypatch, ends_within
):
    # The kernel reads the program before it runs it: on a dead mount that holds whoever starts it.
    answer, starting, real = threading.Event(), threading.Event(), child.subprocess.Popen
    begun = []

    def late(*arguments: object, **more: object) -> object:
        starting.set()
        answer.wait(10)
        begun.append(real(*arguments, **more))
        return begun[0]

    monkeypatch.setattr(child.subprocess, "Popen", late)
    if ended_by == "deadline":
        with ends_within(LIMIT):
            (result,) = run_children([family.python(SLEEP)], budget=Budget(LIMIT))
        assert result.ended == "deadline"
    else:
        signaller = threading.Thread(target=lambda: (starting.wait(10), cancel.set(15)))
        signaller.start()
        with ends_within(LIMIT), pytest.raises(Cancelled):
            run_children([family.python(SLEEP)], budget=Budget(30, cancel=cancel))
        signaller.join()
    answer.set()
    deadline = time.monotonic() + 10
    while any(thread.name == "precheck-child" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert begun[0].returncode == -signal.SIGKILL
    assert family.alive() == []


def test_arguments_that_no_program_can_have_are_told_and_lose_nobody(family):
    commands = [
        family.python(STAY["sleeps"].replace("hi", "one")),
        Command(argv=["true", "a\0b"], env=ENV),
        Command(argv=["true"], env={**ENV, "A=B": "c"}),
        Command(argv=["true", "x" * (4 << 20)], env=ENV),
    ]
    with family.deadline_when_ready() as budget:
        one, *others = run_children(commands, budget=budget)
    assert (one.ended, one.stdout) == ("deadline", b"one\n")
    assert [(other.ended, other.stderr.decode()) for other in others] == [
        ("failed", "embedded null byte"),
        ("failed", "illegal environment variable name"),
        ("failed", os.strerror(errno.E2BIG)),
    ]


def test_a_path_that_does_not_answer_is_a_deadline(monkeypatch, ends_within):
    answer = threading.Event()
    monkeypatch.setattr(child, "find_program", lambda *_: answer.wait(10))
    with ends_within(LIMIT):
        one, other = run_children([Command(argv=["a"], env=ENV), Command(argv=["b"], env=ENV)], budget=Budget(LIMIT))
    answer.set()
    assert (one.ended, other.ended) == ("deadline", "deadline")
    assert one.stderr == b"the folders of PATH did not answer when a was looked for and started"


# Many, and together -------------------------------------------------------------------------------------------------


def test_many_at_the_same_time_are_told_in_order(family):
    results = run_children([family.python(f"print({number})") for number in range(12)], budget=Budget(10))
    assert [(result.ended, result.stdout) for result in results] == [("exit", f"{n}\n".encode()) for n in range(12)]


def test_many_that_ignore_sigterm_end_together(family):
    with family.deadline_when_ready(8) as budget:
        results = run_children([family.python(STAY["ignores-sigterm"]) for _ in range(8)], budget=budget)
    assert [(result.ended, result.stdout, result.held) for result in results] == [("deadline", b"hi\n", ())] * 8


def test_each_ends_in_its_own_way(family):
    codes = ["print('quick')", "while True: os.write(1, b'x' * 65536)", "sys.exit(3)", "os.kill(os.getpid(), 9)"]
    results = run_children([family.python(code) for code in codes], budget=Budget(10))
    assert [result.ended for result in results] == ["exit", "flood", "exit", "signal"]
    assert [result.code for result in results if result.ended != "flood"] == [0, 3, 9]


def test_no_commands_are_no_results():
    assert run_children([], budget=Budget(1)) == []


def test_something_else_is_done_once_while_they_run(family):
    seen: list[int] = []
    results = run_children([family.python("print('hi')")], budget=Budget(10), meanwhile=lambda: seen.append(1))
    assert (seen, results[0].stdout) == ([1], b"hi\n")


def test_who_waits_for_them_ticks_about_four_times_a_second(family):
    ticks: list[float] = []
    budget = Budget(0.6, tick=lambda: ticks.append(time.monotonic()))
    run_children([family.python(SLEEP), family.python("os.close(1); os.close(2)\n" + SLEEP)], budget=budget)
    assert 1 <= len(ticks) <= 1 + budget.elapsed() / 0.25


def test_what_was_printed_counts_although_something_else_took_all_the_time(family):
    budget = Budget(30)

    def take_all_the_time() -> None:
        while not os.listdir(family.folder):
            time.sleep(0.005)
        time.sleep(0.2)
        budget.cut(0)

    (result,) = run_children([family.python("print('hi'); ready()")], budget=budget, meanwhile=take_all_the_time)
    assert (result.ended, result.stdout) == ("exit", b"hi\n")


def test_a_pipe_that_is_never_empty_is_not_emptied_for_ever(family, monkeypatch):
    reads: list[int] = []
    monkeypatch.setattr(child.Child, "read", lambda _, descriptor: reads.append(descriptor) or True)
    with family.deadline_when_ready() as budget:
        (result,) = run_children([family.python(SLEEP)], budget=budget)
    assert result.ended == "deadline"
    assert len(reads) == 32


def test_something_else_that_fails_ends_them(family, ends_within):
    with ends_within(0.0), pytest.raises(ZeroDivisionError):
        run_children([family.python(SLEEP)], budget=Budget(30), meanwhile=lambda: 1 / 0)
    assert family.alive() == []


def test_a_budget_that_is_over_starts_nothing(family, tmp_path):
    with pytest.raises(DeadlineError):
        run(family.python(f"open({str(tmp_path / 'begun')!r}, 'w')"), 0)
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    "code", [SLEEP, "signal.signal(15, signal.SIG_IGN)\n" + SLEEP], ids=["obeys", "ignores-sigterm"]
)
def test_a_signal_ends_them_at_once(code, family, cancel, ends_within):
    timer = threading.Timer(0.2, cancel.set, [2])
    timer.start()
    with ends_within(0.2, overrun=OVERRUN), pytest.raises(Cancelled):
        run_children([family.python(code) for _ in range(3)], budget=Budget(30, cancel=cancel))
    timer.join()
    assert family.alive() == []


AWAY = "if os.fork() == 0: os.setsid(); " + SLEEP + "\ntime.sleep(60)"
"""A child that waits, as does one of its own in a session of its own, which is ready."""


@pytest.mark.parametrize(
    "error", [Cancelled(15), DeadlineError("over", phase="child", seconds=1)], ids=["cancelled", "deadline"]
)
def test_a_child_that_has_just_begun_at_the_end_is_ended_with_all_that_it_started(family, monkeypatch, error):
    def call(start: Callable[[], object], **_: object) -> object:
        start()
        family.wait_until_ready()
        raise error

    monkeypatch.setattr(child, "call_bounded", call)
    with contextlib.suppress(Cancelled):
        (result,) = run_children([family.python(AWAY)], budget=Budget(LIMIT))
        assert result.ended == "deadline"
    assert family.alive() == []


def test_what_is_about_to_begin_when_the_run_is_cancelled_is_waited_for_and_ended(family, monkeypatch):
    # Nobody else would end it: the process may be at its own end, and the thread that sees it begin goes with it.
    popen, threads = child.subprocess.Popen, []
    forked = threading.Event()

    def slow(*arguments: object, **more: object) -> object:
        begun = popen(*arguments, **more)
        family.wait_until_ready()
        forked.set()
        time.sleep(0.05)
        return begun

    def call(start: Callable[[], object], **_: object) -> object:
        threads.append(threading.Thread(target=start))
        threads[0].start()
        forked.wait(10)
        raise Cancelled(15)

    monkeypatch.setattr(child.subprocess, "Popen", slow)
    monkeypatch.setattr(child, "call_bounded", call)
    with pytest.raises(Cancelled):
        run_children([family.python(AWAY)], budget=Budget(1))
    assert family.alive(patience=0) == []
    threads[0].join(10)


def test_a_program_that_is_found_only_when_nobody_waits_any_more_is_not_started(family, monkeypatch):
    found, threads, real = threading.Event(), [], child.find_program

    def find(*arguments: str) -> object:
        found.wait(10)
        return real(*arguments)

    def call(start: Callable[[], object], **_: object) -> object:
        threads.append(threading.Thread(target=start))
        threads[0].start()
        raise DeadlineError("over", phase="child", seconds=1)

    monkeypatch.setattr(child, "find_program", find)
    monkeypatch.setattr(child, "call_bounded", call)
    (result,) = run_children([family.python("open(sys.argv[1], 'w')", str(family.folder / "ran"))], budget=Budget(1))
    found.set()
    threads[0].join(10)
    assert (result.ended, list(family.folder.iterdir())) == ("deadline", [])


def test_what_begins_only_when_nobody_waits_any_more_is_ended_with_all_that_it_started(family, monkeypatch):
    popen = child.subprocess.Popen
    may_begin = threading.Event()
    threads = []

    def late(*arguments: object, **more: object) -> object:
        may_begin.wait(10)
        begun = popen(*arguments, **more)
        family.wait_until_ready()
        return begun

    def call(start: Callable[[], object], **_: object) -> object:
        threads.append(threading.Thread(target=start))
        threads[0].start()
        raise DeadlineError("over", phase="child", seconds=1)

    monkeypatch.setattr(child.subprocess, "Popen", late)
    monkeypatch.setattr(child, "call_bounded", call)
    (result,) = run_children([family.python(AWAY)], budget=Budget(1))
    assert result.ended == "deadline"
    monkeypatch.undo()
    may_begin.set()
    threads[0].join(10)
    assert family.alive() == []


# What the system does -----------------------------------------------------------------------------------------------


def test_a_status_that_is_lost_is_not_taken_for_success(family):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        result = run(family.python("sys.exit(3)"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert result.ended == "failed"
    assert result.stderr == b"its exit status is lost because SIGCHLD is ignored; "


def test_a_child_that_the_kernel_holds_is_named_and_given_up(family, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(process.os, "kill", lambda *_: None)
        patch.setattr(process.os, "killpg", lambda *_: None)
        with family.deadline_when_ready() as budget:
            (result,) = run_children([family.python(SLEEP)], budget=budget)
    (left,) = family.alive(patience=0)
    assert (result.ended, result.held) == ("deadline", (left.pid,))
    left.kill()
    os.waitpid(left.pid, 0)


def test_a_child_that_is_killed_only_at_the_very_end_is_not_taken_for_held(family, monkeypatch):
    monkeypatch.setattr(process, "_GRACE_SECONDS", 0)
    monkeypatch.setattr(process, "_REAP_SECONDS", 0)
    with family.deadline_when_ready() as budget:
        (result,) = run_children([family.python(STAY["ignores-sigterm"])], budget=budget)
    assert (result.ended, result.held) == ("deadline", ())


def test_a_grandchild_that_is_killed_only_at_the_very_end_is_not_taken_for_held(family, monkeypatch):
    monkeypatch.setattr(process, "_REAP_SECONDS", 0)
    monkeypatch.setattr(process, "_PATIENCE_SECONDS", 0)
    result = run(family.python(LEAVE["orphaned-without-the-pipe"].format(sleep=SLEEP.strip()) + "\ntime.sleep(0.2)"))
    assert (result.leftover, result.held) == (True, ())


def test_a_grandchild_that_the_kernel_holds_is_named_and_given_up(family, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(process.os, "kill", lambda *_: None)
        with family.deadline_when_ready() as budget:
            code = LEAVE["orphaned-without-the-pipe"].format(sleep=SLEEP.strip()) + "\ntime.sleep(60)"
            (result,) = run_children([family.python(code)], budget=budget)
    held = family.alive(patience=0)
    assert (result.ended, result.held) == ("deadline", tuple(one.pid for one in held))
    assert len(held) == 1
    held[0].kill()
    assert family.alive() == []


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_a_look_at_other_processes_that_fails_holds_nothing_up(how, family, monkeypatch):
    # The environment of a process that hangs in a driver can hold whoever reads it.
    answer = threading.Event()

    def look(*_: object) -> None:
        if how == "fails":
            raise PermissionError("/proc")
        answer.wait(10)

    monkeypatch.setattr(marked, "_look", look)
    with family.deadline_when_ready(overrun=0.8) as budget:
        (result,) = run_children([family.python(STAY["ignores-sigterm"])], budget=budget)
    answer.set()
    assert (result.ended, result.held) == ("deadline", ())


def test_only_what_is_no_older_than_the_child_is_looked_at(family, monkeypatch):
    opened: list[str] = []

    def noting(path: str, mode: str) -> object:
        opened.append(path)
        return open(path, mode)

    monkeypatch.setattr(marked, "open", noting, raising=False)
    result = run(family.python("if os.fork() == 0: " + SLEEP + "time.sleep(0.1); print(os.getpid())"))
    looked_at = [Path(path).parent.name for path in opened if path.endswith("/environ")]
    assert looked_at
    assert result.stdout.decode().strip() not in looked_at, "how the child itself ends is seen without that"
    assert str(os.getpid()) not in looked_at
    assert "1" not in looked_at


def test_what_is_in_the_middle_of_an_exec_is_found_a_moment_later(family, monkeypatch):
    # The old environment is gone then, and the new one is not there yet.
    bare: list[int] = []
    real = marked._environment

    def environment(pid: int) -> bytes:
        found = real(pid)
        if marked.MARK.encode() in found and bare.count(pid) < 3:
            bare.append(pid)
            return b""
        return found

    monkeypatch.setattr(marked, "_environment", environment)
    result = run(family.python(LEAVE["orphaned-without-the-pipe"].format(sleep=SLEEP.strip()) + "\ntime.sleep(0.2)"))
    assert result.leftover
    assert max(bare.count(pid) for pid in bare) == 3
    assert family.alive() == []


def test_what_forks_and_ends_during_a_look_is_found_by_the_next(family, monkeypatch):
    real, looks = marked._look, []

    def look(children: dict[str, int]) -> dict[str, list[int]]:
        looks.append(children)
        return real(children) if len(looks) > 1 else {}

    monkeypatch.setattr(marked, "_look", look)
    run(family.python(LEAVE["orphaned-without-the-pipe"].format(sleep=SLEEP.strip()) + "\ntime.sleep(0.2)"))
    assert family.alive() == []


def test_a_process_without_an_environment_is_not_waited_for_long(family):
    with subprocess.Popen(["/bin/sleep", "60"], env={}) as bare:
        began = time.monotonic()
        assert marked.find_marked({"token": os.getpid()}) == {}
        assert time.monotonic() - began < 0.5
        assert bare.poll() is None
        bare.kill()


def test_where_there_is_no_proc_the_marks_are_found_as_well(family, monkeypatch):
    monkeypatch.setattr(marked.sys, "platform", "darwin")
    result = run(family.python(LEAVE["orphaned-without-the-pipe"].format(sleep=SLEEP.strip()) + "\ntime.sleep(0.2)"))
    assert (result.ended, result.leftover) == ("exit", True)
    assert family.alive() == []


def test_what_ended_in_time_counts_although_nobody_looked_before_the_deadline():
    # Imports on a slow machine may take all of it: the child must not be said to have printed nothing.
    command = Command(argv=["sh", "-c", "echo in time"], env={"PATH": os.environ["PATH"]})
    (result,) = run_children([command], budget=Budget(0.3), meanwhile=lambda: time.sleep(0.4))
    assert (result.ended, result.stdout) == ("exit", b"in time\n")
