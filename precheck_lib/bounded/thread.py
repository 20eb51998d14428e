"""Calls that cannot be interrupted (the resolver, a path on a dead mount), given up when their time is over."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from precheck_lib.bounded.budget import READ
from precheck_lib.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.errors import Phase

T = TypeVar("T")

MOST_OUTSTANDING = 8
"""From so many calls on that were given up and are still unanswered no other is made: each holds a thread.

Those that somebody still waits for do not count: checks run at the same time, and each may make one.
"""

_given_up: set[int] = set()


class _Call(Generic[T]):
    """One call and where its answer goes; the lock keeps a late answer from writing to a reused descriptor."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.lock = threading.Lock()
        self.read, self.write = os.pipe()
        self.abandoned = False
        self.ended = False
        self.value: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self.function()
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            self.error = error
        with self.lock:
            self.ended = True
            _given_up.discard(id(self))
            if not self.abandoned:
                os.write(self.write, b"\0")

    def close(self) -> None:
        with self.lock:
            self.abandoned = True
            if not self.ended:
                _given_up.add(id(self))
            os.close(self.read)
            os.close(self.write)


def call_bounded(function: Callable[[], T], *, budget: Budget, phase: Phase) -> T:
    """Call `function` in a daemon thread and return its value, or raise its error, by the end of the budget.

    A call that has not answered by then keeps its thread until the system answers it; being a daemon thread it holds
    nothing when the process ends. Where `MOST_OUTSTANDING` of those are left the call fails as if its time were over.
    Where the system has no thread or descriptor left, it fails with `TransportError`.
    """
    budget.check(phase)
    if len(_given_up) >= MOST_OUTSTANDING:
        raise budget.over(phase)
    call = _begin(function, phase)
    try:
        budget.wait(call.read, READ, phase)
    finally:
        call.close()
    if call.error is not None:
        raise call.error
    return call.value  # type: ignore[return-value]  # T may itself be None


def _begin(function: Callable[[], T], phase: Phase) -> _Call[T]:
    call: _Call[T] | None = None
    try:
        call = _Call(function)
        threading.Thread(target=call.run, name=f"precheck-{phase}", daemon=True).start()
    except BaseException as error:
        if call is not None:
            # One that never began must not count as one without an answer: eight of them would stop all others.
            call.ended = True
            call.close()
        if isinstance(error, (OSError, RuntimeError)):
            raise TransportError(f"no thread could be started: {error}", phase=phase) from error
        raise
    return call
