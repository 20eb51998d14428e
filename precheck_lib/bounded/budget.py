"""Time and bytes with one absolute end."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from precheck_lib.errors import Cancelled, DeadlineError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.cancel import Cancel
    from precheck_lib.errors import Phase

READ = select.POLLIN
WRITE = select.POLLOUT

_SLICE_SECONDS = 0.25
"""The longest single wait: a parent's end may be moved forward (by a signal) while a child of it waits."""


def describe_seconds(seconds: float) -> str:
    """Write seconds as people say them: `10 s`, `0.25 s`."""
    return f"{round(seconds, 3):g} s"


class Budget:
    """What one piece of work may use: `seconds` from now and `max_bytes` received, cut by its parent's.

    `end` is absolute on `clock` (seconds, monotonic): nothing that happens later moves it away, and only `cut` brings
    it nearer. A child's time ends no later than its parent's; its bytes are its own. `asked` is the time that was asked
    for, `seconds` what of it there was when the budget was made. `cancel` ends every wait early with `Cancelled`.
    `tick` is called about four times a second while something is waited for: a face can show that the run is alive
    without a thread of its own.
    """

    __slots__ = (
        "_end",
        "_named",
        "_parent",
        "asked",
        "cancel",
        "clock",
        "max_bytes",
        "received",
        "seconds",
        "started",
        "tick",
    )

    def __init__(
        self,
        seconds: float,
        *,
        max_bytes: int | None = None,
        cancel: Cancel | None = None,
        clock: Callable[[], float] = time.monotonic,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self.clock = clock
        self.started = clock()
        self.seconds = max(0.0, seconds)
        self.asked = self.seconds
        self._named = self.seconds
        self._end = self.started + self.seconds
        self._parent: Budget | None = None
        self.max_bytes = max_bytes
        self.received = 0
        self.cancel = cancel
        self.tick = tick

    def child(self, seconds: float | None = None, *, max_bytes: int | None = None) -> Budget:
        """Make a budget of `seconds` (all that is left where it is `None`) that ends no later than this one."""
        left = self.left()
        part = type(self)(
            left if seconds is None else min(seconds, left),
            max_bytes=max_bytes,
            cancel=self.cancel,
            clock=self.clock,
            tick=self.tick,
        )
        part._parent = self  # noqa: SLF001 - its own class
        part.asked = self.asked if seconds is None else max(0.0, seconds)
        # A bound is told as it is configured, by whichever of the two ends first: the 10 s of a check stay 10 s for a
        # request that begins 2 ms later.
        part._named = self._named if seconds is None or seconds > left else part.asked  # noqa: SLF001 - as above
        return part

    @property
    def end(self) -> float:
        """When it is over, on `clock`."""
        return self._end if self._parent is None else min(self._end, self._parent.end)

    def cut(self, seconds: float) -> None:
        """Let it end `seconds` from now, where that is sooner; for all that have it as parent too."""
        self._end = min(self._end, self.clock() + max(0.0, seconds))

    def left(self) -> float:
        """Return the seconds left, never less than 0."""
        return max(0.0, self.end - self.clock())

    def elapsed(self) -> float:
        """Return the seconds since the budget was made."""
        return self.clock() - self.started

    def check(self, phase: Phase) -> None:
        """Raise `Cancelled` or `DeadlineError` where the work has to stop now."""
        if self.cancel is not None and self.cancel.signum is not None:
            raise Cancelled(self.cancel.signum)
        if self.clock() >= self.end:
            raise self.over(phase)

    def over(self, phase: Phase) -> DeadlineError:
        """Make the error that says that this budget's time is over."""
        return DeadlineError(f"deadline of {describe_seconds(self._named)} elapsed", phase=phase, seconds=self._named)

    def take(self, count: int, phase: Phase) -> None:
        """Count bytes received and raise `TooLargeError` beyond the limit."""
        self.received += count
        if self.max_bytes is not None and self.received > self.max_bytes:
            raise TooLargeError(f"more than {self.max_bytes} bytes were received", phase=phase)

    def wait(self, descriptor: int, events: int, phase: Phase) -> None:
        """Wait until `descriptor` is ready for `events` (`READ`, `WRITE`); raises as `check` does."""
        poller = select.poll()
        poller.register(descriptor, events)
        self.poll(poller, phase, descriptor)

    def poll(self, poller: select.poll, phase: Phase, *wanted: int) -> list[tuple[int, int]]:
        """Wait on a prepared poller until one of the `wanted` descriptors is ready; raises as `check` does."""
        self._wake_on_cancel(poller)
        while True:
            self.check(phase)
            # Rounded up: a poll that ends a fraction early would only spin.
            ready = poller.poll(int(min(self.left(), _SLICE_SECONDS) * 1000) + 1)
            found = [(fd, event) for fd, event in ready if fd in wanted]
            if found:
                return found
            if self.tick is not None:
                self.tick()

    def sleep(self, seconds: float, phase: Phase = "wait") -> None:
        """Sleep for `seconds`; raises `DeadlineError` at the budget's end and `Cancelled` at once."""
        until = self.clock() + seconds
        poller = select.poll()
        self._wake_on_cancel(poller)
        while True:
            self.check(phase)
            now = self.clock()
            if now >= until:
                return
            poller.poll(int(min(until - now, self.end - now, _SLICE_SECONDS) * 1000) + 1)
            if self.tick is not None:
                self.tick()

    def _wake_on_cancel(self, poller: select.poll) -> None:
        # A closed flag has no descriptor: polled, it would be "ready" at once and the wait would spin.
        if self.cancel is not None and self.cancel.fileno() >= 0:
            poller.register(self.cancel.fileno(), READ)


__all__ = ["READ", "WRITE", "Budget", "describe_seconds"]
