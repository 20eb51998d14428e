"""Child processes that cannot outlive their budget, nor leave anything behind that they started.

Each child gets a session of its own, the null device as stdin, and a mark in its environment. At its end everything in
its process group and everything that carries the mark is killed. What empties its environment, leaves its session and
is orphaned escapes; only a cgroup could hold it, and a portable tool has none.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from precheck_lib.bounded.budget import READ
from precheck_lib.bounded.marked import MARK, find_marked
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from precheck_lib.bounded.budget import Budget

Ended = Literal["exit", "signal", "deadline", "flood", "missing", "not-executable", "folder", "failed"]
"""How a child ended: by itself, by a signal of others, by its deadline, by too much output, or it never began."""

_GRACE_SECONDS = 0.15  # between TERM and KILL
_ORPHAN_SECONDS = 0.2  # how long a pipe may stay open after the child itself has gone
_REAP_SECONDS = 0.3  # how long looking for what is left, and the kernel after KILL, may take
_LOOK_SECONDS = 0.05  # how often to look whether a child has gone: a pipe that a grandchild holds does not tell


class ChildResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a child: `code` is its exit status (or signal number), `stdout` the bytes it printed (capped).

    `stderr` is the first 2 KiB. `leftover` says that it had left processes behind, which were ended; `held` are pids
    that the kernel did not let go even on SIGKILL (they sleep in a driver or on a dead mount).
    """

    ended: Ended
    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    leftover: bool = False
    held: tuple[int, ...] = ()


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run: its argument list and its whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]


def find_program(name: str, path: str) -> tuple[Ended, str]:
    """Find `name` along a `PATH`; returns `("exit", file)`, or why there is none and the nearest file to it."""
    why: tuple[Ended, str] = ("missing", name)
    for folder in [""] if "/" in name else path.split(os.pathsep):
        file = os.path.join(folder or os.curdir, name) if "/" not in name else name
        if os.path.isdir(file):
            why = why if why[0] == "not-executable" else ("folder", file)
        elif os.path.exists(file):
            if os.access(file, os.X_OK):
                return "exit", file
            why = ("not-executable", file)
    return why


