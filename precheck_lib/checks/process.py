"""`process`: how many processes of a name, an executable, a command line or a user run.

A command line may hold secrets: it is searched and never shown. The search is made in a child: what it reads lies in
the memory of other processes and may block, and a pattern may take for ever.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import (
    PRIVILEGE,
    Seen,
    look,
    pattern_problem,
    process_seen,
    refuse_options,
    same_executable,
    shown,
    started_by,
    text_of,
    user_name,
)
from precheck_lib.findings import not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

    from precheck_lib.checks.kind import OptionProblem

_MOST_NAMED = 5
_KERNEL_THREADS = 2
_CONDITIONS = ("name", "executable", "command", "user")


class ProcessOptions(Options, frozen=True, kw_only=True):
    """How many processes that fit all that is given have to run, or may; without a number at least one."""

    name: Annotated[str | None, Meta(description="The process's name, as `ps -o comm` shows it; all of it.")] = None
    executable: Annotated[
        str | None, Meta(description="Its program: a path (links are resolved), or a file's name.")
    ] = None
    command: Annotated[
        str | None,
        Meta(
            description="A regular expression that is searched in the command line, taken as it is written (no `${}`)."
        ),
    ] = None
    user: Annotated[str | None, Meta(description="The user that it runs as, by name or number.")] = None
    count: Annotated[int | None, Meta(description="How many have to run, exactly.")] = None
    min: Annotated[int | None, Meta(description="How many have to run at least.")] = None
    max: Annotated[int | None, Meta(description="How many may run at most; 0: none may.")] = None

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        if all(getattr(self, name) is None for name in _CONDITIONS):
            yield (), "a process check needs name, executable, command or user"
        if self.command is not None and (why := pattern_problem(self.command)):
            yield ("command",), f"command: {why}"
        if self.count is not None and (self.min is not None or self.max is not None):
            yield ("count",), "count says exactly how many; it does not go with min or max"
        for name in ("count", "min", "max"):
            value = getattr(self, name)
            if value is not None and value < 0:
                yield (name,), f"{name}: it has to be 0 or more"
        if self.min is not None and self.max is not None and self.min > self.max:
            yield ("min",), f"min: {self.min} is more than max, which is {self.max}"


class _Match(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at all processes has found: those that fit, and those of which it cannot be said."""

    count: int
    named: list[Seen]
    unreadable: int
    hidden: bool


def run(options: ProcessOptions, context: Context) -> list[Finding]:
    """Count the processes that fit; where some cannot be seen, whatever they are must not matter."""
    refuse_options(options)
    said = _said(options)
    name, executable, user = (text_of(value, context) for value in (options.name, options.executable, options.user))
    searched = None
    if options.command is not None:
        searched = context.in_child(
            "precheck_lib.checks.process:search", options.command, f"a search for processes {said}"
        )
    found = look(
        lambda: _count(name, executable, user, searched),
        budget=context.budget,
        subject=f"processes {said}",
        code="process.deadline",
    )
    if isinstance(found, OSError):
        raise not_ready("process.unknown", f"the processes of this machine cannot be read: {found}", word="error")
    _judge(options, said, found, context)
    return []


def _bounds(options: ProcessOptions) -> tuple[int, int | None]:
    if options.count is not None:
        return options.count, options.count
    if options.min is None and options.max is None:
        return 1, None
    return options.min or 0, options.max


def _said(options: ProcessOptions) -> str:
    parts = {
        "named": options.name,
        "of the executable": options.executable,
        "of the user": options.user,
    }
    words = [f"{word} {shown(value)}" for word, value in parts.items() if value is not None]
    words += [f"with a command line that has {options.command!r}"] if options.command is not None else []
    return " ".join(words)


def _count(
    name: str | None, executable: str | None, user: str | None, searched: dict[str, list[int]] | None
) -> _Match | OSError:
    """Look at all processes, or at those only that a search of their command lines has left."""
    import psutil

    fitting: list[psutil.Process] = []
    unreadable = 0
    left = None if searched is None else {*searched["fitting"], *searched["unreadable"]}
    try:
        for process in psutil.process_iter():
            if process.pid == os.getpid() or (left is not None and process.pid not in left):
                continue
            fits = _fits(process, name, executable, user)
            if fits is None or (fits and searched is not None and process.pid in searched["unreadable"]):
                unreadable += 1
            elif fits:
                fitting.append(process)
        hidden = _is_hidden()
    except OSError as error:
        return error
    named = [process_seen(process) for process in fitting[:_MOST_NAMED]]
    return _Match(count=len(fitting), named=named, unreadable=unreadable, hidden=hidden)


