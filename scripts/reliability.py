"""Measure each client path against each fault that can happen on it: how far beyond its budget, and how much memory.

Without options it measures all of them once, which takes about 3 minutes on a quiet machine, and writes
docs/reliability.md. It ends with 1 where anything is beyond what is allowed, or ended as it should not.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
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
    from collections.abc import Callable, Iterable

SECONDS = 0.5
OVERRUN_MS = 250.0
MEMORY_MIB = 16.0
PAGE = ROOT / "docs" / "reliability.md"
GUARDS = "<!-- the guards: made by scripts/break-guards -->"


class Measured(NamedTuple):
    """One call: how it ended, its seconds, MiB that the process grew meanwhile (server and all), what it left.

    `run` is the number of the measurement that it belongs to.
    """

    fault: Any
    path: Any
    seen: Any
    seconds: float
    mib: float
    left: int
    run: int = 0

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


def measure(fault: Any, path: Any, authority: Authority, run: int = 0) -> Measured:
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
    return Measured(fault, path, seen, seconds, max(0, grown) / 1024, things() - before, run)


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


def over_runs(found: Iterable[Measured], figure: Callable[[Measured], float], form: str = ".1f") -> str:
    """Give the worst of a figure; of several runs the median of each one's worst, and the worst of all."""
    worst: dict[int, float] = defaultdict(float)
    for one in found:
        worst[one.run] = max(worst[one.run], figure(one))
    most = format(max(worst.values()), form)
    return most if len(worst) == 1 else f"{format(statistics.median(worst.values()), form)} / {most}"


def overrun(one: Measured) -> float:
    return one.overrun_ms


def growth(one: Measured) -> float:
    return one.mib


def cells(found: list[Measured]) -> str:
    """Give the cells of the worst of some calls."""
    slowest = over_runs(found, lambda one: one.seconds * 1000, ".0f")
    return f"{len(found)} | {slowest} | {over_runs(found, overrun)} | {over_runs(found, growth)}"


HEAD = """\
# Reliability

Every way that precheck talks to a server, against every hostile fault that can happen on it (`HOSTILE` of
`precheck_lib.simulate`), on real sockets of the loopback interface, one call after the other. Made by
`scripts/reliability`; `tests/bounded/test_every_client_and_fault.py` holds the same table as a test.

- {calls:,} calls with a budget of {budget:.0f} ms each, of {faults} faults on {paths} client paths. Each fault is put
  on the paths that it can happen on, which are not all: one of WebSocket does not happen to a client of HTTP, nor one
  of TLS to a client that speaks none. So there are fewer calls than faults times paths.
- Worst overrun: **{overrun} ms** (allowed: {allowed:.0f} ms). The overrun of a call is the time that it took beyond its
  budget: 0 for one that ended within.
- Worst growth: **{growth} MiB** (allowed: {most:.0f} MiB). The growth of a call is how far the resident memory of the
  process rose above where it was before, at the highest. The hostile server runs in that process and is counted too.
- Threads and descriptors left behind: **{left}**.
- precheck {version}, Python {python}, {system}, {processors} processors ({model}), {date}.

A fault that ends by itself is over long before its budget; one that does not is cut off at it. How a client ended is
told by the class of its error, the phase of the exchange that it was in, and in parentheses the exit code of a run
that asks for curl's codes. `passes` stands for no error: the client had its right answer all the same, since the fault
is one that it can live with (two addresses of a name are dead, and the third answers) or spoils nothing that it needs
(a number beyond a double where it does not look). Where two ways are named, the machine decides between them (a reset
may be seen by the sending or by the reading), or the client path does (inside TLS).
"""

SEVERAL = """
Measured {runs} times. Of two figures the first is the median of the runs, each with its worst call, and the second the
worst of all; calls are those of all runs.
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
    runs = len({one.run for one in found})
    head = HEAD.format(
        calls=len(found),
        faults=len(by_fault),
        paths=len(by_path),
        budget=SECONDS * 1000,
        overrun=over_runs(found, overrun),
        allowed=OVERRUN_MS,
        growth=over_runs(found, growth),
        most=MEMORY_MIB,
        left=max(one.left for one in found),
        version=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        processors=os.cpu_count(),
        model=processor(),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
    )
    if runs > 1:
        head += SEVERAL.format(runs=runs)
    lines = [head, "## By client path", "", f"| client path | {FIGURES}", f"|---|{RULE}"]
    lines += [f"| {label} | {cells(by_path[label])} |" for label in by_path]
    for layer, title in TITLES.items():
        faults = [fault for fault in HOSTILE if fault.layer == layer and fault.name in by_fault]
        if not faults:
            continue
        lines += ["", f"## {title}", ""]
        lines += [f"| fault | what the server does | how the clients end | {FIGURES}", f"|---|---|---|{RULE}"]
        for fault in faults:
            calls = by_fault[fault.name]
            lines.append(f"| `{fault.name}` | {fault.description} | {told(calls)} | {cells(calls)} |")
    return "\n".join([*lines, ""])


def measured(pairs: list[tuple[Any, Any]], runs: int) -> list[Measured]:
    """Make every call, all of them once in each run."""
    with tempfile.TemporaryDirectory(prefix="precheck-reliability-") as folder:
        authority = Authority(folder)
        context = tls.make_context()
        context.load_verify_locations(authority.certificate)
        tls.context = lambda: context
        for path in {path.label: path for _, path in pairs}.values():  # what is imported first is no growth of a call
            with matrix.serve(HOSTILE[-1], path, authority) as server:
                matrix.ended(lambda path=path, server=server: path.call(server.url, Budget(SECONDS)), path)
        return [measure(fault, path, authority, run) for run in range(runs) for fault, path in pairs]


def write(target: Path, text: str) -> None:
    """Write the page; what `scripts/break-guards` has put there stays."""
    if target.exists() and GUARDS in (old := target.read_text(encoding="utf-8")):
        text += "\n" + old[old.index(GUARDS) :]
    target.write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/reliability", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the page there (default: docs/reliability.md, nothing with --only)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=1,
        metavar="N",
        help="measure so often, and show the median and the worst (default: 1)",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="measure those with this text in CLIENT/FAULT only ('ollama', '/tls-', 'codex initialize (ws)/ws-fin')",
    )
    given = parser.parse_args()
    if given.runs < 1:
        parser.error(f"--runs {given.runs}: at least 1 is needed")
    given.pairs = [
        (fault, path) for fault, path in matrix.pairs() if given.only.lower() in f"{path.label}/{fault.name}".lower()
    ]
    if not given.pairs:
        paths = ", ".join(path.label for path in matrix.PATHS)
        parser.error(f"--only {given.only!r}: no CLIENT/FAULT has this text in it; clients are {paths}")
    return given


def main() -> int:
    """Measure, write, and end with 1 where anything is beyond what is allowed."""
    given = arguments()
    found = measured(given.pairs, given.runs)
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
    target = given.out or (None if given.only else PAGE)
    if target is not None:
        write(target, text)
    print(text if given.only else text[: text.index("## Name resolution")], end="")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
