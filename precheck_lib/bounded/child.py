"""One child: how it is found and started, what it prints, how it ended. `process.py` watches over it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Literal

import msgspec

from precheck_lib.bounded.marked import MARK, find_marked
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from precheck_lib.bounded.budget import Budget

_READ = 65536
_STDERR = 2048
_FORK_SECONDS = 0.15
_ROUNDS = 100  # of killing what goes on starting others
_LAST_OF_UTF_8 = re.compile(rb"[\xc2-\xf4][\x80-\xbf]{0,3}\Z")

Ended = Literal[
    "exit",
    "signal",
    "deadline",
    "flood",
    "missing",
    "not-executable",
    "folder",
    "no-interpreter",
    "wrong-format",
    "failed",
]
"""How a child ended: by itself, by a signal of others, by its deadline, by too much output, or (the rest) it never
began. `no-interpreter`: what its first line or its header names is not there; `wrong-format`: it is no program that
this machine can run.
"""


class ChildResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a child: `code` is its exit status (or signal number), `stdout` the bytes it printed (capped).

    `stderr` is the first 2 KiB, and `…`, of the `stderr_bytes` that came (where it never began: what stood in the way).
    `leftover` says that it had left processes behind, which were ended; `others` is how many there were of them, or of
    those that outlived the SIGTERM of its deadline, `away` how many of these had a session of their own, and
    `pipe_held` says that they held its output open. `stopped` says that it did not run any more at its deadline (it or
    somebody else had stopped it), `stubborn` that SIGTERM did not end it. `held` are pids that the kernel did not let
    go even on SIGKILL (they sleep in a driver or on a dead mount).
    """

    ended: Ended
    code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    stderr_bytes: int = 0
    leftover: bool = False
    others: int = 0
    away: int = 0
    pipe_held: bool = False
    stopped: bool = False
    stubborn: bool = False
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


def _why_not(program: str, error: OSError | ValueError) -> tuple[Ended, str]:
    """Say why the system did not start a program that is there and executable."""
    number = error.errno if isinstance(error, OSError) else None
    if number not in (errno.ENOENT, errno.ENOEXEC):
        return "failed", (error.strerror if isinstance(error, OSError) else None) or str(error)
    head = b""
    with contextlib.suppress(OSError), open(program, "rb") as file:
        head = file.read(256)
    if number == errno.ENOENT and head.startswith(b"#!"):
        # The program is there: what it names is not. As the kernel reads it, a carriage return belongs to the name.
        return "no-interpreter", os.fsdecode(re.split(rb"[ \t]", head[2:].split(b"\n")[0].strip(b" \t"))[0])
    if head.startswith(b"\x7fELF"):
        return ("no-interpreter", "its dynamic loader") if number == errno.ENOENT else ("wrong-format", "ELF")
    return ("wrong-format", "") if number == errno.ENOEXEC else ("failed", os.strerror(errno.ENOENT))


def _end_at_once(process: subprocess.Popen[bytes], token: str) -> None:
    """End one that began only when nobody waited for it any more, and what it may have started in that moment."""
    with process:
        quiet = 0
        for _ in range(_ROUNDS):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            found = find_marked({token: process.pid}).get(token, [])
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            quiet = 0 if found else quiet + 1
            if quiet > 1:
                return


class Child:
    """One child, its pipes and what it has printed; `start` begins it."""

    process: subprocess.Popen[bytes] | None = None

    def __init__(self, max_stdout: int) -> None:
        self.token = secrets.token_hex(8)
        self.max_stdout = max_stdout
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.stderr_bytes = 0
        self.ended: Ended | None = None
        self.result: ChildResult | None = None
        self.gone_at: float | None = None
        self.by_itself = False
        self.others = self.away = 0
        self.pipe_held = False
        self.stopped = False
        self.stubborn = False
        self.status_lost = False
        self._starting = threading.Lock()
        self._given_up = threading.Event()
        self._is_forking = False
        self._is_decided = threading.Event()

    def start(self, command: Command, budget: Budget) -> None:
        """Begin it, by the end of the budget; where it cannot be, `result` says so.

        What is raised may come when it has just begun: then there is a `process`, and the caller ends it.
        """
        never_began: tuple[Ended, str] | None = None
        try:
            # A folder of PATH, or the program, may lie on a mount that does not answer: a look at it cannot be ended
            # then, and starting it would hold whoever does it until the kernel has read the file.
            never_began = call_bounded(lambda: self._start(command), budget=budget, phase="child")
        except DeadlineError:
            if self._give_up():
                name = command.argv[0]
                never_began = "deadline", f"the folders of PATH did not answer when {name} was looked for and started"
        except BaseException:
            self._give_up()
            raise
        if self.process is None:
            ended, why = never_began or ("failed", "")
            self.result = ChildResult(ended=ended, stderr=why.encode("utf-8", "replace"))
            return
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None  # noqa: S101 - both are pipes
            os.set_blocking(pipe.fileno(), False)

    def _start(self, command: Command) -> tuple[Ended, str] | None:
        try:
            return self._begin(command)
        finally:
            self._is_decided.set()

    def _begin(self, command: Command) -> tuple[Ended, str] | None:
        """Start it, or say why it cannot be; started after it was given up it is ended at once."""
        state, program = find_program(command.argv[0], command.env.get("PATH", os.defpath))
        if state != "exit":
            return state, program
        with self._starting:
            if self._given_up.is_set():
                return None
            self._is_forking = True
        try:
            process = subprocess.Popen(
                [program, *command.argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**command.env, MARK: self.token},
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument or in the environment
            return _why_not(program, error)
        with self._starting:
            if not self._given_up.is_set():
                self.process = process
                return None
        _end_at_once(process, self.token)
        return None

    def _give_up(self) -> bool:
        """Wait no longer for its start; returns whether it has not begun (if it still does, it is ended at once)."""
        with self._starting:
            if not self._is_forking:
                self._given_up.set()
        if self._is_forking:
            # It is a matter of milliseconds, unless the kernel cannot read the program. This process may end now, and
            # the thread that would see it begin with it.
            self._is_decided.wait(_FORK_SECONDS)
        with self._starting:
            if self.process is None:
                self._given_up.set()
            return self.process is None

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
            for _ in range((1 << 20) // _READ):
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
            self.stderr_bytes += len(part)
            self.stderr += part[: max(0, _STDERR - len(self.stderr))]
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

    def is_stopped(self) -> bool:
        """Whether it is there and does not run: stopped by a signal (SIGSTOP), by itself or by somebody else."""
        if not hasattr(os, "waitid"):  # as above
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False

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
        if self.stderr_bytes > _STDERR:
            self.stderr[:] = _LAST_OF_UTF_8.sub(b"", self.stderr) + "…".encode()
        if self.status_lost:
            ended = "failed"
            self.stderr[:0] = b"its exit status is lost because SIGCHLD is ignored; "
        self.result = ChildResult(
            ended=ended,
            code=abs(code),
            stdout=bytes(self.stdout[: self.max_stdout]),
            stderr=bytes(self.stderr),
            stderr_bytes=self.stderr_bytes,
            leftover=self.by_itself and self.others > 0,
            others=self.others,
            away=self.away,
            pipe_held=self.pipe_held,
            stopped=self.stopped,
            stubborn=self.stubborn,
            held=tuple(sorted(set(held))),
        )


__all__ = ["Child", "ChildResult", "Command", "Ended", "find_program"]
