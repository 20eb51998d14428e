"""Looks at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.crew import Crew
from precheck_lib.errors import Cancelled, TalkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def together(calls: Iterable[Callable[[], None]]) -> None:
    """Make the calls at the same time, each in a thread, and return when the last is over; they have to be bounded.

    One that raises `TalkError`, or `Cancelled`, has found nothing; whoever called asks the budget.
    """
    crew = Crew(lambda: None)
    try:
        for number, call in enumerate(calls):
            crew.begin(f"look {number}", _quiet(call))
    finally:
        while crew.busy:
            crew.next()


def _quiet(call: Callable[[], None]) -> Callable[[], Callable[[], None]]:
    def work() -> Callable[[], None]:
        try:
            call()
        except (Cancelled, TalkError):
            pass
        except Exception as error:  # noqa: BLE001 - raised again where it is seen
            return _raising(error)
        return lambda: None

    return work


def _raising(error: Exception) -> Callable[[], None]:
    def again() -> None:
        raise error

    return again


__all__ = ["together"]
