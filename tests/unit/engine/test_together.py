"""Independent checks run at the same time, what a check needs comes before it, and one server is changed by one."""

from __future__ import annotations

import threading
import time

import pytest

from precheck_lib import crew
from precheck_lib.errors import AnswerError
from precheck_lib.findings import not_ready
from precheck_lib.watcher import Watcher
from tests.unit.engine.conftest import outcomes


def meet(barrier):
    """Wait until as many checks as the barrier has parties have met."""
    return lambda _context: barrier.wait(5) and None


def fail(_context):
    raise not_ready("usage", "wrong")


def test_independent_checks_run_at_the_same_time(bench):
    barrier = threading.Barrier(3)
    report = bench.run(*(bench.reads(name, meet(barrier)) for name in "abc"))
    assert outcomes(report) == dict.fromkeys("abc", "passed")


def test_a_check_begins_when_what_it_needs_has_ended_and_not_when_all_have(bench):
    barrier = threading.Barrier(2)
    report = bench.run(bench.reads("a"), bench.reads("b", meet(barrier)), bench.reads("c", meet(barrier), needs=("a",)))
    assert outcomes(report) == dict.fromkeys("abc", "passed")


def test_no_more_than_so_many_run_at_the_same_time(bench, monkeypatch):
    monkeypatch.setattr("precheck_lib.engine.MOST", 2)
    now, most, lock = [0], [0], threading.Lock()

    def count(_context):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1

    bench.run(*(bench.reads(name, count) for name in "abcdef"))
    assert most == [2]


def test_with_fail_fast_checks_run_one_after_the_other_and_nothing_follows_a_failure(bench):
    report = bench.run(bench.reads("a"), bench.reads("b", fail), bench.reads("c"), fail_fast=True)
    assert bench.began == ["a", "b"]
    assert outcomes(report) == {"a": "passed", "b": "failed", "c": "skipped for b"}


def test_every_finding_of_what_reads_is_reported_before_the_run_stops(bench):
    report = bench.run(bench.reads("a", fail), bench.reads("b", fail), bench.reads("c"), bench.changes("d"))
    assert outcomes(report) == {"a": "failed", "b": "failed", "c": "passed", "d": "skipped for a"}


def test_the_order_of_the_report_and_its_verdict_are_those_of_the_spec_whatever_ended_first(bench):
    ended = threading.Event()

    def late(_context):
        ended.wait(5)
        raise not_ready("usage", "wrong")

    def early(_context):
        ended.set()
        raise AnswerError("first")

    report = bench.run(bench.reads("a", late), bench.reads("b", early), exit_codes="curl")
    assert [check.id for check in report.checks] == ["a", "b"]
    assert report.exit_code == 1


def test_nothing_is_changed_before_everything_that_reads_has_passed(bench):
    order = []
    slow = lambda _context: (time.sleep(0.05), order.append("read"))[2:]  # noqa: E731
    bench.run(bench.changes("c", lambda _: order.append("change")), bench.reads("a", slow), bench.reads("b", slow))
    assert order == ["read", "read", "change"]


def test_one_server_is_changed_by_one_check_at_a_time_and_two_servers_together(bench):
    barrier, now, worst = threading.Barrier(2), [], []

    def change(server, *, wait):
        def do(_context):
            now.append(server)
            worst.append(now.count(server))
            if wait:
                barrier.wait(5)
            time.sleep(0.01)
            now.remove(server)

        return do

    report = bench.run(
        bench.changes("a", change("http://one", wait=True), server="http://one"),
        bench.changes("b", change("http://one", wait=False), server="http://ONE/"),
        bench.changes("c", change("http://two", wait=True), server="${TWO}"),
        env={"TWO": "http://two"},
    )
    assert outcomes(report) == dict.fromkeys("abc", "passed")
    assert set(worst) == {1}


def test_whoever_watches_hears_of_everything_in_the_thread_of_the_run_and_in_order(bench):
    seen = []

    class Watching(Watcher):
        def phase(self, check, text, seconds):
            seen.append((check, text, threading.current_thread() is threading.main_thread()))

        def ended(self, result):
            seen.append((result.id, result.outcome, threading.current_thread() is threading.main_thread()))

    barrier = threading.Barrier(2)

    def work(context):
        barrier.wait(5)
        context.phase("in the middle", 1.0)

    bench.run(bench.reads("a", work), bench.reads("b", work), watcher=Watching())
    assert {here for _, _, here in seen} == {True}
    for name in "ab":
        assert [what for check, what, _ in seen if check == name] == [f"title of {name}", "in the middle", "passed"]


