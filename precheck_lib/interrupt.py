"""Signals as values. Imported before anything heavy, so that none is missed while the rest is imported.

The first signal asks the run to stop: it cleans up and writes its reports. A second one ends the cleanup too. Once the
reports are being written the verdict is final and a first signal changes nothing; a second one, or one that finds the
process stuck, ends it within a second by the last resort below.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from precheck_lib.bounded.cancel import Cancel

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from typing_extensions import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LAST_RESORT_SECONDS = 0.8
"""How long after a second signal the process may go on before it is ended whatever it does."""


class Interrupts:
    """What the signals of this process have asked for: `stop` the run, `abandon` its cleanup.

    `may_hold_models` is kept right by the engine; the last resort says then that residency is unconfirmed.
    `unfinished` are temporary files that it has to remove. As a context manager it handles the signals within the block
    (of the main thread) and puts back what was there before.
    """

    def __init__(self) -> None:
        self.stop = Cancel()
        self.abandon = Cancel()
        self.final = False
        self.may_hold_models = False
        self.unfinished: set[str] = set()
        self.stopped_at: float | None = None
        self._held: int | None = None
        self._on_stop: Callable[[float], None] | None = None
        self._before: dict[int, signal.Handlers | object] = {}

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def install(self) -> None:
        """Handle the signals that are not ignored (under nohup one stays ignored)."""
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._handle)
        # Ignored, it would make the kernel reap our children unseen, and every exit status would read as 0.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def on_stop(self, call: Callable[[float], None]) -> None:
        """Have `call` called at the first signal with the seconds since it; at once where it has come already."""
        self._on_stop = call
        if self.stopped_at is not None:
            call(time.monotonic() - self.stopped_at)

    def restore(self) -> None:
        """Put the handlers back that were there before, and take the last resort back."""
        if self.abandon.is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        self._before.clear()
        self.stop.close()
        self.abandon.close()

    def finish(self) -> None:
        """Ignore every signal from now on: only the interpreter's own end is left.

        Its finalization takes Python's handlers away before the process has ended, and a signal in that moment would
        end it by the signal instead of with its code.
        """
        self.final = True
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        if self.abandon.is_set:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self.stop.is_set:
            if self.final:
                # The verdict is written: the first signal changes nothing, a second one finds a process that is stuck.
                if self._held is None:
                    self._held = number
                elif not self.abandon.is_set:
                    self.abandon.set(number)
                    self._set_last_resort()
            else:
                self.stopped_at = time.monotonic()
                self.stop.set(number)
                if self._on_stop is not None:
                    self._on_stop(0.0)
            return
        if not self.abandon.is_set:
            self.abandon.set(number)
            self._set_last_resort()

    def _set_last_resort(self) -> None:
        signal.signal(signal.SIGALRM, self._last_resort)
        signal.setitimer(signal.ITIMER_REAL, LAST_RESORT_SECONDS)

    def _last_resort(self, _number: int, _frame: FrameType | None) -> None:
        try:
            for path in self.unfinished:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            if self.may_hold_models:
                _say_at_once(b"precheck: ended by a second signal; native residency remains unconfirmed\n")
        finally:
            os._exit(128 + (self.stop.signum or self._held or 0))


def signal_name(signum: int) -> str:
    """Name a signal as people know it."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def _say_at_once(line: bytes) -> None:
    """Write a line to stderr if that takes it now: a reader that has stopped must not hold the end of the process."""
    poller = select.poll()
    poller.register(2, select.POLLOUT)
    with contextlib.suppress(OSError):
        if any(event & select.POLLOUT for _, event in poller.poll(0)):
            os.write(2, line)
