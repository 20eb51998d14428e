"""`wait`, `when` and `severity` of a check."""

from __future__ import annotations

import re

import pytest

from precheck_lib import attempt
from precheck_lib.errors import DeadlineError
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.spec.model import Wait, When
from tests.unit.engine.conftest import outcomes


def answers(*script):
    """A check that says one thing after the other: nothing where it is right, else what is wrong; the last for ever."""
    left = list(script)

    def ask(_context):
        said = left.pop(0) if len(left) > 1 else left[0]
        if said:
            raise not_ready("usage", said)

    return ask


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(attempt, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(attempt, "_LAST_PAUSE", 0.002)


def test_a_check_that_waits_is_asked_until_it_is_right(bench):
    report = bench.run(bench.reads("a", answers("no", "no", ""), wait=Wait(seconds=5)))
    assert outcomes(report) == {"a": "passed"}
    assert report.checks[0].attempts == 3


def test_right_counts_only_so_many_times_in_a_row(bench):
    report = bench.run(bench.reads("a", answers("", "", "no", "", "", ""), wait=Wait(seconds=5, stable=3)))
    assert outcomes(report) == {"a": "passed"}
    assert report.checks[0].attempts == 6


def test_when_the_time_is_over_the_last_failure_is_told_with_how_often_it_was_asked(bench):
    report = bench.run(bench.reads("a", answers("still wrong"), wait=Wait(seconds=0.5)))
    (finding,) = report.checks[0].findings
    asked = report.checks[0].attempts
    assert asked > 3
    assert (finding.code, finding.message) == ("usage", "still wrong")
    assert finding.evidence == f"waited 0.5 s: asked {asked} times, the same answer each time"
    assert report.exit_code == 1


def test_an_answer_that_was_still_changing_is_told_as_such(bench):
    report = bench.run(bench.reads("a", answers("one", "two", "three"), wait=Wait(seconds=0.5)))
    assert "3 different answers one after the other: it was still changing" in report.checks[0].findings[0].evidence
    report = bench.run(bench.reads("a", answers("one", "", "two"), wait=Wait(seconds=0.5, stable=2)))
    told = re.search(
        r"right once \(last after ([0-9.]+) s\): it was still changing", report.checks[0].findings[0].evidence
    )
    assert 0.0 <= float(told[1]) <= 0.5


def test_an_attempt_that_the_end_of_the_wait_cuts_short_does_not_hide_what_was_said_before(bench):
    left = ["the model is on the CPU"]

    def ask(context):
        if left:
            raise not_ready("usage", left.pop())
        context.budget.sleep(30)

    report = bench.run(bench.reads("a", ask, wait=Wait(seconds=0.2)))
    (finding,) = report.checks[0].findings
    assert (finding.code, finding.message) == ("usage", "the model is on the CPU")
    assert finding.evidence == "waited 0.2 s: asked 2 times, the same answer each time"


def test_a_wait_in_which_nothing_ever_answered_ends_with_the_deadline(bench):
    report = bench.run(bench.reads("a", lambda context: context.budget.sleep(30), wait=Wait(seconds=0.2)))
    assert report.checks[0].findings[0].code.startswith("transport.deadline")


@pytest.mark.parametrize("phase", ["pause", "attempt"])
def test_the_end_of_a_wait_is_never_told_as_the_end_of_the_run(phase, bench):
    # The wait ends in a pause or in an attempt, whichever it meets; neither end is the run's.
    def ask(context):
        context.budget.sleep(0.001 if phase == "pause" else 0.03)
        raise not_ready("usage", "still wrong")

    for _ in range(20):
        report = bench.run(bench.reads("a", ask, wait=Wait(seconds=0.05)))
        assert report.checks[0].findings[0].code == "usage"


def test_right_but_not_often_enough_in_time_is_not_found_out(bench):
    report = bench.run(bench.reads("a", answers(""), wait=Wait(seconds=0.05, stable=10_000)))
    (finding,) = report.checks[0].findings
    assert report.checks[0].outcome == "error"
    assert finding.code == "wait.unstable"
    assert "not 10000 times" in finding.message


def test_one_attempt_takes_a_second_at_most_and_the_rest_of_the_wait_is_for_others(bench, monkeypatch):
    monkeypatch.setattr(attempt, "ATTEMPT_SECONDS", 0.02)
    calls = []

    def hang_once(context):
        calls.append(context.budget.seconds)
        if len(calls) == 1:
            context.budget.sleep(30)

    report = bench.run(bench.reads("a", hang_once, wait=Wait(seconds=5)))
    assert outcomes(report) == {"a": "passed"}
    assert calls == [0.02, 0.02]


def test_a_wait_has_the_budget_of_its_check(bench):
    report = bench.run(bench.reads("a", answers("no"), wait=Wait(seconds=60), budget=0.05))
    assert report.checks[0].outcome == "failed"
    assert report.elapsed_s < 2


def test_without_a_budget_of_its_own_a_check_has_the_time_of_its_wait(bench):
    report = bench.run(bench.reads("a", answers(""), wait=Wait(seconds=33)))
    assert report.checks[0].budget_s == 33


@pytest.mark.parametrize("code", ["roles.missing", "roles.malformed", "spec.invalid"])
def test_what_was_given_wrong_is_not_asked_again(code, bench):
    calls = []

    def ask(_context):
        calls.append(1)
        raise not_ready(code, "wrong")

    report = bench.run(bench.reads("a", ask, wait=Wait(seconds=30)))
    assert len(calls) == 1
    assert report.checks[0].findings[0].code == code


def test_a_signal_ends_a_wait_at_once(bench, interrupts, signal_now):
    def ask(_context):
        signal_now()
        raise not_ready("usage", "wrong")

    report = bench.run(bench.reads("a", ask, wait=Wait(seconds=30)), interrupts=interrupts)
    assert (report.verdict, report.checks[0].attempts) == ("cancelled", 1)
    assert report.elapsed_s < 2


def test_a_transport_error_is_waited_out_too(bench):
    left = [1, 1]

    def ask(context):
        if left:
            left.pop()
            raise DeadlineError("deadline of 1 s elapsed", phase="head", seconds=1)

    assert bench.run(bench.reads("a", ask, wait=Wait(seconds=5))).checks[0].attempts == 3


# when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "env", "runs"),
    [
        (When(env="GPU"), {"GPU": "1"}, True),
        (When(env="GPU"), {"GPU": " "}, False),
        (When(env="GPU"), {}, False),
        (When(env="GPU", equals="h200"), {"GPU": "h200"}, True),
        (When(env="GPU", equals="h200"), {"GPU": "H200"}, False),
        (When(env="GPU", equals=""), {}, True),
    ],
)
def test_a_check_runs_only_where_its_condition_holds(when, env, runs, bench):
    report = bench.run(bench.reads("a", when=when), bench.reads("b"), env=env)
    assert ("a" in bench.began) is runs
    assert report.checks[0].outcome == ("passed" if runs else "skipped")
    assert (report.checks[0].unmet is None) is runs
    assert report.verdict == "ready"


