"""How a run ends: verdict, exit code, findings, and that nothing shown holds a secret."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from types import SimpleNamespace

import msgspec
import pytest

from precheck_lib.checks.env import EnvOptions, Role
from precheck_lib.errors import (
    AnswerError,
    Cancelled,
    CertificateError,
    ConnectError,
    DeadlineError,
    GarbledError,
    StatusError,
)
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import CycleRecord, Source, SpecIdentity
from precheck_lib.spec import CheckSpec
from tests.unit.engine.conftest import outcomes

SECRET = "hunter2-hunter2"


def raising(error):
    def do(_context):
        raise error

    return do


def ended(report):
    return report.verdict, report.exit_code


# Words and numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "word", "plain", "curl", "code"),
    [
        (not_ready("codex.mcp", "m"), "failed", 1, 1, "codex.mcp"),
        (not_ready("ollama.removal", "m", curl=28), "failed", 1, 28, "ollama.removal"),
        (not_ready("command.missing", "m", word="error"), "error", 3, 1, "command.missing"),
        (not_ready("tcp.failed", "m", word="error", curl=7), "error", 3, 7, "tcp.failed"),
        (AnswerError("m"), "failed", 1, 1, "http.answer"),
        (StatusError("m", 401), "failed", 1, 22, "http.status"),
        (StatusError("m", 500), "error", 3, 22, "http.status"),
        (StatusError("m", 302), "failed", 1, 1, "http.status"),
        (GarbledError("m", phase="head"), "error", 3, 1, "transport.garbled"),
        (CertificateError("m", phase="tls"), "error", 3, 60, "transport.certificate"),
        (DeadlineError("m", phase="head", seconds=1), "error", 3, 28, "transport.deadline"),
    ],
)
def test_a_failure_has_its_word_and_its_number_in_both_vocabularies(bench, error, word, plain, curl, code):
    for exit_codes, number in (("plain", plain), ("curl", curl)):
        report = bench.run(bench.reads("a", raising(error)), exit_codes=exit_codes)
        assert (*ended(report), report.checks[0].outcome) == ("not-ready", number, word)
        assert report.checks[0].findings[0].code == code


def test_only_curl_numbers_are_said_and_only_in_the_first_message(bench):
    error = NotReadyError([make("usage", "one"), make("usage", "two")], word="error", curl=28)
    for exit_codes, first in (("plain", "one"), ("curl", "one [curl: (28)]")):
        report = bench.run(bench.reads("a", raising(error)), exit_codes=exit_codes)
        assert [finding.message for finding in report.checks[0].findings] == [first, "two"]
    for error in (not_ready("usage", "one"), ValueError("one"), Cancelled(15)):
        report = bench.run(bench.reads("a", raising(error)), exit_codes="curl")
        assert "curl" not in report.checks[0].findings[0].message


def test_a_talk_that_failed_is_named_by_the_title_of_its_check(bench):
    report = bench.run(bench.reads("a", raising(ConnectError("refused", phase="connect"))))
    assert report.checks[0].findings[0].message == "title of a: refused"


def test_the_first_failure_in_the_order_of_the_spec_decides(bench):
    report = bench.run(
        bench.reads("a"),
        bench.reads("b", raising(ConnectError("m", phase="connect"))),
        bench.reads("c", raising(not_ready("usage", "m"))),
        bench.reads("d", raising(ValueError("m"))),
        exit_codes="curl",
    )
    assert ended(report) == ("not-ready", 7)


def test_an_internal_error_is_reported_with_its_traceback_and_ends_with_70(bench):
    def stumble(_context):
        raise ValueError("left foot")

    report = bench.run(bench.reads("a", stumble), bench.reads("b"), fail_fast=True)
    assert ended(report) == ("error", 70)
    assert outcomes(report) == {"a": "error", "b": "skipped for a"}
    (finding,) = report.checks[0].findings
    assert (finding.code, finding.message) == ("run.internal", "internal error: ValueError: left foot")
    assert "in stumble" in finding.evidence
    assert "\n" not in finding.evidence


@pytest.mark.parametrize(
    "error", [RecursionError("deep"), MemoryError(), OSError(5, "io"), SystemExit(0), AssertionError()]
)
def test_whatever_a_check_raises_is_never_a_pass(bench, error):
    report = bench.run(bench.reads("a", raising(error)), bench.reads("b"))
    assert ended(report) == ("error", 70)
    assert outcomes(report) == {"a": "error", "b": "passed"}


def test_warnings_are_kept_and_pass(bench):
    warning = make("command.leftover", "left behind", severity="warning")
    report = bench.run(bench.reads("a", lambda _: [warning]))
    assert ended(report) == ("ready", 0)
    assert report.checks[0].findings == [warning]


def test_a_variable_that_is_not_set_is_a_requirement_that_is_not_met(bench):
    report = bench.run(bench.reads("a", lambda context: context.text("${NONE}")))
    assert ended(report) == ("not-ready", 1)
    (finding,) = report.checks[0].findings
    assert (finding.code, finding.message) == ("roles.missing", "the environment variable NONE is not set")


# What the report holds ------------------------------------------------------------------------------------------------


def test_what_a_check_has_learned_is_known_to_the_next(bench):
    seen = []
    bench.run(
        bench.reads("a", lambda context: context.known.update(tags=5)),
        bench.reads("b", lambda context: seen.append(context.known["tags"])),
    )
    assert seen == [5]


def test_requests_are_listed_under_the_check_that_made_them(bench):
    def ask(context):
        context.journal.open("GET", "http://h/x", connect_seconds=2, total_seconds=10, allowed_seconds=9.5)

    report = bench.run(bench.reads("a", ask), bench.reads("b"), bench.changes("c", ask))
    assert [(request.check, request.url) for request in report.requests] == [("a", "http://h/x"), ("c", "http://h/x")]


def test_requests_of_the_cleanup_are_listed_under_cleanup(bench):
    def load(context):
        context.cleanups.append(lambda _: ask(context))
        raise ValueError

    def ask(context):
        context.journal.open("POST", "http://h/x", connect_seconds=2, total_seconds=10, allowed_seconds=9.5)
        return []

    assert [request.check for request in bench.run(bench.changes("a", load)).requests] == ["cleanup"]


def test_cycles_are_listed(bench):
    cycle = CycleRecord(model="m")
    assert bench.run(bench.changes("a", lambda context: context.cycles.append(cycle))).cycles == [cycle]


def test_the_report_names_spec_host_and_times(bench):
    report = bench.run(bench.reads("a"), env={"RUNNER_NAME": "gpu-7"}, budget=5.0)
    assert (report.spec.name, report.spec.path, report.spec.digest) == ("it", "it.yml", "d")
    assert report.host.runner == "gpu-7"
    assert report.started.endswith("Z")
    assert len(report.started) == 20
    assert report.budget_s == 5.0
    assert report.host.python == ".".join(map(str, sys.version_info[:3]))


def test_a_check_knows_when_it_began_and_how_long_it_took(bench):
    report = bench.run(
        bench.reads("a", lambda _: time.sleep(0.02)),
        bench.reads("b", lambda _: time.sleep(0.01), needs=("a",)),
        budget=1.23456,
    )
    first, second = report.checks
    assert 0.02 <= first.elapsed_s < 0.5
    assert 0.01 <= second.elapsed_s < first.elapsed_s + 0.5
    assert first.started_s + first.elapsed_s <= second.started_s + 0.001
    assert second.started_s + second.elapsed_s <= report.elapsed_s + 0.001
    times = [first.started_s, first.elapsed_s, second.started_s, second.elapsed_s, second.budget_s, report.elapsed_s]
    assert times == [round(seconds, 3) for seconds in times]


def test_no_check_ends_before_it_began_however_short_it_was(bench):
    times = [bench.run(bench.reads("a", lambda _context: None)).checks[0].elapsed_s for _ in range(40)]
    assert {math.copysign(1, elapsed) for elapsed in times} == {1.0}


def test_what_is_needed_later_is_imported_while_a_child_runs_and_what_is_missing_is_no_fault(bench):
    sys.modules.pop("colorsys", None)
    sys.modules.pop("sndhdr_of_tests", None)
    report = bench.run(
        bench.reads("a", lambda context: context.meanwhile()), bench.changes("b"), preload=("sndhdr_of_tests", "chunk_")
    )
    assert ended(report) == ("ready", 0)
    assert "colorsys" in sys.modules


# Secrets --------------------------------------------------------------------------------------------------------------


def roles(**secret):
    options = EnvOptions(required={name: Role(secret=is_secret) for name, is_secret in secret.items()})
    return CheckSpec(id="roles", title="roles", kind="env", options=options, source=Source("it.yml", 1))


ENV = {"SECRET_ROLE": SECRET, "PLAIN_ROLE": "plain-plain"}


def test_a_secret_role_is_hidden_in_all_that_is_shown(bench):
    findings = [make("usage", f"m {SECRET}", evidence=f"e {SECRET}", remedy=f"r {SECRET}")]

    def load(context):
        context.cleanups.append(lambda _: [f"left {SECRET}"])
        context.cleanups.append(raising(ValueError(f"broken {SECRET}")))
        raise NotReadyError(findings)

    report = bench.run(
        roles(SECRET_ROLE=True, PLAIN_ROLE=False),
        bench.reads("a", lambda _: [make("usage", f"w {SECRET}", severity="warning")]),
        bench.changes("b", load),
        env=ENV,
    )
    shown = [
        *(
            text
            for check in report.checks
            for finding in check.findings
            for text in (finding.message, finding.evidence, finding.remedy)
        ),
        *report.remarks,
    ]
    assert sum("***" in text for text in shown) == 6
    assert not any(SECRET in text for text in shown)


def test_a_secret_is_hidden_in_the_requests_and_cycles_too(bench):
    def ask(context):
        url = context.text("http://h/${MY_TOKEN}/x")
        context.journal.open("GET", url, connect_seconds=2, total_seconds=10, allowed_seconds=9)
        context.cycles.append(CycleRecord(model=f"m-{SECRET}"))

    report = bench.run(bench.changes("a", ask, text="${MY_TOKEN}"), env={"MY_TOKEN": SECRET})
    assert [request.url for request in report.requests] == ["http://h/***/x"]
    assert [cycle.model for cycle in report.cycles] == ["m-***"]


def test_a_secret_in_the_names_of_the_machine_and_of_the_spec_is_hidden(bench, monkeypatch):
    system = os.uname()
    named = SimpleNamespace(**{name: getattr(system, name) for name in ("sysname", "release", "machine")})
    named.nodename = f"host-{SECRET}"
    monkeypatch.setattr(os, "uname", lambda: named)
    check = msgspec.structs.replace(bench.reads("a", text="${MY_TOKEN}"), source=Source(f"/x/{SECRET}/it.yml", 7))
    env = {"MY_TOKEN": SECRET, "RUNNER_NAME": f"runner-{SECRET}"}
    report = bench.run(check, env=env, identity=SpecIdentity(name="it", path=f"/x/{SECRET}/it.yml", digest="d"))
    assert (report.host.name, report.host.runner) == ("host-***", "runner-***")
    assert report.spec == SpecIdentity(name="it", path="/x/***/it.yml", digest="d")
    assert report.checks[0].source == Source("/x/***/it.yml", 7)
    plain = bench.run(bench.reads("a"), env={"RUNNER_NAME": "gpu-01"})
    assert (plain.host.runner, plain.spec.path, plain.checks[0].source) == ("gpu-01", "it.yml", Source("it.yml", 7))
    assert bench.run(bench.reads("a")).host.runner is None


def test_a_secret_is_hidden_from_whoever_watches(bench):
    bench.run(
        bench.reads("a", lambda context: context.phase(f"load {SECRET}", 5.0), text="${MY_TOKEN}"),
        env={"MY_TOKEN": SECRET},
    )
    assert bench.phases[-1] == ("a", "load ***", 5.0)


def test_what_is_no_secret_stays(bench):
    report = bench.run(
        roles(SECRET_ROLE=True, PLAIN_ROLE=False),
        bench.reads("a", raising(not_ready("usage", "plain-plain is wrong"))),
        env=ENV,
    )
    assert report.checks[1].findings[0].message == "plain-plain is wrong"


def test_an_internal_error_does_not_show_a_secret(bench):
    report = bench.run(roles(SECRET_ROLE=True), bench.reads("a", raising(KeyError(json.dumps({"k": SECRET})))), env=ENV)
    (finding,) = report.checks[1].findings
    assert SECRET not in finding.message + finding.evidence
    assert "***" in finding.message


def test_a_variable_whose_name_says_it_is_secret_is_one_wherever_a_spec_uses_it(bench):
    for text in ("${MY_TOKEN}", ["x", "Bearer ${MY_TOKEN:-}"], {"k": {"l": "${MY_TOKEN}"}}):
        report = bench.run(
            bench.reads("a", raising(not_ready("usage", f"got {SECRET}")), text=text), env={"MY_TOKEN": SECRET}
        )
        assert report.checks[0].findings[0].message == "got ***"


def test_a_secret_in_the_arguments_of_a_command_is_one_too(bench):
    from precheck_lib.checks.command import CommandOptions, OneCommand

    command = CheckSpec(
        id="c",
        title="c",
        kind="command",
        options=CommandOptions(commands=[OneCommand(argv=["/bin/echo", "${MY_TOKEN}"], stdout="x")]),
        source=Source("it.yml", 1),
    )
    report = bench.run(command, env={"MY_TOKEN": SECRET})
    assert SECRET not in report.checks[0].findings[0].message
    assert "***" in report.checks[0].findings[0].message


def test_secrets_inside_of_a_configuration_are_hidden(bench):
    config = json.dumps({"provider": {"x": {"options": {"apiKey": SECRET, "baseURL": "http://plain:1/v1"}}}})
    report = bench.run(
        roles(CONFIG=True),
        bench.reads("a", raising(not_ready("usage", f"{SECRET} at http://plain:1/v1"))),
        env={"CONFIG": config},
    )
    assert report.checks[1].findings[0].message == "*** at http://plain:1/v1"
