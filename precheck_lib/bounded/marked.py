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
    from collections.abc import Iterator, Mapping

MARK = "XDG_PRECHECK_CHILD"
"""Names the child's run in its environment. The prefix keeps it inside the allow list of CONTRACT C2."""


_SECONDS = 0.5
"""How long one look may take; on a machine that is not busy it takes milliseconds."""

_LOOKS = 5
_BETWEEN_SECONDS = 0.002
_PF_KTHREAD = 0x00200000  # include/linux/sched.h


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
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    pids = [pid for pid in pids if pid not in known and _started(pid) >= since]
    for _ in range(_LOOKS):
        bare = []
        for pid in pids:
            environment = _environment(pid)
            if not environment and _may_have_one(pid):
                bare.append(pid)
            for line in environment.split(b"\0"):
                name, _, value = line.partition(b"=")
                if name == MARK.encode():
                    yield pid, value.decode("ascii", "replace")
        if not bare:
            return
        # In the middle of an exec the old environment is gone and the new one is not there yet.
        pids = bare
        time.sleep(_BETWEEN_SECONDS)


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _may_have_one(pid: int) -> bool:
    """Whether a process is neither a corpse nor a thread of the kernel, which have no environment, nor out of reach."""
    fields = _stat(pid)
    if not fields or fields[0] in (b"Z", b"X") or int(fields[6]) & _PF_KTHREAD:
        return False
    return os.access(f"/proc/{pid}/environ", os.R_OK)


def _started(pid: int) -> int:
    """Return when a process began, in ticks since the machine did; 0 where it cannot be told."""
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process from its state on (the third of proc(5)); none where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name comes second, in brackets, and may hold anything.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


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
