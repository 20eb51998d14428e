"""Finding what a child has started, wherever it went: everything that carries the mark in its environment.

A process that left the child's group (`setsid`) or was orphaned (double fork) still has the environment it was started
with. Only what is no older than the child is looked at: an environment lies in the memory of its process, and that of
an old one which hangs in a driver could hold us as well.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MARK = "XDG_PRECHECK_CHILD"
"""Names the child's run in its environment. The prefix keeps it inside the allow list of CONTRACT C2."""


_SECONDS = 0.5
"""How long one look may take; on a machine that is not busy it takes milliseconds."""


def find_marked(children: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the living processes that carry one of the tokens as their mark; `children` are token and pid of ours.

    The children themselves are not among them: their parent sees how they end. A look that a process which hangs holds
    up is given up and finds nothing.
    """
    try:
        return call_bounded(lambda: _look(dict(children)), budget=Budget(_SECONDS), phase="child")
    except (OSError, TransportError):  # OSError: no /proc, or none that may be listed
        return {}


def is_alive(pid: int) -> bool:
    """Whether there is such a process and it is more than a corpse."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _look(children: dict[str, int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    oldest, known = min(children.values(), key=_started), set(children.values())
    for pid, token in _linux(oldest, known) if sys.platform == "linux" else _elsewhere(oldest, known):
        if token in children:
            found.setdefault(token, []).append(pid)
    return found


def _linux(oldest: int, known: set[int]) -> Iterator[tuple[int, str]]:
    # By hand: psutil takes three times as long for each process, and a machine with many GPUs has thousands.
    since = _started(oldest)
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in known or _started(int(entry)) < since:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
            for line in file.read().split(b"\0"):  # a corpse has none
                name, _, value = line.partition(b"=")
                if name == MARK.encode():
                    yield int(entry), value.decode("ascii", "replace")


def _started(pid: int) -> int:
    """Return when a process began, in ticks since the machine did; 0 where it cannot be told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name comes second, in brackets, and may hold anything; the start is the 22nd field.
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _elsewhere(oldest: int, known: set[int]) -> Iterator[tuple[int, str]]:
    import psutil

    since = 0.0
    with contextlib.suppress(psutil.Error):
        since = psutil.Process(oldest).create_time()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            is_young = process.pid not in known and process.create_time() >= since
            if is_young and process.status() != psutil.STATUS_ZOMBIE:
                yield process.pid, process.environ().get(MARK, "")


__all__ = ["MARK", "find_marked", "is_alive"]
