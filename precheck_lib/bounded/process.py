"""Child processes that cannot outlive their budget, nor leave anything behind that they started.

Each child gets a session of its own, the null device as stdin, and a mark in its environment. At its end everything in
its process group and everything that carries the mark is killed. What empties its environment, leaves its session and
is orphaned escapes; only a cgroup could hold it, and a portable tool has none.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from precheck_lib.bounded.budget import READ
from precheck_lib.bounded.child import Child, ChildResult, Command, find_program
from precheck_lib.bounded.marked import MARK, find_marked, is_alive
from precheck_lib.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from precheck_lib.bounded.budget import Budget

_GRACE_SECONDS = 0.15  # between TERM and KILL
_ORPHAN_SECONDS = 0.2  # how long a pipe may stay open after the child itself has gone
_REAP_SECONDS = 0.25  # how long after KILL the kernel may take; beyond that it holds them
_LAST_SECONDS = 0.05  # what was killed only at the end of that needs a moment
_PATIENCE_SECONDS = 1.0  # how long to go on ending what goes on starting others
_TICK_SECONDS = 0.25  # how often a face is told that the run is alive
_LOOK_SECONDS = 0.05  # how often to look whether a child has gone: a pipe that a grandchild holds does not tell


def run_children(
    commands: Sequence[Command],
    *,
    budget: Budget,
    max_stdout: int = 65536,
    meanwhile: Callable[[], None] | None = None,
) -> list[ChildResult]:
    """Run the commands at the same time and return how each ended, by the end of the budget and half a second.

    At the deadline, or when the run is cancelled (then `Cancelled` is raised after the last one is gone), the children
    and all that they started get TERM, and KILL 0.15 s later. `meanwhile` is called once after they have begun: work
    for the time in which there is only waiting.
    """
    children: list[Child] = []
    budget.check("child")
    try:
        for command in commands:
            children.append(Child(max_stdout))  # known before it begins: a signal in that moment has to end it too
            children[-1].start(command, budget)
        if meanwhile is not None:
            meanwhile()
        _watch(children, budget)
    except DeadlineError:
        for child in _running(children):
            if not child.has_exited():
                child.ended = child.ended or "deadline"
            # Where `meanwhile` took all the time, nothing has been read yet of what ended long ago.
            child.drain()
    finally:
        _end(_running(children))
    return [child.result for child in children if child.result is not None]


def _running(children: list[Child]) -> list[Child]:
    return [child for child in children if child.result is None]


def _watch(children: list[Child], budget: Budget) -> None:
    """Read the pipes until every child has gone and its pipes are closed, or given up (flood, orphans)."""
    next_tick = time.monotonic() + _TICK_SECONDS
    while True:
        poller = select.poll()
        owners: dict[int, Child] = {}
        pause = _LOOK_SECONDS
        for child in _running(children):
            pipes = child.open_pipes
            gone = child.has_exited()
            orphaned = child.gone_at is not None and time.monotonic() > child.gone_at + _ORPHAN_SECONDS
            if child.ended == "flood" or (gone and (not pipes or orphaned)):
                child.pipe_held = gone and bool(pipes)
                _end([child])
                continue
            if gone or not pipes:
                pause = 0.01
            for descriptor in pipes:
                poller.register(descriptor, READ)
                owners[descriptor] = child
        if not _running(children):
            return
        step = budget.child(pause)
        step.tick = None  # it would be called at every look
        try:
            for descriptor, _ in step.poll(poller, "child", *owners):
                owners[descriptor].read(descriptor)
        except DeadlineError:
            budget.check("child")
        if budget.tick is not None and time.monotonic() >= next_tick:
            budget.tick()
            next_tick = time.monotonic() + _TICK_SECONDS


def _end(children: list[Child]) -> None:
    """End the children and all that they have started, all at the same time, and reap them."""
    children = [child for child in children if child.process is not None]
    if not children:
        return
    for child in children:
        child.by_itself = child.has_exited()
        if not child.by_itself:
            child.stopped = child.is_stopped()
            child.signal_group(signal.SIGTERM)
    until = time.monotonic() + _GRACE_SECONDS
    while not all(child.has_exited() for child in children) and time.monotonic() < until:
        time.sleep(0.005)
    for child in children:
        child.stubborn = not child.has_exited()
    held = _kill(children)
    for child in children:
        child.reap(held.get(child.token, []))


def _kill(children: list[Child]) -> dict[str, list[int]]:
    """Kill the children and all that carries their marks; returns the pids that the kernel does not let go."""
    known = {child.token: child.pid for child in children}
    began = time.monotonic()
    killed: set[int] = set()
    found = find_marked(known)
    for child in children:
        pids = found.get(child.token, [])
        child.others, child.away = len(pids), sum(_session(pid) not in (child.pid, None) for pid in pids)
    quiet = 0
    while True:
        # A process may fork between the look and the kill, or fork and end during the look, which then sees neither:
        # look again until twice in a row nothing is found.
        for child in children:
            child.signal_group(signal.SIGKILL)
        living = set(itertools.chain.from_iterable(found.values()))
        for pid in living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if living else quiet + 1
        if quiet > 1 and all(child.has_exited() for child in children):
            return {}
        spent = time.monotonic() - began
        if spent > (_PATIENCE_SECONDS if living - killed else _REAP_SECONDS):
            time.sleep(_LAST_SECONDS)
            return {token: [pid for pid in pids if is_alive(pid)] for token, pids in found.items()}
        killed |= living
        time.sleep(0.005)
        found = find_marked(known)


def _session(pid: int) -> int | None:
    """Give the session that a process is in, `None` where it has gone meanwhile."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


__all__ = ["MARK", "ChildResult", "Command", "find_program", "run_children"]
