"""Waiting until a server in the background is told to end: by a signal, or by the end of stdin."""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Told:
    """Notes the signals that end us from the moment it is entered; `wait` returns when one came or stdin is over."""

    def __enter__(self) -> Self:
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._handlers: dict[int, Any] = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        self._before = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._woken.close()
        self._wake.close()

    def wait(self) -> None:
        """Wait for the end."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if _ends_with_stdin():
            poll.register(0, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor != 0 or not os.read(0, 4096):
                    return


def _ends_with_stdin() -> bool:
    """Say whether the end of stdin means anything: that of a pipe or a terminal does, the null device not."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return not stat.S_ISCHR(mode) or os.isatty(0)


__all__ = ["Told"]
