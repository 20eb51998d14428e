"""Reading what is resident, once or until a model has left, and naming what goes wrong on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from precheck_lib.bounded.budget import describe_seconds
from precheck_lib.errors import AnswerError, DeadlineError, StatusError, TalkError
from precheck_lib.findings import NotReadyError, not_ready, not_ready_for
from precheck_lib.servers.ollama import NoInventoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.servers.ollama import Row

REMOVAL_OVER = "Ollama residency removal deadline elapsed"


class Inventory(Protocol):
    """A server that says what is resident."""

    def inventory(self, budget: Budget) -> list[Row]:
        """Read what is resident; raises `NoInventoryError` where the read says nothing."""


def read_inventory(server: Inventory, budget: Budget, subject: str) -> list[Row]:
    """Read it once; raises `NotReadyError` also where the read says nothing. `subject` is the read in words."""
    try:
        return server.inventory(budget)
    except NoInventoryError as error:
        raise unread(error, subject, budget) from error
    except TalkError as error:
        raise failure(error, subject, budget, code=inventory_code(error)) from error


def read_patiently(server: Inventory, seconds: float, budget: Budget, subject: str) -> list[Row]:
    """Read it until a read says something, for at most `seconds`: some say nothing while a server unloads."""
    part = budget.child(seconds)
    while True:
        try:
            return server.inventory(part)
        except NoInventoryError as error:
            try:
                part.sleep(0.25)
            except DeadlineError:
                raise unread(error, subject, budget) from error
        except TalkError as error:
            raise failure(error, subject, budget, code=inventory_code(error)) from error


def unread(error: NoInventoryError, subject: str, budget: Budget) -> NotReadyError:
    """Turn a read that says nothing into the end of the check."""
    cause = error.__cause__
    if isinstance(cause, TalkError):
        return failure(cause, subject, budget)
    return not_ready_for(StatusError(str(error), 500), subject)


def watch(
    server: Inventory,
    name: str,
    seconds: float,
    budget: Budget,
    look: Callable[[list[Row] | None, float], bool],
    why: Callable[[], str] = lambda: "",
) -> None:
    """Read the inventory until `look` is content with it (`None`: it was unreadable), for at most `seconds`.

    `look` also gets the time at which that inventory was asked for: it may be old when it arrives.

    Every 50 ms for the first 2 s, then every 250 ms. Raises `NotReadyError`: the removal deadline (a requirement that
    is not met, 28), an answer that is no inventory, a status, a broken connection.
    """
    part = budget.child(seconds)
    over = False
    while not over:
        rows: list[Row] | None = None
        asked = part.clock()
        try:
            rows = server.inventory(part)
        except NoInventoryError:
            pass
        except TalkError as error:
            subject = f"the inventory while {name} was unloaded"
            raise failure(error, subject, budget, code=inventory_code(error)) from error
        if look(rows, asked):
            return
        try:
            part.sleep(0.05 if part.elapsed() < 2 else 0.25)
        except DeadlineError as error:
            if budget.left() <= 0:
                raise failure(error, f"waiting for {name} to leave", budget) from error
            over = True
    raise not_ready(
        "ollama.removal",
        f"{REMOVAL_OVER}: {name} is still resident {describe_seconds(seconds)} after its unload",
        evidence=why(),
        curl=28,
    )


def inventory_code(error: TalkError) -> str | None:
    """Name an answer that is no inventory; a status or a broken connection is named by what it is."""
    return "ollama.inventory" if isinstance(error, AnswerError) and not isinstance(error, StatusError) else None


def failure(
    error: TalkError, subject: str, budget: Budget, *, code: str | None = None, deadline_code: str | None = None
) -> NotReadyError:
    """Turn a failed talk into the end of the check; where the run's own time is over, that is what is said.

    `code` and `deadline_code` name the failure better than its transport does, where there is a better name.
    """
    if not isinstance(error, DeadlineError):
        return not_ready_for(error, subject, code=code)
    if budget.left() <= 0:
        text = f"the run's budget ended during {subject}: {error}"
        return not_ready("run.budget", text, word="error", curl=error.curl)
    return not_ready_for(error, subject, code=deadline_code)


def why_it_stays(rows: Sequence[Row]) -> str:
    """Say what the last rows of a model that does not leave tell of the cause."""
    if not rows or rows[0].expires_at is None:
        return "no readable inventory in that time" if not rows else ""
    return f"its row expires at {rows[0].expires_at}: in the past it is busy, in the future another client holds it"
