"""The report for CI: what the consumers of JUnit XML need, whatever the texts in it are."""

from __future__ import annotations

import re

import junit_xml
import pytest

from precheck_lib.outcome import Host, Source, SpecIdentity
from precheck_lib.report import junit_bytes
from precheck_lib.report.junit import place
from tests.junit_schema import check_consumers, check_schema, parse


@pytest.fixture
def all_outcomes(make):
    warning = make.finding("odd", severity="warning", evidence="seen", remedy="look", who="spec")
    first = make.finding("the port is closed", evidence="refused", remedy="start it", code="tcp.failed", retryable=True)
    second = make.finding("and one more", code="tcp.deadline")
    return make.report(
        make.check("roles", elapsed_s=0.0),
        make.check("versions", findings=[warning], elapsed_s=1.23456),
        make.check("tcp", "failed", findings=[warning, first, second], elapsed_s=0.0123456),
        make.check("socket", "error", findings=[second], elapsed_s=10.0),
        make.check("health", "skipped", skipped_for="tcp"),
        elapsed_s=11.98765,
        budget_s=60.0,
        remarks=["native residency remains unconfirmed"],
    )


def test_a_run_is_one_suite_with_right_counts(all_outcomes):
    root = parse(junit_bytes(all_outcomes))
    assert root.tag == "testsuites"
    assert root.attrib == {"name": "precheck", "tests": "5", "failures": "1", "errors": "1", "time": "11.988"}
    (suite,) = root
    assert suite.attrib == {
        "name": "precheck",
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "11.988",
        "timestamp": "2026-01-02T03:04:05",
        "hostname": "gpu-01",
    }
    assert suite.findtext("system-err") == "native residency remains unconfirmed"


def test_a_run_is_valid_for_xunit(all_outcomes):
    check_schema(parse(junit_bytes(all_outcomes)))


def test_a_run_is_read_rightly_by_what_reads_junit_files(all_outcomes):
    check_consumers(parse(junit_bytes(all_outcomes)))


def test_a_document_is_declared_utf_8_and_ends_with_a_newline(make):
    written = junit_bytes(make.report(make.check("a", "failed", findings=[make.finding("größer")])))
    assert written.startswith(b"<?xml version='1.0' encoding='utf-8'?>\n<testsuites ")
    assert written.endswith(b"</testsuites>\n")
    assert "größer".encode() in written


def test_a_check_is_a_test_case_with_a_stable_name_and_always_a_time(all_outcomes):
    cases = [dict(case.attrib) for case in parse(junit_bytes(all_outcomes)).iter("testcase")]
    assert cases == [
        {"name": "roles", "classname": "precheck.strict", "time": "0.000"},
        {"name": "versions", "classname": "precheck.strict", "time": "1.235"},
        {"name": "tcp", "classname": "precheck.strict", "time": "0.012"},
        {"name": "socket", "classname": "precheck.strict", "time": "10.000"},
        {"name": "health", "classname": "precheck.strict", "time": "0.000"},
    ]


def test_outcomes_become_elements(all_outcomes):
    cases = parse(junit_bytes(all_outcomes)).iter("testcase")
    assert [[child.tag for child in case] for case in cases] == [
        [],
        ["system-out"],
        ["failure", "system-out"],
        ["error"],
        ["skipped"],
    ]


def test_a_failure_has_the_first_finding_as_message_and_all_in_its_text(all_outcomes):
    failure = parse(junit_bytes(all_outcomes)).find(".//failure")
    assert failure.attrib == {"message": "the port is closed", "type": "precheck.tcp.failed"}
    assert failure.text == (
        "the port is closed\nwhy: refused\ndo: start it (host)\n"
        "retry: the same job may pass, once the machine is mended or free again\n\n"
        "and one more\nretry: of no use before something is changed"
    )


def test_an_error_has_message_type_and_text(all_outcomes):
    error = parse(junit_bytes(all_outcomes)).find(".//error")
    assert error.attrib == {"message": "and one more", "type": "precheck.tcp.deadline"}
    assert error.text.startswith("and one more\n")


