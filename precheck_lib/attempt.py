"""One check carried out: asked once, or again and again where the spec says to wait; how it ended, as a value."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, NamedTuple

from precheck_lib.bounded.budget import describe_seconds
from precheck_lib.errors import Cancelled, DeadlineError, TalkError
from precheck_lib.exits import INTERNAL
from precheck_lib.findings import NotReadyError, make, not_ready_for
from precheck_lib.interrupt import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.checks.kind import Context, Kind
    from precheck_lib.outcome import Finding, Observed, OutcomeWord
    from precheck_lib.spec.model import CheckSpec

ATTEMPT_SECONDS = 1.0
"""The most that one attempt of a check that waits may take: a server that hangs must not use up the whole wait."""

_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.25

_HOPELESS = ("roles.", "spec.")
"""Findings with these beginnings are about what was given, which no waiting changes."""


class Ended(NamedTuple):
    """How a check ended. `code` is its exit code where it does not depend on the spec; `error` where it does.

    `attempts` is how often it was asked.
    """

    word: OutcomeWord
    findings: list[Finding]
    error: NotReadyError | None = None
    code: int = 0
    attempts: int = 1
    observed: tuple[Observed, ...] = ()


def carry_out(check: CheckSpec, kind: Kind, context: Context, run_budget: Budget) -> Ended:
    """Run a check within its context's budget; never raises. `run_budget` is that of the whole run."""
    ended = _carried_out(check, kind, context, run_budget)
    return ended._replace(observed=tuple(context.observed))


def _carried_out(check: CheckSpec, kind: Kind, context: Context, run_budget: Budget) -> Ended:
    attempts = _Attempts(check, kind, context)
    try:
        run_budget.check("wait")
        findings = attempts.until_right() if check.wait is not None else attempts.once()
    except Cancelled as error:
        return Ended("error", [cancelled(error.signum)], code=128 + error.signum, attempts=attempts.made)
    except NotReadyError as error:
        return Ended(error.word, error.findings, error, attempts=attempts.made)
    except TalkError as error:
        over = isinstance(error, DeadlineError) and run_budget.left() <= 0
        ended = not_ready_for(error, check.title, code="run.budget" if over else None)
        return Ended(ended.word, ended.findings, ended, attempts=attempts.made)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an internal error is reported, whatever it is
        return Ended("error", [internal(error)], code=INTERNAL, attempts=attempts.made)
    return Ended("passed", findings, attempts=attempts.made)


class _Attempts:
    def __init__(self, check: CheckSpec, kind: Kind, context: Context) -> None:
        self.check = check
        self.context = context
        self.ask: Callable[[], list[Finding]] = lambda: kind.run(check.options, context)
        self.made = 0

    def once(self) -> list[Finding]:
        self.made += 1
        self.context.observed.clear()
        findings = self.ask()
        if self.context.earlier is None:
            return findings
        return findings + self.context.earlier.judge(self.context.check, self.context.observed)

    def until_right(self) -> list[Finding]:
        """Ask until it was right as often in a row as the spec wants; raises the last failure when the time is over."""
        wait = self.check.wait
        assert wait is not None  # noqa: S101 - asked for then only
        whole = self.context.budget.child(wait.seconds)
        in_a_row, told, last, pause = 0, _Told(), None, _FIRST_PAUSE
        while True:
            self.context.budget = whole.child(ATTEMPT_SECONDS)
            try:
                findings = self.once()
            except (NotReadyError, TalkError) as error:
                if last is not None and isinstance(error, DeadlineError) and whole.left() <= 0:
                    break  # cut short by the end of the wait: what the one before it said tells more
                last = error if isinstance(error, NotReadyError) else not_ready_for(error, self.check.title)
                if last.usage or last.findings[0].code.startswith(_HOPELESS):
                    raise
                in_a_row = 0
                told.wrong(last.findings[0].message)
            else:
                in_a_row += 1
                told.right(whole.elapsed())
                if in_a_row >= wait.stable:
                    return findings
            try:
                whole.sleep(pause)
                whole.check("wait")  # what would begin now could only run into the end
            except DeadlineError:
                break
            pause = min(_LAST_PAUSE, pause * 2)
        raise self._over(last if in_a_row == 0 else None, in_a_row, told)

    def _over(self, last: NotReadyError | None, in_a_row: int, told: _Told) -> NotReadyError:
        wait = self.check.wait
        assert wait is not None  # noqa: S101 - as above
        time = describe_seconds(wait.seconds)
        if last is None:
            text = f"{self.check.title}: right {in_a_row} times in a row when {time} were over, not {wait.stable} times"
            unstable = make("wait.unstable", text, evidence=told.summary(self.made))
            return NotReadyError([unstable], word="error", curl=28)
        first, *others = last.findings
        evidence = "; ".join(part for part in (first.evidence, f"waited {time}: {told.summary(self.made)}") if part)
        first = make(first.code, first.message, evidence=evidence, remedy=first.remedy, retryable=first.retryable)
        return NotReadyError([first, *others], word=last.word, curl=last.curl)


class _Told:
    """What a check that was asked again and again has said."""

    def __init__(self) -> None:
        self.times_right = 0
        self.last_right = 0.0
        self.messages: list[str] = []

    def right(self, when: float) -> None:
        self.times_right += 1
        self.last_right = when

    def wrong(self, message: str) -> None:
        if not self.messages or self.messages[-1] != message:
            self.messages.append(message)

    def summary(self, made: int) -> str:
        """Say whether it was still changing."""
        asked = f"asked {made} times" if made > 1 else "asked once"
        if self.times_right:
            times = "once" if self.times_right == 1 else f"{self.times_right} times"
            return f"{asked}, right {times} (last after {self.last_right:.1f} s): it was still changing"
        if len(self.messages) > 1:
            return f"{asked}, {len(self.messages)} different answers one after the other: it was still changing"
        return f"{asked}, the same answer each time"


def cancelled(signum: int) -> Finding:
    """Make the finding of a check that a signal has ended."""
    return make("run.cancelled", f"the run was ended by {signal_name(signum)} during this check")


def internal(error: BaseException) -> Finding:
    """Make the finding of a failure of precheck itself."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return make(
        "run.internal",
        f"internal error: {type(error).__name__}: {error}",
        evidence=" | ".join("".join(lines).strip().splitlines()[-12:]),
    )


__all__ = ["ATTEMPT_SECONDS", "Ended", "cancelled", "carry_out", "internal"]
