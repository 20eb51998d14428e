"""Whatever text is in a report, readers of each format find what was meant and nothing else."""

from __future__ import annotations

import html
import json
import re
from xml.etree import ElementTree as ET

from hypothesis import event, example, given
from hypothesis import strategies as st
from lxml import etree

from precheck_lib.outcome import CheckResult, Finding
from precheck_lib.report.github import (
    _command,
    _property,
    annotation_lines,
    mask_lines,
    output_text,
    outputs,
)
from precheck_lib.report.json_report import json_bytes
from precheck_lib.report.junit import junit_bytes
from precheck_lib.report.summary import _cell, summary
from precheck_lib.report.text import clean, clean_lines, fit_bytes, xml_text
from tests.fuzz.reports import REPORTS
from tests.fuzz.values import ANY_CHARACTER, PIECES, TEXT
from tests.runner_grammar import Command, commands, read_outputs, rows

HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\uffff\ufffe]")
"""What no cleaned text has: controls but for tab and line feed, marks that reorder, what is no character."""


# Cleaned text ---------------------------------------------------------------------------------------------------------


@given(TEXT, st.sampled_from(["", " ", "    ", "✓ roles ", "error: ", "why: ", "\t"]), st.integers(1, 60))
def test_a_cleaned_line_is_one_line_without_commands_wherever_it_stands(text, before, limit):
    shown = clean(text)
    assert "\n" not in shown
    assert HARMFUL.search(shown) is None
    assert commands(before + shown) == []
    assert clean(shown) == shown
    cut = clean(text, limit)
    assert len(cut) <= limit
    assert commands(before + cut) == []


@given(TEXT, st.integers(1, 60))
def test_cleaned_lines_hold_no_command_either(text, limit):
    shown = clean_lines(text, 4000)
    assert HARMFUL.search(shown) is None
    assert commands(shown) == []
    assert commands(f"    {shown}".replace("\n", "\n    ")) == []
    assert commands(clean_lines(text, limit)) == []


HARMLESS = st.text(st.sampled_from("abc XYZ 019 .,;:-_/'\"<>&|()[]{}!?%=+*~^°éüß日本語😀"), max_size=40)


@given(HARMLESS)
def test_what_is_harmless_stays_as_it_is(text):
    text = text.strip().lstrip(":").strip()
    if "##[" not in text:
        assert clean(text) == text
        assert xml_text(text) == text


@given(TEXT, st.integers(3, 40))
def test_a_text_is_cut_at_bytes(text, limit):
    fitted = fit_bytes(text, limit)
    assert len(fitted.encode("utf-8", "replace")) <= limit
    assert fitted == text or fitted.endswith("…")


# Workflow commands ----------------------------------------------------------------------------------------------------


@given(st.sampled_from(["error", "warning"]), TEXT, TEXT, st.one_of(st.none(), TEXT))
def test_a_command_is_read_by_the_runner_as_it_was_meant(kind, title, body, file):
    title, body = clean(title), clean(body)
    where = "" if file is None else f"file={_property(clean(file))},line=7,"
    (found,) = commands(_command(kind, title, body, where))
    # A `=` would make act drop the title.
    named = title.replace("=", " ")
    assert found == Command(
        kind,
        {
            **({"file": clean(file)} if file is not None and clean(file) else {}),
            **({"line": "7"} if file is not None else {}),
            **({"title": named} if named else {}),
        },
        body,
    )


@given(REPORTS, st.sampled_from([None, "/w"]), st.booleans())
def test_of_any_report_the_runner_finds_the_annotations_and_no_other_command(report, workspace, only_warn):
    lines = annotation_lines(report, workspace=workspace, only_warn=only_warn)
    found = commands("\n".join(lines))
    assert len(found) == len(lines)
    for command, line in zip(found, lines, strict=True):
        assert command.name in ("error", "warning")
        assert line.startswith(f"::{command.name} ")
        assert set(command.properties) <= {"file", "line", "title"}
        assert command.properties["title"].startswith("precheck: ")
        assert "\n" not in command.value
        assert len(command.value) <= 700
        assert clean(command.value) == command.value
    assert sum(command.name == "error" for command in found) <= 9
    assert sum(command.name == "warning" for command in found) <= 9
    bad = report.exit_code != 0 or any(check.outcome in ("failed", "error") for check in report.checks)
    if bad and not (only_warn and report.verdict == "not-ready"):
        assert any(command.name == "error" for command in found)
    event(f"{len(found)} annotations")


@given(st.lists(st.one_of(TEXT, st.text(ANY_CHARACTER, min_size=8, max_size=30)), max_size=4))
def test_masks_are_for_the_lines_of_secrets_and_for_nothing_else(secrets):
    lines = mask_lines(secrets)
    assert all("\n" not in line and "\r" not in line for line in lines)
    found = commands("\n".join(lines).encode("utf-8", "replace"))
    assert [command.name for command in found] == ["add-mask"] * len(lines)
    masked = {command.value for command in found}
    assert all(len(value) >= 8 for value in masked)
    seen = [
        secret.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for secret in secrets if _is_env(secret)
    ]
    for value in masked:
        assert len(seen) < len(secrets) or any(value in secret for secret in seen)
    for secret in seen:
        for line in re.split(r"[\r\n]+", secret):
            assert len(line.strip()) < 8 or line.strip() in masked