def test_a_note_was_shown_before_the_check_that_gives_it_goes_on(bench):
    shown = []

    class Slow(Watcher):
        def phase(self, check, text, seconds):
            if text == "about to unload":
                time.sleep(0.02)
                shown.append(check)

    barrier = threading.Barrier(2)

    def work(context):
        barrier.wait(5)
        context.say("about to unload")
        if threading.current_thread().name.removeprefix("check ") not in shown:
            raise not_ready("usage", "unloaded before anybody could see that it would be")

    report = bench.run(bench.reads("a", work), bench.reads("b", work), watcher=Slow())
    assert outcomes(report) == {"a": "passed", "b": "passed"}


def test_a_note_that_cannot_be_shown_holds_nobody(bench):
    class Failing(Watcher):
        def phase(self, check, text, seconds):
            if text == "a note":
                raise RuntimeError("the screen is gone")

    barrier = threading.Barrier(2)

    def work(context):
        barrier.wait(5)
        context.say("a note")

    with pytest.raises(RuntimeError, match="the screen is gone"):
        bench.run(bench.reads("a", work), bench.reads("b", work), watcher=Failing())
    assert [thread for thread in threading.enumerate() if thread.name.startswith("check ")] == []


def test_a_secret_that_a_check_makes_is_hidden_in_what_the_others_say(bench):
    told = threading.Event()

    def makes(context):
        context.hide("made-of-others")
        told.set()

    def says(_context):
        told.wait(5)
        raise not_ready("usage", "it was made-of-others")

    report = bench.run(bench.reads("a", makes), bench.reads("b", says))
    assert report.checks[1].findings[0].message == "it was ***"


def test_each_check_has_its_own_budget_and_its_own_place_in_the_journal(bench):
    barrier = threading.Barrier(2)

    def ask(context):
        barrier.wait(5)
        context.journal.open("GET", "http://x", connect_seconds=1, total_seconds=1, allowed_seconds=1)
        barrier.wait(5)
        return [] if context.budget.seconds < 7.5 else None

    report = bench.run(bench.reads("a", ask, budget=7.0), bench.reads("b", ask, budget=7.2))
    assert sorted(request.check for request in report.requests) == ["a", "b"]
    assert [check.budget_s for check in report.checks] == [7.0, 7.2]


def test_a_signal_ends_all_that_run_and_the_rest_is_skipped(bench, interrupts, signal_now):
    barrier = threading.Barrier(2)

    def wait(context):
        if barrier.wait(5) == 0:
            signal_now()
        context.budget.sleep(30)

    report = bench.run(
        bench.reads("a", wait), bench.reads("b", wait), bench.reads("c", needs=("b",)), interrupts=interrupts
    )
    assert outcomes(report) == {"a": "error", "b": "error", "c": "skipped for a"}
    assert (report.verdict, report.exit_code) == ("cancelled", 143)


def test_a_fault_of_precheck_in_one_check_leaves_the_others_alone(bench):
    def broken(_context):
        raise KeyError("nobody expected this")

    report = bench.run(bench.reads("a", broken), bench.reads("b"))
    assert outcomes(report) == {"a": "error", "b": "passed"}
    assert (report.verdict, report.exit_code) == ("error", 70)


def test_a_watcher_that_fails_leaves_no_thread_behind(bench):
    class Failing(Watcher):
        def ended(self, result):
            raise RuntimeError("the screen is gone")

    release = threading.Event()
    with pytest.raises(RuntimeError, match="the screen is gone"):
        bench.run(
            bench.reads("a", lambda _: release.set()),
            bench.reads("b", lambda _: release.wait(5) and None),
            watcher=Failing(),
        )
    assert [thread for thread in threading.enumerate() if thread.name.startswith("check ")] == []


def test_a_wait_for_others_keeps_the_watcher_awake(bench, monkeypatch):
    monkeypatch.setattr(crew, "_SLICE_SECONDS", 0.01)
    enough = threading.Event()

    class Awake(Watcher):
        def waiting(self):
            enough.set()

    report = bench.run(
        bench.reads("a", lambda _: enough.wait(5) and None),
        bench.reads("b", lambda _: enough.wait(5) and None),
        watcher=Awake(),
    )
    assert enough.is_set()
    assert report.verdict == "ready"
