"""Signals as values: the first ends the run, the second its cleanup, and at the end one is held off."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from precheck_lib.interrupt import LAST_RESORT_SECONDS, SIGNALS, Interrupts

ROOT = Path(__file__).resolve().parents[2]
PREAMBLE = """\
import os, signal, sys, time
from precheck_lib import interrupt
interrupts = interrupt.Interrupts()
"""


@pytest.fixture
def interrupts():
    """Installed ones; all handlers are put back after the test."""
    before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGCHLD, signal.SIGALRM)}
    made = Interrupts()
    made.install()
    yield made
    made.restore()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def no_last_resort(monkeypatch):
    """Note the last resort instead of setting it."""
    set_to = []
    monkeypatch.setattr(signal, "setitimer", lambda *arguments: set_to.append(arguments))
    return set_to


def child(code, **more):
    """Run a little program that has `interrupts` and return it, ended."""
    return subprocess.run(
        [sys.executable, "-c", PREAMBLE + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        **more,
    )


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_the_run_to_stop_and_nothing_else(interrupts, number):
    began = time.monotonic()
    signal.raise_signal(number)
    assert interrupts.stop.signum == number
    assert not interrupts.abandon.is_set
    assert began <= interrupts.stopped_at <= time.monotonic()


def test_whoever_waits_wakes_at_the_first_signal(interrupts):
    assert select.select([interrupts.stop.fileno()], [], [], 0)[0] == []
    signal.raise_signal(signal.SIGTERM)
    assert select.select([interrupts.stop.fileno()], [], [], 0)[0] == [interrupts.stop.fileno()]


def test_the_second_signal_abandons_the_cleanup_and_sets_the_last_resort(interrupts, no_last_resort):
    signal.raise_signal(signal.SIGTERM)
    stopped_at = interrupts.stopped_at
    signal.raise_signal(signal.SIGINT)
    assert interrupts.stop.signum == signal.SIGTERM
    assert interrupts.abandon.signum == signal.SIGINT
    assert interrupts.stopped_at == stopped_at
    assert no_last_resort == [(signal.ITIMER_REAL, LAST_RESORT_SECONDS)]
    assert LAST_RESORT_SECONDS < 1


def test_a_third_signal_does_not_move_the_last_resort_away(interrupts, no_last_resort):
    for _ in range(5):
        signal.raise_signal(signal.SIGTERM)
    assert len(no_last_resort) == 1


def test_once_it_is_final_the_first_signal_is_held_off(interrupts, no_last_resort):
    interrupts.final = True
    signal.raise_signal(signal.SIGTERM)
    assert not interrupts.stop.is_set
    assert not interrupts.abandon.is_set
    assert interrupts.stopped_at is None
    assert no_last_resort == []


def test_once_it_is_final_a_second_signal_sets_the_last_resort(interrupts, no_last_resort):
    interrupts.final = True
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    assert not interrupts.stop.is_set
    assert no_last_resort == [(signal.ITIMER_REAL, LAST_RESORT_SECONDS)]


def test_once_it_is_final_a_third_signal_does_not_move_the_last_resort_away(interrupts, no_last_resort):
    interrupts.final = True
    for _ in range(5):
        signal.raise_signal(signal.SIGINT)
    assert len(no_last_resort) == 1


def test_a_stop_before_it_was_final_is_still_followed_by_the_second_signal(interrupts, no_last_resort):
    signal.raise_signal(signal.SIGTERM)
    interrupts.final = True
    signal.raise_signal(signal.SIGTERM)
    assert interrupts.abandon.is_set
    assert len(no_last_resort) == 1


# Being told -----------------------------------------------------------------------------------------------------------


def test_who_asks_before_the_signal_is_told_at_it(interrupts):
    told = []
    interrupts.on_stop(told.append)
    assert told == []
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert told == [0.0]


def test_who_asks_late_is_told_at_once_how_long_ago_it_was(interrupts):
    signal.raise_signal(signal.SIGTERM)
    interrupts.stopped_at -= 3.0
    told = []
    interrupts.on_stop(told.append)
    assert len(told) == 1
    assert 3.0 <= told[0] < 4.0


def test_only_the_last_who_asked_is_told(interrupts):
    first, last = [], []
    interrupts.on_stop(first.append)
    interrupts.on_stop(last.append)
    signal.raise_signal(signal.SIGTERM)
    assert (first, last) == ([], [0.0])


# Handlers -------------------------------------------------------------------------------------------------------------


def test_a_signal_that_was_ignored_stays_ignored():
    done = child(
        """\
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
interrupts.install()
signal.raise_signal(signal.SIGHUP)
signal.raise_signal(signal.SIGINT)
print(interrupts.stop.signum, signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
signal.raise_signal(signal.SIGTERM)
print(interrupts.stop.signum)
"""
    )
    assert done.stdout.split() == ["None", "True", "15"]


def test_a_child_that_began_under_nohup_outlives_a_hangup():
    done = child(
        "interrupts.install(); os.kill(os.getpid(), signal.SIGHUP); print('alive', interrupts.stop.is_set)",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert done.stdout.split() == ["alive", "False"]


def test_an_ignored_sigchld_is_reset_so_that_exit_statuses_can_be_read():
    done = child(
        """\
import subprocess
interrupts.install()
print(subprocess.run([sys.executable, "-c", "raise SystemExit(7)"]).returncode)
""",
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert done.stdout.split() == ["7"]


def test_handlers_are_put_back_and_descriptors_closed():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    child_before = signal.getsignal(signal.SIGCHLD)
    made = Interrupts()
    made.install()
    assert all(signal.getsignal(number) != before[number] for number in SIGNALS)
    made.restore()
    signal.signal(signal.SIGCHLD, child_before)
    assert {number: signal.getsignal(number) for number in SIGNALS} == before
    for flag in (made.stop, made.abandon):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(flag.fileno())


# The last resort ------------------------------------------------------------------------------------------------------

STUCK = """\
interrupts.install()
interrupts.may_hold_models = {holds}
interrupt.LAST_RESORT_SECONDS = {seconds}
signal.raise_signal(signal.SIGTERM)
began = time.monotonic()
signal.raise_signal(signal.SIGINT)
while time.monotonic() - began < 20:
    time.sleep(5)
"""


def test_what_is_stuck_after_the_second_signal_ends_within_a_second_with_the_code_of_the_first():
    began = time.monotonic()
    done = child(STUCK.format(holds=False, seconds=LAST_RESORT_SECONDS))
    assert LAST_RESORT_SECONDS < time.monotonic() - began < 5
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")


def test_the_last_resort_says_where_models_may_be_left():
    done = child(STUCK.format(holds=True, seconds=0.05))
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == "precheck: ended by a second signal; native residency remains unconfirmed\n"


def test_what_is_stuck_in_its_reports_ends_after_a_second_signal_with_the_code_of_that_signal():
    done = child(
        """\
interrupts.install()
interrupts.final = True
interrupt.LAST_RESORT_SECONDS = 0.05
signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGTERM)
time.sleep(1)
"""
    )
    assert done.returncode == 128 + signal.SIGTERM


def test_what_ends_by_itself_after_the_second_signal_keeps_its_own_code():
    done = child(
        """\
interrupts.install()
signal.raise_signal(signal.SIGTERM)
signal.raise_signal(signal.SIGTERM)
sys.exit(143 if interrupts.abandon.is_set else 1)
"""
    )
    assert (done.returncode, done.stderr) == (143, "")
