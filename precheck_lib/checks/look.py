"""What the kinds share that look at this machine: bounded looks, sizes and ages in words, what a process is.

No module here is a kind. What another process calls itself is text of strangers: it is shown only as far as it looks
like a name, and nothing of its command line or environment is shown but the ids of the job that started it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from precheck_lib.errors import DeadlineError
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.redact import without_credentials
from precheck_lib.sequences import without_sequences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psutil

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.checks.kind import Context, Options

T = TypeVar("T")

_CONTAINER = re.compile(r"(docker|libpod|cri-containerd|crio|containerd)[-/:]([0-9a-f]{12})[0-9a-f]{52}")
_TRACKING = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_MOST_NAME = 4096
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

TRACKING = "RUNNER_TRACKING_ID"
"""Is in the environment of everything that a job on a GitHub runner starts, and another one in every job."""

PRIVILEGE = "run this as root or as that user, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
"""What lets one see whose a socket or an executable is, on Linux."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One process as far as it could be seen; what could not is `None`.

    `job` and `run` are the ids of the job and the run that started it, `container` what it runs in.
    """

    pid: int
    name: str | None = None
    executable: str | None = None
    user: str | None = None
    uid: int | None = None
    started: float | None = None
    job: str | None = None
    run: str | None = None
    container: str | None = None

    def __str__(self) -> str:
        parts = [
            shown(self.name) if self.name else "name not visible",
            f"user {shown(self.user)}" if self.user else "",
            shown(self.executable) if self.executable else "",
            f"in {self.container}" if self.container else "",
            since(self.started) if self.started else "",
        ]
        return f"pid {self.pid} ({', '.join(part for part in parts if part)})"


def refuse(problems: list[str]) -> None:
    """End a check whose options cannot be: what only all of them together tell, or the value of a variable."""
    if problems:
        raise NotReadyError([make("spec.invalid", text) for text in problems], word="error", usage=True)


def refuse_options(options: Options) -> None:
    """End a check whose options cannot be, whatever the variables are (a spec file with these was refused already)."""
    refuse([text for _, text in options.problems()])


def literal(value: str | None) -> str | None:
    """Return text of a spec that no variable changes; `None` for any other."""
    return value if value is not None and "${" not in value and "$$" not in value else None


def pattern_problem(pattern: str) -> str:
    """Say why a text is no regular expression; empty where it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{pattern!r} is not a regular expression: {error}"
    return ""


def look(function: Callable[[], T], *, budget: Budget, subject: str, code: str) -> T:
    """Call what may block in the kernel, and end the check with an error of `code` where it does not come back."""
    from precheck_lib.bounded.thread import call_bounded

    try:
        return call_bounded(function, budget=budget, phase="folder")
    except DeadlineError as error:
        raise not_ready(code, f"{subject}: {error}", word="error", curl=error.curl) from error


def process_seen(process: psutil.Process) -> Seen:
    """Return what can be seen of a process; nothing where it cannot. May block: for `look` only."""
    import psutil

    found: dict[str, Any] = {}
    readers: dict[str, Callable[[], Any]] = {
        "name": process.name,
        "executable": lambda: process.exe() or None,
        "uid": lambda: process.uids().effective,
        "started": process.create_time,
    }
    with process.oneshot():
        for field, read in readers.items():
            with contextlib.suppress(psutil.Error, OSError):
                found[field] = read()
    if "uid" in found:
        found["user"] = user_name(found["uid"])
    with contextlib.suppress(psutil.Error, OSError):
        environ = process.environ()
        found["job"] = _id(environ.get(TRACKING))
        found["run"] = _id(environ.get("GITHUB_RUN_ID"))
    return Seen(pid=process.pid, container=_container(process.pid), **found)


def _id(value: str | None) -> str | None:
    return value if value is not None and _TRACKING.fullmatch(value) else None


def _container(pid: int) -> str | None:
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
        match = _CONTAINER.search(file.read(65536))
        return f"container {match[2]} ({match[1]})" if match is not None else None
    return None


def started_by(seen: Seen, env: Mapping[str, str]) -> str:
    """Say which job of a GitHub runner has started a process, where its environment could be read and says it."""
    if seen.job is None:
        return ""
    if seen.job == env.get(TRACKING):
        return f"it was started by this job ({TRACKING} {seen.job})"
    run = f", run {seen.run}" if seen.run is not None else ""
    return f"it was started by another job ({TRACKING} {seen.job}{run})"


def user_name(uid: int) -> str:
    """Return the name of a user, or the number where it has none here. May block (a directory service)."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def same_executable(wanted: str, found: str) -> bool:
    """Whether an executable is the wanted one: a path is compared with its links resolved, else the file's name."""
    if "/" not in wanted:
        return os.path.basename(found) == wanted
    try:
        return os.path.realpath(wanted) == os.path.realpath(found)
    except ValueError:  # a NUL
        return False


def shown(text: str, limit: int = 200) -> str:
    """Return a name that a stranger chose as it is where it looks like one, else quoted and without what is secret."""
    plain = without_credentials(without_sequences(text[:_MOST_NAME]))
    if plain == text and text.isprintable() and 0 < len(text) <= limit:
        return text
    return repr(plain[:limit]) + ("…" if len(plain) > limit or len(text) > _MOST_NAME else "")


def since(started: float, now: float | None = None) -> str:
    """Say when something began, and how long ago that is."""
    ago = (time.time() if now is None else now) - started
    return f"since {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(started))} UTC, {age(ago)} ago"


def age(seconds: float) -> str:
    """Write an age as people say it: `40 s`, `12 min`, `3 h`, `5 days`."""
    for unit, length, least in (("days", 86400, 172800), ("h", 3600, 7200), ("min", 60, 120)):
        if seconds >= least:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def size_text(size: int) -> str:
    """Write a size as a spec would, to a tenth: `12.3 GiB`. Rounded down: free is never said to be what is asked for.

    Less than 10 KiB is written in bytes.
    """
    if size < 10240:
        return f"{size} B"
    power = next(power for power in (4, 3, 2, 1) if size >= 1024**power)
    whole, tenth = divmod(size * 10 // 1024**power, 10)
    return f"{whole}{f'.{tenth}' if tenth else ''} {_UNITS[power]}"


def text_of(value: str | None, context: Context) -> str | None:
    """Expand an option that is text where it is given."""
    return None if value is None else context.text(value)
