"""Which checks run, in which order, and which are skipped for which."""

from __future__ import annotations

import pytest

from precheck_lib.errors import ConnectError
from precheck_lib.findings import not_ready
from precheck_lib.watcher import Watcher
from tests.unit.engine.conftest import outcomes


def fail(_context):
    raise not_ready("usage", "it is wrong")


def break_(_context):
    raise ConnectError("refused", phase="connect")


def test_checks_run_in_the_order_of_the_spec_and_are_told_as_they_end(bench):
    report = bench.run(bench.reads("a"), bench.reads("b"), bench.reads("c"))
    assert bench.began == ["a", "b", "c"]
    assert [result.id for result in bench.results] == ["a", "b", "c"]
    assert all(result is check for result, check in zip(bench.results, report.checks, strict=True))
    assert (report.verdict, report.exit_code) == ("ready", 0)


def test_what_changes_a_server_runs_after_all_that_only_reads_wherever_it_stands(bench):
    report = bench.run(bench.changes("x"), bench.reads("a"), bench.changes("y"), bench.reads("b"))
    assert bench.began == ["a", "b", "x", "y"]
    assert [check.id for check in report.checks] == ["x", "a", "y", "b"]


def test_a_check_is_told_when_it_begins_and_when_it_has_ended_before_the_next_begins(bench):
    seen = []

    class Telling(Watcher):
        def phase(self, check, text, seconds):
            seen.append(f"{check}: {text}, {seconds:.0f} s")

        def ended(self, result):
            seen.append(f"{result.id} {result.outcome}")

    bench.run(
        bench.reads("a", lambda _: seen.append("a runs")),
        bench.reads("b", lambda context: context.phase("waits", 7.0), needs=("a",), budget=3.0),
        watcher=Telling(),
    )
    assert seen == ["a: title of a, 10 s", "a runs", "a passed", "b: title of b, 3 s", "b: waits, 7 s", "b passed"]


def test_whoever_watches_hears_that_the_run_still_waits(bench):
    bench.run(bench.reads("a", lambda context: context.budget.sleep(0.02)))
    assert bench.ticks >= 1


def test_nobody_has_to_watch(bench):
    assert bench.run(bench.reads("a"), watcher=None).verdict == "ready"


@pytest.mark.parametrize("do", [fail, break_])
def test_with_fail_fast_nothing_runs_after_the_first_that_does_not_pass(bench, do):
    report = bench.run(bench.reads("a"), bench.reads("b", do), bench.reads("c"), bench.changes("d"), fail_fast=True)
    assert bench.began == ["a", "b"]
    word = "failed" if do is fail else "error"
    assert outcomes(report) == {"a": "passed", "b": word, "c": "skipped for b", "d": "skipped for b"}


def test_without_fail_fast_what_does_not_need_it_runs_all_the_same(bench):
    report = bench.run(bench.reads("a", fail), bench.reads("b"), bench.reads("c", needs=("b",)))
    assert outcomes(report) == {"a": "failed", "b": "passed", "c": "passed"}


def test_a_check_is_skipped_for_the_one_that_failed_and_not_for_one_that_was_skipped_for_it(bench):
    report = bench.run(
        bench.reads("a", fail),
        bench.reads("b", needs=("a",)),
        bench.reads("c", needs=("b",)),
        bench.reads("d", needs=("c",)),
        bench.reads("e"),
    )
    assert outcomes(report) == {
        "a": "failed",
        "b": "skipped for a",
        "c": "skipped for a",
        "d": "skipped for a",
        "e": "passed",
    }


def test_of_several_needs_the_first_that_did_not_pass_is_named(bench):
    report = bench.run(
        bench.reads("a"), bench.reads("b", fail), bench.reads("c", fail), bench.reads("d", needs=("a", "c", "b"))
    )
    assert outcomes(report)["d"] == "skipped for c"


def test_nothing_is_changed_once_anything_did_not_pass_whether_it_is_needed_or_not(bench):
    for do in (fail, break_):
        report = bench.run(bench.changes("x"), bench.reads("a"), bench.reads("b", do), bench.reads("c"))
        assert outcomes(report)["x"] == "skipped for b"
    assert "x" not in bench.began


def test_a_change_that_failed_keeps_the_next_one_from_being_made(bench):
    report = bench.run(bench.changes("x", fail), bench.changes("y"))
    assert outcomes(report) == {"x": "failed", "y": "skipped for x"}


def test_a_skipped_check_is_told_with_no_time_of_its_own(bench):
    report = bench.run(bench.reads("a", fail), bench.reads("b", needs=("a",)))
    assert [result.id for result in bench.results] == ["a", "b"]
    assert (report.checks[1].started_s, report.checks[1].elapsed_s, report.checks[1].budget_s) == (None, 0.0, None)
    assert report.checks[1].findings == []


def test_a_check_knows_its_title_kind_and_place(bench):
    report = bench.run(bench.reads("a"))
    (check,) = report.checks
    assert (check.title, check.kind, check.source.file, check.source.line) == ("title of a", "fake-reads", "it.yml", 7)
