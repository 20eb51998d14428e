"""Processes are counted by what they are, never shown by their command lines, and unseen ones are never left out."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from precheck_lib.checks import look, process

USER = look.user_name(os.geteuid())
WAIT = "import sys; sys.stdin.read()"


@pytest.fixture
def start():
    """Start processes that wait, with further arguments; they end with the test."""
    started = []

    def begin(*arguments):
        child = subprocess.Popen([sys.executable, "-I", "-c", WAIT, *arguments], stdin=subprocess.PIPE)
        started.append(child)
        return child

    yield begin
    for child in started:
        child.stdin.close()
        child.wait(10)


class Fake:
    """A process of somebody else; what is `None` is not shown to us."""

    def __init__(self, pid, *, name="server", exe=None, uid=4242, status="sleeping", ppid=1, cmdline=("server",)):
        self.pid = pid
        self._known = {"name": name, "exe": exe, "status": status, "cmdline": cmdline}
        self._uid = uid
        self._ppid = ppid

    def _of(self, what):
        if self._known[what] is None:
            raise psutil.AccessDenied(self.pid)
        return self._known[what]

    name = property(lambda self: lambda: self._of("name"))
    exe = property(lambda self: lambda: self._of("exe"))
    status = property(lambda self: lambda: self._of("status"))
    cmdline = property(lambda self: lambda: list(self._of("cmdline")))

    def ppid(self):
        return self._ppid

    def uids(self):
        return SimpleNamespace(effective=self._uid)

    def create_time(self):
        return 0.0

    def environ(self):
        raise psutil.AccessDenied(self.pid)

    def oneshot(self):
        import contextlib

        return contextlib.nullcontext()


@pytest.fixture
def machine(monkeypatch):
    """Replace the processes of this machine."""

    def replace(*processes, hidden=False):
        monkeypatch.setattr(psutil, "process_iter", lambda: iter(processes))
        monkeypatch.setattr(process, "_is_hidden", lambda: hidden)

    return replace


# Real ones ------------------------------------------------------------------------------------------------------------


def test_processes_are_found_by_their_command_line_and_counted(checker, start):
    mark = f"mark-{os.getpid()}-a"
    assert checker.said("process", {"command": mark}) == (
        "failed",
        [("process.absent", f"no process with a command line that has {mark!r} runs, at least 1 must")],
    )
    pids = [start(mark, "--token", "hunter2").pid, start(mark).pid]
    assert checker.passes("process", {"command": rf"-c .* {mark}\b", "count": 2}) == []
    error = checker.error("process", {"command": mark, "max": 0})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("failed", "process.present")
    assert finding.message == f"2 processes with a command line that has {mark!r} run, none may"
    for pid in pids:
        assert f"pid {pid} ({psutil.Process(pid).name()}, user {USER}, " in finding.evidence
    assert "hunter2" not in finding.evidence
    assert "--token" not in finding.evidence


def test_all_that_is_given_has_to_fit(checker, start):
    mark = f"mark-{os.getpid()}-b"
    child = psutil.Process(start(mark).pid)
    right = {"command": mark, "name": child.name(), "executable": child.exe(), "user": USER}
    assert checker.passes("process", right) == []
    assert checker.passes("process", {**right, "executable": os.path.basename(child.exe())}) == []
    assert checker.passes("process", {**right, "user": str(os.geteuid())}) == []
    for name, value in (("name", child.name()[:-1]), ("executable", "/none"), ("user", "nobody-of-this")):
        assert checker.error("process", {**right, name: value}).word == "failed", name


def test_the_run_itself_and_what_started_it_are_not_found_by_their_command_lines(checker):
    me = psutil.Process()
    assert me.pid not in process.search(".")["fitting"]
    assert not {one.pid for one in me.parents()} & set(process.search(".")["fitting"])
    # Nor is the child that searches, whose arguments hold the pattern.
    assert checker.passes("process", {"command": f"nothing-has-this-{os.getpid()}", "max": 0}) == []


def test_the_run_itself_is_not_counted_by_its_name(checker, machine):
    machine(psutil.Process())
    assert checker.passes("process", {"name": psutil.Process().name(), "max": 0}) == []


def test_one_that_has_ended_and_was_not_reaped_runs_no_more(checker, start):
    mark = f"mark-{os.getpid()}-c"
    child = start(mark)
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert process._fits(psutil.Process(child.pid), None, None, USER) is False


def test_which_job_has_started_it_is_said(checker, machine, start):
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", WAIT], stdin=subprocess.PIPE, env={"RUNNER_TRACKING_ID": "github_0b5e"}
    )
    try:
        machine(psutil.Process(child.pid))
        error = checker.error("process", {"user": USER, "max": 0}, env={"RUNNER_TRACKING_ID": "github_1"})
        assert error.findings[0].evidence.endswith(", it was started by another job (RUNNER_TRACKING_ID github_0b5e)")
    finally:
        child.stdin.close()
        child.wait(10)


def test_a_pattern_that_takes_for_ever_is_ended(checker, start):
    start("a" * 40 + "!")
    began = time.monotonic()
    error = checker.error("process", {"command": "(a|a)*(a+)+b"}, seconds=0.5)
    assert time.monotonic() - began < 3
    assert (error.word, error.curl, error.findings[0].code) == ("error", 28, "run.stuck")


# Numbers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "right"),
    [
        ({}, {1, 2, 3, 4}),
        ({"count": 2}, {2}),
        ({"count": 0}, {0}),
        ({"min": 2}, {2, 3, 4}),
        ({"max": 2}, {0, 1, 2}),
        ({"max": 0}, {0}),
        ({"min": 1, "max": 3}, {1, 2, 3}),
        ({"min": 0}, {0, 1, 2, 3, 4}),
    ],
)
def test_how_many_have_to_run_and_may(checker, machine, numbers, right):
    for count in range(5):
        machine(*[Fake(pid) for pid in range(10, 10 + count)], Fake(99, name="other"))
        if count in right:
            assert checker.passes("process", {"name": "server", **numbers}) == [], count
        else:
            error = checker.error("process", {"name": "server", **numbers})
            few = "process.absent" if count < min(right) else "process.present"
            assert (error.word, error.findings[0].code) == ("failed", few), count


def test_of_many_the_first_are_named(checker, machine):
    machine(*[Fake(pid, exe=f"/bin/{pid}") for pid in range(10, 18)])
    error = checker.error("process", {"name": "server", "max": 2})
    assert error.findings[0].message == "8 processes named server run, at most 2 may"
    assert error.findings[0].evidence.count("pid ") == 5
    assert error.findings[0].evidence.endswith("; and 3 more")


# What cannot be seen --------------------------------------------------------------------------------------------------


def test_an_executable_that_is_not_shown_may_be_the_one_or_not(checker, machine):
    machine(Fake(10, exe="/opt/server"), Fake(11), Fake(12, exe="/bin/other"))
    options = {"executable": "/opt/server"}
    assert checker.passes("process", options) == []
    assert checker.passes("process", {**options, "max": 2}) == []
    for numbers in ({"max": 1}, {"count": 1}, {"count": 2}, {"min": 2}):
        error = checker.error("process", {**options, **numbers})
        assert (error.word, error.findings[0].code) == ("error", "process.unknown"), numbers
        assert error.findings[0].message == (
            "as far as can be seen 1 process of the executable /opt/server runs, but 1 does not show what it is"
        )
        assert "CAP_SYS_PTRACE" in error.findings[0].evidence
    # What is known decides.
    assert checker.error("process", {**options, "max": 0}).word == "failed"
    assert checker.error("process", {**options, "min": 3}).word == "failed"


def test_one_that_cannot_be_the_one_for_another_reason_does_not_matter(checker, machine):
    machine(Fake(11, name="other"), Fake(12, uid=1))
    assert checker.passes("process", {"executable": "/x", "name": "server", "user": "4242", "max": 0}) == []


def test_a_thread_of_the_kernel_has_no_executable(checker, machine, monkeypatch):
    monkeypatch.setattr(process.sys, "platform", "linux")
    machine(Fake(2, ppid=0, cmdline=()), Fake(30, ppid=2, cmdline=()))
    assert checker.passes("process", {"executable": "/x", "max": 0}) == []


def test_a_command_line_that_is_not_shown_may_be_the_one(machine):
    machine(Fake(10, cmdline=("x", "mark")), Fake(11, cmdline=None), Fake(12))
    found = process.search("mark")
    assert found == {"fitting": [10], "unreadable": [11]}
    assert process._count(None, None, None, found).unreadable == 1
    assert process._count(None, None, "1", found).unreadable == 0


def test_where_processes_are_hidden_altogether_only_what_is_seen_is_known(checker, machine):
    machine(Fake(10), hidden=True)
    assert checker.passes("process", {"name": "server"}) == []
    for numbers in ({"max": 1}, {"count": 1}, {"min": 2}):
        error = checker.error("process", {"name": "server", **numbers})
        assert (error.word, error.findings[0].code) == ("error", "process.unknown"), numbers
        assert "hidepid" in error.findings[0].message
    assert checker.error("process", {"name": "server", "max": 0}).word == "failed"


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ("rw,relatime", False),
        ("rw,hidepid=0", False),
        ("rw,hidepid=2", True),
        ("rw,hidepid=invisible", True),
        ("rw,hidepid=2,gid=4", True),
        ("rw,hidepid=2,gid=7", False),
    ],
)
def test_hiding_is_known_by_how_proc_is_mounted(monkeypatch, tmp_path, options, hidden):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n")
    real = open
    monkeypatch.setattr(
        "builtins.open", lambda file, *a, **k: real(mounts if file == "/proc/self/mounts" else file, *a, **k)
    )
    monkeypatch.setattr(process.sys, "platform", "linux")
    monkeypatch.setattr(os, "getgroups", lambda: [7])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert process._is_hidden() is hidden
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert process._is_hidden() is False


def test_processes_that_cannot_be_listed_are_no_verdict(checker, monkeypatch):
    def fail():
        raise PermissionError(errno.EACCES, "Permission denied", "/proc")

    monkeypatch.setattr(psutil, "process_iter", fail)
    error = checker.error("process", {"name": "server", "max": 0})
    assert (error.word, error.findings[0].code) == ("error", "process.unknown")


def test_a_look_that_does_not_come_back_is_given_up(checker, monkeypatch, hangs):
    monkeypatch.setattr(psutil, "process_iter", hangs)
    began = time.monotonic()
    error = checker.error("process", {"name": "server", "max": 0}, seconds=0.1)
    assert time.monotonic() - began < 2
    assert (error.word, error.curl, error.findings[0].code) == ("error", 28, "process.deadline")


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a process check needs name, executable, command or user"),
        ({"max": 0}, "a process check needs name, executable, command or user"),
        ({"name": "x", "count": 1, "max": 1}, "count says exactly how many; it does not go with min or max"),
        ({"name": "x", "min": -1}, "min: it has to be 0 or more"),
        ({"name": "x", "min": 3, "max": 2}, "min: 3 is more than max, which is 2"),
    ],
)
def test_options_that_cannot_be_are_refused(checker, options, said):
    assert checker.refused("process", options) == [said]


def test_a_pattern_that_is_none_is_refused_before_anything_is_looked_at(checker, monkeypatch, hangs):
    monkeypatch.setattr(psutil, "process_iter", hangs)
    (said,) = checker.refused("process", {"command": "(x"})
    assert said.startswith("command: '(x' is not a regular expression: missing )")


def test_a_plan_says_how_many(checker):
    for numbers, need in (
        ({}, "at least 1 must run"),
        ({"count": 2}, "exactly 2 must run"),
        ({"max": 0}, "none may run"),
        ({"max": 3}, "at most 3 may run"),
        ({"min": 1, "max": 3}, "1 to 3 may run"),
    ):
        assert checker.planned("process", {"name": "x", "user": "u", **numbers}) == [
            f"count the processes named x of the user u: {need}"
        ]


def test_a_name_of_which_only_a_part_was_looked_at_says_so_however_short_that_becomes():
    assert look.shown("python" + "\x1b[1m" * look._MOST_NAME).endswith("'…")
    assert look.shown("python\x1b[1m") == "'python'"