def _is_env(text: str) -> bool:
    """Whether an environment can hold it: bytes that are no UTF-8 are lone surrogates of one kind there."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == text
    except UnicodeError:
        return False


@given(REPORTS, TEXT)
def test_outputs_are_read_back_as_they_were_written(report, value):
    values = {**outputs(report, folder=value, json=None, junit=value), "more": value}
    text = output_text(values)
    assert "\n\n" not in text
    read = read_outputs(text)
    assert list(read) == list(values)
    for name, one in values.items():
        line = " ".join(one.splitlines()).encode("utf-8", "backslashreplace").decode()
        assert read[name] == (line if line.strip() else "")


# Markdown -------------------------------------------------------------------------------------------------------------

_UNESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|~>$])")


@example("a | b \\| c `d` *e* [f](http://g) <h> &lt; @i")
@given(TEXT)
def test_a_cell_reads_as_the_cleaned_text_and_has_no_markup_of_its_own(text):
    cell = _cell(text)
    bare = re.sub(r"\\.", "", cell)
    assert set(bare).isdisjoint("|`*_[]<>~$\n")
    assert not re.search(r"@(?!\u200b)", cell)
    assert "://" not in cell
    # What a reader of Markdown shows of it.
    shown = html.unescape(_UNESCAPED.sub(r"\1", cell).replace("@\u200b", "@"))
    assert shown == clean(text, 200)


@given(REPORTS)
def test_a_summary_keeps_its_tables_whatever_is_in_them(report):
    text = summary(report)
    tables = rows(text)
    assert [len(row) for row in tables] == [4] * (2 + len(report.checks)) + [7] * bool(report.cycles) * (
        2 + len(report.cycles)
    )
    lines = text.split("\n")
    assert text.startswith("### ")
    assert all(re.match(r"###|- \*\*|  - |\||This says|$", line) for line in lines), lines
    assert commands(text) == []
    assert HARMFUL.search(text) is None


# JUnit and JSON -------------------------------------------------------------------------------------------------------


def _tree(element) -> tuple:
    return element.tag, dict(element.attrib), (element.text or "").strip(), [_tree(child) for child in element]


@given(REPORTS)
def test_a_junit_document_is_read_by_two_parsers_as_the_same(report):
    data = junit_bytes(report)
    one, other = etree.fromstring(data), ET.fromstring(data)
    assert _tree(one) == _tree(other)
    cases = other.findall("testsuite/testcase")
    assert len(cases) in (len(report.checks), len(report.checks) + 1)
    assert {element.tag for element in other.iter()} <= {
        *("testsuites", "testsuite", "testcase", "properties", "property"),
        *("failure", "error", "skipped", "system-out", "system-err"),
    }
    for case, check in zip(cases, report.checks, strict=False):
        ended = {"failed": "failure", "error": "error", "skipped": "skipped"}.get(check.outcome)
        assert [child.tag for child in case if child.tag != "system-out"] == ([ended] if ended else [])
        assert case.attrib["name"] == clean(check.id, 300)
        wrong = [finding for finding in check.findings if finding.severity == "error"]
        if ended in ("failure", "error"):
            message = clean(wrong[0].message) if wrong else None
            assert case[0].attrib["message"]
            assert (case[0].text or "").strip()
            if message:
                assert case[0].attrib["message"] == message
    if report.exit_code or any(check.outcome in ("failed", "error") for check in report.checks):
        assert other.findall(".//failure") or other.findall(".//error"), "a run that did not pass is green"


@example("\x1b[31mred\x1b[0m \ud800\uffff]]>\x00")
@given(TEXT)
def test_the_text_of_a_failure_is_the_cleaned_text(text):
    finding = Finding(code="tcp.failed", message=text or "x")
    check = CheckResult(id="tcp", title="t", kind="tcp", outcome="failed", findings=[finding])
    report = _report(check)
    failure = ET.fromstring(junit_bytes(report)).find(".//failure")
    assert failure is not None
    first = clean_lines(text or "x", 64 * 1024).split("\n")[0]
    assert (failure.text or "").split("\n")[0] == first or not first
    assert failure.attrib["message"] == (clean(text or "x") or "no message was given")


def _report(check: CheckResult):
    from precheck_lib.outcome import Host, Report, SpecIdentity

    return Report(
        spec=SpecIdentity(name="s"),
        verdict="not-ready",
        exit_code=1,
        started="2026-01-02T03:04:05+00:00",
        host=Host(name="h", runner=None, os="o", python="3"),
        checks=[check],
    )


@given(st.text(ANY_CHARACTER, max_size=60))
def test_xml_text_is_all_characters_that_xml_has(text):
    made = xml_text(text)
    assert etree.fromstring(f"<a>{html.escape(made)}</a>".encode()).text == (
        made.replace("\r\n", "\n").replace("\r", "\n") or None
    )
    if text.isascii() and text.isprintable():
        assert made == text


@given(REPORTS)
def test_a_json_report_is_json_in_utf_8_that_holds_what_the_report_does(report):
    data = json_bytes(report)
    assert HARMFUL.search(data.decode("utf-8")) is None
    found = json.loads(data)
    assert found["verdict"] == report.verdict
    assert [check["id"] for check in found["checks"]] == [_whole(check.id) for check in report.checks]
    assert [[one["message"] for one in check["findings"]] for check in found["checks"]] == [
        [_whole(one.message) for one in check.findings] for check in report.checks
    ]


def _whole(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def test_the_pieces_that_texts_are_made_of_are_the_ones_that_mean_something():
    assert commands("::error::x")
    assert commands("a ##[error]x")
    assert {"::error::", "##[error]", "]]>", "\ud800", "|"} <= set(PIECES)
