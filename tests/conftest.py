"""Every test leaves the process as it found it: no thread, child, socket or other descriptor stays."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36
_FAILED = pytest.StashKey[bool]()


def pytest_configure() -> None:
    # A shell ignores SIGINT in what it starts in the background, and precheck rightly leaves an ignored signal ignored.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform == "linux":
        # An orphan of a command that was run becomes our child, so that it is found whatever it did to get away.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def pytest_collection_finish() -> None:
    # Thousands of collected tests live until the end: without this, each look for what a test left walks them all, for
    # a tenth of a second.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    if outcome.get_result().failed:
        item.stash[_FAILED] = True


def _descriptors() -> dict[int, str]:
    found = {}
    for entry in os.listdir("/proc/self/fd") if Path("/proc/self/fd").is_dir() else ():
        with contextlib.suppress(OSError):  # the one that lists the folder is gone by now
            found[int(entry)] = os.readlink(f"/proc/self/fd/{entry}")
    return found


def _children() -> dict[int, str]:
    found = {}
    for process in _started():  # what those have started is theirs until they end
        with contextlib.suppress(psutil.Error):
            found[process.pid] = f"{process.name()} ({process.status()})"
    return found


def _started() -> list[psutil.Process]:
    # psutil reads every process of the machine for this, a millisecond and more; the kernel has the list.
    try:
        lists = [Path(f"/proc/self/task/{task}/children").read_bytes() for task in os.listdir("/proc/self/task")]
    except OSError:  # another system, a kernel without them, or a thread that has just ended
        return psutil.Process().children()
    found = []
    for pid in b" ".join(lists).split():
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(int(pid)))
    return found


def _reap(known: set[int]) -> None:
    """Take the exit status of orphans that became our children; a test's own children it has to wait for itself."""
    for pid, what in _children().items():
        if pid not in known and "zombie" in what:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _left(before: tuple[set[threading.Thread], set[int], dict[int, str]]) -> dict[str, list[str]]:
    threads, children, descriptors = before
    _reap(children)
    return {
        "thread": [thread.name for thread in threading.enumerate() if thread not in threads],
        "child": [f"{pid}: {what}" for pid, what in _children().items() if pid not in children],
        "descriptor": [
            f"{number}: {what}" for number, what in _descriptors().items() if descriptors.get(number) != what
        ],
    }


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    before = set(threading.enumerate()), set(_children()), _descriptors()
    yield
    end = time.monotonic() + _PATIENCE_SECONDS
    pause = 0.001
    while True:
        left = {kind: what for kind, what in _left(before).items() if what}
        if not left or time.monotonic() > end:
            break
        time.sleep(pause)
        pause = min(0.05, pause * 2)
        gc.collect()
    for line in left.get("child", []):  # it must not disturb the next test
        with contextlib.suppress(OSError):
            os.kill(int(line.partition(":")[0]), signal.SIGKILL)
    if left and not request.node.stash.get(_FAILED, False):
        pytest.fail(f"left behind: {left}")
