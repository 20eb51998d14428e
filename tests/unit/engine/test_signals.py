"""A run that is to end early: what is said of it, what is still cleaned up, and how long that may take."""

from __future__ import annotations

import time

import pytest

from precheck_lib.errors import Cancelled
from precheck_lib.findings import make, not_ready
from tests.unit.engine.conftest import outcomes


def codes(report):
    return {check.id: [finding.code for finding in check.findings] for check in report.checks if check.findings}


def test_a_signal_before_the_first_check_keeps_all_from_running(bench, interrupts, signal_now):
    signal_now(15)
    report = bench.run(bench.reads("a"), bench.reads("b"), bench.changes("c"), interrupts=interrupts)
    assert bench.began == []
    assert outcomes(report) == {"a": "error", "b": "skipped for a", "c": "skipped for a"}
    assert (report.verdict, report.exit_code) == ("cancelled", 143)
    (finding,) = report.checks[0].findings
    assert (finding.code, finding.message) == ("run.cancelled", "the run was ended by SIGTERM during this check")


@pytest.mark.parametrize(("number", "name"), [(1, "SIGHUP"), (2, "SIGINT"), (15, "SIGTERM")])
def test_a_signal_during_a_check_ends_it_and_the_rest_is_skipped(bench, interrupts, signal_now, number, name):
    def wait(context):
        signal_now(number)
        context.budget.sleep(30)

    report = bench.run(
        bench.reads("a"), bench.reads("b", wait, needs=("a",)), bench.reads("c", needs=("b",)), interrupts=interrupts
    )
    assert outcomes(report) == {"a": "passed", "b": "error", "c": "skipped for b"}
    assert (report.verdict, report.exit_code) == ("cancelled", 128 + number)
    assert name in report.checks[1].findings[0].message


def test_a_signal_that_a_check_does_not_notice_ends_the_next_one(bench, interrupts, signal_now):
    report = bench.run(bench.reads("a", lambda _: signal_now()), bench.reads("b", needs=("a",)), interrupts=interrupts)
    assert outcomes(report) == {"a": "passed", "b": "error"}
    assert codes(report) == {"b": ["run.cancelled"]}


def test_a_signal_after_the_last_check_is_said_of_that_one(bench, interrupts, signal_now):
    warning = make("command.leftover", "left behind", severity="warning")
    report = bench.run(
        bench.reads("a", lambda _: [warning]), bench.reads("b", lambda _: signal_now()), interrupts=interrupts
    )
    assert outcomes(report) == {"a": "passed", "b": "error"}
    assert codes(report) == {"a": ["command.leftover"], "b": ["run.cancelled"]}
    assert "SIGTERM" in report.checks[1].findings[0].message
    assert (report.verdict, report.exit_code) == ("cancelled", 143)


def test_a_signal_after_a_load_that_passed_unloads_it(bench, interrupts, signal_now):
    called = []

    def load(context):
        context.cleanups.append(lambda _: called.append(1) or [])
        signal_now()

    report = bench.run(bench.changes("c", load), interrupts=interrupts)
    assert called == [1]
    assert report.verdict == "cancelled"


def test_a_failure_before_the_signal_stays_and_the_run_is_cancelled(bench, interrupts, signal_now):
    def fail(_context):
        signal_now(2)
        raise not_ready("usage", "wrong")

    report = bench.run(bench.reads("a", fail), bench.reads("b", needs=("a",)), interrupts=interrupts)
    assert outcomes(report) == {"a": "failed", "b": "skipped for a"}
    assert codes(report) == {"a": ["usage"]}
    assert (report.verdict, report.exit_code) == ("cancelled", 130)
    assert report.remarks == ["the run was ended by SIGINT after its first failure"]


def test_a_cancelled_check_says_so_once(bench, interrupts, signal_now):
    def wait(context):
        signal_now()
        context.budget.check("wait")

    report = bench.run(bench.reads("a", wait), interrupts=interrupts)
    assert codes(report) == {"a": ["run.cancelled"]}


def test_from_the_end_of_the_checks_on_a_signal_changes_nothing(bench, interrupts, signal_now):
    report = bench.run(bench.reads("a"), interrupts=interrupts)
    assert interrupts.final
    signal_now()
    assert (report.verdict, report.exit_code) == ("ready", 0)
    assert not interrupts.stop.is_set


def failing_load(*cleanups):
    def load(context):
        context.cleanups += cleanups
        raise not_ready("usage", "wrong")

    return load


def test_after_a_signal_a_cleanup_has_5_seconds_less_what_the_reports_take(bench, interrupts, signal_now):
    seen = []

    def load(context):
        context.cleanups.append(lambda budget: seen.append(budget.left()) or [])
        signal_now()
        context.budget.check("wait")

    bench.run(bench.changes("c", load, reserve=60.0), interrupts=interrupts)
    assert 4 < seen[0] <= 4.5


def test_a_signal_in_the_middle_of_a_cleanup_cuts_what_is_left_of_it(bench, interrupts, signal_now):
    seen = []

    def cleanup(budget):
        seen.append(budget.left())
        signal_now()
        seen.append(budget.left())
        return []

    report = bench.run(bench.changes("c", failing_load(cleanup), reserve=60.0), interrupts=interrupts)
    assert 59 < seen[0] <= 59.5
    assert 4 < seen[1] <= 4.5
    assert report.verdict == "cancelled"


def test_the_seconds_since_the_signal_are_gone(bench, interrupts, signal_now):
    seen = []

    def load(context):
        context.cleanups.append(lambda budget: seen.append(budget.left()) or [])
        signal_now()
        interrupts.stopped_at -= 3.0
        context.budget.check("wait")

    bench.run(bench.changes("c", load, reserve=60.0), interrupts=interrupts)
    assert 1 < seen[0] <= 1.5


def test_a_second_signal_ends_the_waits_of_a_cleanup(bench, interrupts, signal_now, monkeypatch):
    monkeypatch.setattr("signal.setitimer", lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    seen = []

    def cleanup(budget):
        signal_now()
        budget.check("wait")  # the first one cuts it and does not end it
        signal_now()
        began = time.monotonic()
        with pytest.raises(Cancelled):
            budget.sleep(30)
        seen.append(time.monotonic() - began)
        return ["unconfirmed"]

    report = bench.run(bench.changes("c", failing_load(cleanup), reserve=60.0), interrupts=interrupts)
    assert seen[0] < 1
    assert report.remarks == ["unconfirmed", "the run was ended by SIGTERM after its first failure"]
    assert (report.verdict, report.exit_code) == ("cancelled", 143)


def test_a_cleanup_that_lets_the_second_signal_through_still_ends_in_a_report(
    bench, interrupts, signal_now, monkeypatch
):
    monkeypatch.setattr("signal.setitimer", lambda *_: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def cleanup(budget):
        signal_now()
        signal_now()
        budget.check("wait")
        return []

    report = bench.run(bench.changes("c", failing_load(cleanup), reserve=60.0), interrupts=interrupts)
    assert (report.verdict, report.exit_code) == ("cancelled", 143)
    assert len(report.remarks) == 2


def test_it_is_known_while_models_may_be_held_and_only_then(bench, interrupts):
    seen = []

    def note(where):
        return lambda _: seen.append((where, interrupts.may_hold_models)) or []

    bench.run(
        bench.reads("a", note("reads")),
        bench.changes("c", lambda context: (note("changes")(context), failing_load(note("cleanup"))(context))),
        interrupts=interrupts,
    )
    assert seen == [("reads", False), ("changes", True), ("cleanup", True)]
    assert not interrupts.may_hold_models
