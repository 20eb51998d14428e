"""Make the folder of the dependencies: one start of a machine at a time, in a new folder, renamed into place.

A folder in use is never changed. Where one is damaged the new one takes its name in the same moment, so that a process
which imports from it later finds the same files there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time

from precheck_lib.bootstrap import CannotStartError, StoppedError, bytecode, cache, installers, loses_bytecode, tell

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from precheck_lib.interrupt import Interrupts

PIP_SECONDS = 300.0
"""How long an installer may take; and how long a start waits for another one that is installing."""

PATIENCE_SECONDS = 2.0
"""When a start says that it is waiting."""

ABANDONED_SECONDS = 3600
UNUSED_SECONDS = 30 * 86400

_HALF_MADE = ".new-"
_KEY = re.compile(r"[0-9]+(\.[0-9A-Za-z]+)+-[0-9a-f]{16}-[A-Za-z0-9_]+-[A-Za-z0-9._-]+")
"""What `cache.key_of` makes, and nobody else: only such a folder is ever removed."""

_PAUSE_SECONDS = 0.02


def ensure(
    root: str, env: Mapping[str, str], interrupts: Interrupts, *, doubted: tuple[str, object] | None = None
) -> str:
    """Return a folder that holds the locked dependencies, made now if need be, in the first place that can have one.

    `doubted` is a folder, with its identity, that is whole and yet cannot be imported from.
    """
    key = cache.key_of(root)
    last = cache.last_place()
    tried = []
    for place in [*cache.places(env), *([last] if last else [])]:
        folder = os.path.join(place.folder, key)
        try:
            prepare(place)
            with _alone(place.folder, interrupts):
                # Another start may have been faster, while this one was waiting.
                if cache.damage(folder) is None and (folder, cache.identity(folder)) != doubted:
                    return folder
                _make(root, folder, env, interrupts)
                return folder
        except OSError as error:
            tried.append(f"{place.folder} ({error.strerror or error})")
    raise CannotStartError(
        f"No folder can hold precheck's dependencies; tried {', '.join(tried) or 'none'}.",
        "Make one of them writable, or name another one with XDG_CACHE_HOME.",
    )


def prepare(place: cache.Place) -> None:
    """Make the folder of the cache; raises OSError where it cannot be ours."""
    if not place.shared:
        os.makedirs(place.folder, exist_ok=True)
        owner = os.stat(place.folder).st_uid
        if owner != os.getuid():
            raise PermissionError(1, f"it belongs to user {owner}")
        return
    try:
        os.mkdir(place.folder, 0o700)
    except FileExistsError:
        if not place.is_ours_alone():
            raise PermissionError(1, "somebody else can write to it") from None


# One at a time --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _alone(folder: str, interrupts: Interrupts) -> Iterator[None]:
    """Hold the lock of a cache; where nothing can be locked, go on: what is made is renamed into place anyway.

    The system takes the lock back from a process that dies. What an installer starts does not inherit it.
    """
    import fcntl

    try:
        descriptor = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        yield
        return
    try:
        began = time.monotonic()
        said = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = time.monotonic() - began
                if interrupts.stop.signum is not None:
                    raise StoppedError(interrupts.stop.signum) from None
                if waited > PATIENCE_SECONDS and not said:
                    said = True
                    tell(f"waiting for {_holder(descriptor)} that installs its dependencies into {folder}")
                if waited > PIP_SECONDS:
                    raise CannotStartError(
                        f"For {PIP_SECONDS:g} s {_holder(descriptor)} has held the lock of {folder}.",
                        "See what it waits for, and end it; then start this job again.",
                    ) from None
                time.sleep(_PAUSE_SECONDS)
            except OSError:  # a file system without locks
                break
            else:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                break
        yield
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Name the process that has the lock, as it wrote itself down."""
    text = b""
    with contextlib.suppress(OSError):
        text = os.pread(descriptor, 20, 0)
    return f"another start (process {text.decode()})" if text.isdigit() else "another start"


# Making it ------------------------------------------------------------------------------------------------------------