def test_a_check_that_is_not_meant_for_this_machine_says_why_and_keeps_nothing_from_running(bench):
    report = bench.run(
        bench.reads("a", when=When(env="GPU", equals="h200")),
        bench.reads("b", needs=("a",)),
        bench.changes("c"),
    )
    assert report.checks[0].unmet == "only when GPU is 'h200'"
    assert outcomes(report) == {"a": "skipped", "b": "passed", "c": "passed"}
    assert report.exit_code == 0


def test_a_run_that_checked_nothing_is_no_pass(bench):
    report = bench.run(bench.reads("a", when=When(env="GPU")), bench.reads("b", when=When(env="TPU")))
    assert (report.verdict, report.exit_code) == ("error", 2)
    assert outcomes(report) == {"a": "skipped", "b": "error"}
    assert report.checks[1].findings[0].code == "spec.nothing-checked"


# severity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["failed", "error"])
def test_a_check_of_severity_warning_warns_and_the_run_is_ready(word, bench):
    def ask(_context):
        raise NotReadyError([make("usage", "not nice")], word=word)

    report = bench.run(bench.reads("a", ask, severity="warning"), bench.reads("b", needs=("a",)))
    assert outcomes(report) == {"a": "passed", "b": "passed"}
    (finding,) = report.checks[0].findings
    assert (finding.message, finding.severity) == ("not nice", "warning")
    assert (report.verdict, report.exit_code) == ("ready", 0)


def test_a_fault_of_precheck_is_no_warning_whatever_the_severity(bench):
    def broken(_context):
        raise KeyError("nobody expected this")

    report = bench.run(bench.reads("a", broken, severity="warning"))
    assert (report.verdict, report.exit_code) == ("error", 70)


def test_a_signal_is_no_warning_whatever_the_severity(bench, interrupts, signal_now):
    def wait(context):
        signal_now()
        context.budget.check("wait")

    report = bench.run(bench.reads("a", wait, severity="warning"), interrupts=interrupts)
    assert (report.verdict, report.exit_code) == ("cancelled", 143)
