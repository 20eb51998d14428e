"""What GitHub's runner is told: annotations, a job summary, and the outputs of the step.

The runner executes `::command::` at the start of a line and `##[command]` anywhere in one; what is untrusted goes
through `clean`, which breaks both, before it is escaped. Limits that the runner applies without a word: 10 annotations
of a kind for a step (one is kept for its own `Process completed with exit code`), 4,096 characters of a message, 1 MiB
of a summary.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from precheck_lib.report.junit import place
from precheck_lib.report.text import clean
from precheck_lib.report.wording import failures, is_bad, warnings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from precheck_lib.outcome import CheckResult, Finding, Report

MOST_OF_A_KIND = 9
BODY_LIMIT = 700
"""Characters of an annotation's body: what a reader of the job's page sees without unfolding it."""

SUMMARY_LIMIT = 256 << 10
_PARTS = {"message": 300, "evidence": 130, "remedy": 150}
_WHO = {"job": "the job's author", "spec": "the spec's author", "host": "the host's owner"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>])")


def annotation_lines(report: Report, *, workspace: str | None, only_warn: bool = False) -> list[str]:
    """Write the workflow commands that annotate the job: the first failure first, then the others, then warnings.

    At most 9 of a kind; one more says how many are left out. With `only_warn` failures are warnings that say so.
    """
    kind = "warning" if only_warn else "error"
    bad = [(result, finding) for result in report.checks if is_bad(result) for finding in failures(result)]
    mild = [(result, finding) for result in report.checks for finding in warnings(result)]
    lines = [
        _command(kind, _title(report, finding.code), _body(finding), _where(result, workspace))
        for result, finding in bad
    ]
    lines += [
        _command(kind, _title(report, "run.unconfirmed"), clean(remark, BODY_LIMIT), "") for remark in report.remarks
    ]
    lines = _limited(lines, kind, report)
    told = [
        _command("warning", f"precheck: {_host(report)} - {finding.code}", _advice(finding), _where(result, workspace))
        for result, finding in mild
    ]
    room = MOST_OF_A_KIND - (len(lines) if only_warn else 0)
    return lines + _limited(told, "warning", report, room=max(0, room))


def _limited(lines: list[str], kind: str, report: Report, *, room: int = MOST_OF_A_KIND) -> list[str]:
    if len(lines) <= room:
        return lines
    left = len(lines) - room + 1
    more = _command(kind, f"precheck: {_host(report)}", f"{left} more are in the job summary and the reports.", "")
    return [*lines[: max(0, room - 1)], more]


def _title(report: Report, code: str) -> str:
    state = {"error": "unusable", "cancelled": "cancelled"}.get(report.verdict, "not ready")
    return f"precheck: {_host(report)} {state} - {code}"


def _host(report: Report) -> str:
    return clean(report.host.runner or report.host.name, 60)


def _body(finding: Finding) -> str:
    return clean(f"Your code was not tested. {_advice(finding)}", BODY_LIMIT)


def _advice(finding: Finding) -> str:
    parts = [_sentence(clean(finding.message, _PARTS["message"]))]
    if finding.evidence:
        parts.append(_sentence(f"Why: {clean(finding.evidence, _PARTS['evidence'])}"))
    if finding.remedy:
        parts.append(_sentence(f"What to do ({_WHO[finding.who]}): {clean(finding.remedy, _PARTS['remedy'])}"))
    if finding.severity == "error":
        parts.append("A retry may pass without a change." if finding.retryable else "A retry is of no use before that.")
    return " ".join(parts)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def _where(result: CheckResult, workspace: str | None) -> str:
    found = place(result.source, workspace)
    return f"file={_property(found[0])},line={found[1]}," if found is not None else ""


def _command(kind: str, title: str, body: str, where: str) -> str:
    # act drops a property whose value holds a `=`.
    return f"::{kind} {where}title={_property(title.replace('=', ' '))}::{_data(body)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def outputs(report: Report, *, folder: str | None, json: str | None, junit: str | None) -> dict[str, str]:
    """Return the outputs of the step; a list is separated by commas, and nothing holds a secret."""
    bad = [result for result in report.checks if is_bad(result)]
    found = [finding for result in bad for finding in failures(result)]
    first = f"{bad[0].id}: {found[0].message}" if found else ""
    return {
        "status": report.verdict,
        "exit-code": str(report.exit_code),
        "failed": ",".join(clean(result.id, 100) for result in bad),
        "codes": ",".join(dict.fromkeys(finding.code for finding in found)),
        "first": clean(first, 500),
        "retryable": "true" if found and found[0].retryable else "false",
        "host": clean(report.host.runner or report.host.name, 200),
        "dir": folder or "",
        "json": json or "",
        "junit": junit or "",
    }


def output_text(values: Mapping[str, str]) -> str:
    """Write outputs as the runner's file command reads them: a random delimiter, so that no value can end its own."""
    lines = []
    for name, value in values.items():
        delimiter = f"ghadelimiter_{secrets.token_hex(16)}"
        lines.append(f"{name}<<{delimiter}\n{clean(value)}\n{delimiter}\n" if value else f"{name}=\n")
    return "".join(lines)


