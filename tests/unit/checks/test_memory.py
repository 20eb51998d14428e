"""Memory: of what the machine has and what its control groups leave the least counts, and is named."""

from __future__ import annotations

import errno
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from precheck_lib.checks import cgroup

GIB = 1 << 30

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")


@pytest.fixture
def machine(monkeypatch):
    """64 GiB, 32 of them available, 8 GiB of free swap, and no limit."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=64 * GIB, available=32 * GIB))
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(free=8 * GIB))
    monkeypatch.setattr(cgroup, "limits", list)


@pytest.fixture
def groups(tmp_path):
    """Make the files of control groups; returns the limits that are read of them."""

    def make(self_cgroup, mounts, files):
        proc, base = tmp_path / "proc", tmp_path / "my groups"
        (proc / "self").mkdir(parents=True)
        (proc / "self" / "cgroup").write_text(self_cgroup)
        point = str(base).replace(" ", "\\040")
        (proc / "self" / "mountinfo").write_text(mounts.replace("BASE", point))
        for name, text in files.items():
            file = base / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(text))
        return [tuple(limit) for limit in cgroup.limits(str(proc))]

    return make


# The machine ----------------------------------------------------------------------------------------------------------


def test_a_real_machine_has_some_memory_and_not_all_there_could_be(checker):
    assert checker.passes("memory", {"available": "1MiB", "total": "1MiB", "swap_free": "0B"}) == []
    error = checker.error("memory", {"available": "1000000TiB"})
    assert error.word == "failed"
    assert error.findings[0].message.endswith(", at least 1000000 TiB are needed")


def test_each_amount_is_compared_and_said_with_both_values(checker, machine):
    assert checker.passes("memory", {"available": "32GiB", "total": "64GiB", "swap_free": "8GiB"}) == []
    error = checker.error("memory", {"available": "33GiB", "total": "65GiB", "swap_free": "9GiB"})
    assert error.word == "failed"
    assert [(finding.code, finding.message) for finding in error.findings] == [
        ("memory.low", "memory available: 32 GiB on this machine, at least 33 GiB are needed"),
        ("memory.low", "memory in all: 64 GiB on this machine, at least 65 GiB are needed"),
        ("memory.low", "swap free: 8 GiB on this machine, at least 9 GiB are needed"),
    ]
    assert error.findings[0].evidence == "of 64 GiB that it has"


def test_of_several_limits_the_least_counts_and_is_named(checker, machine, monkeypatch):
    limits = [
        cgroup.Limit("available", 16 * GIB, "/docker/a"),
        cgroup.Limit("available", 20 * GIB, "/docker"),
        cgroup.Limit("total", 128 * GIB, "/docker"),
    ]
    monkeypatch.setattr(cgroup, "limits", lambda: limits)
    assert checker.passes("memory", {"available": "16GiB", "total": "64GiB"}) == []
    error = checker.error("memory", {"available": "17GiB"})
    (finding,) = error.findings
    assert finding.code == "memory.limit"
    assert finding.message == (
        "memory available: 16 GiB within the limit of the control group /docker/a, at least 17 GiB are needed"
    )
    assert finding.evidence == "this machine itself has 32 GiB"


# Control groups -------------------------------------------------------------------------------------------------------

V2 = "35 24 0:30 / BASE rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "40 24 0:33 / BASE rw shared:15 - cgroup cgroup rw,memory\n41 24 0:34 / BASE/cpu rw - cgroup cgroup rw,cpu\n"


@on_linux
def test_every_group_on_the_way_up_can_limit(groups):
    found = groups(
        "0::/runner.slice/job\n",
        V2,
        {
            "runner.slice/job/memory.max": "max\n",
            "runner.slice/job/memory.current": 5 * GIB,
            "runner.slice/memory.max": f"{16 * GIB}\n",
            "runner.slice/memory.current": f"{10 * GIB}\n",
            "runner.slice/memory.swap.max": "4096\n",
            "runner.slice/memory.swap.current": "1096\n",
            "memory.stat": "anon 1\n",
        },
    )
    assert found == [
        ("available", 6 * GIB, "/runner.slice"),
        ("total", 16 * GIB, "/runner.slice"),
        ("swap_free", 3000, "/runner.slice"),
    ]


@on_linux
def test_caches_are_available_because_the_kernel_takes_them_back(groups):
    stat = f"anon 5\nfile {9 * GIB}\nactive_file {5 * GIB}\ninactive_file {3 * GIB}\nslab_reclaimable {GIB}\n"
    found = groups("0::/\n", V2, {"memory.max": 16 * GIB, "memory.current": 15 * GIB, "memory.stat": stat})
    assert found[0] == ("available", 10 * GIB, "/")


@on_linux
def test_no_more_is_available_than_the_limit_and_no_less_than_nothing(groups):
    stat = f"inactive_file {9 * GIB}\n"
    found = groups("0::/a\n", V2, {"a/memory.max": 4 * GIB, "a/memory.current": 8 * GIB, "a/memory.stat": stat})
    assert found[0] == ("available", 4 * GIB, "/a")


@on_linux
def test_a_group_that_uses_more_than_its_limit_has_nothing_left(groups):
    found = groups("0::/a\n", V2, {"a/memory.max": 4 * GIB, "a/memory.current": 8 * GIB})
    assert found[0] == ("available", 0, "/a")


@on_linux
def test_groups_of_version_1_count_too_and_their_largest_number_is_no_limit(groups):
    found = groups(
        "5:cpu:/a\n4:memory:/a/b\n0::/a\n",
        V1,
        {
            "a/b/memory.limit_in_bytes": 8 * GIB,
            "a/b/memory.usage_in_bytes": 6 * GIB,
            "a/b/memory.stat": f"inactive_file 1\ntotal_active_file {GIB}\ntotal_inactive_file {GIB}\n",
            "memory.limit_in_bytes": 9223372036854771712,
        },
    )
    assert found == [("available", 4 * GIB, "/a/b"), ("total", 8 * GIB, "/a/b")]


@on_linux
def test_in_a_container_the_path_is_the_hosts_and_the_mount_is_its_own_group(groups):
    mount = "40 24 0:33 /docker/abc BASE ro - cgroup cgroup rw,memory\n"
    files = {"memory.limit_in_bytes": 8 * GIB, "memory.usage_in_bytes": 6 * GIB}
    assert groups("4:memory:/docker/abc\n", mount, files)[1] == ("total", 8 * GIB, "/")


@on_linux
def test_a_path_outside_of_what_is_mounted_is_judged_by_what_is(groups):
    mount = "40 24 0:33 /docker/abc BASE ro - cgroup cgroup rw,memory\n"
    files = {"memory.limit_in_bytes": 8 * GIB, "memory.usage_in_bytes": 6 * GIB}
    files |= {"../memory.limit_in_bytes": GIB, "../memory.usage_in_bytes": 0}
    assert groups("4:memory:/other\n", mount, files) == [("available", 2 * GIB, "/"), ("total", 8 * GIB, "/")]


@on_linux
def test_a_limit_whose_use_is_not_told_is_no_pass(groups):
    with pytest.raises(FileNotFoundError):
        groups("0::/a\n", V2, {"a/memory.max": GIB})


def test_no_control_groups_are_no_limit(tmp_path):
    assert list(cgroup.limits(str(tmp_path))) == []


# What cannot be seen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [PermissionError(errno.EACCES, "Permission denied", "/sys/x"), ValueError("odd")])
def test_a_limit_that_cannot_be_read_is_no_verdict(checker, machine, monkeypatch, broken):
    def fail():
        raise broken

    monkeypatch.setattr(cgroup, "limits", fail)
    error = checker.error("memory", {"available": "1B"})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("error", "memory.unknown")
    said = "Permission denied (/sys/x)" if isinstance(broken, OSError) else "odd"
    assert finding.message == f"the memory of this job cannot be read: {said}"


def test_a_look_that_does_not_come_back_is_given_up(checker, monkeypatch, hangs):
    monkeypatch.setattr(psutil, "virtual_memory", hangs)
    began = time.monotonic()
    error = checker.error("memory", {"available": "1B"}, seconds=0.1)
    assert time.monotonic() - began < 2
    assert (error.word, error.curl, error.findings[0].code) == ("error", 28, "memory.deadline")


# Options --------------------------------------------------------------------------------------------------------------


def test_a_check_of_nothing_is_refused(checker):
    assert checker.refused("memory", {}) == ["a memory check needs available, total or swap_free"]


def test_a_plan_says_what_is_needed(checker):
    assert checker.planned("memory", {"available": "16GiB", "swap_free": "1GiB"}) == [
        "read the memory of this machine and of the job's control group: 16 GiB of memory available, 1 GiB of swap free"
    ]
