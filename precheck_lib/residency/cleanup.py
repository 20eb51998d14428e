"""Undoing what a failed run has loaded (CONTRACT G6): each model once, in reverse, and watched until it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.errors import Cancelled, TalkError
from precheck_lib.findings import UNCONFIRMED, NotReadyError
from precheck_lib.residency.inventory import failure, watch
from precheck_lib.residency.judge import listed
from precheck_lib.residency.machine import Cleanup, Event, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.residency.cycle import Loaded, Residency
    from precheck_lib.servers.ollama import Row

FAILED = "Ollama cleanup unload/observation failed (exit {code})"


def clean_up(residency: Residency, budget: Budget, exit_code: Callable[[NotReadyError], int]) -> list[str]:
    """Unload what the run has loaded and not proven absent; returns the lines that belong on stderr (none: all gone).

    Ends by the budget. A failure of one model does not keep the next from being unloaded. `exit_code` turns a failure
    into the number that the spec's vocabulary has for it. `Cancelled` (a second signal) ends it at once, and everything
    that is left is named as unconfirmed.
    """
    remarks = []
    while residency.loaded:
        entry = residency.loaded[-1]
        try:
            _undo(entry, residency, budget)
        except NotReadyError as error:
            remarks.append(_remark(entry.name, exit_code(error), error.findings[0].message))
        except Cancelled as error:
            remarks += [
                _remark(left.name, 128 + error.signum, "a second signal ended the cleanup")
                for left in reversed(residency.loaded)
            ]
            residency.loaded.clear()
            break
        residency.loaded.pop()
    return remarks


def _remark(name: str, code: int, why: str) -> str:
    return f"{FAILED.format(code=code)} of {name}: {why}; {UNCONFIRMED}"


def _undo(entry: Loaded, residency: Residency, budget: Budget) -> None:
    cleanup = Cleanup(answered=entry.answered)
    rules = residency.rules
    gone_since: float | None = None

    def look(rows: list[Row] | None, asked: float) -> bool:
        nonlocal gone_since
        if rows is None:
            gone_since = None
            cleanup.advance(Event.UNREADABLE)
        elif listed(rows, entry.name):
            gone_since = None
            cleanup.advance(Event.LISTED)
        else:
            # From the moment the first absence was known to one that was asked for a hold later.
            gone_since = budget.clock() if gone_since is None else gone_since
            held = not cleanup.must_hold or asked - gone_since >= rules.hold
            cleanup.advance(Event.HELD if held else Event.ABSENT)
        return cleanup.state is not State.WATCHING

    try:
        while cleanup.state is not State.GONE:
            try:
                residency.server.unload(entry.name, budget, rules.unload)
            except TalkError as error:
                raise failure(error, "the unload", budget) from error
            cleanup.advance(Event.ACCEPTED)
            watch(residency.server, entry.name, rules.removal, budget, look)
    except BaseException:
        cleanup.fail()
        raise
