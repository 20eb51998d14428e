"""The time of a run: what each check is given, what is kept back, and when it is over."""

from __future__ import annotations

import time

import pytest

from precheck_lib.engine import BudgetTooSmallError
from precheck_lib.findings import not_ready
from precheck_lib.watcher import Watcher
from tests.unit.engine.conftest import outcomes


def given(seen):
    return lambda context: seen.append(context.budget.left())


def test_a_check_has_its_own_budget_else_what_its_kind_takes(bench):
    report = bench.run(bench.reads("a", budget=3.0), bench.reads("b", seconds=7.0), bench.changes("c", seconds=8.0))
    assert [check.budget_s for check in report.checks] == [3.0, 7.0, 8.0]


def test_by_default_the_run_has_the_sum_of_its_parts(bench):
    report = bench.run(bench.reads("a", budget=3.0), bench.reads("b", seconds=7.0), bench.changes("c", seconds=8.0))
    assert report.budget_s == 3 + 7 + 8 + 2


def test_the_budget_of_the_spec_counts_before_that_and_the_one_that_is_given_before_both(bench):
    assert bench.run(bench.reads("a"), spec_budget=4.0).budget_s == 4.0
    assert bench.run(bench.reads("a"), spec_budget=4.0, budget=6.0).budget_s == 6.0


def test_models_that_the_environment_tells_are_counted_by_their_one_name(bench):
    env = {"MODELS": '["a", "A:latest", "b"]'}
    report = bench.run(bench.changes("c", seconds=8.0, models="${MODELS#}"), env=env)
    assert report.budget_s == 2 * 8 + 2 * 2
    assert bench.run(bench.changes("c", seconds=8.0, models="${MODELS#}")).budget_s == 8 + 2


def test_a_check_is_cut_at_the_budget_of_the_run(bench):
    seen = []
    report = bench.run(bench.reads("a", given(seen), seconds=100.0), budget=5.0)
    assert 4 < seen[0] <= 5
    assert report.checks[0].budget_s <= 5


def test_a_change_ends_before_the_reserve(bench):
    seen = []
    report = bench.run(
        bench.reads("a", given(seen), seconds=100.0), bench.changes("c", given(seen), seconds=100.0), budget=5.0
    )
    assert 4 < seen[0] <= 5
    assert 2 < seen[1] <= 3
    assert 2 < report.checks[1].budget_s <= 3


def test_what_a_check_took_is_not_there_for_the_next(bench):
    seen = []
    bench.run(bench.reads("a", lambda _: time.sleep(0.05)), bench.reads("b", given(seen), needs=("a",)), budget=1.0)
    assert seen[0] <= 0.95


def test_a_budget_that_leaves_no_time_for_a_load_is_refused_before_anything_is_done(bench):
    check = bench.changes("c", reserve=7.0, settle=2.0)
    for more in ({"budget": 7.0}, {"spec_budget": 7.0}):
        with pytest.raises(BudgetTooSmallError) as caught:
            bench.run(bench.reads("a"), check, **more)
        assert caught.value.smallest == 11
        assert str(caught.value) == (
            "a budget of 7s leaves no time for a load: 7s of it are kept for cleanup and reports; "
            "the smallest one that works is 11s"
        )
    assert bench.began == []
    assert bench.results == []


def test_the_smallest_budget_works(bench):
    assert bench.run(bench.changes("c", reserve=7.0, settle=2.0), budget=10.0).verdict == "ready"


def test_the_smallest_budget_is_told_in_whole_seconds_above_what_is_needed(bench):
    for reserve, settle, smallest in ((7.0, 2.0, 11), (7.5, 2.0, 11), (7.5, 2.5, 12), (0.6, 0.0, 2)):
        with pytest.raises(BudgetTooSmallError) as caught:
            bench.run(bench.changes("c", reserve=reserve, settle=settle), budget=0.5)
        assert caught.value.smallest == smallest


def test_without_a_change_any_budget_will_do(bench):
    assert bench.run(bench.reads("a"), budget=0.5).verdict == "ready"


def test_once_the_budget_is_over_nothing_more_is_begun_and_that_is_said(bench):
    report = bench.run(
        bench.reads("a", lambda context: time.sleep(context.budget.left())),
        bench.reads("b", needs=("a",)),
        bench.reads("c", needs=("b",)),
        budget=0.05,
        exit_codes="curl",
    )
    assert bench.began == ["a"]
    assert outcomes(report) == {"a": "passed", "b": "error", "c": "skipped for b"}
    assert report.exit_code == 28
    (finding,) = report.checks[1].findings
    assert finding.code == "run.budget"
    assert "deadline of 0.05 s elapsed [curl: (28)]" in finding.message
    assert "the run's own budget of 0.05 s is over" in finding.evidence


