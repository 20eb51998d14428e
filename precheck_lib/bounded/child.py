"""One child: how it is found and started, what it prints, how it ended. `process.py` watches over it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from precheck_lib.bounded.marked import MARK
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from precheck_lib.bounded.budget import Budget

_READ = 65536
_PIPE_READS = (1 << 20) // _READ

Ended = Literal["exit", "signal", "deadline", "flood", "missing", "not-executable", "folder", "failed"]
"""How a child ended: by itself, by a signal of others, by its deadline, by too much output, or it never began."""


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


class Child:
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
        """Its process id, which is its group's too."""
        assert self.process is not None  # noqa: S101 - asked of running children only
        return self.process.pid

    @property
    def open_pipes(self) -> list[int]:
        """The descriptors through which it, or what it has started, can still print."""
        assert self.process is not None  # noqa: S101 - as above
        pipes = (self.process.stdout, self.process.stderr)
        return [pipe.fileno() for pipe in pipes if pipe is not None and not pipe.closed]

    def drain(self) -> None:
        """Take what lies in its pipes already, without waiting for more."""
        for descriptor in self.open_pipes:
            # A pipe holds 1 MiB at the most; one that is filled as fast as it is emptied would never be empty.
            for _ in range(_PIPE_READS):
                if self.ended == "flood" or not self.read(descriptor):
                    break

    def read(self, descriptor: int) -> bool:
        """Take what has come through one of its pipes; returns whether there may be more."""
        assert self.process is not None  # noqa: S101 - as above
        assert self.process.stdout is not None  # noqa: S101 - as above
        assert self.process.stderr is not None  # noqa: S101 - as above
        is_stdout = not self.process.stdout.closed and descriptor == self.process.stdout.fileno()
        try:
            part = os.read(descriptor, _READ)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            (self.process.stdout if is_stdout else self.process.stderr).close()
            return False
        if is_stdout:
            self.stdout += part
            if len(self.stdout) > self.max_stdout:
                self.ended = "flood"
        else:
            self.stderr += part[: max(0, 2048 - len(self.stderr))]
        return True

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
        """Send a signal to the child and what is still in its group."""
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


__all__ = ["Child", "ChildResult", "Command", "Ended", "find_program"]
