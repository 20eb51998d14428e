"""Disks: both values, the mount point and the device; nothing is written, and a size nobody tells is no pass."""

from __future__ import annotations

import errno
import os
import time
from types import SimpleNamespace

import psutil
import pytest

from precheck_lib.checks import disk, look

GIB = 1 << 30


@pytest.fixture
def room(monkeypatch):
    """Replace what the system says of a file system: 100 GiB, 10 of them free, 2 kept for root besides."""

    def replace(**said):
        known = {
            "f_frsize": 4096,
            "f_bsize": 1 << 20,
            "f_blocks": 100 * GIB // 4096,
            "f_bfree": 12 * GIB // 4096,
            "f_bavail": 10 * GIB // 4096,
            "f_files": 1000,
            "f_ffree": 60,
            "f_favail": 50,
            "f_flag": 0,
        }
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**{**known, **said}))

    return replace


@pytest.fixture
def mounts(monkeypatch):
    def replace(*parts):
        rows = [SimpleNamespace(mountpoint=point, device=device, fstype=kind) for point, device, kind in parts]
        monkeypatch.setattr(psutil, "disk_partitions", lambda *, all: rows)  # noqa: A006 - psutil's name

    return replace


# Real ones ------------------------------------------------------------------------------------------------------------


def test_a_disk_with_room_passes_and_nothing_is_left_on_it(checker, tmp_path):
    assert checker.passes("disk", {"path": str(tmp_path), "free": "1B", "inodes": 0, "writable": True}) == []
    assert checker.passes("disk", {"path": "${PLACE}", "free": "1KiB"}, env={"PLACE": str(tmp_path)}) == []
    assert list(tmp_path.iterdir()) == []


def test_a_real_disk_is_named_by_its_mount_point_and_is_never_large_enough_for_everything(checker, tmp_path):
    error = checker.error("disk", {"path": str(tmp_path), "free": "1000000TiB"})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("failed", "disk.full")
    assert finding.message.startswith(f"{tmp_path}, on the file system at /")
    assert finding.message.endswith(" are free, at least 1000000 TiB are needed")


def test_links_are_followed(checker, tmp_path, mounts):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    mounts(("/", "/dev/a", "ext4"), (str(tmp_path / "disk"), "/dev/b", "xfs"))
    error = checker.error("disk", {"path": str(tmp_path / "link"), "free": "1000000TiB"})
    assert f"at {tmp_path}/disk (/dev/b, xfs)" in error.findings[0].message


# Values ---------------------------------------------------------------------------------------------------------------


def test_too_little_room_is_said_with_both_values_of_what_this_user_may_use(checker, room, mounts):
    room()
    mounts(("/", "/dev/vda", "ext4"))
    assert checker.passes("disk", {"path": "/tmp", "free": "10GiB", "inodes": 50}) == []
    error = checker.error("disk", {"path": "/tmp", "free": "11GiB", "inodes": 51})
    assert error.word == "failed"
    assert [(finding.code, finding.message, finding.evidence) for finding in error.findings] == [
        (
            "disk.full",
            "/tmp, on the file system at / (/dev/vda, ext4): 10 GiB are free, at least 11 GiB are needed",
            "of 100 GiB that it has",
        ),
        (
            "disk.inodes",
            "/tmp, on the file system at / (/dev/vda, ext4): it takes 50 more files, at least 51 are needed",
            "of 1000 that it has room for in its table of files",
        ),
    ]


def test_a_file_system_without_a_table_of_files_takes_them_all(checker, room):
    room(f_files=0, f_ffree=0, f_favail=0)
    assert checker.passes("disk", {"path": "/tmp", "inodes": 1000000}) == []


def test_a_file_system_that_tells_no_size_is_no_pass(checker, room):
    room(f_blocks=0, f_bavail=0)
    word, ((code, message),) = checker.said("disk", {"path": "/tmp", "free": "1B"})
    assert (word, code) == ("error", "disk.unknown")
    assert message.endswith("it does not tell how much room it has")


