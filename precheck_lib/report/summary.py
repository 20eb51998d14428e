"""The summary of a job in Markdown, as GitHub shows it: verdict, what is wrong and what to do, tables, a timeline."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.report.text import clean
from precheck_lib.report.wording import WHO, all_failures, host_name, lately_text, retry_text, warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.outcome import CheckResult, Finding, Report

SUMMARY_LIMIT = 256 << 10
"""Bytes of a summary: a quarter of what the runner takes, for a larger one is dropped as a whole."""

TIMELINE_SECONDS = 10.0
"""A run that took longer gets a timeline: before that the table tells enough."""

_MOST_BARS = 60
_THIN = 1 / 100
"""The part of the chart below which a bar cannot be seen."""

_CUT = "\n\n(cut: the reports have all of it)\n"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>$])")
_UNSAFE = re.compile(r"[^A-Za-z0-9 ._-]")
"""What is anything but a letter in a Gantt chart of Mermaid: `:`, `;`, `#` and `,` end a name there."""


def summary(report: Report) -> str:
    """Write the job summary: at most 256 KiB, every text escaped."""
    text = "\n".join(_lines(report)) + "\n"
    data = text.encode("utf-8", "replace")
    if len(data) <= SUMMARY_LIMIT:
        return text
    kept = data[: SUMMARY_LIMIT - len(_CUT)].decode("utf-8", "ignore")
    return kept.rsplit("\n", 1)[0] + _CUT


def _lines(report: Report) -> Iterator[str]:
    found = list(all_failures(report))
    mark = "❌" if report.exit_code or found else "✅"
    name = _cell(report.spec.name or "")
    told = f"{_headline(report, bool(found))} on {_cell(host_name(report))}"
    yield f"### {mark} precheck{' ' if name else ''}{name}: {told}"
    yield ""
    if report.exit_code or found:
        yield _meaning(report)
        yield ""
    for note in report.notes:
        yield f"- {_cell(note, 600)}"
    for check, finding, _ in found:
        yield from _finding(check, finding)
        if lately := lately_text(report, finding):
            yield f"  - {lately}"
    for result in report.checks:
        for finding in warnings(result):
            yield from _finding(result.id, finding, "warning, ")
    yield from _checks(report)
    yield from _timeline(report)
    yield from _models(report)
    yield from _versions(report)


def _headline(report: Report, failed: bool) -> str:
    if report.verifies is None or report.verdict in ("error", "cancelled"):
        return report.verdict
    return f"{'changed' if failed or report.exit_code else 'nothing has changed'} since {_cell(report.verifies)}"


def _meaning(report: Report) -> str:
    if report.verdict == "not-ready" and report.verifies is not None:
        return "**The machine is not as it was when it was found ready**: what was tested since proves nothing."
    if report.verdict == "not-ready":
        return "This says nothing about the code under test: **the machine is not fit for it**."
    if report.verdict == "cancelled":
        return "This says nothing about the code under test: the run was ended before the machine was proven fit."
    return "This says nothing about the code under test, nor about the machine: precheck could not do its work."


def _finding(check: str, finding: Finding, word: str = "") -> Iterator[str]:
    yield f"- **{_cell(check)}** ({word}{_cell(finding.code)}): {_cell(finding.message, 600)}"
    if finding.evidence:
        yield f"  - why: {_cell(finding.evidence, 600)}"
    elif finding.code in CATALOGUE and finding.severity == "error":
        yield f"  - usual causes: {_cell('; '.join(CATALOGUE[finding.code].causes), 600)}"
    if finding.remedy:
        yield f"  - what to do ({WHO[finding.who]}): {_cell(finding.remedy, 600)}"
    if finding.severity == "error":
        yield f"  - {retry_text(finding)}"


def _checks(report: Report) -> Iterator[str]:
    yield from ("", "| check | outcome | time | budget |", "|---|---|--:|--:|")
    for result in report.checks:
        took = "" if result.outcome == "skipped" else f"{result.elapsed_s:.2f} s"
        allowed = "" if result.budget_s is None else f"{result.budget_s:g} s"
        yield f"| {_cell(result.id)} | {_word(result)} | {took} | {allowed} |"


def _timeline(report: Report) -> Iterator[str]:
    """Draw when each check ran; those that would be too thin to see share one bar.

    The chart's own clock begins at midnight of some day, so that no time zone matters.
    """
    made = [result for result in report.checks if result.started_s is not None]
    if report.elapsed_s <= TIMELINE_SECONDS or not made:
        return
    form = "%M:%S" if report.elapsed_s < 3600 else "%H:%M:%S"
    yield from ("", "```mermaid", "gantt", "    dateFormat YYYY-MM-DD HH:mm:ss.SSS", f"    axisFormat {form}")
    seen = [result for result in made if result.elapsed_s >= report.elapsed_s * _THIN or result.outcome != "passed"]
    seen = seen[:_MOST_BARS]
    quick = [result for result in made if result not in seen]
    if quick:
        starts = [result.started_s or 0.0 for result in quick]
        ends = [start + result.elapsed_s for start, result in zip(starts, quick, strict=True)]
        name = f"{len(quick)} quick checks" if len(quick) > 1 else quick[0].id
        yield _bar(name, "done, ", min(starts), max(ends))
    for result in seen:
        start = result.started_s or 0.0
        state = {"passed": "done, ", "skipped": ""}.get(result.outcome, "crit, ")
        yield _bar(result.id, state, start, start + result.elapsed_s)
    yield "```"


def _bar(name: str, state: str, start: float, end: float) -> str:
    zero = datetime(2000, 1, 1)  # noqa: DTZ001 - a moment of the chart, of no zone
    # One of no length would be a milestone.
    moments = [zero + timedelta(seconds=second) for second in (start, max(end, start + 0.05))]
    times = ", ".join(f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}" for moment in moments)
    return f"    {_UNSAFE.sub('_', clean(name, 64))} :{state}{times}"


def _models(report: Report) -> Iterator[str]:
    if not report.cycles:
        return
    yield from ("", "| model | unload | absent | load | size | on the GPU | context |", "|---|--:|--:|--:|--:|--:|--:|")
    for cycle in report.cycles:
        times = " | ".join(_seconds(value) for value in (cycle.unload_s, cycle.absent_s, cycle.load_s))
        times = "kept | | " if cycle.kept else times
        context = "" if cycle.context_length is None else str(cycle.context_length)
        share = _share(cycle.size_vram, cycle.size)
        yield f"| {_cell(cycle.model)} | {times} | {_size(cycle.size)} | {share} | {context} |"


def _versions(report: Report) -> Iterator[str]:
    versions = [one for one in report.observed if one.fact == "version"]
    if not versions:
        return
    yield from ("", "| what | version found | wanted |", "|---|---|---|")
    for one in versions:
        wanted = "" if one.wanted is None else _cell(str(one.wanted))
        yield f"| {_cell(one.subject)} | {_cell(str(one.value))} | {wanted} |"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _word(result: CheckResult) -> str:
    if result.unmet is not None:
        return f"skipped, {_cell(result.unmet)}"
    if result.outcome == "skipped":
        return f"skipped for {_cell(result.skipped_for or '')}"
    return "passed" if result.outcome == "passed" else f"**{result.outcome}**"


def _size(value: int | None) -> str:
    if value is None or abs(value) >= 1 << 63:  # what has more bits is no size
        return ""
    return f"{value / (1 << 30):.1f} GiB" if value >= 1 << 30 else f"{value / (1 << 20):.0f} MiB"


def _share(part: int | None, whole: int | None) -> str:
    """Say how much of a model is on the GPU; all of it only where it is exactly that."""
    if part is None or not whole or whole < 0:
        return _size(part)
    percent = 100 if part == whole else min(99, max(0, part * 100 // whole))
    return f"{_size(part)} ({percent} %)"


def _cell(text: str, limit: int = 200) -> str:
    """Escape a text for a table cell or a list item: no markup, no HTML, no cell, no link of its own."""
    escaped = clean(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace("://", "&colon;//")
    return _MARKDOWN.sub(r"\\\1", escaped).replace("@", "@\u200b")