def summary(report: Report) -> str:
    """Write the job summary in Markdown: verdict, findings, a table of checks, the cycles; every text is escaped."""
    text = "\n".join(_summary_lines(report)) + "\n"
    data = text.encode("utf-8", "replace")
    if len(data) <= SUMMARY_LIMIT:
        return text
    return data[:SUMMARY_LIMIT].decode("utf-8", "ignore").rsplit("\n", 1)[0] + "\n\n(cut: the reports have all of it)\n"


def _summary_lines(report: Report) -> Iterator[str]:
    name = _cell(report.spec.name or "precheck")
    mark = "✅" if report.exit_code == 0 else "❌"
    yield f"### {mark} precheck {name}: {report.verdict} on {_cell(report.host.runner or report.host.name)}"
    yield ""
    if report.exit_code != 0:
        yield "The code under test was **not** tested: the machine was not fit for it."
        yield ""
    for result in report.checks:
        for finding in (*failures(result), *warnings(result)):
            yield from _finding(result.id, finding)
    for remark in report.remarks:
        yield f"- {_cell(remark, 600)}"
    yield from ("", "| check | outcome | time | budget |", "|---|---|--:|--:|")
    for result in report.checks:
        took = "" if result.outcome == "skipped" else f"{result.elapsed_s:.2f} s"
        word = f"skipped for {_cell(result.skipped_for or '')}" if result.outcome == "skipped" else result.outcome
        allowed = "" if result.budget_s is None else f"{result.budget_s:g} s"
        yield f"| {_cell(result.id)} | {word} | {took} | {allowed} |"
    if not report.cycles:
        return
    yield from (
        "",
        "| model | unload | absent | load | bytes | on the GPU | context |",
        "|---|--:|--:|--:|--:|--:|--:|",
    )
    for cycle in report.cycles:
        times = " | ".join(_seconds(value) for value in (cycle.unload_s, cycle.absent_s, cycle.load_s))
        sizes = " | ".join(_number(value) for value in (cycle.size, cycle.size_vram, cycle.context_length))
        yield f"| {_cell(cycle.model)} | {times} | {sizes} |"


def _finding(check: str, finding: Finding) -> Iterator[str]:
    yield f"- **{_cell(check)}** ({_cell(finding.code)}): {_cell(finding.message, 600)}"
    if finding.evidence:
        yield f"  - why: {_cell(finding.evidence, 600)}"
    if finding.remedy:
        yield f"  - what to do ({_WHO[finding.who]}): {_cell(finding.remedy, 600)}"
    if finding.severity == "error":
        yield f"  - a retry {'may pass without a change' if finding.retryable else 'is of no use before that'}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _cell(text: str, limit: int = 200) -> str:
    """Escape a text for a table cell or a list item: no markup, no HTML, no cell of its own."""
    escaped = clean(text, limit).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", escaped).replace("@", "@\u200b")
