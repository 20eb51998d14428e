"""Where a report goes: a file that is replaced in one step, or a FIFO or device that is written to."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from contextlib import suppress

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_STREAM = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
_MOST_LINKS = 40
"""As many symbolic links as Linux follows in one path."""

_OWN_DESCRIPTORS = ("/dev/fd", "/proc/self/fd", "/proc/thread-self/fd")


class UnfitError(Exception):
    """A target that no report is written to, with the reason and the remedy in words."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class FileTarget:
    """A regular file, or none yet: a complete new one is made beside it and moved to its place.

    `final` is the path without symbolic links. The new file has the mode that the umask gives.
    """

    def __init__(self, path: str, final: str) -> None:
        self.path = path
        self.final = final
        self._temp: str | None = None
        self._unfinished: set[str] = set()

    def prepare(self, content: bytes, unfinished: set[str] | None = None) -> None:
        """Make the folders and the complete new file, under a name of its own that is in `unfinished` while it is."""
        folder = os.path.dirname(self.final)
        os.makedirs(folder, exist_ok=True)
        # Known before it exists, so that `discard` finds it whenever an exception comes.
        self._temp = os.path.join(folder, f".precheck-{os.urandom(8).hex()}.tmp")
        self._unfinished = set() if unfinished is None else unfinished
        self._unfinished.add(self._temp)
        try:
            descriptor = os.open(self._temp, _NEW_FILE, 0o666)
        except FileExistsError:
            self._unfinished.discard(self._temp)
            self._temp = None  # somebody else's: not ours to remove
            raise
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here

    def commit(self) -> None:
        """Put the new file in the place of the old one."""
        if self._temp is not None:
            os.replace(self._temp, self.final)
            self._unfinished.discard(self._temp)
            self._temp = None

    def discard(self) -> None:
        """Remove the new file, if it did not get to its place."""
        if self._temp is not None:
            with suppress(OSError):
                os.unlink(self._temp)
            self._unfinished.discard(self._temp)
            self._temp = None


class StreamTarget:
    """A FIFO, a character device or a descriptor of this process: written to in place.

    `own` is the number of the descriptor, `mode` the `st_mode` of what is written to.
    """

    def __init__(self, path: str, *, own: int | None, mode: int) -> None:
        self.path = path
        self.is_fifo = stat.S_ISFIFO(mode)
        self._own = own
        self._is_regular = stat.S_ISREG(mode)
        self._descriptor = -1
        self._blocking = False

    def open(self) -> bool:
        """Open it without waiting and tell whether that worked: it does not for a FIFO without a reader."""
        if self._own is not None and self._is_regular:
            # Opened anew it would be written from its start, over what was printed to it already.
            self._descriptor = os.dup(self._own)
            return True
        try:
            # A file opened anew has flags of its own; O_NONBLOCK on a copy would reach the parent's shell.
            self._descriptor = os.open(self.path if self._own is None else f"/dev/fd/{self._own}", _STREAM)
        except OSError as error:
            if error.errno == errno.ENXIO and self.is_fifo:
                return False
            if self._own is None or error.errno not in {errno.EACCES, errno.EPERM}:
                raise
            # Another account opened it before this one took over (sudo, a container): a copy is all there is.
            self._descriptor = os.dup(self._own)
            self._blocking = True
            return True
        mode = os.fstat(self._descriptor).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            raise UnfitError("it was exchanged while it was opened", "name a path that nobody else can change")
        return True

    def write(self, content: bytes, end: float) -> None:
        """Write all of it and close, or raise `TimeoutError` at the end (a time of the monotonic clock)."""
        view = memoryview(content)
        while view:
            # After POLLOUT a blocking descriptor takes PIPE_BUF bytes at once, and may block for more.
            if self._blocking:
                self._wait(end)
            piece = view[: select.PIPE_BUF] if self._blocking else view
            try:
                view = view[os.write(self._descriptor, piece) :]
            except BlockingIOError:
                self._wait(end)
        self.discard()

    def discard(self) -> None:
        """Close it; the reader of a FIFO that was not written to sees an empty end."""
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _wait(self, end: float) -> None:
        left = end - time.monotonic()
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def find_target(path: str) -> FileTarget | StreamTarget:
    """Find out what kind of thing a path leads to, without changing anything.

    Raises `OSError` or `ValueError` where the path cannot be followed, `UnfitError` for what takes no
    reports.
    """
    if not path:
        raise UnfitError("its path is empty", "name a file")
    final = _follow(path)
    if isinstance(final, int):
        mode = os.fstat(final).st_mode
    else:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return FileTarget(path, final)
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return StreamTarget(path, own=final if isinstance(final, int) else None, mode=mode)
    if stat.S_ISREG(mode):
        return StreamTarget(path, own=final, mode=mode) if isinstance(final, int) else FileTarget(path, final)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = "a socket" if stat.S_ISSOCK(mode) else "a block device"
    raise UnfitError(f"it is {kind}", "name a file, a FIFO or a character device")


def _follow(path: str) -> str | int:
    """Follow symbolic links to the file that is to be replaced, or to the number of an own descriptor."""
    for _ in range(_MOST_LINKS + 1):
        folder, name = os.path.split(path)
        if name in {"", ".", ".."}:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        folder = os.path.realpath(folder or ".")
        if name.isdecimal() and folder in map(os.path.realpath, _OWN_DESCRIPTORS):
            return int(name)
        path = os.path.join(folder, name)
        try:
            path = os.path.join(folder, os.readlink(path))
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOENT}:  # it is no link; there is nothing yet
                return path
            raise
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
