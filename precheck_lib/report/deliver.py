"""Delivery of finished reports, all or none as far as that can be had (CONTRACT A3).

Two phases: first everything is prepared (files written beside their targets, FIFOs opened), then everything
is committed, so that a report that cannot be written is known before another one is replaced.
"""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, NamedTuple

from precheck_lib.report.target import FileTarget, StreamTarget, UnfitError, find_target
from precheck_lib.report.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_PAUSE_S = 0.01
_TROUBLE = (OSError, ValueError, UnfitError)  # ValueError: a NUL or an impossible character in a path

_ELSEWHERE = "name a path elsewhere"
_REASONS = {
    errno.EACCES: ("permission is denied", "let the account that runs precheck write there"),
    errno.EPERM: ("permission is denied", "let the account that runs precheck write there"),
    errno.EROFS: ("the file system is read-only", _ELSEWHERE),
    errno.ENOSPC: ("the disk or device is full", f"free some space there, or {_ELSEWHERE}"),
    errno.EDQUOT: ("the disk quota is used up", f"free some space there, or {_ELSEWHERE}"),
    errno.EFBIG: ("files may not be as large as this", f"raise the limit (ulimit -f), or {_ELSEWHERE}"),
    errno.EISDIR: ("it is a folder", "name a file in it"),
    errno.ENOTDIR: ("a part of the path is a file where a folder is needed", "name another folder"),
    errno.EEXIST: ("a part of the path is a file where a folder is needed", "name another folder"),
    errno.ENAMETOOLONG: ("the name is too long", "name a shorter one"),
    errno.ELOOP: ("its symbolic links form a loop", "remove them, or name the file itself"),
    errno.EPIPE: ("its reader went away", "let the reader read until the end, or name a file"),
    errno.ETIMEDOUT: ("its reader did not take it in time", "read from it faster, or name a file"),
    errno.EBUSY: ("something is mounted on it", f"mount its folder instead, or {_ELSEWHERE}"),
    errno.EBADF: ("the descriptor is not open for writing", "open it in the command that starts precheck"),
    errno.ENXIO: ("no device answers there", "name another path"),
}


class Document(NamedTuple):
    """One report to deliver: where to, and its bytes or what renders them (called once in each delivery)."""

    path: str
    content: bytes | Callable[[], bytes]


class Undelivered(NamedTuple):
    """A report that could not be written: its path as it was given, and a sentence fit to be printed."""

    path: str
    message: str


def deliver(
    documents: Sequence[Document], *, deadline: float = 1.0, unfinished: set[str] | None = None
) -> list[Undelivered]:
    """Write all documents; or name those that cannot be written, and leave all files as they were.

    An empty list means that all were written. Otherwise the caller renders again what has changed by that
    (the exit code) and calls again without the ones that were named.

    Missing folders are made. A symbolic link keeps pointing where it did: its target is replaced. FIFOs,
    character devices and descriptors of this process (`/dev/stdout`, `/dev/fd/N`) are written to: devices
    first, so that the reader of a FIFO is told of a pass only when little can go wrong any more. What they
    took cannot be taken back, and a FIFO that was opened for nothing shows its reader an empty end. Opening
    and writing them has `deadline` seconds in all; files have no bound of their own. The caller flushes its
    own streams before.

    Only what a `content` raises leaves this function, and no temporary file stays, whatever is raised. Where the
    process may be ended without that (`os._exit`), `unfinished` holds the temporary files that have to be removed.
    """
    files: list[FileTarget] = []
    streams: list[tuple[StreamTarget, bytes]] = []
    failed: list[Undelivered] = []
    try:
        for document in documents:
            content = document.content if isinstance(document.content, bytes) else document.content()
            try:
                _prepare(document.path, content, files, streams, set() if unfinished is None else unfinished)
            except _TROUBLE as error:
                failed.append(_undelivered(document.path, error))
        # A FIFO is opened only when all files are ready: its reader will not wait for a second delivery.
        end = time.monotonic() + deadline
        failed = failed or _open_all([stream for stream, _ in streams], end)
        return failed or _commit(files, sorted(streams, key=lambda item: item[0].is_fifo), end)
    finally:
        for file in files:
            file.discard()
        for stream, _ in streams:
            stream.discard()


def _prepare(
    path: str,
    content: bytes,
    files: list[FileTarget],
    streams: list[tuple[StreamTarget, bytes]],
    unfinished: set[str],
) -> None:
    target = find_target(path)
    if isinstance(target, StreamTarget):
        streams.append((target, content))
        return
    if any(target.final == other.final for other in files):
        raise UnfitError("another report goes there too", "give each report a file of its own")
    files.append(target)
    target.prepare(content, unfinished)


def _open_all(streams: Iterable[StreamTarget], end: float) -> list[Undelivered]:
    """Open all streams; those that nobody reads from yet are tried again, together, until the end."""
    waiting = list(streams)
    while True:
        try:
            for stream in list(waiting):
                if stream.open():
                    waiting.remove(stream)
        except _TROUBLE as error:
            return [_undelivered(stream.path, error)]
        left = end - time.monotonic()
        if not waiting:
            return []
        if left <= 0:
            nobody = UnfitError("nothing reads from this FIFO", "start its reader first, or name a file")
            return [_undelivered(stream.path, nobody) for stream in waiting]
        time.sleep(min(_PAUSE_S, left))


def _commit(files: list[FileTarget], streams: list[tuple[StreamTarget, bytes]], end: float) -> list[Undelivered]:
    path = ""
    try:
        for stream, content in streams:
            path = stream.path
            stream.write(content, end)
        for file in files:
            path = file.path
            file.commit()
    except OSError as error:
        return [_undelivered(path, error)]
    return []


def _undelivered(path: str, error: Exception) -> Undelivered:
    if isinstance(error, UnfitError):
        reason, remedy = error.reason, error.remedy
    elif isinstance(error, OSError):
        known = (error.strerror or str(error), "name another path")
        reason, remedy = _REASONS.get(error.errno or 0, known)
    else:
        reason, remedy = "the path has a character in it that no path can have", "name another path"
    return Undelivered(path, clean(f"cannot write {path or 'a report'}: {reason}; {remedy}"))
