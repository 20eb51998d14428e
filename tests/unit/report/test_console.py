"""What a person reads in the log."""

from __future__ import annotations

from precheck_lib.report import check_line, finding_lines


def test_a_check_is_a_line_with_word_id_title_and_time(make):
    result = make.check("codex-tcp", title="Codex accepts connections", elapsed_s=0.0123, budget_s=2.0)
    line = check_line(result)
    assert line.split() == ["ok", "codex-tcp", "Codex", "accepts", "connections", "0.01", "of", "2", "s"]
    assert len(line) == 80


def test_each_outcome_has_its_word(make):
    assert check_line(make.check(outcome="passed")).startswith("ok  ")
    assert check_line(make.check(outcome="failed")).startswith("FAILED ")
    assert check_line(make.check(outcome="error")).startswith("ERROR ")
    assert check_line(make.check(outcome="skipped")).startswith("skipped ")


def test_a_warning_shows_in_the_word_of_a_passed_check(make):
    warning = make.finding(severity="warning")
    assert check_line(make.check(findings=[warning])).startswith("ok, warned ")
    assert check_line(make.check(outcome="failed", findings=[warning])).startswith("FAILED ")


def test_a_skipped_check_names_what_it_was_skipped_for(make):
    assert check_line(make.check(outcome="skipped", skipped_for="codex-tcp")).endswith(" for codex-tcp")
    assert check_line(make.check(outcome="skipped")).endswith("title of tcp")


def test_a_long_title_is_cut_and_a_long_id_is_not(make):
    line = check_line(make.check(title="word " * 40, elapsed_s=123.456, budget_s=360.0))
    assert line.endswith("… 123 of 360 s")
    assert len(line) == 80
    line = check_line(make.check("i" * 90, elapsed_s=1.5))
    assert line == f"ok         {'i' * 90} 1.5 s"


def test_times_are_short(make):
    ends = {0.0: "0 s", 0.004: "0 s", 2.0: "2 s", 2.345: "2.35 s", 99.999: "100 s", 1234.5: "1234 s"}
    for elapsed, end in ends.items():
        assert check_line(make.check(elapsed_s=elapsed)).endswith(f" {end}")


def test_a_hostile_check_is_one_harmless_line(make, hostile):
    for result in make.hostile(hostile).checks:
        line = check_line(result)
        assert line.isprintable()
        assert "##[" not in line
        assert not line.startswith(":")


def test_a_finding_has_its_cause_its_remedy_and_who_can_take_it(make):
    finding = make.finding(
        "TCP readiness deadline elapsed [curl: (28)]",
        evidence="no answer",
        remedy="start the server",
        who="job",
        retryable=True,
    )
    assert finding_lines(make.report(make.check("codex", "error", findings=[finding]))) == [
        "precheck: codex: TCP readiness deadline elapsed [curl: (28)]",
        "    why: no answer",
        "    do: start the server (job)",
        "    retry: the same job may pass, once the machine is mended or free again",
        f"    more: precheck explain {finding.code}",
    ]


def test_a_finding_says_when_a_retry_is_of_no_use_and_nothing_it_does_not_know(make):
    lines = finding_lines(make.report(make.check("codex", "failed")))
    assert lines == [
        "precheck: codex: the port is closed",
        "    retry: of no use before something is changed",
        "    more: precheck explain tcp.failed",
    ]


def test_failures_come_first_then_warnings_then_remarks(make):
    warning = make.finding("odd", severity="warning", remedy="look", who="spec")
    report = make.report(
        make.check("a", findings=[warning]),
        make.check("b", "failed", findings=[warning, make.finding("first"), make.finding("second")]),
        make.check("c", "error", findings=[make.finding("third")]),
        remarks=["Ollama cleanup unload/observation failed (exit 7)", "native residency remains unconfirmed"],
    )
    assert [line for line in finding_lines(report) if not line.lstrip().startswith(("retry:", "more:"))] == [
        "precheck: b: first",
        "precheck: b: second",
        "precheck: c: third",
        "precheck: a: warning: odd",
        "    do: look (spec)",
        "precheck: b: warning: odd",
        "    do: look (spec)",
        "Ollama cleanup unload/observation failed (exit 7)",
        "native residency remains unconfirmed",
    ]


def test_a_pass_without_warnings_says_nothing(make):
    assert finding_lines(make.report(make.check())) == []


def test_a_failure_without_a_reason_is_still_said(make):
    report = make.report(make.check("a", "error", findings=[]))
    assert finding_lines(report)[0] == "precheck: a: the check ended in an error and gave no reason"


def test_an_exit_code_that_no_check_explains_is_said(make):
    lines = finding_lines(make.report(make.check(), exit_code=70, verdict="error"))
    assert lines[0] == "precheck: the run ended with exit code 70 (error) and no check says why"


def test_a_long_message_stays_one_line(make):
    message = "roles are missing: " + ", ".join(f"TEST_ROLE_NUMBER_{number}" for number in range(100))
    report = make.report(make.check("roles", "failed", findings=[make.finding(message)]))
    assert finding_lines(report)[0] == f"precheck: roles: {message}"


def test_a_huge_remedy_does_not_push_out_who_can_take_it(make):
    report = make.report(make.check("a", "failed", findings=[make.finding(remedy="r" * 5000, who="spec")]))
    assert finding_lines(report)[1].endswith("r (spec)")


def test_hostile_findings_are_harmless_lines(make, hostile):
    for line in finding_lines(make.hostile(hostile)):
        assert line.isprintable()
        assert "##[" not in line
        assert not line.lstrip().startswith("::")
