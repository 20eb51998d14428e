"""Where the dependencies are kept, what their folder is called, and whether it is whole.

The folder `KEY` has the file `.complete`, written last: a line `SIZE PATH` for each file, and `end`. A start compares
them with what is there (3 ms for 800 files), so that a file which was deleted, emptied or cut short is noticed before
it is imported. `.used` is touched once a day at most. Nothing else in it is ever changed: a new one takes its place.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

COMPLETE = ".complete"
_USED = ".used"
_DAY = 86400


def lock_of(root: str) -> str:
    """Return the path of the lock: what is installed, by hash."""
    return os.path.join(root, "scripts", "requirements.lock")


def key_of(root: str) -> str:
    """Name the folder by all that decides whether it fits: precheck, the lock, the Python and its ABI, the platform."""
    import hashlib
    from importlib.machinery import EXTENSION_SUFFIXES

    from precheck_lib import __version__

    with open(lock_of(root), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    # Such as cpython-313t-x86_64-linux-gnu: implementation, version, ABI and system.
    abi = EXTENSION_SUFFIXES[0].rpartition(".")[0].strip(".")
    if sys.implementation.cache_tag not in abi:
        abi = f"{sys.implementation.cache_tag}{sys.abiflags}-{sys.platform}"
    machine = os.uname().machine
    parts = (__version__, digest, abi, "" if machine in abi else machine, _libc())
    return "-".join(part for part in parts if part)


def _libc() -> str:
    """Name the C library, whose version decides whether a wheel's machine code can be loaded."""
    if sys.platform != "linux":
        return ""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").replace(" ", "")
    except (ValueError, OSError):  # a name that only glibc knows
        return "musl"


class Place:
    """A folder that may hold caches; a shared one is where others can write beside it."""

    __slots__ = ("folder", "shared")

    def __init__(self, folder: str, *, shared: bool = False) -> None:
        self.folder = folder
        self.shared = shared

    def is_ours_alone(self) -> bool:
        """Tell whether the folder is one that nobody else can have put there or can write to."""
        import stat

        try:
            found = os.lstat(self.folder)
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def places(env: Mapping[str, str]) -> list[Place]:
    """List the folders to try, best first.

    The runner's tool cache persists between jobs; RUNNER_TEMP does not.
    """
    found = []
    for variable, below in (
        ("RUNNER_TOOL_CACHE", "precheck"),
        ("XDG_CACHE_HOME", "precheck"),
        ("HOME", os.path.join(".cache", "precheck")),
    ):
        base = env.get(variable)
        if base and os.path.isabs(base):
            found.append(Place(os.path.join(base, below)))
    return found


def last_place() -> Place | None:
    """Return a folder of our own in the one for temporary files."""
    import tempfile

    try:
        return Place(os.path.join(tempfile.gettempdir(), f"precheck-{os.getuid()}"), shared=True)
    except OSError:  # there is none
        return None


def find(root: str, env: Mapping[str, str]) -> str | None:
    """Return the first folder of dependencies that is whole, wherever it lies."""
    key = key_of(root)
    for place in places(env):
        folder = os.path.join(place.folder, key)
        if damage(folder) is None:
            return folder
    last = last_place()
    if last is not None and last.is_ours_alone() and damage(os.path.join(last.folder, key)) is None:
        return os.path.join(last.folder, key)
    return None


def damage(folder: str) -> str | None:
    """Say what is wrong with a folder of dependencies; None where it is whole."""
    try:
        with open(os.path.join(folder, COMPLETE), encoding="utf-8") as file:
            *lines, last = file.read().rstrip("\n").split("\n")
        if last != "end" or not lines:
            return f"{COMPLETE} is cut short"
        for line in lines:
            size, _, path = line.partition(" ")
            there = os.stat(f"{folder}/{path}").st_size
            if there != int(size):
                return f"{path} has {there} bytes, not {size}"
    except OSError as error:
        name = os.path.relpath(error.filename, folder) if error.filename else COMPLETE
        return f"{name}: {error.strerror}"
    except ValueError:
        return f"{COMPLETE} cannot be read"
    return None


def identity(folder: str) -> tuple[int, int] | None:
    """Tell one making of a folder from the next."""
    try:
        found = os.stat(os.path.join(folder, COMPLETE))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def used_file(folder: str) -> str:
    """Return the path of the file whose time says when a folder was last used."""
    return os.path.join(folder, _USED)


def mark_used(folder: str) -> None:
    """Note that a folder is used: what is not used for long is removed one day."""
    import time

    path = used_file(folder)
    try:
        if os.stat(path).st_mtime < time.time() - _DAY:
            os.utime(path)
    except OSError:  # it is somebody else's, who keeps it
        pass


def bytecode_in(folder: str) -> str:
    """Return where in a folder of dependencies the bytecode of precheck itself goes when it cannot stay at home."""
    return os.path.join(folder, ".bytecode")
