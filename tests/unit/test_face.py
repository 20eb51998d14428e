"""What a run looks like while it goes on: a log that never looks dead, and a line that moves for a person."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from precheck_lib import face
from precheck_lib.face import HEARTBEAT_SECONDS, LiveFace, PlainFace, face_for, make_console
from precheck_lib.outcome import CheckResult
from precheck_lib.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Log:
    """A terminal that remembers its lines."""

    def __init__(self):
        self.lines = []

    def out(self, line):
        self.lines.append(line)


def result(outcome="passed", **fields):
    return CheckResult(**{"id": "tcp", "title": "takes connections", "kind": "tcp", "outcome": outcome, **fields})


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log():
    return Log()


# A log ----------------------------------------------------------------------------------------------------------------


def test_a_log_has_a_heartbeat_every_fifteen_seconds_of_silence(clock, log):
    made = PlainFace(log, clock)
    made.phase("residency", "loading qwen3:8b", 360.0)
    told = []
    for quarter in range(4 * 62):
        clock.now = 100.0 + quarter / 4
        before = len(log.lines)
        made.waiting()
        told += [clock.now - 100.0] * (len(log.lines) - before)
    assert HEARTBEAT_SECONDS == 15.0
    assert told == [15.0, 30.0, 45.0, 60.0]
    assert [line.split() for line in log.lines] == [
        ["...", "residency", "loading", "qwen3:8b", str(seconds), "of", "360", "s"] for seconds in (15, 30, 45, 60)
    ]
    assert {len(line) for line in log.lines} == {80}


def test_a_line_of_a_check_is_a_sign_of_life_too(clock, log):
    made = PlainFace(log, clock)
    clock.now += 14.0
    made.ended(result())
    clock.now += 14.0
    made.waiting()
    assert len(log.lines) == 1
    clock.now += 1.0
    made.waiting()
    assert len(log.lines) == 2


def test_a_heartbeat_counts_from_the_beginning_of_what_goes_on_now(clock, log):
    made = PlainFace(log, clock)
    made.phase("residency", "unloading m", 30.0)
    clock.now += 10.0
    made.phase("residency", "loading m", 360.0)
    clock.now += 6.0
    made.waiting()
    assert log.lines[0].split()[-6:] == ["loading", "m", "6", "of", "360", "s"]


def test_hostile_names_of_what_goes_on_are_one_harmless_line(clock, log):
    made = PlainFace(log, clock)
    made.phase("a\n::error::b", "loading \x1b[2J##[error]x\n::error::y", 1.0)
    clock.now += HEARTBEAT_SECONDS
    made.waiting()
    (line,) = log.lines
    assert line.isprintable()
    assert "##[" not in line
    assert line.startswith("...")


# A person's terminal --------------------------------------------------------------------------------------------------


class Screen:
    """A pseudo-terminal of 80 columns: `descriptor` is the side that a program writes to."""

    def __init__(self, columns=80):
        self.master, self.descriptor = pty.openpty()
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.terminal = Terminal(self.descriptor, self.descriptor)

    def read(self):
        """Return what has arrived."""
        text = b""
        while select.select([self.master], [], [], 0)[0]:
            text += os.read(self.master, 65536)
        return text.decode()

    def close(self):
        os.close(self.master)
        os.close(self.descriptor)


@pytest.fixture
def screen():
    made = Screen()
    yield made
    made.close()


def live(screen, clock, memory=lambda: None, **env):
    pytest.importorskip("rich", reason="the live line is drawn with rich")
    console = make_console({"TERM": "xterm", **env})
    return LiveFace(screen.terminal, console, memory, clock=clock, descriptor=screen.descriptor)


def frames(text):
    """What each frame of the live line shows."""
    return [CONTROL.sub("", frame) for frame in re.split(r"\r\x1b\[2K", text)[1:]]


def test_a_person_sees_a_line_that_moves_with_elapsed_budget_and_memory(screen, clock):
    used = iter([1 << 30, 3 << 30, 6 << 30])
    made = live(screen, clock, lambda: next(used))
    made.phase("residency", "loading qwen3:8b", 360.0)
    for _ in range(3):
        clock.now += 1.0
        made.waiting()
    shown = frames(screen.read())
    assert [re.sub(" +", " ", frame) for frame in shown] == [
        "... residency loading qwen3:8b 1 of 360 s, 1.0 GiB",
        "... residency loading qwen3:8b 2 of 360 s, 3.0 GiB",
        "... residency loading qwen3:8b 3 of 360 s, 6.0 GiB",
    ]
    assert {len(frame) for frame in shown} == {80}


def test_the_line_of_a_check_takes_the_place_of_the_live_line(screen, clock):
    made = live(screen, clock)
    made.phase("tcp", "takes connections", 2.0)
    made.waiting()
    made.ended(result(elapsed_s=0.5, budget_s=2.0))
    made.ended(result("failed"))
    text = screen.read()
    _, after = text.rsplit("\r\x1b[2K", 1)
    lines = [CONTROL.sub("", line) for line in after.splitlines()]
    assert lines[0].split() == ["ok", "tcp", "takes", "connections", "0.5", "of", "2", "s"]
    assert lines[1].startswith("FAILED ")
    assert after.startswith("\x1b[32mok")


def test_with_no_color_there_is_no_colour_and_the_line_still_moves(screen, clock):
    made = live(screen, clock, NO_COLOR="1")
    made.phase("tcp", "takes connections", 2.0)
    made.waiting()
    made.ended(result("error"))
    text = screen.read()
    assert COLOUR.search(text) is None
    assert len(frames(text)) == 2
    assert "ERROR" in text


def test_an_empty_no_color_is_none(screen, clock):
    made = live(screen, clock, NO_COLOR="")
    made.ended(result())
    assert COLOUR.search(screen.read()) is not None


@pytest.mark.parametrize("columns", [20, 40, 79, 80, 200])
def test_the_live_line_never_wraps(clock, columns):
    screen = Screen(columns)
    try:
        made = live(screen, clock, lambda: 5 << 30)
        made.phase("residency", "loading 模型模型模型模型模型模型模型模型", 360.0)
        made.waiting()
        (frame,) = frames(screen.read())
        wide = len(frame) + sum(character in "模型" for character in frame)
        assert 0 < wide <= columns
    finally:
        screen.close()


def test_neither_the_cursor_nor_any_mode_of_the_terminal_is_changed(screen, clock):
    before = termios.tcgetattr(screen.descriptor)
    flags = fcntl.fcntl(screen.descriptor, fcntl.F_GETFL)
    made = live(screen, clock)
    made.phase("a", "b", 1.0)
    made.waiting()
    made.ended(result())
    assert set(CONTROL.findall(screen.read())) <= {"\x1b[2K", "\x1b[36m", "\x1b[32m", "\x1b[0m"}
    assert termios.tcgetattr(screen.descriptor) == before
    assert fcntl.fcntl(screen.descriptor, fcntl.F_GETFL) == flags


def test_there_is_no_thread_behind_the_live_line(screen, clock):
    before = threading.active_count()
    made = live(screen, clock)
    made.phase("a", "b", 1.0)
    made.waiting()
    assert threading.active_count() == before


def test_a_terminal_that_is_stopped_holds_nobody(screen, clock):
    made = live(screen, clock)
    made.phase("a", "b", 1.0)
    again = os.open(os.ttyname(screen.descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(again, b"x" * 4096)
    os.close(again)
    began = time.monotonic()
    for _ in range(100):
        made.waiting()
    assert time.monotonic() - began < 1


def test_a_terminal_that_is_gone_is_no_trouble(clock):
    pytest.importorskip("rich", reason="the live line is drawn with rich")
    screen = Screen()
    made = live(screen, clock)
    made.phase("a", "b", 1.0)
    os.close(screen.master)
    try:
        made.waiting()
        assert made._columns() > 0
    finally:
        os.close(screen.descriptor)
    made.waiting()


def test_the_cleanup_is_told_in_plain_lines_for_nothing_takes_a_live_one_away(screen, clock):
    made = live(screen, clock)
    made.phase("residency", "loading m", 360.0)
    made.waiting()
    made.ended(result("error"))
    screen.read()
    made.phase("cleanup", "unloading what this run has loaded", 30.0)
    told = []
    for quarter in range(1, 4 * 32):
        clock.now = 100.0 + quarter / 4
        made.waiting()
        told += [clock.now - 100.0] * screen.read().count("\n")
    assert told == [1.0, 16.0, 31.0]


# Which of them --------------------------------------------------------------------------------------------------------


def test_a_person_at_a_terminal_gets_the_live_line(screen):
    pytest.importorskip("rich", reason="the live line is drawn with rich")
    assert type(face_for(screen.terminal, {"TERM": "xterm-256color"})) is LiveFace


@pytest.mark.parametrize(
    "env",
    [{"TERM": "dumb"}, {}, {"TERM": "xterm", "GITHUB_ACTIONS": "true"}],
    ids=["dumb", "no-term", "actions"],
)
def test_a_terminal_that_cannot_show_it_gets_plain_lines(screen, env):
    made = face_for(screen.terminal, env)
    assert type(made) is PlainFace
    made.phase("a", "b", 1.0)
    made.waiting()
    made.ended(result())
    assert "\x1b" not in screen.read()


def test_a_pipe_gets_plain_lines():
    read, write = os.pipe()
    try:
        assert type(face_for(Terminal(write, write), {"TERM": "xterm"})) is PlainFace
    finally:
        os.close(read)
        os.close(write)


def test_without_rich_there_are_plain_lines(screen, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert type(face_for(screen.terminal, {"TERM": "xterm"})) is PlainFace


# The whole of it ------------------------------------------------------------------------------------------------------

SLOW = """\
import sys
sys.path.insert(0, {root!r})
from precheck_lib import demo, face
demo.SLOW_SECONDS = 1.0
demo.SHORT = 0.2
shortened = demo.shortened
demo.shortened = lambda spec, _: shortened(spec, {{"residency": ("settle", "hold")}})
face.HEARTBEAT_SECONDS = 0.5
sys.argv[1:] = ["demo", "--slow"]
from precheck_lib.__main__ import main
sys.exit(main())
"""


def slow_demo(**streams):
    command = [sys.executable, "-I", "-c", SLOW.format(root=str(ROOT))]
    env = {"TERM": "xterm", "PATH": os.environ["PATH"]}
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, **streams)


def test_a_slow_demo_in_a_log_has_heartbeats_and_then_passes():
    with slow_demo(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert lines[-1] == "strict live precheck passed"
    beats = [line for line in lines if line.startswith("...")]
    assert any("loading qwen3:8b" in line for line in beats)
    assert all(len(line) <= 80 and "\x1b" not in line for line in lines)


def test_a_slow_demo_at_a_terminal_has_a_live_line_and_then_passes(screen):
    pytest.importorskip("rich", reason="the live line is drawn with rich")
    text = ""
    with slow_demo(stdout=screen.descriptor, stderr=screen.descriptor) as process:
        end = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < end:
            select.select([screen.master], [], [], 0.05)
            text += screen.read()
        process.kill()
    text += screen.read()
    assert process.returncode == 0
    assert text.endswith("strict live precheck passed\r\n")
    loading = [frame for frame in frames(text) if "loading qwen3:8b" in frame]
    assert all(re.search(r"\d of 360 s, \d\.\d GiB$", frame) for frame in loading)
    assert loading
    # What is left on the screen are the ten checks and the last line.
    left = [CONTROL.sub("", line.rsplit("\x1b[2K", 1)[-1]) for line in text.split("\r\n")[:-1]]
    assert [line.split()[0] for line in left] == ["ok"] * 10 + ["strict"]
    assert face.HEARTBEAT_SECONDS == HEARTBEAT_SECONDS


def test_a_note_is_written_at_once_and_does_not_become_what_the_heartbeat_says():
    log, clock = Log(), Clock()
    plain = PlainFace(log, clock)
    plain.phase("residency", "loading m", 360.0)
    plain.phase("residency", "about to unload m", -1.0)
    assert [line.split() for line in log.lines] == [["note", "residency", "about", "to", "unload", "m"]]
    clock.now += HEARTBEAT_SECONDS
    plain.waiting()
    assert "loading m" in log.lines[1]
