"""What all writers say in the same words: which findings of a check count, what stands below a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.outcome import Finding

if TYPE_CHECKING:
    from precheck_lib.outcome import CheckResult, Report

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