def test_a_skipped_check_names_its_blocker_in_message_and_text(all_outcomes):
    skipped = parse(junit_bytes(all_outcomes)).find(".//skipped")
    assert skipped.get("message") == skipped.text == "skipped for tcp"


def test_a_warning_of_a_passed_check_is_its_output(all_outcomes):
    output = parse(junit_bytes(all_outcomes)).find(".//testcase[@name='versions']/system-out")
    assert output.text == "warning: odd\nwhy: seen\ndo: look (spec)"


def test_the_properties_say_what_was_run_and_how_it_ended(all_outcomes):
    properties = {item.get("name"): item.get("value") for item in parse(junit_bytes(all_outcomes)).iter("property")}
    assert properties == {
        "precheck.verdict": "not-ready",
        "precheck.exit_code": "1",
        "precheck.spec.name": "strict",
        "precheck.spec.path": "specs/strict.yml",
        "precheck.spec.digest": "ab" * 32,
        "precheck.started": "2026-01-02T03:04:05.678901+00:00",
        "precheck.budget_s": "60.000",
        "precheck.runner": "gpu-01-a",
        "precheck.os": "Linux 6",
        "precheck.python": "3.11.7",
    }


def test_what_is_not_known_is_left_out(make):
    report = make.report(
        make.check(),
        spec=SpecIdentity(),
        host=Host(name="", runner=None, os="Linux", python="3.11"),
        started="yesterday",
    )
    suite = parse(junit_bytes(report))[0]
    assert {"hostname", "timestamp"}.isdisjoint(suite.attrib)
    assert suite.find("testcase").get("classname") == "precheck"
    assert suite.find(".//property[@name='precheck.spec.digest']") is None


@pytest.mark.parametrize("outcome", ["failed", "error"])
@pytest.mark.parametrize("empty", ["", " \n", "\x1b[0m"])
def test_a_failure_without_a_message_is_a_failure(make, outcome, empty):
    report = make.report(make.check("a", outcome, findings=[make.finding(empty, code=empty)]))
    root = parse(junit_bytes(report))
    element = root.find(".//failure" if outcome == "failed" else ".//error")
    assert int(root.get("failures")) + int(root.get("errors")) == 1
    assert element.get("message") == "no message was given"
    assert element.get("type") == "precheck.run.internal"
    assert element.text


@pytest.mark.parametrize("severities", [[], ["warning"]])
def test_a_failure_without_an_error_finding_is_a_failure(make, severities):
    findings = [make.finding(severity=severity) for severity in severities]
    root = parse(junit_bytes(make.report(make.check("a", "failed", findings=findings))))
    assert root.get("failures") == "1"
    assert root.find(".//failure").get("message") == "the check failed and gave no reason"


@pytest.mark.parametrize("code", [1, 2, 22, 70, 143])
def test_a_run_that_did_not_pass_is_never_green(make, code):
    report = make.report(make.check(), exit_code=code, verdict="error", remarks=["the hint"])
    root = parse(junit_bytes(report))
    check_schema(root)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "1")
    case = root.findall(".//testcase")[-1]
    assert dict(case.attrib) == {"name": "precheck", "classname": "precheck.strict", "time": "0.000"}
    assert str(code) in case.find("error").get("message")
    assert "the hint" in case.find("error").text


def test_a_run_without_any_check_that_did_not_pass_is_never_green(make):
    assert parse(junit_bytes(make.report(exit_code=2, verdict="error"))).get("errors") == "1"


def test_exit_code_0_with_another_verdict_or_a_failed_check_is_an_error(make):
    assert parse(junit_bytes(make.report(make.check(), verdict="cancelled"))).get("errors") == "1"
    root = parse(junit_bytes(make.report(make.check("a", "failed"), exit_code=0, verdict="ready")))
    assert (root.get("failures"), root.get("errors")) == ("1", "1")


def test_a_pass_has_neither_failure_nor_error(make):
    root = parse(junit_bytes(make.report(make.check("a"), make.check("b", findings=[]))))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "0")
    assert root.find(".//failure") is root.find(".//error") is None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, -0.0, 1e-9, 1e16])
