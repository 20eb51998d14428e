"""Writing a run for people who read a log: one plain line for a check, and a few for each finding.

Lines are never wrapped and wording is never changed: people and scripts search a log for exact phrases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.report.text import LINE_LIMIT, clean
from precheck_lib.report.wording import advice, contradiction, failures, warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.outcome import CheckResult, Finding, Report

_WORDS = {"passed": "ok", "failed": "FAILED", "error": "ERROR", "skipped": "skipped"}
_WORD_WIDTH = len("ok, warned")
_ID_WIDTH = 22
_ID_LIMIT = 200
_LINE_WIDTH = 80
_SHORTEST_TITLE = 8


def check_line(result: CheckResult) -> str:
    """Write the line of stdout for a check that has ended: word, id, title, and its time of the time it had.

    It has 80 columns; the title is cut, and in the end left out, to get there. Only a long id makes it
    longer.
    """
    word = _WORDS[result.outcome]
    if result.outcome == "passed" and warnings(result):
        word = "ok, warned"
    begin = f"{word:<{_WORD_WIDTH}} {clean(result.id, _ID_LIMIT):<{_ID_WIDTH}}"
    end = _ending(result)
    room = _LINE_WIDTH - len(begin) - len(end) - 2
    if room < _SHORTEST_TITLE:
        return f"{begin.rstrip()} {end}".rstrip()
    return f"{begin} {clean(result.title, room):<{room}} {end}".rstrip()


def finding_lines(report: Report) -> list[str]:
    """Write the lines of stderr for a run that has ended: failures in the spec's order, warnings, remarks, notes.

    The message of a finding is one line, `precheck: <check id>: <message>`, with its cause (`why:`), the
    next step and who can take it (`do:`) and whether a retry can help (`retry:`) below it. A remark is a
    line as it is.
    """
    lines: list[str] = []
    for result in report.checks:
        for finding in failures(result):
            lines.extend(_finding(f"precheck: {clean(result.id, _ID_LIMIT)}:", finding))
    broken = contradiction(report)
    if broken is not None:
        lines.extend(_finding("precheck:", broken))
    for result in report.checks:
        for finding in warnings(result):
            lines.extend(_finding(f"precheck: {clean(result.id, _ID_LIMIT)}: warning:", finding))
    lines.extend(clean(remark) for remark in report.remarks)
    lines.extend(f"precheck: {clean(note)}" for note in report.notes)
    return lines


def _finding(prefix: str, finding: Finding) -> Iterator[str]:
    yield f"{prefix} {clean(finding.message)}"
    # The tail of a remedy says who can take it and must not be cut off: it has room beyond its own limit.
    for line in advice(finding):
        yield f"    {clean(line, 2 * LINE_LIMIT)}"
    if finding.severity == "error":
        yield f"    more: precheck explain {clean(finding.code)}"


def _ending(result: CheckResult) -> str:
    if result.outcome == "skipped":
        return f"for {clean(result.skipped_for, _ID_LIMIT)}" if result.skipped_for else clean(result.unmet or "", 80)
    elapsed = _number(result.elapsed_s)
    return f"{elapsed} s" if result.budget_s is None else f"{elapsed} of {_number(result.budget_s)} s"


def _number(seconds: float) -> str:
    """Three significant digits are enough for a reader, and `1.2e+03` is none."""
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.2f}".rstrip("0").rstrip(".")


def phase_line(check: str, text: str, elapsed: float, seconds: float, memory: int | None = None) -> str:
    """Write the line for something that takes long: what, its time of the time it has, and the GPU's memory in use."""
    begin = f"{'...':<{_WORD_WIDTH}} {clean(check, _ID_LIMIT):<{_ID_WIDTH}}"
    end = f"{elapsed:.0f} of {_number(seconds)} s"
    if memory is not None:
        end += f", {memory / (1 << 30):.1f} GiB"
    room = max(_SHORTEST_TITLE, _LINE_WIDTH - len(begin) - len(end) - 2)
    return f"{begin} {clean(text, room):<{room}} {end}"


def note_line(check: str, text: str) -> str:
    """Write a line that a check has to say at once: what it is about to do."""
    return f"{'note':<{_WORD_WIDTH}} {clean(check, _ID_LIMIT):<{_ID_WIDTH}} {clean(text)}"
