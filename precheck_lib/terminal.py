"""Lines to stdout and stderr that can neither block for ever nor raise at the wrong moment."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_SECONDS = 1.0
"""How long a reader that does not read may hold one line."""


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

    @property
    def is_person(self) -> bool:
        """Whether stdout is a terminal, so that probably a person looks."""
        return os.isatty(self._out)

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
        try:
            with _unblocked(descriptor) as unblocked:
                left = _write_in_time(unblocked, data)
        except OSError:
            left = data
        if left:
            self._stuck.add(descriptor)


def _write_in_time(descriptor: int, data: bytes) -> bytes:
    """Write what the reader takes in time and return the rest."""
    end = time.monotonic() + _PATIENCE_SECONDS
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    while data:
        left = end - time.monotonic()
        if left <= 0:
            break
        if poller.poll(int(left * 1000) + 1):
            try:
                # A pipe that polls writable takes this much without blocking, and no more is certain.
                data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
            except BlockingIOError:
                time.sleep(0.001)  # non-blocking, and there is less room than that
    return data


@contextlib.contextmanager
def _unblocked(descriptor: int) -> Iterator[int]:
    """Open a terminal a second time, without blocking: one that polls writable may have room for a few bytes only.

    The descriptor itself stays as it is, for it is shared with other processes.
    """
    try:
        again = os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # no terminal, or somebody else's
        yield descriptor
        return
    try:
        yield again
    finally:
        os.close(again)