def test_a_time_is_always_three_decimals(make, number):
    check_schema(parse(junit_bytes(make.report(make.check(elapsed_s=number), elapsed_s=number))))


def test_hostile_texts_leave_a_valid_and_harmless_document_with_right_counts(make, hostile):
    written = junit_bytes(make.hostile(hostile))
    assert b"##[" not in written
    assert not re.search(rb"^\s*::", written, re.MULTILINE)
    assert not re.search(rb"&#(10|13|9);", written)
    root = parse(written)
    check_schema(root)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "1")
    assert root[0].get("skipped") == "1"
    assert all(value.isprintable() for element in root.iter() for value in element.attrib.values())


@pytest.mark.parametrize("path", ["a\x1b\n\uffff.yml", "\ud800.yml", "a" * 10_000_000, "]]>&'\"<"])
def test_a_hostile_path_in_the_workspace_leaves_a_document_that_can_be_read(make, path):
    written = junit_bytes(make.report(make.check(source=Source(path, 1))), workspace="/")
    assert parse(written).find(".//testcase").get("name") == "tcp"
    assert len(written) < 10_000


def test_a_text_of_a_server_cannot_add_an_advice_of_its_own(make):
    finding = make.finding("down", evidence="refused\ndo: rm -rf / (host)", remedy="start it")
    text = parse(junit_bytes(make.report(make.check("a", "failed", findings=[finding])))).find(".//failure").text
    assert [line for line in text.split("\n") if line.startswith("do:")] == ["do: start it (host)"]


def test_every_text_is_bounded(make):
    texts = {"message": "ä" * 100_000, "evidence": "e" * 100_000, "remedy": "r" * 100_000}
    report = make.report(
        make.check("a", "failed", findings=[make.finding(**texts)]),
        make.check("b", findings=[make.finding(severity="warning", **texts)] * 5),
        remarks=["ö" * 4000] * 100,
    )
    root = parse(junit_bytes(report))
    for tag in ("failure", "system-out", "system-err"):
        text = root.find(f".//{tag}").text
        assert 64 * 1024 - 8 < len(text.encode()) <= 64 * 1024
        assert text.endswith("…")
    assert len(root.find(".//failure").get("message")) == 4000


def test_place_and_line_are_given_only_below_the_workspace(make, tmp_path, monkeypatch):
    inside, outside = tmp_path / "work" / ".github" / "precheck.yml", tmp_path / "workshop.yml"

    def attributes(file, line, workspace=str(tmp_path / "work")):
        report = make.report(make.check(source=Source(str(file), line)))
        found = parse(junit_bytes(report, workspace=workspace)).find(".//testcase").attrib
        return found.get("file"), found.get("line")

    nothing = (None, None)
    assert attributes(inside, 9) == (".github/precheck.yml", "9")
    assert attributes(inside, 9, workspace=f"{tmp_path}/work/") == (".github/precheck.yml", "9")
    assert attributes(inside, 9, workspace="/")[0] == str(inside)[1:]
    assert attributes(outside, 9) == nothing
    assert attributes(tmp_path / "work" / ".." / "workshop.yml", 9) == nothing
    assert attributes(inside, 9, workspace=None) == nothing
    assert attributes(inside, 9, workspace="") == nothing
    assert attributes(inside, 0) == nothing
    assert attributes("a\x00b", 1) == nothing
    inside.parent.mkdir(parents=True)
    monkeypatch.chdir(inside.parent)
    assert attributes("precheck.yml", 9) == (".github/precheck.yml", "9")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    assert attributes(inside, 9, workspace=str(tmp_path / "link")) == (".github/precheck.yml", "9")


def test_no_place_is_given_when_the_working_folder_is_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert place(Source("precheck.yml", 1), str(tmp_path)) is None


def test_junit_xml_still_needs_the_mends():
    """When one of these fails, a mend in junit.py may have become idle or wrong."""
    case = junit_xml.TestCase("a", "b", 0.0)
    case.add_failure_info(failure_type="T")
    suite = junit_xml.TestSuite("s", [case]).build_xml_doc()
    assert suite.get("disabled") == "0"
    assert suite.find("testcase").get("time") is None
    assert suite.find(".//failure") is None
