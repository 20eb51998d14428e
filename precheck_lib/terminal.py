"""Lines to stdout and stderr that can neither block for ever nor raise at the wrong moment."""

from __future__ import annotations

import contextlib
import os
import select
import time

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_SECONDS = 1.0
"""How long a reader that does not read may hold one line."""


class Terminal:
    """The two streams of a command. `broken` says that something could not be written to stdout.

    A reader that stopped reading would hold `print` for ever; here it costs at most a second for the first line that it
    does not take, and nothing after that. Nor does a slow one get time beyond `end` (on `time.monotonic`): what it does
    not take at once then is lost, for the end of a run must not wait for it.
    """

    end: float | None = None

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

    def _patience_end(self) -> float:
        end = time.monotonic() + _PATIENCE_SECONDS
        return end if self.end is None else min(end, self.end)

    def _write(self, descriptor: int, line: str) -> None:
        if descriptor in self._stuck:
            return
        data = (line + "\n").encode("utf-8", "backslashreplace")
        try:
            with _unblocked(descriptor) as unblocked:
                left = _write_in_time(unblocked, data, self._patience_end())
        except OSError:
            left = data
        if left:
            self._stuck.add(descriptor)


def _write_in_time(descriptor: int, data: bytes, end: float) -> bytes:
    """Write what the reader takes until `end` and return the rest."""
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    while data:
        left = max(0.0, end - time.monotonic())
        ready = poller.poll(int(left * 1000) + 1 if left else 0)
        if not ready and not left:
            break
        if ready:
            try:
                # A pipe that polls writable takes this much without blocking, and no more is certain.
                data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
            except BlockingIOError:
                if not left:
                    break
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
