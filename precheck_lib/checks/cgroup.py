"""The limits that Linux control groups set to the memory of this process; empty elsewhere.

Every group on the way up can limit it. What a group uses counts its caches, which the kernel takes back when somebody
needs the room: they count as available, as they do for `MemAvailable` of the whole machine; else a container that has
read a large file would look full.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_NONE = 1 << 62
"""Version 1 has no word for "no limit" but a number near the largest there is."""

_OCTAL = re.compile(r"\\([0-7]{3})")


class Limit(NamedTuple):
    """What a control group leaves to its processes, of one sort, in bytes."""

    sort: Literal["available", "total", "swap_free"]
    size: int
    path: str


class _Mount(NamedTuple):
    """Where a hierarchy is mounted, and which of its groups is the root there."""

    version: int
    root: str
    point: str


def limits(proc: str = "/proc") -> Iterator[Limit]:
    """Yield the limits of this process; raises `OSError` where there is one that cannot be read."""
    if sys.platform != "linux":
        return
    paths = dict(_paths(f"{proc}/self/cgroup"))
    for mount in _mounts(f"{proc}/self/mountinfo"):
        if mount.version not in paths:
            continue
        for folder, path in _upwards(mount, paths[mount.version]):
            yield from _version_2(folder, path) if mount.version == 2 else _version_1(folder, path)


def _paths(file: str) -> Iterator[tuple[int, str]]:
    """Yield the version of each hierarchy that may limit memory, and the group of this process in it."""
    text = _read(file)
    for line in (text or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield 2, path
        elif "memory" in controllers.split(","):
            yield 1, path


def _mounts(file: str) -> Iterator[_Mount]:
    text = _read(file)
    for line in (text or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(" "), (*after.split(" "), "", "", "")[:3]
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            root, point = (_OCTAL.sub(lambda match: chr(int(match[1], 8)), field) for field in fields[3:5])
            yield _Mount(2 if kind == "cgroup2" else 1, root, point)


def _upwards(mount: _Mount, path: str) -> Iterator[tuple[str, str]]:
    """Yield the folder and the path of a group and of all above it, as far as they can be seen from here."""
    below = posixpath.relpath(path, mount.root)
    # In a container without a namespace for groups the path is the host's, and what is mounted is its own group.
    steps = [] if below.startswith("..") or below == "." else below.split("/")
    for count in range(len(steps), -1, -1):
        yield posixpath.join(mount.point, *steps[:count]), posixpath.join("/", *steps[:count])


def _version_2(folder: str, path: str) -> Iterator[Limit]:
    most = _number(f"{folder}/memory.max")
    if most is not None:
        caches = _caches(f"{folder}/memory.stat", ("active_file", "inactive_file", "slab_reclaimable"))
        yield Limit("available", _left(most, _used(f"{folder}/memory.current"), caches), path)
        yield Limit("total", most, path)
    swap = _number(f"{folder}/memory.swap.max")
    if swap is not None:
        yield Limit("swap_free", _left(swap, _used(f"{folder}/memory.swap.current"), 0), path)


def _version_1(folder: str, path: str) -> Iterator[Limit]:
    most = _number(f"{folder}/memory.limit_in_bytes")
    if most is None or most >= _NONE:
        return
    caches = _caches(f"{folder}/memory.stat", ("total_active_file", "total_inactive_file"))
    yield Limit("available", _left(most, _used(f"{folder}/memory.usage_in_bytes"), caches), path)
    yield Limit("total", most, path)


def _left(most: int, used: int, caches: int) -> int:
    return max(0, most - max(0, used - caches))


def _used(file: str) -> int:
    used = _number(file)
    if used is None:
        # Beside a limit: what is left of it is not known then.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
    return used


def _number(file: str) -> int | None:
    """Return the number in a file, `None` where there is no such file or it says that there is no limit."""
    text = _read(file)
    return None if text is None or text.strip() == "max" else int(text)


def _caches(file: str, names: tuple[str, ...]) -> int:
    lines = (line.split(" ") for line in (_read(file) or "").splitlines())
    return sum(int(line[1]) for line in lines if line[0] in names and len(line) == 2)


def _read(file: str) -> str | None:
    with contextlib.suppress(FileNotFoundError), open(file, encoding="utf-8", errors="replace") as open_file:
        return open_file.read()
    return None
