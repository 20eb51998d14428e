"""What a run tells while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from precheck_lib.bounded.budget import Budget
    from precheck_lib.outcome import CheckResult


class Watcher:
    """Is told what a run does, as it does it. This one listens to nothing; a face overrides what it shows.

    All calls come from the thread of the run, and none may block: `waiting` about four times a second while something
    is waited for, `phase` when something that may take long begins (with the seconds it may take; below 0 it is
    a note, to be shown at once), `ended` with each check.
    """

    def begin(self, budget: Budget) -> None:
        """Hear that the run begins, and what it has."""

    def phase(self, check: str, text: str, seconds: float) -> None:
        """Hear that `check` has begun something that may take up to `seconds`, or (below 0) a note to show at once."""

    def waiting(self) -> None:
        """Hear that the run still waits."""

    def ended(self, result: CheckResult) -> None:
        """Hear how a check has ended."""