class _Child:
    """One running child, its pipes and what it has printed."""

    def __init__(self, command: Command, max_stdout: int, budget: Budget) -> None:
        self.token = secrets.token_hex(8)
        self.max_stdout = max_stdout
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.ended: Ended | None = None
        self.result: ChildResult | None = None
        self.gone_at: float | None = None
        self.by_itself = False
        self.leftover = False
        self.status_lost = False
        self.process: subprocess.Popen[bytes] | None = None
        name, path = command.argv[0], command.env.get("PATH", os.defpath)
        try:
            # A folder of PATH may lie on a mount that does not answer; a look at it then cannot be ended.
            state, program = call_bounded(lambda: find_program(name, path), budget=budget, phase="child")
        except DeadlineError:
            state, program = "deadline", f"the folders of PATH did not answer when {name} was looked for"
        if state != "exit":
            self.result = ChildResult(ended=state, stderr=program.encode("utf-8", "replace"))
            return
        try:
            self.process = subprocess.Popen(
                [program, *command.argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**command.env, MARK: self.token},
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument or in the environment
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.result = ChildResult(ended="failed", stderr=said.encode("utf-8", "replace"))
            return
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None  # noqa: S101 - both are pipes
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        assert self.process is not None  # noqa: S101 - asked of running children only
        return self.process.pid

    @property
    def open_pipes(self) -> list[int]:
        assert self.process is not None  # noqa: S101 - as above
        pipes = (self.process.stdout, self.process.stderr)
        return [pipe.fileno() for pipe in pipes if pipe is not None and not pipe.closed]

    def read(self, descriptor: int) -> None:
        assert self.process is not None  # noqa: S101 - as above
        assert self.process.stdout is not None  # noqa: S101 - as above
        assert self.process.stderr is not None  # noqa: S101 - as above
        is_stdout = not self.process.stdout.closed and descriptor == self.process.stdout.fileno()
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            (self.process.stdout if is_stdout else self.process.stderr).close()
        elif is_stdout:
            self.stdout += part
            if len(self.stdout) > self.max_stdout:
                self.ended = "flood"
        else:
            self.stderr += part[: max(0, 2048 - len(self.stderr))]

    def has_exited(self) -> bool:
        """Whether the child itself is gone; it stays unreaped, so that its pid and group cannot be reused yet."""
        assert self.process is not None  # noqa: S101 - as above
        if self.gone_at is None:
            if not hasattr(os, "waitid"):  # macOS before Python 3.13
                gone = self.process.poll() is not None
            else:
                try:
                    gone = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
                except ChildProcessError:
                    # Somebody else has reaped it: Popen would call that exit status 0, which is a lie.
                    gone = self.status_lost = True
            if gone:
                self.gone_at = time.monotonic()
        return self.gone_at is not None

    def signal_group(self, number: int) -> None:
        if not self.status_lost:  # its number may be another group's by now
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    def reap(self, held: list[int]) -> None:
        """Take the exit status, or give the child up where the kernel holds it; says how it ended in `result`."""
        assert self.process is not None  # noqa: S101 - as above
        if self.has_exited():
            code = self.process.wait()
        else:
            held = [*held, self.pid]
            code = self.process.returncode = -signal.SIGKILL  # keeps Popen from complaining about it
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        ended: Ended = self.ended or ("exit" if code >= 0 else "signal")
        if self.status_lost:
            ended = "failed"
            self.stderr[:0] = b"its exit status is lost because SIGCHLD is ignored; "
        self.result = ChildResult(
            ended=ended,
            code=abs(code),
            stdout=bytes(self.stdout[: self.max_stdout]),
            stderr=bytes(self.stderr),
            leftover=self.leftover,
            held=tuple(sorted(set(held))),
        )


def run_children(
    commands: Sequence[Command],
    *,
    budget: Budget,
    max_stdout: int = 65536,
    meanwhile: Callable[[], None] | None = None,
) -> list[ChildResult]:
    """Run the commands at the same time and return how each ended, by the end of the budget and 0.5 s.

    At the deadline, or when the run is cancelled (then `Cancelled` is raised after the last one is gone), the children
    and all that they started get TERM, and KILL 0.15 s later. `meanwhile` is called once after they have begun: work
    for the time in which there is only waiting.
    """
    children: list[_Child] = []
    budget.check("child")
    try:
        for command in commands:
            children.append(_Child(command, max_stdout, budget))  # noqa: PERF401 - known, should the next one fail
        if meanwhile is not None:
            meanwhile()
        _watch(children, budget)
    except DeadlineError:
        for child in _running(children):
            if not child.has_exited():
                child.ended = child.ended or "deadline"
    finally:
        _end(_running(children))
    return [child.result for child in children if child.result is not None]


def _running(children: list[_Child]) -> list[_Child]:
    return [child for child in children if child.result is None]


def _watch(children: list[_Child], budget: Budget) -> None:
    """Read the pipes until every child has gone and its pipes are closed, or given up (flood, orphans)."""
    while True:
        poller = select.poll()
        owners: dict[int, _Child] = {}
        pause = _LOOK_SECONDS
        for child in _running(children):
            pipes = child.open_pipes
            gone = child.has_exited()
            orphaned = child.gone_at is not None and time.monotonic() > child.gone_at + _ORPHAN_SECONDS
            if child.ended == "flood" or (gone and (not pipes or orphaned)):
                _end([child])
                continue
            if gone or not pipes:
                pause = 0.01
            for descriptor in pipes:
                poller.register(descriptor, READ)
                owners[descriptor] = child
        if not _running(children):
            return
        try:
            for descriptor, _ in budget.child(pause).poll(poller, "child", *owners):
                owners[descriptor].read(descriptor)
        except DeadlineError:
            budget.check("child")


def _end(children: list[_Child]) -> None:
    """End the children and all that they have started, all at the same time, and reap them."""
    children = [child for child in children if child.process is not None]
    if not children:
        return
    for child in children:
        child.by_itself = child.has_exited()
        if not child.by_itself:
            child.signal_group(signal.SIGTERM)
    until = time.monotonic() + _GRACE_SECONDS
    while not all(child.has_exited() for child in children) and time.monotonic() < until:
        time.sleep(0.005)
    held = _kill(children, time.monotonic() + _REAP_SECONDS)
    for child in children:
        child.reap(held.get(child.token, []))


def _kill(children: list[_Child], until: float) -> dict[str, list[int]]:
    """Kill the children and all that carries their marks; returns the pids that are still there at `until`."""
    tokens = [child.token for child in children]
    oldest = children[0].pid
    found = find_marked(tokens, oldest, until)
    for child in children:
        child.leftover = child.by_itself and child.token in found
    while True:
        # A process may fork between the look and the kill: look again until nothing is found, but never without end.
        for child in children:
            child.signal_group(signal.SIGKILL)
        for pid in itertools.chain.from_iterable(found.values()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        gone = not found and all(child.has_exited() for child in children)
        if gone or time.monotonic() > until:
            return found
        time.sleep(0.005)
        found = find_marked(tokens, oldest, until)
