"""`file`: a file or folder is there and is what it has to be, or is not there. Links are followed; nothing is changed.

Every look is bounded: a path may lie on a dead mount.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from precheck_lib.checks.content import Content, judge_content
from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import age, literal, look, refuse, shown, size_text, text_of, user_name
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes, Seconds, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MODE = re.compile(r"0?[0-7]{3,4}")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


class FileOptions(Options, frozen=True, kw_only=True):
    """What has to be at `path`; all of it is looked at, and all that is wrong is said at once."""

    path: Annotated[str, Meta(description="The file or folder; an absolute path. Links are followed.")]
    exists: Annotated[
        bool, Meta(description="Whether it has to be there; `false`: nothing may be there, not even a dead link.")
    ] = True
    type: Annotated[
        Literal["any", "file", "folder", "socket"], Meta(description="What it has to be, links resolved.")
    ] = "any"
    readable: Annotated[bool, Meta(description="This user has to be allowed to read it.")] = False
    writable: Annotated[bool, Meta(description="This user has to be allowed to write it; nothing is written.")] = False
    executable: Annotated[bool, Meta(description="This user has to be allowed to run it (a folder: to enter it).")] = (
        False
    )
    min_size: Annotated[Bytes | None, Meta(description="How large a file has to be at least, such as `1MiB`.")] = None
    max_age: Annotated[
        Seconds | None, Meta(description="How long ago it may have been changed at most, such as `24h`.")
    ] = None
    sha256: Annotated[
        str | None, Meta(description="The SHA-256 of a file's content: 64 lower-case hexadecimal digits.")
    ] = None
    contains: Annotated[
        str | None, Meta(description="A text that has to stand in a file; what the file holds is never shown.")
    ] = None
    max_read: Annotated[Bytes, Meta(description="How much of a file is searched for `contains`, from its start.")] = (
        Bytes(1 << 20)
    )
    mode: Annotated[str | None, Meta(description='Its exact permissions in octal, in quotes, such as `"0600"`.')] = None
    owner: Annotated[str | None, Meta(description="The name or number of the user that it has to belong to.")] = None

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        yield from _problems(self, literal(self.path), literal(self.sha256))


_OF_WHAT_IS_THERE = (
    "readable",
    "writable",
    "executable",
    "min_size",
    "max_age",
    "sha256",
    "contains",
    "mode",
    "owner",
)


def _problems(options: FileOptions, path: str | None, digest: str | None) -> Iterator[OptionProblem]:
    """Say what cannot be meant; a value that is not known yet is `None`."""
    if path is not None and (not os.path.isabs(path) or "\0" in path):
        yield ("path",), f"path: {options.path!r} is not an absolute path"
    given = [name for name in _OF_WHAT_IS_THERE if getattr(options, name)]
    given += ["type"] if options.type != "any" else []
    if not options.exists and given:
        yield ("exists",), f"exists: false says that nothing may be there; {given[0]} says what has to be"
    if digest is not None and not _DIGEST.fullmatch(digest):
        yield ("sha256",), "sha256: it is not 64 lower-case hexadecimal digits"
    if options.mode is not None and not _MODE.fullmatch(options.mode):
        yield ("mode",), f'mode: {options.mode!r} is not a mode in octal such as "0644"'


def run(options: FileOptions, context: Context) -> list[Finding]:
    """Look at the path, then at what is in it where that is asked for."""
    path = context.text(options.path)
    digest, text, owner = (text_of(value, context) for value in (options.sha256, options.contains, options.owner))
    refuse([text for _, text in _problems(options, path, digest)])
    budget, name = context.budget, shown(path)
    found = look(lambda: _stat(path, follow=options.exists), budget=budget, subject=name, code="file.deadline")
    if isinstance(found, OSError):
        raise _not_seen(name, found, look(lambda: _why(path, found), budget=budget, subject=name, code="file.deadline"))
    if found is None:
        if not options.exists:
            return []
        where = look(lambda: _nearest(path), budget=budget, subject=name, code="file.deadline")
        raise not_ready("file.absent", f"{name} is not there", evidence=where)
    if not options.exists:
        text = f"{name} is there ({_kind(found.st_mode)}, {_changed(found.st_mtime)}), but nothing may be"
        raise not_ready("file.present", text)
    findings = list(_wrong(options, name, found))
    findings += look(
        lambda: list(_denied(options, path, name, found)) + list(_not_owned(owner, name, found)),
        budget=budget,
        subject=name,
        code="file.deadline",
    )
    inside = digest is not None or text is not None
    if inside and stat.S_ISREG(found.st_mode):
        content = Content(sha256=digest, text=text, said=options.contains or "", max_read=options.max_read)
        findings += look(
            lambda: judge_content(path, name, content, budget), budget=budget, subject=name, code="file.deadline"
        )
    elif inside and options.type != "file":
        findings.append(make("file.type", f"{name} is {_kind(found.st_mode)}, and only a file has content"))
    unknown = [finding for finding in findings if finding.code == "file.unreadable"]
    unmet = [finding for finding in findings if finding.code != "file.unreadable"]
    if findings:
        raise NotReadyError(unmet + unknown, word="failed" if unmet else "error")
    return []


def _stat(path: str, *, follow: bool) -> os.stat_result | OSError | None:
    """Return what is there, `None` where nothing is, or the error that hides it."""
    try:
        return os.stat(path) if follow else os.lstat(path)
    except OSError as error:
        return None if error.errno in _ABSENT else error


def _not_seen(name: str, error: OSError, why: str) -> NotReadyError:
    said = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        return not_ready("file.denied", f"{name} cannot be looked at: {said}", evidence=why, word="error")
    return not_ready("file.unknown", f"{name} cannot be looked at: {said}", evidence=why, word="error")


def _why(path: str, error: OSError) -> str:
    """Say which folder on the way stands in it, and who this user is."""
    user = user_name(os.geteuid())
    if error.errno not in (errno.EACCES, errno.EPERM):
        return "a network share or a disk that has failed answers like that"
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder) and not _is_seen(folder):
        folder = os.path.dirname(folder)
    return f"user {user} may not enter the folder {shown(folder)}, or one that a link in it leads to"


def _is_seen(folder: str) -> bool:
    with contextlib.suppress(OSError):
        os.stat(folder)
        return True
    return False


def _nearest(path: str) -> str:
    """Say where the path ends that is there."""
    with contextlib.suppress(OSError):
        if os.path.islink(path):
            return f"it is a link to {shown(os.readlink(path))}, which leads nowhere"
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder) and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{shown(folder)} is no folder"
    return "its folder is there" if folder == os.path.dirname(path) else f"of its path only {shown(folder)} is there"


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISREG, "a file"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
        (stat.S_ISFIFO, "a FIFO"),
    ):
        if test(mode):
            return name
    return "a device"


def _changed(moment: float) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))
    return f"last changed {age(time.time() - moment)} ago, {when} UTC"


def _wrong(options: FileOptions, name: str, found: os.stat_result) -> Iterator[Finding]:
    """Judge what one look at it has told."""
    is_kind = _kind(found.st_mode)
    if options.type not in ("any", is_kind.partition(" ")[2]):
        yield make("file.type", f"{name} is {is_kind}, not a {options.type}")
    if options.min_size is not None and found.st_size < options.min_size:
        both = f"{size_text(found.st_size)} ({found.st_size} bytes), at least {size_text(options.min_size)} are needed"
        yield make("file.size", f"{name} has {both}", evidence=_changed(found.st_mtime))
    if options.max_age is not None and time.time() - found.st_mtime > options.max_age:
        yield make("file.old", f"{name} was {_changed(found.st_mtime)}; it may be {duration_text(options.max_age)} old")
    mode = stat.S_IMODE(found.st_mode)
    if options.mode is not None and mode != int(options.mode, 8):
        yield make("file.access", f"{name} has the mode {mode:04o}, not {int(options.mode, 8):04o}")


def _denied(options: FileOptions, path: str, name: str, found: os.stat_result) -> Iterator[Finding]:
    """Ask the system, which knows of mounts and access lists, what this user may do; nothing is opened."""
    for wanted, bit, what in (
        (options.readable, os.R_OK, "read"),
        (options.writable, os.W_OK, "written"),
        (options.executable, os.X_OK, "executed"),
    ):
        if wanted and not os.access(path, bit, effective_ids=os.access in os.supports_effective_ids):
            of = f"it belongs to {shown(user_name(found.st_uid))} and has the mode {stat.S_IMODE(found.st_mode):04o}"
            with contextlib.suppress(OSError):  # it may be gone by now
                if bit == os.W_OK and os.statvfs(path).f_flag & os.ST_RDONLY:
                    of = "its file system is mounted read-only"
            yield make("file.access", f"{name} cannot be {what} by user {user_name(os.geteuid())}", evidence=of)


def _not_owned(owner: str | None, name: str, found: os.stat_result) -> Iterator[Finding]:
    if owner is not None and owner not in (str(found.st_uid), user_name(found.st_uid)):
        yield make("file.access", f"{name} belongs to {shown(user_name(found.st_uid))}, not to {shown(owner)}")


def plan(options: FileOptions) -> list[Deed]:
    """Say what would be done."""
    if not options.exists:
        return [Deed(f"look at {options.path}: nothing may be there")]
    deeds = [Deed(f"look at {options.path}: {'something' if options.type == 'any' else f'a {options.type}'} has to be")]
    if options.sha256 is not None:
        deeds.append(Deed("read all of it for its SHA-256"))
    if options.contains is not None:
        deeds.append(Deed(f"search its first {size_text(options.max_read)} for a text"))
    return deeds


KIND = Kind(
    name="file",
    options=FileOptions,
    run=run,
    plan=plan,
    # All of the file is read: the files of models are large.
    seconds=lambda options, _: 10.0 if options.sha256 is None else 60.0,
)
