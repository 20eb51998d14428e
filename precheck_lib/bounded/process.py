"""Child processes that cannot outlive their budget, nor leave anything behind that they started.

Each child gets a session of its own, the null device as stdin, and a mark in its environment. At its end everything in
its process group and everything that carries the mark is killed, so that a grandchild which left the group (`setsid`)
or was orphaned (double fork) is found as well. What empties its environment, leaves its session and is orphaned escapes;
only a cgroup could hold it, and a portable tool has none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from precheck_lib.bounded.budget import READ
from precheck_lib.errors import Cancelled, DeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from precheck_lib.bounded.budget import Budget

MARK = "XDG_PRECHECK_CHILD"
"""Names the child's run in its environment. The prefix keeps it inside the allow list of CONTRACT C2."""

Ended = Literal["exit", "signal", "deadline", "flood", "missing", "not-executable", "folder", "failed"]
"""How a child ended: by itself, by a signal of others, by its deadline, by too much output, or it never began."""

_GRACE_SECONDS = 0.15  # between TERM and KILL
_ORPHAN_SECONDS = 0.2  # how long a pipe may stay open after the child itself has gone
_REAP_SECONDS = 0.25  # how long after KILL the kernel may take


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
        file = os.path.join(folder, name)
        if os.path.isdir(file):
            why = why if why[0] == "not-executable" else ("folder", file)
        elif os.path.exists(file):
            if os.access(file, os.X_OK):
                return "exit", file
            why = ("not-executable", file)
    return why


class _Child:
    """One running child, its pipes and what it has printed."""

    def __init__(self, command: Command, max_stdout: int) -> None:
        self.token = secrets.token_hex(8)
        self.max_stdout = max_stdout
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.ended: Ended | None = None
        self.result: ChildResult | None = None
        self.gone_at: float | None = None
        self.status_lost = False
        self.process: subprocess.Popen[bytes] | None = None
        state, program = find_program(command.argv[0], command.env.get("PATH", os.defpath))
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
        except OSError as error:
            self.result = ChildResult(ended="failed", stderr=(error.strerror or str(error)).encode())
            return
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None  # noqa: S101 - both are pipes
            os.set_blocking(pipe.fileno(), False)

    @property
    def open_pipes(self) -> list[int]:
        assert self.process is not None  # noqa: S101 - asked of running children only
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
        if self.gone_at is None and _is_gone(self.process):
            self.gone_at = time.monotonic()
        return self.gone_at is not None

    def finish(self) -> ChildResult:
        """End everything that the child has started, reap it and say how it ended."""
        assert self.process is not None  # noqa: S101 - as above
        by_itself = self.has_exited()
        leftover = by_itself and bool(_marked(self.token))
        _end_all(self.process, self.token, gentle=not by_itself)
        held = _marked(self.token)
        deadline = time.monotonic() + _REAP_SECONDS
        while not self.has_exited() and time.monotonic() < deadline:
            time.sleep(0.002)
        if self.has_exited():
            self.status_lost = _status_lost(self.process)
            code = self.process.wait()
        else:
            # The kernel holds it: given up, not waited for. `returncode` keeps Popen from complaining about it.
            held = [*held, self.process.pid]
            code = self.process.returncode = -signal.SIGKILL
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        ended: Ended = self.ended or ("exit" if code >= 0 else "signal")
        if self.status_lost:
            ended = "failed"
            self.stderr[:0] = b"its exit status is lost because SIGCHLD is ignored; "
        return ChildResult(
            ended=ended,
            code=abs(code),
            stdout=bytes(self.stdout[: self.max_stdout]),
            stderr=bytes(self.stderr),
            leftover=leftover,
            held=tuple(sorted(set(held))),
        )


def run_children(
    commands: Sequence[Command],
    *,
    budget: Budget,
    max_stdout: int = 65536,
    meanwhile: Callable[[], None] | None = None,
) -> list[ChildResult]:
    """Run the commands at the same time and return how each ended, by the end of the budget and 0.4 s of grace.

    At the deadline, or when the run is cancelled (then `Cancelled` is raised after the last one is gone), a child and
    all that it started get TERM, and KILL 0.15 s later. `meanwhile` is called once after they have begun: work for the
    time in which there is only waiting.
    """
    children: list[_Child] = []
    cancelled: Cancelled | None = None
    budget.check("child")
    try:
        children += [_Child(command, max_stdout) for command in commands]
        if meanwhile is not None:
            meanwhile()
        _watch([child for child in children if child.process is not None], budget)
    except DeadlineError:
        for child in children:
            if child.process is not None and child.result is None and not child.has_exited():
                child.ended = "deadline"
    except Cancelled as error:
        cancelled = error
    finally:
        for child in children:
            if child.process is not None and child.result is None:
                child.result = child.finish()
    if cancelled is not None:
        raise cancelled
    return [child.result for child in children if child.result is not None]


def _watch(running: list[_Child], budget: Budget) -> None:
    """Read the pipes until every child has gone and its pipes are closed, or given up (flood, orphans)."""
    while True:
        poller = select.poll()
        owners: dict[int, _Child] = {}
        soonest: float | None = None
        for child in running:
            if child.result is not None:
                continue
            pipes = child.open_pipes
            gone = child.has_exited()
            orphaned = gone and child.gone_at is not None and time.monotonic() > child.gone_at + _ORPHAN_SECONDS
            if child.ended == "flood" or (gone and (not pipes or orphaned)):
                child.result = child.finish()
                continue
            # A child that has closed its pipes, or whose grandchild holds them, has to be looked at again.
            soonest = 0.01 if gone or not pipes else soonest
            for descriptor in pipes:
                poller.register(descriptor, READ)
                owners[descriptor] = child
        if all(child.result is not None for child in running):
            return
        try:
            step = budget if soonest is None else budget.child(soonest)
            for descriptor, _ in step.poll(poller, "child", *owners):
                owners[descriptor].read(descriptor)
        except DeadlineError:
            budget.check("child")


def _marked(token: str) -> list[int]:
    """Return the processes that carry the mark in their environment and are more than a corpse."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == token and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _is_gone(process: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _status_lost(process: subprocess.Popen[bytes]) -> bool:
    """Whether somebody else has reaped the child: Popen would call that exit status 0, which is a lie."""
    if process.returncode is not None or not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _end_all(process: subprocess.Popen[bytes], token: str, *, gentle: bool) -> None:
    """End the child's group and everything that carries its mark."""
    if gentle:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + _GRACE_SECONDS
        while not _is_gone(process) and time.monotonic() < until:
            time.sleep(0.005)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process may fork between the look and the kill: look again until nothing is found, but never without end.
    for _ in range(10):
        marked = [pid for pid in _marked(token) if pid != process.pid]
        if not marked:
            return
        for pid in marked:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
