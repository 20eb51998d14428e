"""Many checks in one spec, and how fast the quick commands start.

    python bench/many_checks.py [ROUNDS]

Prints, over ROUNDS rounds (default 9), the median and the worst of: 64 independent `http` checks against servers that
take 200 ms each, as the whole command (aim: at most 0.6 s); `plan` of a spec with 1,000 checks, with its peak memory
(aim: under 0.3 s and 60 MiB); `--version` beside a bare Python in turn, as a difference (aim: at most 18 ms). The
servers run in a process of their own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SERVER = """
import asyncio

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    await asyncio.sleep(0.2)
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    await writer.drain()
    writer.close()

async def main():
    servers = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(64)]
    print(*[server.sockets[0].getsockname()[1] for server in servers], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def spec(folder: Path, ports: list[int]) -> str:
    """Write a spec with one check a port; return its path."""
    lines = ["version: 1", "name: many", "checks:"]
    for index, port in enumerate(ports):
        lines += [f"  - id: check-{index}", f"    http: {{url: 'http://127.0.0.1:{port}/', status: 200}}"]
    path = folder / f"{len(ports)}.yml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def run(*command: str) -> tuple[float, float]:
    """Run a command that has to pass; return its wall seconds and its peak memory in MiB."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}:\n{out.decode(errors='replace')}")
    return took, usage.ru_maxrss / 1024


# Without bytecode every start would compile the package anew; an action's cache has it too.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as servers,
    ):
        try:
            ports = [int(port) for port in servers.stdout.readline().split()]
            many, thousand = spec(Path(place), ports), spec(Path(place), [80] * 1000)
            commands = {
                "run of 64 checks": ("-m", "precheck_lib", "run", many),
                "plan of 1,000": ("-m", "precheck_lib", "plan", thousand),
                "bare Python": ("-c", "pass"),
                "--version": ("-m", "precheck_lib", "--version"),
            }
            for command in commands.values():
                run(*command)  # writes the bytecode
            seen = [{name: run(*command) for name, command in commands.items()} for _ in range(rounds)]
        finally:
            servers.kill()
    for name in ("run of 64 checks", "plan of 1,000"):
        times = [one[name][0] for one in seen]
        memory = max(one[name][1] for one in seen)
        print(f"{name}: median {statistics.median(times):.2f} s, worst {max(times):.2f} s, {memory:.1f} MiB")
    more = [(one["--version"][0] - one["bare Python"][0]) * 1000 for one in seen]
    print(f"--version, more than bare Python: median {statistics.median(more):.1f} ms, worst {max(more):.1f} ms")


if __name__ == "__main__":
    main()
