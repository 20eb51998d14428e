"""What has changed since an earlier run: facts compared, reports that cannot be verified, specs that only look."""

from __future__ import annotations

import calendar
import json
import time

import pytest

from precheck_lib.checks import changes_server
from precheck_lib.earlier import EarlierRun, looking_only, read_earlier
from precheck_lib.exits import UsageError
from precheck_lib.findings import NotReadyError
from precheck_lib.outcome import Observed
from precheck_lib.spec import build_spec

STARTED = "2026-01-02T03:04:05Z"
GIB = 1 << 30


def report(*facts, verdict="ready", checks=(("a", "passed"),), **more):
    """A report as it is saved, with facts of check `a`."""
    return {
        "version": 1,
        "spec": {"name": "it", "path": "it.yml", "digest": "d"},
        "verdict": verdict,
        "started": STARTED,
        "checks": [{"id": id_, "outcome": word, "started_s": 1.0, "elapsed_s": 2.0} for id_, word in checks],
        "observed": [{"check": "a", "subject": "S", "fact": fact, "value": value} for fact, value in facts],
        **more,
    }


@pytest.fixture
def earlier(tmp_path):
    def read(document):
        path = tmp_path / "precheck.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return read_earlier(str(path))

    return read


def now(*facts):
    return [Observed(check="a", subject="S", fact=fact, value=value) for fact, value in facts]


def changes(run, *facts):
    """The findings of a comparison, the warnings too, as codes with their messages."""
    try:
        found = run.judge("a", now(*facts))
    except NotReadyError as error:
        return {finding.code: finding.message for finding in error.findings}, error.word
    return {finding.code: finding.message for finding in found}, "passed"


PROCESS = "pid 455, started 2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("fact", "then", "later", "code", "said"),
    [
        ("version", "0.32.15", "0.33.0", "drift.version", "S is 0.33.0 now, it was 0.32.15"),
        ("digest", "aaa", "bbb", "drift.digest", "S has the digest bbb now, it had aaa"),
        ("context length", 65536, 4096, "drift.context", "S has a context length of 4096 now, it had 65536"),
        (
            "process",
            PROCESS,
            "pid 812, started 2026-01-01T00:00:00Z",
            "drift.process",
            f"S was started anew: it is pid 812, started 2026-01-01T00:00:00Z now, it was {PROCESS}",
        ),
        (
            "process",
            PROCESS,
            "pid 455, started 2026-01-01T00:00:09Z",
            "drift.process",
            f"S was started anew: it is pid 455, started 2026-01-01T00:00:09Z now, it was {PROCESS}",
        ),
    ],
)
def test_a_fact_that_has_changed_is_a_failure_with_both_values(fact, then, later, code, said, earlier):
    assert changes(earlier(report((fact, then))), (fact, later)) == ({code: said}, "failed")


@pytest.mark.parametrize(
    ("fact", "then", "later"),
    [
        ("version", "1", "1"),
        ("context length", 4096, 4096),
        ("GPU memory", 9 * GIB, 9 * GIB + (200 << 20)),  # more, by a server's own buffers
        ("GPU memory", 90 * GIB, 95 * GIB),  # more, by less than a sixteenth
        ("GPU memory", 9 * GIB, 8 * GIB),
        ("process", PROCESS, "pid 455, started 2026-01-01T00:00:02Z"),  # the clock was set
        ("process", f"{PROCESS} and {PROCESS.replace('455', '9')}", f"{PROCESS.replace('455', '9')} and {PROCESS}"),
    ],
)
def test_what_is_as_it_was_is_no_finding(fact, then, later, earlier):
    assert changes(earlier(report((fact, then))), (fact, later)) == ({}, "passed")


def test_gpu_memory_that_has_grown_is_a_warning(earlier):
    found = changes(earlier(report(("GPU memory", 9 * GIB))), ("GPU memory", 12 * GIB))
    assert found == ({"drift.memory": "S holds 12 GiB of GPU memory now, it held 9 GiB"}, "passed")


def test_what_cannot_be_seen_any_more_is_not_known_to_be_right(earlier):
    found = changes(earlier(report(("version", "1"))))
    assert found == ({"drift.unseen": "S: its version cannot be seen now; it was 1"}, "error")


def test_what_was_not_seen_then_is_not_compared(earlier):
    assert changes(earlier(report()), ("version", "2")) == ({}, "passed")


def test_facts_of_another_check_are_that_check_s(earlier):
    assert earlier(report(("version", "1"))).judge("b", []) == []


def test_when_a_check_was_last_right_is_told_with_how_long_ago_that_is(tmp_path, earlier):
    then = calendar.timegm(time.strptime(STARTED, "%Y-%m-%dT%H:%M:%SZ"))
    run = earlier(report())
    run._now = lambda: then + 3 + 21 * 60
    assert run.last_right("a") == "last seen right at 2026-01-02T03:04:08Z, 21 min ago"
    assert run.last_right("b") == ""


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (report(verdict="not-ready"), "says not-ready, so there is nothing to verify"),
        (report(version=2), "has version 2; this precheck reads version 1"),
        (report(started="yesterday"), "is not a JSON report of precheck"),
        (report(("version", [])), "is not a JSON report of precheck"),
        (report(observed=None), "is not a JSON report of precheck"),
        ({}, "is not a JSON report of precheck"),
        ("[" * 100_000, "is not a JSON report of precheck"),
        ("", "is not a JSON report of precheck"),
    ],
)
def test_what_cannot_be_verified_is_refused(document, said, earlier):
    with pytest.raises(UsageError, match=said):
        earlier(document)


def test_a_folder_stands_for_the_report_in_it(tmp_path):
    (tmp_path / "precheck.json").write_text(json.dumps(report()), encoding="utf-8")
    assert isinstance(read_earlier(str(tmp_path)), EarlierRun)


def test_a_report_that_is_not_there_is_refused_by_its_name(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json' cannot be read: No such file"):
        read_earlier(str(tmp_path / "none.json"))


def test_a_spec_is_made_to_look_only_and_what_did_not_pass_then_is_left_out(earlier):
    spec = build_spec(
        {
            "version": 1,
            "name": "it",
            "fail_fast": True,
            "checks": [
                {"id": "a", "tcp": {"url": "http://h:1"}},
                {"id": "b", "tcp": {"url": "http://h:2"}},
                {"id": "c", "residency": {"url": "http://h:3", "models": ["m"], "mode": "cycle", "context_length": 5}},
            ],
        }
    )
    made = looking_only(spec, earlier(report(checks=(("a", "passed"), ("b", "skipped"), ("c", "passed")))))
    assert [check.left_out for check in made.checks] == [None, "it did not pass then either", None]
    assert (made.checks[2].options.mode, made.checks[2].options.context_length) == ("verify", 5)
    assert not any(changes_server(check) for check in made.checks)
    assert not made.fail_fast
