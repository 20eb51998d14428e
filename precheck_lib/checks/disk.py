"""`disk`: the file system under a path has room, and takes writing. Nothing is written."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import literal, look, refuse, shown, size_text, user_name
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes  # noqa: TC001 - read when the struct is made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem


class DiskOptions(Options, frozen=True, kw_only=True):
    """What the file system under `path` has to have."""

    path: Annotated[str, Meta(description="A folder or file that is there; an absolute path. Links are followed.")]
    free: Annotated[
        Bytes | None, Meta(description="How much room this user has to have at least, such as `20GiB`.")
    ] = None
    inodes: Annotated[
        int | None,
        Meta(description="How many more files it has to take at least; one that sets no limit takes them all."),
    ] = None
    writable: Annotated[
        bool, Meta(description="It must not be mounted read-only, and this user has to be allowed to write at `path`.")
    ] = False

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        yield from _problems(self, literal(self.path))


class _Disk(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of the file system under a path."""

    size: int
    free: int
    inodes: int
    inodes_free: int
    read_only: bool
    writable: bool
    mount: str
    device: str
    kind: str


def run(options: DiskOptions, context: Context) -> list[Finding]:
    """Look once and judge."""
    path = context.text(options.path)
    refuse([text for _, text in _problems(options, path)])
    name = shown(path)
    found = look(lambda: _look(path), budget=context.budget, subject=name, code="disk.deadline")
    if isinstance(found, OSError):
        if isinstance(found, FileNotFoundError | NotADirectoryError):
            raise not_ready("disk.absent", f"{name} is not there, so its file system has no known room")
        who = f"seen by user {user_name(os.geteuid())}"
        raise not_ready(
            "disk.unknown", f"{name} cannot be looked at: {found.strerror or found}", evidence=who, word="error"
        )
    unmet = list(_wrong(options, name, found))
    unknown = list(_unknown(options, name, found))
    if unmet or unknown:
        raise NotReadyError(unmet + unknown, word="failed" if unmet else "error")
    return []


def _problems(options: DiskOptions, path: str | None) -> Iterator[OptionProblem]:
    """Say what cannot be meant; a path that is not known yet is `None`."""
    if path is not None and (not os.path.isabs(path) or "\0" in path):
        yield ("path",), f"path: {options.path!r} is not an absolute path"
    if options.free is None and options.inodes is None and not options.writable:
        yield (), "a disk check needs free, inodes or writable"
    if options.inodes is not None and options.inodes < 0:
        yield ("inodes",), "inodes: it has to be 0 or more"


def _look(path: str) -> _Disk | OSError:
    try:
        real = os.path.realpath(path, strict=True)
        room = os.statvfs(real)
        folder = os.path.isdir(real)
        bits = os.W_OK | (os.X_OK if folder else 0)
        writable = os.access(real, bits, effective_ids=os.access in os.supports_effective_ids)
    except OSError as error:
        return error
    mount, device, kind = _mount_of(real)
    return _Disk(
        size=room.f_blocks * room.f_frsize,
        # Not f_bfree: part of that is kept for root.
        free=room.f_bavail * room.f_frsize,
        inodes=room.f_files,
        inodes_free=room.f_favail,
        read_only=bool(room.f_flag & os.ST_RDONLY),
        writable=writable,
        mount=mount,
        device=device,
        kind=kind,
    )


def _mount_of(real: str) -> tuple[str, str, str]:
    """Return mount point, device and kind of the file system that a path is on, as far as the system tells."""
    import psutil

    mount, device, kind = "/", "", ""
    with contextlib.suppress(psutil.Error, OSError):  # it only says where it is; its room is known
        for part in psutil.disk_partitions(all=True):
            inside = part.mountpoint == "/" or f"{real}/".startswith(f"{part.mountpoint}/")
            # Of two at one place the later covers the earlier.
            if inside and len(part.mountpoint) >= len(mount):
                mount, device, kind = part.mountpoint, part.device, part.fstype
    return mount, device, kind


def _where(name: str, found: _Disk) -> str:
    device = f" ({shown(found.device)}, {shown(found.kind)})" if found.device and found.kind else ""
    return f"{name}, on the file system at {shown(found.mount)}{device}"


def _wrong(options: DiskOptions, name: str, found: _Disk) -> Iterator[Finding]:
    where = _where(name, found)
    if options.free is not None and found.size and found.free < options.free:
        text = f"{where}: {size_text(found.free)} are free, at least {size_text(options.free)} are needed"
        yield make("disk.full", text, evidence=f"of {size_text(found.size)} that it has")
    if options.inodes is not None and found.inodes and found.inodes_free < options.inodes:
        text = f"{where}: it takes {found.inodes_free} more files, at least {options.inodes} are needed"
        yield make("disk.inodes", text, evidence=f"of {found.inodes} that it has room for in its table of files")
    if options.writable and (found.read_only or not found.writable):
        why = "it is mounted read-only" if found.read_only else f"user {user_name(os.geteuid())} may not write there"
        yield make("disk.read-only", f"{where}: it cannot be written", evidence=why)


def _unknown(options: DiskOptions, name: str, found: _Disk) -> Iterator[Finding]:
    if options.free is not None and not found.size:
        yield make("disk.unknown", f"{_where(name, found)}: it does not tell how much room it has")


def plan(options: DiskOptions) -> list[Deed]:
    """Say what would be done."""
    wanted = [
        f"{size_text(options.free)} free" if options.free is not None else "",
        f"room for {options.inodes} more files" if options.inodes is not None else "",
        "writable" if options.writable else "",
    ]
    return [Deed(f"look at the file system under {options.path}: {', '.join(part for part in wanted if part)}")]


KIND = Kind(name="disk", options=DiskOptions, run=run, plan=plan, imports=("psutil",))
