"""Finding what a child has started, wherever it went: everything that carries the mark in its environment.

A process that left the child's group (`setsid`) or was orphaned (double fork) still has the environment it was started
with. Only what is no older than the child is looked at: an environment lies in the memory of its process, and that of
an old one which hangs in a driver could hold us as well.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MARK = "XDG_PRECHECK_CHILD"
"""Names the child's run in its environment. The prefix keeps it inside the allow list of CONTRACT C2."""


def find_marked(tokens: Collection[str], oldest: int, until: float) -> dict[str, list[int]]:
    """Return the living processes that carry one of the tokens as their mark; `oldest` is the child first started.

    A look that a process which hangs holds up is given up half-way to `until` (`time.monotonic()`), and finds nothing:
    the other half is for ending what is known without it.
    """
    budget = Budget((until - time.monotonic()) / 2)
    try:
        return call_bounded(lambda: _look(frozenset(tokens), oldest), budget=budget, phase="child")
    except (OSError, TransportError):  # OSError: no /proc, or none that may be listed
        return {}


def is_alive(pid: int) -> bool:
    """Whether there is such a process and it is more than a corpse."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _look(tokens: frozenset[str], oldest: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for pid, token in _linux(oldest) if sys.platform == "linux" else _elsewhere(oldest):
        if token in tokens:
            found.setdefault(token, []).append(pid)
    return found


def _linux(oldest: int) -> Iterator[tuple[int, str]]:
    # By hand: psutil takes three times as long for each process, and a machine with many GPUs has thousands.
    since = _started(str(oldest))
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or _started(entry) < since:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
            for line in file.read().split(b"\0"):  # a corpse has none
                name, _, value = line.partition(b"=")
                if name == MARK.encode():
                    yield int(entry), value.decode("ascii", "replace")


def _started(pid: str) -> int:
    """Return when a process began, in ticks since the machine did; 0 where it cannot be told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name comes second, in brackets, and may hold anything; the start is the 22nd field.
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _elsewhere(oldest: int) -> Iterator[tuple[int, str]]:
    import psutil

    since = 0.0
    with contextlib.suppress(psutil.Error):
        since = psutil.Process(oldest).create_time()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.create_time() >= since and process.status() != psutil.STATUS_ZOMBIE:
                yield process.pid, process.environ().get(MARK, "")


__all__ = ["MARK", "find_marked", "is_alive"]
