"""Lines to stdout and stderr that can neither block for ever nor raise at the wrong moment."""

from __future__ import annotations

import os
import select
import time

_PATIENCE_SECONDS = 1.0
"""How long a reader that does not read may hold one line."""

_ATOMIC = 4096  # a pipe that polls writable takes this much without blocking


class Terminal:
    """The two streams of a command. `broken` says that something could not be written to stdout.

    A reader that stopped reading would hold `print` for ever; here it costs at most a second for the first line that it
    does not take, and nothing after that.
    """

    def __init__(self, out: int = 1, err: int = 2) -> None:
        self._out = out
        self._err = err
        self._stuck: set[int] = set()

    @property
    def broken(self) -> bool:
        """Whether stdout has lost a line."""
        return self._out in self._stuck

    def out(self, line: str) -> None:
        """Write a line to stdout."""
        self._write(self._out, line)

    def err(self, line: str) -> None:
        """Write a line to stderr."""
        self._write(self._err, line)

    def _write(self, descriptor: int, line: str) -> None:
        if descriptor in self._stuck:
            return
        data = (line + "\n").encode("utf-8", "backslashreplace")
        end = time.monotonic() + _PATIENCE_SECONDS
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        try:
            while data:
                left = end - time.monotonic()
                ready = poller.poll(max(0, int(left * 1000)))
                if not ready and left <= 0:
                    self._stuck.add(descriptor)
                    return
                if ready:
                    data = data[os.write(descriptor, data[:_ATOMIC]) :]
        except OSError:
            self._stuck.add(descriptor)
