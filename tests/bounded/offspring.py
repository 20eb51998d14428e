"""Children of tests that do what no child should, and what they have started."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from typing import TYPE_CHECKING

import psutil

from precheck_lib.bounded.process import Command
from tests.bounded.hostile import deadline_when

if TYPE_CHECKING:
    from pathlib import Path

    from precheck_lib.bounded.budget import Budget

OVERRUN = 0.5
ENV = {"PATH": "/usr/bin:/bin"}
FORK = "import os, sys, time, signal\n"
SLEEP = "ready(); time.sleep(60)\n"

LEAVE = {
    "in-the-group-with-the-pipe": "if os.fork() == 0: {sleep}",
    "in-the-group-ignoring-sigterm": "if os.fork() == 0: signal.signal(15, signal.SIG_IGN); {sleep}",
    "in-the-group-without-the-pipe": "if os.fork() == 0: os.close(1); os.close(2); {sleep}",
    "in-its-own-session-with-the-pipe": "if os.fork() == 0: os.setsid(); {sleep}",
    "in-its-own-session-without-the-pipe": "if os.fork() == 0: os.setsid(); os.close(1); os.close(2); {sleep}",
    "orphaned-with-the-pipe": "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0: {sleep}\n os._exit(0)",
    "orphaned-without-the-pipe": "if os.fork() == 0:\n os.setsid(); os.close(1); os.close(2)\n"
    " if os.fork() == 0: {sleep}\n os._exit(0)",
}
"""What a child leaves behind when it ends after this."""


class Offspring:
    """Children and grandchildren of one test, known by a word in their arguments.

    Their code can call `ready()`: `deadline_when_ready` waits for that, so that no test depends on how fast they begin.
    """

    def __init__(self, folder: Path) -> None:
        self.word = secrets.token_hex(8)
        self.folder = folder
        folder.mkdir()

    def python(self, code: str, *arguments: str, env: dict[str, str] | None = None) -> Command:
        ready = f"def ready(): open({str(self.folder)!r} + '/' + str(os.getpid()), 'w').close()\n"
        argv = [sys.executable, "-I", "-S", "-c", FORK + ready + code, *arguments, self.word]
        return Command(argv=argv, env=ENV if env is None else env)

    def deadline_when_ready(
        self, count: int = 1, *, overrun: float = OVERRUN
    ) -> contextlib.AbstractContextManager[Budget]:
        """A budget that ends 0.1 s after so many are ready; the block has to end within `overrun` seconds more."""
        return deadline_when(lambda: len(os.listdir(self.folder)) >= count, overrun=overrun)

    def wait_until_ready(self) -> None:
        """Wait until one is; fails when none becomes so."""
        until = time.monotonic() + 10
        while not os.listdir(self.folder):
            assert time.monotonic() < until, "nothing has begun"
            time.sleep(0.002)

    def alive(self, patience: float = 2.0) -> list[psutil.Process]:
        """Give those that are still there after a moment: what is killed goes at its next turn on a busy processor."""
        until = time.monotonic() + patience
        while (found := self._found()) and time.monotonic() < until:
            time.sleep(0.005)
        return found

    def _found(self) -> list[psutil.Process]:
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if self.word in one.cmdline() and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found
