"""What all writers say in the same words: which findings of a check count, what stands below a message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.outcome import Finding, Source
from precheck_lib.report.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.outcome import CheckResult, Report

WHO = {"job": "the job's author", "spec": "the spec's author", "host": "the host's owner"}
"""Who can act on a finding, as GitHub's readers are told."""

UNEXPLAINED = "run.internal"
"""Code of the findings made here: a failure that came without one is a fault of precheck, and a failure."""


def is_bad(result: CheckResult) -> bool:
    """Tell whether a check speaks against the run: it failed, or it could not be found out."""
    return result.outcome in {"failed", "error"}


def failures(result: CheckResult) -> list[Finding]:
    """List the findings that make a check bad, the decisive one first; never empty for a bad check."""
    found = [finding for finding in result.findings if finding.severity == "error"]
    if found or not is_bad(result):
        return found
    ended = "failed" if result.outcome == "failed" else "ended in an error"
    return [
        Finding(
            code=UNEXPLAINED,
            message=f"the check {ended} and gave no reason",
            remedy="report this to the makers of precheck, with the spec and the JSON report",
        )
    ]


def warnings(result: CheckResult) -> list[Finding]:
    """List the findings of a check that do not change the verdict."""
    return [finding for finding in result.findings if finding.severity == "warning"]


def contradiction(report: Report) -> Finding | None:
    """Say how the exit code of a run and the outcomes of its checks contradict each other, if they do.

    CONTRACT A6: a run that does not end with 0 has at least one failure or error, one that ends with 0 has
    none and is `ready`. The engine sees to it; a writer that finds it broken must not let the run look
    passed.
    """
    bad = [result.id for result in report.checks if is_bad(result)]
    if report.exit_code == 0 and bad:
        message = f"the run claims exit code 0 although {', '.join(bad)} did not pass"
    elif report.exit_code == 0 and report.verdict != "ready":
        message = f"the run claims exit code 0 although its verdict is {report.verdict}"
    elif report.exit_code != 0 and not bad:
        message = f"the run ended with exit code {report.exit_code} ({report.verdict}) and no check says why"
    else:
        return None
    return Finding(
        code=UNEXPLAINED,
        message=message,
        evidence="; ".join(report.remarks),
        remedy="report this to the makers of precheck, with the spec and the JSON report",
    )


def all_failures(report: Report) -> Iterator[tuple[str, Finding, Source | None]]:
    """Yield all that speaks against the run: the id of the check, what was found, and where it is written."""
    for result in report.checks:
        for finding in failures(result):
            yield result.id, finding, result.source or _named_place(finding, report)
    broken = contradiction(report)
    if broken is not None:
        yield "precheck", broken, None
    if report.remarks:
        entry = CATALOGUE["run.unconfirmed"]
        text = "; ".join(report.remarks)
        yield (
            "cleanup",
            Finding(code="run.unconfirmed", message=text, remedy=entry.remedy, who=entry.who, retryable=False),
            None,
        )


def _named_place(finding: Finding, report: Report) -> Source | None:
    """Read where a fault of the spec is from its message, which begins with it: `FILE:LINE:COLUMN: `."""
    file = report.spec.path
    if finding.code != "spec.invalid" or not file or not finding.message.startswith(f"{file}:"):
        return None
    line = re.match(r"(\d{1,9}):", finding.message[len(file) + 1 :])
    return Source(file, int(line[1])) if line is not None else None


def host_name(report: Report) -> str:
    """Name the machine for a reader: its runner, else itself."""
    return clean(report.host.runner or report.host.name, 60) or "this host"


def retry_text(finding: Finding) -> str:
    """Say whether the same job may pass later."""
    return (
        "A retry may pass, once the machine is mended or free again."
        if finding.retryable
        else "A retry is of no use before that."
    )


def lately_text(report: Report, finding: Finding) -> str:
    """Say how often the same was found on this host lately; nothing where that is not known."""
    known = report.lately
    if known is None:
        return ""
    times = known.codes.get(finding.code, 0)
    if known.runs == 1:
        text = f"On this host: the one earlier run of the last 24 h {'had it too' if times else 'did not have it'}."
    else:
        text = f"On this host: {times or 'none'} of the {known.runs} earlier runs of the last 24 h had it."
    return text + (" So did an earlier attempt of this run." if finding.code in known.before else "")


def advice(finding: Finding) -> list[str]:
    """Write what stands below the message of a finding: the cause, the next step, whether to retry.

    The texts are as they came: the caller cleans them in the way that its format needs.
    """
    lines = []
    if finding.evidence:
        lines.append(f"why: {finding.evidence}")
    if finding.remedy:
        lines.append(f"do: {finding.remedy} ({finding.who})")
    if finding.severity == "error":
        lines.append(
            "retry: the same job may pass, once the machine is mended or free again"
            if finding.retryable
            else "retry: of no use before something is changed"
        )
    return lines
