"""What a check, a run and a machine are said to be: the words that every room above `bounded/` shares."""

from __future__ import annotations

from typing import Literal

import msgspec

from precheck_lib.bounded.journal import RequestRecord

OutcomeWord = Literal["passed", "failed", "error", "skipped"]
"""How a check ended: `failed` is a requirement that is not met, `error` one that could not be found out."""

Verdict = Literal["ready", "not-ready", "error", "cancelled"]
"""How a run ended (CONTRACT A6 ties it to JUnit and to the exit code)."""

Who = Literal["job", "spec", "host"]
"""Who can act on a finding: the author of the job, the author of the spec, the owner of the host."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be, said so that a reader can act on it alone.

    `code` is stable and listed in `precheck_lib.findings`; `message` names the thing and the two values that
    differ; `evidence` says what was seen that points at the cause (may be empty); `remedy` is the next step and
    `who` can take it; `retryable` says whether the same job may find this gone by itself. `severity` is
    `warning` for what does not change the verdict.
    """

    code: str
    message: str
    evidence: str = ""
    remedy: str = ""
    who: Who = "host"
    retryable: bool = False
    severity: Literal["error", "warning"] = "error"


class Source(msgspec.Struct, frozen=True):
    """Where in a spec something is written; `line` is 1-based."""

    file: str
    line: int


class CycleRecord(msgspec.Struct, kw_only=True):
    """One model of a residency check: seconds of each phase of its cycle, the reads made, the row that was found.

    One that was `kept` was right as it was, and nothing was unloaded or loaded.
    """

    model: str
    kept: bool = False
    unload_s: float | None = None
    absent_s: float | None = None
    load_s: float | None = None
    reads: int = 0
    size: int | None = None
    size_vram: int | None = None
    context_length: int | None = None


class CheckResult(msgspec.Struct, kw_only=True):
    """One check of a run as it ended; `started_s` counts from the start of the run, `budget_s` is what it had.

    One that was not reached names its blocker in `skipped_for`; one that was not meant to run says why in `unmet`.
    `attempts` is how often it was asked.
    """

    id: str
    title: str
    kind: str
    outcome: OutcomeWord
    started_s: float | None = None
    elapsed_s: float = 0.0
    budget_s: float | None = None
    source: Source | None = None
    findings: list[Finding] = msgspec.field(default_factory=list)
    skipped_for: str | None = None
    unmet: str | None = None
    attempts: int = 1


Fact = Literal["version", "digest", "context length", "GPU memory", "process"]
"""What of a server or a model is kept of a run, to be compared when the run is verified."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One fact as a check has seen it: which `fact` of which `subject`, its `value`, and what was `wanted` of it.

    GPU memory is in bytes, a context length in tokens; a process is its pid with the time of its start.
    """

    check: str
    subject: str
    fact: Fact
    value: str | int
    wanted: str | int | None = None


def is_fine(result: CheckResult) -> bool:
    """Say whether a check keeps nothing from going on: it passed, or it was not meant for this machine."""
    return result.outcome == "passed" or result.unmet is not None


class SpecIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Which spec was run: its name, its path and the SHA-256 of its text (`None` where it could not be read)."""

    name: str | None = None
    path: str | None = None
    digest: str | None = None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that was judged; `runner` is GitHub's `RUNNER_NAME` where there is one."""

    name: str
    runner: str | None
    os: str
    python: str


class Lately(msgspec.Struct, frozen=True, kw_only=True):
    """What the earlier `runs` of the last 24 hours on this host have found: in how many of them each code was.

    `before` are the codes that an earlier attempt of this very run (GitHub's re-run) has found here.
    """

    runs: int
    codes: dict[str, int]
    before: tuple[str, ...] = ()


class Report(msgspec.Struct, kw_only=True):
    """A whole run as a value: all that the writers in `report/` know.

    `verdict` and `exit_code` follow CONTRACT A6; `started` is ISO 8601 in UTC; `remarks` are lines that belong on
    stderr but to no check (a cleanup that failed, a child the kernel holds); `notes` say what kind of run it was where
    that matters (only a part of the spec), and are no fault. `observed` is what was seen of servers and models.
    A run that verifies an earlier one has that one's `started` in `verifies`. `lately` is what is known of others.
    """

    version: int = 1
    spec: SpecIdentity
    verdict: Verdict
    exit_code: int
    started: str
    elapsed_s: float = 0.0
    budget_s: float | None = None
    host: Host
    checks: list[CheckResult] = msgspec.field(default_factory=list)
    requests: list[RequestRecord] = msgspec.field(default_factory=list)
    cycles: list[CycleRecord] = msgspec.field(default_factory=list)
    remarks: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    observed: list[Observed] = msgspec.field(default_factory=list)
    verifies: str | None = None
    lately: Lately | None = None


__all__ = [
    "CheckResult",
    "CycleRecord",
    "Finding",
    "Host",
    "Lately",
    "Observed",
    "OutcomeWord",
    "Report",
    "RequestRecord",
    "Source",
    "SpecIdentity",
    "Verdict",
    "Who",
    "is_fine",
]