def _fits(process: psutil.Process, name: str | None, executable: str | None, user: str | None) -> bool | None:
    """Whether a process is one that is counted; `None` where it cannot be said. What has ended runs no more."""
    import psutil

    fits: bool | None = True
    for wanted, judge in (
        (name, lambda wanted: process.name() == wanted),
        (user, lambda wanted: wanted in (str(uid := process.uids().effective), user_name(uid))),
        (executable, lambda wanted: _is_of(process, wanted)),
    ):
        if wanted is None:
            continue
        try:
            if not judge(wanted):
                return False
        except (psutil.NoSuchProcess, ProcessLookupError):
            return False
        except (psutil.AccessDenied, PermissionError):
            fits = None
    try:
        return False if process.status() == psutil.STATUS_ZOMBIE else fits
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return None


def _is_of(process: psutil.Process, wanted: str) -> bool:
    if sys.platform == "linux" and _KERNEL_THREADS in (process.pid, process.ppid()) and not process.cmdline():
        return False  # a thread of the kernel has no executable, and does not say so to everybody
    found = process.exe()
    return bool(found) and same_executable(wanted, found)


def _is_hidden() -> bool:
    """Whether there may be processes that this user cannot see at all: Linux can be told to hide them."""
    if sys.platform != "linux" or os.geteuid() == 0:
        return False
    with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            _, point, _, options, *_ = line.split(" ")
            if point == "/proc":
                given = dict(option.partition("=")[::2] for option in options.split(","))
                seeing = given.get("gid", "")
                return given.get("hidepid", "0") not in ("0", "off") and seeing not in map(str, os.getgroups())
    return False


def search(pattern: str) -> dict[str, list[int]]:
    """Return the processes whose command line has a pattern, and those that do not show theirs. Runs in a child.

    The run itself is not among them, nor is what started it: their command lines may well name what is looked for.
    """
    import psutil

    wanted = re.compile(pattern)
    own = {os.getpid(), os.getppid()}
    with contextlib.suppress(psutil.Error):  # what started it may be hidden
        own |= {process.pid for process in psutil.Process().parents()}
    found: dict[str, list[int]] = {"fitting": [], "unreadable": []}
    for process in psutil.process_iter():
        if process.pid in own:
            continue
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):  # it has ended
            try:
                if wanted.search(" ".join(process.cmdline())):
                    found["fitting"].append(process.pid)
            except (psutil.AccessDenied, OSError):
                found["unreadable"].append(process.pid)
    return found


def _judge(options: ProcessOptions, said: str, found: _Match, context: Context) -> None:
    least, most = _bounds(options)
    count, unseen = found.count, found.unreadable
    named = "; ".join(", ".join(filter(None, [str(seen), started_by(seen, context.env)])) for seen in found.named)
    if count > _MOST_NAMED:
        named += f"; and {count - _MOST_NAMED} more"
    running = f"{_counted(count, said)} run{'s' if count < 2 else ''}"
    if most is not None and count > most:
        may = "none may" if most == 0 else f"at most {most} may"
        raise not_ready("process.present", f"{running}, {may}", evidence=named)
    too_few, too_many = count < least, most is not None and (found.hidden or count + unseen > most)
    if too_many or (too_few and (found.hidden or count + unseen >= least)):
        others = f"{unseen} {'do' if unseen > 1 else 'does'} not show what {'they are' if unseen > 1 else 'it is'}"
        what = "other users' processes are hidden (hidepid)" if found.hidden else others
        text = f"as far as can be seen {running}, but {what}"
        raise not_ready("process.unknown", text, evidence=f"to see more: {PRIVILEGE}", word="error")
    if too_few:
        raise not_ready("process.absent", f"{running}, at least {least} must", evidence=named)


def _counted(count: int, said: str) -> str:
    return f"{count or 'no'} process{'es' if count > 1 else ''} {said}"


def plan(options: ProcessOptions) -> list[Deed]:
    """Say what would be done."""
    least, most = _bounds(options)
    if most is None:
        need = f"at least {least} must run"
    elif least == most:
        need = f"exactly {least} must run" if least else "none may run"
    else:
        need = f"{least} to {most} may run" if least else f"{f'at most {most}' if most else 'none'} may run"
    return [Deed(f"count the processes {_said(options)}: {need}")]


KIND = Kind(name="process", options=ProcessOptions, run=run, plan=plan, imports=("psutil",))
