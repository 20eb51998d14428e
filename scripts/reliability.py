"""Measure each client path against each fault that applies: how far beyond its budget, and how much memory."""

from __future__ import annotations

import gc
import os
import platform
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from precheck_lib import __version__  # noqa: E402
from precheck_lib.bounded import tls  # noqa: E402
from precheck_lib.bounded.budget import Budget  # noqa: E402
from precheck_lib.simulate.hostile import HOSTILE, Authority  # noqa: E402
from tests.bounded import matrix  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = 0.5
OVERRUN_MS = 250.0
MEMORY_MIB = 16.0
TARGET = ROOT / "docs" / "reliability.md"
GUARDS = "<!-- the guards: made by scripts/break-guards -->"


class Measured(NamedTuple):
    """One call: how it ended, its seconds, MiB that the process grew meanwhile (server and all), what it left."""

    fault: Any
    path: Any
    seen: Any
    seconds: float
    mib: float
    left: int

    @property
    def overrun_ms(self) -> float:
        return max(0.0, (self.seconds - SECONDS) * 1000)


def status_kib(name: str) -> int:
    """Read a size of this process from the kernel, in KiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def things() -> int:
    """Count the threads and descriptors of this process."""
    return threading.active_count() + len(os.listdir("/proc/self/fd"))


def measure(fault: Any, path: Any, authority: Authority) -> Measured:
    """Make one call against one server."""
    gc.collect()
    before = things()
    with matrix.serve(fault, path, authority) as server:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the high-water mark begins anew
        resident = status_kib("VmRSS")
        began = time.perf_counter()
        seen = matrix.ended(lambda: path.call(server.url, Budget(SECONDS)), path)
        seconds = time.perf_counter() - began
        grown = status_kib("VmHWM") - resident
    end = time.monotonic() + 1
    while things() > before and time.monotonic() < end:  # a resolver's thread ends when its server does
        time.sleep(0.001)
    return Measured(fault, path, seen, seconds, max(0, grown) / 1024, things() - before)


def told(found: list[Measured]) -> str:
    """Say how the clients ended, each way once."""
    ways = defaultdict(int)
    for one in found:
        end = one.seen
        if end.error is None:
            ways["passes"] += 1
        else:
            phase = f", {end.phase}" if end.phase else ""
            ways[f"{end.error.__name__}{phase} ({end.curl})"] += 1
    return "; ".join(ways)


def worst(found: Iterable[Measured]) -> str:
    """Give the cells of the worst of some calls."""
    found = list(found)
    slowest = max(one.seconds for one in found) * 1000
    overrun = max(one.overrun_ms for one in found)
    return f"{len(found)} | {slowest:.0f} | {overrun:.1f} | {max(one.mib for one in found):.1f}"


HEAD = """\
# Reliability

Every way that precheck talks to a server, against every hostile fault that can happen on it (`HOSTILE` of
`precheck_lib.simulate`), on real sockets of the loopback interface, one call after the other. Made by
`scripts/reliability`; `tests/bounded/test_every_client_and_fault.py` holds the same table as a test.

- {calls:,} calls: {faults} faults, {paths} client paths, each call with a budget of {budget:.0f} ms.
- Worst overrun: **{overrun:.1f} ms** (allowed: {allowed:.0f} ms).
- Worst memory growth: **{growth:.1f} MiB** (allowed: {most:.0f} MiB). It is the high-water mark of the process, in
  which the hostile server runs too.
- Threads and descriptors left behind: **{left}**.
- precheck {version}, Python {python}, {system}, {processors} processors ({model}), {date}.

A fault that ends by itself is over long before its budget; one that does not is cut off at it. The number in
parentheses is the exit code of a run that asks for curl's codes. Where two ways are named, the machine decides between
them (a reset may be seen by the sending or by the reading), or the client path does (inside TLS).
"""

TITLES = {
    "name": "Name resolution",
    "tcp": "TCP",
    "tls": "TLS handshake",
    "secure": "Inside TLS",
    "http": "HTTP",
    "json": "JSON",
    "handshake": "WebSocket handshake",
    "frame": "WebSocket frames",
    "message": "JSON in WebSocket messages",
}

FIGURES = "calls | slowest (ms) | worst overrun (ms) | worst growth (MiB) |"
RULE = "---:|---:|---:|---:|"


def processor() -> str:
    """Name the processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())


def document(found: list[Measured]) -> str:
    """Write it all down."""
    by_fault, by_path = defaultdict(list), defaultdict(list)
    for one in found:
        by_fault[one.fault.name].append(one)
        by_path[one.path.label].append(one)
    head = HEAD.format(
        calls=len(found),
        faults=len(by_fault),
        paths=len(by_path),
        budget=SECONDS * 1000,
        overrun=max(one.overrun_ms for one in found),
        allowed=OVERRUN_MS,
        growth=max(one.mib for one in found),
        most=MEMORY_MIB,
        left=max(one.left for one in found),
        version=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        processors=os.cpu_count(),
        model=processor(),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
    )
    lines = [head, "## By client path", "", f"| client path | {FIGURES}", f"|---|{RULE}"]
    lines += [f"| {label} | {worst(by_path[label])} |" for label in by_path]
    for layer, title in TITLES.items():
        lines += ["", f"## {title}", ""]
        lines += [f"| fault | what the server does | how the clients end | {FIGURES}", f"|---|---|---|{RULE}"]
        for fault in HOSTILE:
            if fault.layer == layer:
                cells = by_fault[fault.name]
                lines.append(f"| `{fault.name}` | {fault.description} | {told(cells)} | {worst(cells)} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure, write, and end with 1 where anything is beyond what is allowed."""
    with tempfile.TemporaryDirectory(prefix="precheck-reliability-") as folder:
        authority = Authority(folder)
        context = tls.make_context()
        context.load_verify_locations(authority.certificate)
        tls.context = lambda: context
        for path in matrix.PATHS:  # what is imported at the first call is no growth of a call
            with matrix.serve(HOSTILE[-1], path, authority) as server:
                matrix.ended(lambda path=path, server=server: path.call(server.url, Budget(SECONDS)), path)
        found = [measure(fault, path, authority) for fault, path in matrix.pairs()]
    bad = [
        one
        for one in found
        if one.overrun_ms > OVERRUN_MS
        or one.mib > MEMORY_MIB
        or one.left > 0
        or not matrix.fits(one.seen, matrix.ends_of(one.fault, one.path))
    ]
    for one in bad:
        figures = f"{one.seconds * 1000:.0f} ms, {one.mib:.1f} MiB, {one.left} left"
        print(f"{one.fault.name}, {one.path.label}: {one.seen}, {figures}")
    text = document(found)
    if TARGET.exists() and GUARDS in (old := TARGET.read_text(encoding="utf-8")):
        text += "\n" + old[old.index(GUARDS) :]
    TARGET.write_text(text, encoding="utf-8")
    print("\n".join(text.splitlines()[:36]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
