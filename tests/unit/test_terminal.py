"""Lines to two streams: nobody who does not read can hold a run, and a line that is lost is known."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import threading
import time
import tty

import pytest

from precheck_lib import terminal
from precheck_lib.terminal import Terminal


@pytest.fixture
def pipes():
    """Two pipes as the two streams: `(read out, write out, read err, write err)`."""
    descriptors = [*os.pipe(), *os.pipe()]
    yield descriptors
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def impatient(monkeypatch):
    """A tenth of the patience, so that waiting it out costs no time; return it in seconds."""
    monkeypatch.setattr(terminal, "_PATIENCE_SECONDS", terminal._PATIENCE_SECONDS / 10)
    return terminal._PATIENCE_SECONDS


def test_the_patience_is_a_second():
    assert terminal._PATIENCE_SECONDS == 1.0


def test_each_line_goes_to_its_stream_with_a_line_end(pipes):
    read_out, out, read_err, err = pipes
    made = Terminal(out, err)
    made.out("one")
    made.err("two")
    made.out("")
    assert os.read(read_out, 100) == b"one\n\n"
    assert os.read(read_err, 100) == b"two\n"
    assert not made.broken


def test_lines_are_utf_8_and_a_lone_surrogate_does_not_stop_one(pipes):
    read_out, out, _, err = pipes
    Terminal(out, err).out("ä€\U0001f600\udcff")
    assert os.read(read_out, 100) == "ä€\U0001f600\\udcff\n".encode()


def test_a_pipe_that_nobody_reads_costs_the_patience_once_and_then_nothing(pipes, impatient):
    _, out, _, err = pipes
    made = Terminal(out, err)
    began = time.monotonic()
    made.out("x" * (1 << 20))
    first = time.monotonic()
    assert impatient <= first - began < impatient + 5
    assert made.broken
    for _ in range(1000):
        made.out("more")
    assert time.monotonic() - first < 1000 * impatient / 10


def test_a_stream_that_is_stuck_leaves_the_other_alone(pipes, impatient):
    _, out, read_err, err = pipes
    made = Terminal(out, err)
    made.out("x" * (1 << 20))
    made.err("still here")
    assert os.read(read_err, 100) == b"still here\n"


def test_a_stuck_stderr_is_not_a_broken_stdout(pipes, impatient):
    read_out, out, _, err = pipes
    made = Terminal(out, err)
    made.err("x" * (1 << 20))
    made.out("still here")
    assert os.read(read_out, 100) == b"still here\n"
    assert not made.broken


def test_a_slow_reader_gets_the_whole_of_a_long_line(pipes):
    read_out, out, _, err = pipes
    got = bytearray()

    def read_slowly():
        while not got.endswith(b"\n"):
            got.extend(os.read(read_out, 65536))

    reader = threading.Thread(target=read_slowly)
    reader.start()
    made = Terminal(out, err)
    made.out("x" * 500_000)
    reader.join()
    assert len(got) == 500_001
    assert not made.broken


def test_a_reader_that_has_gone_is_known_at_once(pipes, monkeypatch):
    monkeypatch.setattr(terminal, "_PATIENCE_SECONDS", 30.0)
    read_out, out, _, err = pipes
    os.close(read_out)
    made = Terminal(out, err)
    began = time.monotonic()
    made.out("one")
    assert made.broken
    assert time.monotonic() - began < 10


def test_a_reader_that_goes_in_the_middle_of_a_line_is_known(pipes):
    read_out, out, _, err = pipes
    made = Terminal(out, err)
    reader = threading.Thread(target=lambda: (os.read(read_out, 10), os.close(read_out)))
    reader.start()
    made.out("x" * (1 << 20))
    reader.join()
    assert made.broken


def test_a_full_device_is_a_broken_stdout():
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        made = Terminal(descriptor, descriptor)
        made.out("one")
        assert made.broken
    finally:
        os.close(descriptor)


def test_a_closed_stdout_is_a_broken_one(pipes):
    _, out, _, err = pipes
    os.close(out)
    made = Terminal(out, err)
    made.out("one")
    assert made.broken


def test_a_file_takes_everything(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    try:
        made = Terminal(descriptor, descriptor)
        made.out("x" * 100_000)
        made.err("y")
        assert not made.broken
    finally:
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"x" * 100_000 + b"\ny\n"


def test_a_pipe_that_somebody_made_non_blocking_still_takes_a_long_line(pipes):
    read_out, out, _, err = pipes
    os.set_blocking(out, False)
    fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 4096)
    got = bytearray()

    def read_all():
        while not got.endswith(b"\n"):
            got.extend(os.read(read_out, 1000))

    reader = threading.Thread(target=read_all)
    reader.start()
    made = Terminal(out, err)
    made.out("x" * 50_000)
    reader.join()
    assert len(got) == 50_001
    assert not made.broken
    assert not os.get_blocking(out)


@pytest.fixture
def screen():
    """A terminal: `(what a person reads from, what is written to)`."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield master, slave
    os.close(master)
    os.close(slave)


def read_exactly(descriptor, count):
    got = b""
    while len(got) < count:
        got += os.read(descriptor, count - len(got))
    return got


def test_a_terminal_shows_lines_and_stays_as_it_was(screen):
    master, slave = screen
    made = Terminal(slave, slave)
    made.out("one")
    made.err("two")
    assert read_exactly(master, 8) == b"one\ntwo\n"
    assert os.get_blocking(slave)
    assert not made.broken


def test_a_terminal_that_stops_reading_cannot_hold_a_run(screen, impatient):
    _, slave = screen
    made = Terminal(slave, slave)
    began = time.monotonic()
    for _ in range(100_000):
        made.out("x" * 77)  # whatever room there is at the end, it is not always a whole line
        if made.broken:
            break
    assert made.broken
    assert time.monotonic() - began < impatient + 5