def test_as_long_as_there_is_time_a_failure_keeps_only_what_needs_it(bench):
    def fail(_context):
        raise not_ready("usage", "wrong")

    report = bench.run(bench.reads("a", fail), bench.reads("b"), budget=0.95)
    assert outcomes(report) == {"a": "failed", "b": "passed"}


def test_a_deadline_that_is_the_budget_of_the_run_says_so(bench):
    report = bench.run(bench.reads("a", lambda context: context.budget.sleep(5)), budget=0.05)
    (finding,) = report.checks[0].findings
    assert finding.code == "run.budget"
    assert "deadline of 0.05 s elapsed" in finding.message
    assert finding.evidence.endswith("the run's own budget of 0.05 s is over")


def test_a_deadline_of_a_check_alone_does_not_blame_the_run(bench):
    report = bench.run(bench.reads("a", lambda context: context.budget.sleep(5), budget=0.05), budget=0.95)
    (finding,) = report.checks[0].findings
    assert finding.code == "transport.deadline"
    assert "budget" not in finding.evidence


def test_the_evidence_of_a_check_stays_beside_that_of_the_run(bench):
    def late(context):
        time.sleep(context.budget.left())
        raise not_ready("command.deadline", "late", evidence="it said x", word="error", curl=28)

    (finding,) = bench.run(bench.reads("a", late), budget=0.05).checks[0].findings
    assert finding.evidence == "it said x; the run's own budget of 0.05 s is over"


# Cleanup --------------------------------------------------------------------------------------------------------------


def loading(*cleanups, then=None):
    def do(context):
        context.cleanups += cleanups
        if then is not None:
            raise then

    return do


def test_a_pass_cleans_nothing_up(bench):
    called = []
    report = bench.run(bench.changes("c", loading(called.append)))
    assert (report.verdict, called) == ("ready", [])


def test_a_failure_cleans_up_once_and_last_first(bench):
    called = []
    cleanups = [lambda _, number=number: called.append(number) or [f"remark {number}"] for number in range(3)]
    report = bench.run(
        bench.changes("b", loading(*cleanups[:2])), bench.changes("c", loading(cleanups[2], then=ValueError()))
    )
    assert called == [2, 1, 0]
    assert report.remarks == ["remark 2", "remark 1", "remark 0"]


def test_a_failed_cleanup_is_a_remark_and_keeps_no_other_from_being_made(bench):
    called = []

    def broken(_budget):
        raise OSError("no")

    report = bench.run(
        bench.changes("c", loading(lambda _: called.append(1) or [], broken, then=not_ready("usage", "m")))
    )
    assert called == [1]
    assert report.remarks == ["the cleanup failed: internal error: OSError: no; native residency remains unconfirmed"]
    assert (report.verdict, report.exit_code) == ("not-ready", 1)


def test_a_cleanup_has_the_reserve_less_what_the_reports_take(bench):
    seen = []
    bench.run(bench.changes("c", loading(lambda budget: seen.append(budget.seconds) or [], then=ValueError())))
    assert seen == [1.5]


def test_a_cleanup_has_no_more_than_what_is_left_of_the_run(bench):
    seen = []

    def overstay(context):
        context.cleanups.append(lambda budget: seen.append(budget.seconds) or [])
        time.sleep(0.2)
        raise ValueError

    bench.run(bench.changes("c", overstay, reserve=0.7), budget=0.8)
    assert 0 <= seen[0] <= 0.1


def test_a_cleanup_is_announced_with_its_time(bench):
    bench.run(bench.changes("c", loading(lambda _: [], then=ValueError())))
    assert bench.phases[-1] == ("cleanup", "unloading what this run has loaded", 1.5)


class Deaf(Watcher):
    def ended(self, _result):
        raise OSError("nobody listens")


def test_a_watcher_that_fails_leaves_nothing_loaded(bench):
    called = []
    with pytest.raises(OSError, match="nobody listens"):
        bench.run(bench.changes("c", loading(lambda _: called.append(1) or [])), watcher=Deaf())
    assert called == [1]
