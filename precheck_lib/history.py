"""How earlier runs on this host ended: a few lines beside the dependencies in the runner's tool cache.

Only a run under GitHub Actions has it, and only where the bootstrap has already made that folder: a command at a
terminal leaves nothing behind. It is a hint for whoever reads a red verdict ("it is the fourth time today") and decides
nothing, so a file that is missing, damaged, foreign or not to be written is no trouble: nothing is known then.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any

from precheck_lib.outcome import Lately

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from precheck_lib.outcome import Report

FILE = "verdicts.jsonl"
LATELY_SECONDS = 86400.0
_MOST_BYTES = 64 << 10
_LINE_BYTES = 2048  # one write of so little goes to the end of a file whole, whoever else writes to it
_MOST_CODES = 20
_AHEAD_SECONDS = 60.0


def history_file(env: Mapping[str, str]) -> str | None:
    """Name the file of this host's history; `None` where this is no runner with a tool cache that precheck uses."""
    cache = env.get("RUNNER_TOOL_CACHE", "")
    folder = os.path.join(cache, "precheck")
    known = env.get("GITHUB_ACTIONS") == "true" and os.path.isabs(cache) and os.path.isdir(folder)
    return os.path.join(folder, FILE) if known else None


def look_back(env: Mapping[str, str]) -> Lately | None:
    """Count what was found on this host in the last 24 hours, by code; `None` where nothing is known of it."""
    path = history_file(env)
    if path is None:
        return None
    now, run, runs = time.time(), env.get("GITHUB_RUN_ID") or None, 0
    codes: dict[str, int] = {}
    before: set[str] = set()
    for entry in _entries(path):
        if not now - LATELY_SECONDS <= entry["at"] <= now + _AHEAD_SECONDS:
            continue
        runs += 1
        for code in entry["codes"]:
            codes[code] = codes.get(code, 0) + 1
        if run is not None and entry.get("run") == run:
            before.update(entry["codes"])
    return Lately(runs=runs, codes=codes, before=tuple(sorted(before))) if runs else None


def remember(report: Report, env: Mapping[str, str]) -> None:
    """Add how a run ended. One that was cancelled, or that only verifies another, says nothing of the host."""
    path = history_file(env)
    if path is None or report.verifies is not None or report.verdict == "cancelled":
        return
    found = [finding.code for check in report.checks for finding in check.findings if finding.severity == "error"]
    entry: dict[str, Any] = {
        "at": int(time.time()),
        "verdict": report.verdict,
        "codes": list(dict.fromkeys(found))[:_MOST_CODES],
    }
    if env.get("GITHUB_RUN_ID"):
        entry["run"] = env["GITHUB_RUN_ID"][:40]
    line = json.dumps(entry).encode() + b"\n"
    if len(line) > _LINE_BYTES:
        return
    with contextlib.suppress(OSError), _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
        os.write(file, line)
        size = os.fstat(file).st_size
        if size > _MOST_BYTES:
            # The older half goes. Another run may add its line meanwhile, which is lost then: it is a hint.
            kept = os.pread(file, _MOST_BYTES, size - _MOST_BYTES // 2).partition(b"\n")[2]
            os.ftruncate(file, 0)
            os.write(file, kept)


def _entries(path: str) -> Iterator[dict[str, Any]]:
    try:
        with _opened(path, os.O_RDONLY) as file:
            size = os.fstat(file).st_size
            data = os.pread(file, 2 * _MOST_BYTES, max(0, size - 2 * _MOST_BYTES))
    except OSError:
        return
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and isinstance(entry.get("at"), int) and _are_codes(entry.get("codes")):
                yield entry


def _are_codes(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(code, str) for code in value)


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    """Open a plain file and nothing else: no link leads to another one, and no FIFO holds the end of a run."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{path} is no plain file")
        yield file
    finally:
        os.close(file)


__all__ = ["history_file", "look_back", "remember"]
