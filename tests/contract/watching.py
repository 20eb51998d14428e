"""Waiting for what a run does, and how much of its time the machine took from it."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.harness import Running


def wait_until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until something is so; fails where it does not come about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for has not happened"
        time.sleep(0.002)


class Delay(threading.Thread):
    """How long a run was ready to go on and had no processor (`seconds`), read for as long as it is there.

    Tests of time allow for it: it is what a busy machine adds, and nothing of it is the fault of what is tested.
    """

    def __init__(self, running: Running) -> None:
        super().__init__()
        self.seconds, self._pid, self._before = 0.0, running.process.pid, 0.0
        self._before = self._read()
        self.start()

    def restart(self) -> None:
        """Count from now on."""
        self._before, self.seconds = self._read(), 0.0

    def run(self) -> None:
        with contextlib.suppress(OSError, psutil.Error):
            while psutil.Process(self._pid).status() != psutil.STATUS_ZOMBIE:
                self.seconds = self._read() - self._before
                time.sleep(0.02)

    def _read(self) -> float:
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[1]) / 1e9
