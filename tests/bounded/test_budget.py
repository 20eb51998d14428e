"""`Budget` and `Cancel`: absolute ends, parents that cut their children, waits that end at once."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from precheck_lib.bounded.budget import READ, WRITE, Budget, describe_seconds
from precheck_lib.bounded.cancel import Cancel
from precheck_lib.errors import Cancelled, DeadlineError, TooLargeError


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_its_end_is_absolute(clock):
    budget = Budget(10, clock=clock)
    clock.now += 4
    assert (budget.end, budget.left(), budget.elapsed()) == (1010, 6, 4)
    clock.now += 10
    assert (budget.left(), budget.elapsed()) == (0, 14)


def test_a_negative_one_is_over():
    assert Budget(-1).seconds == 0
    with pytest.raises(DeadlineError):
        Budget(-1).check("wait")


@pytest.mark.parametrize(("asked", "given"), [(5, 5), (20, 6), (None, 6)])
def test_a_child_has_what_it_asks_for_but_never_more_than_is_left(clock, asked, given):
    budget = Budget(10, clock=clock)
    clock.now += 4
    child = budget.child(asked)
    assert (child.seconds, child.end) == (given, 1004 + given)


def test_a_cut_moves_the_end_nearer_for_all_below(clock):
    budget = Budget(100, clock=clock)
    child = budget.child(50)
    grandchild = child.child(20)
    clock.now += 1
    budget.cut(3)
    assert (budget.left(), child.left(), grandchild.left()) == (3, 3, 3)


def test_a_cut_never_moves_the_end_away(clock):
    budget = Budget(5, clock=clock)
    budget.cut(50)
    assert budget.left() == 5


def test_a_cut_of_a_child_leaves_its_parent_alone(clock):
    budget = Budget(10, clock=clock)
    child = budget.child()
    child.cut(-1)
    assert (child.left(), budget.left()) == (0, 10)


def test_a_deadline_names_the_bound_that_was_hit(clock):
    child = Budget(10, clock=clock).child(0.25)
    clock.now += 0.25
    with pytest.raises(DeadlineError, match=r"^deadline of 0\.25 s elapsed$") as caught:
        child.check("tls")
    assert (caught.value.phase, caught.value.seconds, caught.value.curl) == ("tls", 0.25, 28)


@pytest.mark.parametrize(
    ("asked", "named"),
    [(6, 6), (5, 5), (10, 10), (20, 10), (None, 10)],
    ids=["just-in-time", "sooner", "as-long-as-the-one-above", "longer-than-the-one-above", "all-that-is-left"],
)
def test_a_deadline_is_named_as_it_was_configured_by_whichever_ends_first(asked, named, clock):
    budget = Budget(10, clock=clock)
    clock.now += 4
    child = budget.child(asked)
    assert child.over("head").seconds == named
    assert child.asked == (10 if asked is None else asked)


@pytest.mark.parametrize("how", ["wait", "sleep"])
def test_who_waits_ticks_about_four_times_a_second(how, pipe):
    ticks: list[float] = []
    budget = Budget(0.6, tick=lambda: ticks.append(time.monotonic())).child()
    with pytest.raises(DeadlineError):
        WAITS[how](budget, pipe[0])
    assert 1 <= len(ticks) <= 1 + budget.elapsed() / 0.25


@pytest.mark.parametrize(("seconds", "text"), [(10, "10 s"), (10.0, "10 s"), (0.25, "0.25 s"), (1 / 3, "0.333 s")])
def test_seconds_are_written_as_people_say_them(seconds, text):
    assert describe_seconds(seconds) == text


def test_bytes_are_counted_and_limited():
    budget = Budget(10, max_bytes=10)
    budget.take(4, "head")
    budget.take(6, "body")
    with pytest.raises(TooLargeError, match=r"^more than 10 bytes were received$") as caught:
        budget.take(1, "body")
    assert (caught.value.phase, caught.value.curl, budget.received) == ("body", 63, 11)


def test_the_bytes_of_a_child_are_its_own():
    budget = Budget(10, max_bytes=10)
    budget.child().take(1000, "body")
    assert budget.received == 0
    with pytest.raises(TooLargeError):
        budget.child(max_bytes=5).take(6, "body")


def test_a_wait_ends_when_the_descriptor_is_ready(pipe, ends_within):
    read, write = pipe
    with ends_within(0.0):
        Budget(5).wait(write, WRITE, "send")
        os.write(write, b"x")
        Budget(5).wait(read, READ, "head")


def test_a_wait_ends_at_the_budget(pipe, ends_within):
    with ends_within(0.3), pytest.raises(DeadlineError):
        Budget(0.3).wait(pipe[0], READ, "head")


def test_a_wait_notices_that_the_budget_above_it_was_cut(pipe, ends_within):
    budget = Budget(30)
    timer = threading.Timer(0.1, budget.cut, [0])
    timer.start()
    with ends_within(0.1 + 0.25), pytest.raises(DeadlineError):
        budget.child().child().wait(pipe[0], READ, "head")
    timer.join()


def test_a_sleep_lasts_as_long_as_it_is_told():
    started = time.monotonic()
    Budget(5).sleep(0.1)
    assert 0.1 <= time.monotonic() - started < 0.3


def test_a_sleep_ends_with_the_budget(ends_within):
    with ends_within(0.1), pytest.raises(DeadlineError):
        Budget(0.1).sleep(30)


WAITS = {
    "wait": lambda budget, read: budget.wait(read, READ, "head"),
    "sleep": lambda budget, _: budget.sleep(30),
}


@pytest.mark.parametrize("how", WAITS)
def test_another_thread_ends_a_wait_at_once(how, pipe, cancel, ends_within):
    timer = threading.Timer(0.05, cancel.set, [15])
    timer.start()
    with ends_within(0.05, overrun=0.15), pytest.raises(Cancelled) as caught:
        WAITS[how](Budget(30, cancel=cancel).child(), pipe[0])
    timer.join()
    assert caught.value.signum == 15


@pytest.mark.parametrize("how", WAITS)
def test_a_signal_handler_ends_a_wait_at_once(how, pipe, cancel, ends_within):
    before = signal.signal(signal.SIGALRM, lambda number, _: cancel.set(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with ends_within(0.05, overrun=0.15), pytest.raises(Cancelled):
            WAITS[how](Budget(30, cancel=cancel), pipe[0])
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_signal_that_a_handler_only_counts_does_not_end_a_wait_early(pipe):
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(DeadlineError):
            Budget(0.3).wait(pipe[0], READ, "head")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 0.3 <= time.monotonic() - started < 0.55
    assert len(seen) > 2


def test_the_first_signal_stays_the_one_that_is_named(cancel):
    for number in (2, 15, 15):
        cancel.set(number)
    assert (cancel.signum, cancel.is_set) == (2, True)


def test_cancelling_wins_over_the_deadline(cancel):
    cancel.set(2)
    with pytest.raises(Cancelled):
        Budget(0, cancel=cancel).check("wait")


def test_a_flag_set_more_often_than_its_pipe_holds_does_not_block(cancel, ends_within):
    with ends_within(1):
        for _ in range(70000):
            cancel.set(2)


def test_a_closed_flag_closes_and_writes_to_no_descriptor_of_others():
    cancel = Cancel()
    cancel.close()
    read, write = os.pipe()  # has the numbers that were the flag's
    cancel.set(2)
    cancel.close()
    os.set_blocking(read, False)
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    os.close(read)
    os.close(write)


def test_a_wait_with_a_closed_flag_neither_spins_nor_misses_its_end(pipe, ends_within):
    cancel = Cancel()
    cancel.close()
    busy = time.process_time()
    with ends_within(0.3), pytest.raises(DeadlineError):
        Budget(0.3, cancel=cancel).wait(pipe[0], READ, "head")
    assert time.process_time() - busy < 0.15