def _make(root: str, folder: str, env: Mapping[str, str], interrupts: Interrupts) -> None:
    import compileall

    place = os.path.dirname(folder)
    sweep(place)
    made = tempfile.mkdtemp(prefix=_HALF_MADE, dir=place)
    try:
        was = cache.damage(folder) if os.path.lexists(folder) else None
        again = f", which is damaged ({was})" if was else " (once)"
        tell(f"installing its dependencies into {folder}{again}")
        installers.install(cache.lock_of(root), made, env, interrupts, seconds=PIP_SECONDS)
        compileall.compile_dir(made, quiet=2, rx=re.compile(r"/pygments/"))  # half of it all, and never imported
        complete(made)
        os.chmod(made, 0o755)  # noqa: S103 - other users of this machine may use it, and not change it
        if interrupts.stop.signum is not None:
            raise StoppedError(interrupts.stop.signum)
        put(made, folder)
        bytecode.write(root, cache.bytecode_in(folder) if loses_bytecode(root) else None)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def complete(made: str) -> None:
    """Write down what is there, so that a start can tell what is missing; last, so that half a folder is none."""
    lines = []
    for path in _files(made):
        name = os.path.relpath(path, made)
        lines.append(f"{os.stat(path).st_size} {name}\n")
    with open(cache.used_file(made), "w", encoding="utf-8"):
        pass
    with open(os.path.join(made, cache.COMPLETE), "w", encoding="utf-8") as file:
        file.writelines([*sorted(lines), "end\n"])
        file.flush()
        os.fsync(file.fileno())


def _files(folder: str) -> Iterator[str]:
    """Yield what is installed, but for bytecode: Python mends that by itself."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(place, name) for name in names)


def put(made: str, folder: str) -> None:
    """Give what is made its name; what had it before is then where that was made, and goes with it."""
    try:
        os.rename(made, folder)
    except OSError:
        if not os.path.lexists(folder):
            raise
        if not _exchange(made, folder):
            aside = tempfile.mkdtemp(prefix=_HALF_MADE, dir=os.path.dirname(folder))
            os.rename(folder, os.path.join(aside, "old"))
            os.rename(made, folder)
            shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: str, other: str) -> bool:
    """Swap the names of two folders in one moment, where the system can."""
    import ctypes

    at_working_folder, exchange = -100, 2
    try:
        call = ctypes.CDLL(None).renameat2
        return bool(call(at_working_folder, os.fsencode(one), at_working_folder, os.fsencode(other), exchange) == 0)
    except (OSError, AttributeError):  # no such call: macOS, an old C library
        return False


def sweep(place: str) -> None:
    """Remove what killed starts have left half-made, and the folders that nobody has used for a month."""
    for name in os.listdir(place):
        path = os.path.join(place, name)
        with contextlib.suppress(OSError):  # another run was faster, or it is no folder of ours
            if name.startswith(_HALF_MADE):
                if os.lstat(path).st_mtime < time.time() - ABANDONED_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
            elif _KEY.fullmatch(name) and not os.path.islink(path):
                used = os.lstat(cache.used_file(path)).st_mtime
                if used < time.time() - UNUSED_SECONDS:
                    aside = tempfile.mkdtemp(prefix=_HALF_MADE, dir=place)
                    os.rename(path, os.path.join(aside, "old"))  # half of it must not be found under its name
                    shutil.rmtree(aside, ignore_errors=True)


# Doubt ----------------------------------------------------------------------------------------------------------------


def condemn(folder: str) -> None:
    """After an internal error: where a file is not what was installed, have the next start install anew, and say so."""
    wrong = _altered(folder)
    if wrong is None:
        return
    with contextlib.suppress(OSError):  # it is not ours
        os.unlink(os.path.join(folder, cache.COMPLETE))
        tell(f"{wrong} in {folder} is not what was installed; the next start installs it anew")


def _altered(folder: str) -> str | None:
    """Compare every file with the hash that its package's RECORD has; return the first that differs."""
    import base64
    import hashlib

    try:
        packages = sorted(name for name in os.listdir(folder) if name.endswith(".dist-info"))
        for package in packages:
            with open(os.path.join(folder, package, "RECORD"), encoding="utf-8") as file:
                lines = file.read().splitlines()
            for line in lines:
                name, _, rest = line.rpartition(",")[0].rpartition(",")
                path = os.path.normpath(os.path.join(folder, name.strip('"')))
                if not rest.startswith("sha256=") or not path.startswith(folder + os.sep) or not os.path.exists(path):
                    continue
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).digest()
                if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != rest[len("sha256=") :]:
                    return name
    except (OSError, ValueError):
        return None
    return None