def test_what_is_mounted_read_only_or_is_anothers_cannot_be_written(checker, room, monkeypatch):
    room(f_flag=os.ST_RDONLY)
    options = {"path": "/tmp", "writable": True}
    error = checker.error("disk", options)
    assert (error.word, error.findings[0].code) == ("failed", "disk.read-only")
    assert error.findings[0].evidence == "it is mounted read-only"
    assert checker.passes("disk", {"path": "/tmp", "free": "1B"}) == []
    room()
    asked = []
    monkeypatch.setattr(os, "access", lambda path, bits, **_: asked.append(bits) or False)
    error = checker.error("disk", options)
    assert error.findings[0].evidence == f"user {look.user_name(os.geteuid())} may not write there"
    assert asked == [os.W_OK | os.X_OK]


def test_the_nearest_mount_counts_and_of_two_at_one_place_the_later(mounts):
    mounts(
        ("/", "/dev/a", "ext4"),
        ("/data", "/dev/b", "xfs"),
        ("/data", "/dev/c", "btrfs"),
        ("/database", "/dev/d", "xfs"),
    )
    assert disk._mount_of("/data/models") == ("/data", "/dev/c", "btrfs")
    assert disk._mount_of("/data") == ("/data", "/dev/c", "btrfs")
    assert disk._mount_of("/databases") == ("/", "/dev/a", "ext4")


def test_where_the_mounts_cannot_be_read_the_room_is_judged_all_the_same(checker, room, monkeypatch):
    def fail(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    room()
    monkeypatch.setattr(psutil, "disk_partitions", fail)
    assert checker.passes("disk", {"path": "/tmp", "free": "10GiB"}) == []
    assert checker.error("disk", {"path": "/tmp", "free": "11GiB"}).word == "failed"


# What cannot be seen --------------------------------------------------------------------------------------------------


def test_a_path_that_is_not_there_is_a_failure_and_a_closed_one_an_error(checker, tmp_path, monkeypatch):
    for path in (tmp_path / "none", tmp_path / "file" / "below"):
        (tmp_path / "file").touch()
        word, ((code, message),) = checker.said("disk", {"path": str(path), "free": "1B"})
        assert (word, code) == ("failed", "disk.absent")
        assert message.startswith(f"{path} is not there")

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "statvfs", refuse)
    word, findings = checker.said("disk", {"path": str(tmp_path), "free": "1B"})
    assert (word, findings) == ("error", [("disk.unknown", f"{tmp_path} cannot be looked at: Permission denied")])


def test_a_dead_mount_is_given_up_at_the_end_of_the_budget(checker, monkeypatch, hangs):
    monkeypatch.setattr(os, "statvfs", hangs)
    began = time.monotonic()
    error = checker.error("disk", {"path": "/tmp", "free": "1B"}, seconds=0.1)
    assert time.monotonic() - began < 2
    assert (error.word, error.curl, error.findings[0].code) == ("error", 28, "disk.deadline")


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "relative", "free": "1B"}, "path: 'relative' is not an absolute path"),
        ({"path": "/"}, "a disk check needs free, inodes or writable"),
        ({"path": "/", "inodes": -1}, "inodes: it has to be 0 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(checker, options, said):
    assert checker.refused("disk", options) == [said]


def test_a_plan_says_what_is_needed(checker):
    assert checker.planned("disk", {"path": "${P}", "free": "20GiB", "inodes": 5, "writable": True}) == [
        "look at the file system under ${P}: 20 GiB free, room for 5 more files, writable"
    ]


def test_sizes_are_rounded_down_so_that_less_never_looks_like_enough():
    said = [look.size_text(size) for size in (0, 10239, 10240, 20 * GIB - 1, 20 * GIB, 1536 << 30, 1 << 50)]
    assert said == ["0 B", "10239 B", "10 KiB", "19.9 GiB", "20 GiB", "1.5 TiB", "1024 TiB"]
