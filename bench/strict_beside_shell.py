"""A passing strict run beside the shell script that precheck replaces, in turn, on the same stand-ins.

    python bench/strict_beside_shell.py [PAIRS]

Prints the median of the ratios precheck / script over PAIRS pairs (default 9), the child processes that precheck
starts, and its peak memory. Both run under an environment that holds the roles and nothing else. Needs bash, curl and
node for the script. The stand-ins run in a process of their own and add no latency.
"""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

COUNTER = """
import os, sys
def count(event, args, fd=os.open(os.environ["COUNT_CHILDREN"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)):
    if event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"):
        os.write(fd, (event + "\\n").encode())
sys.addaudithook(count)
"""


def run(command: list[str], env: dict[str, str], folder: Path) -> tuple[float, float]:
    """Run a command that has to pass; return its wall seconds and its peak memory in MiB."""
    started = time.perf_counter()
    child = subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    child.stderr.close()
    if child.returncode or not out.endswith(b"strict live precheck passed\n"):
        sys.exit(f"{command[0]} did not pass ({child.returncode}):\n{out.decode()}{err.decode()}")
    return took, usage.ru_maxrss / 1024


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kit = folder / "agents-kit"
        (kit / "scripts").mkdir(parents=True)
        (kit / "specs").mkdir()
        script = Path(shutil.copy(ROOT / "bench/baseline/precheck_strict_live.sh", kit / "scripts"))
        shutil.copy(ROOT / "specs/SPECIFICATIONS.md", kit / "specs")
        server = subprocess.Popen(
            [sys.executable, "-m", "precheck_lib.simulate", "--folder", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        env = {}
        for line in server.stdout:
            if line.strip() == "ready":
                break
            words = shlex.split(line)
            if words[:1] == ["export"]:
                variable, _, value = words[1].partition("=")
                env[variable] = value
        env["PATH"] = f"{env['PATH'].split(':')[0]}:{os.environ['PATH']}"
        mine = {**env, "PYTHONPATH": str(ROOT)}
        precheck = [sys.executable, "-m", "precheck_lib", "run", "strict"]
        try:
            run(precheck, mine, folder)  # compiles the bytecode
            run(["bash", str(script)], env, folder)
            ratios, ours, theirs, memory = [], [], [], []
            for _ in range(pairs):
                shell, _ = run(["bash", str(script)], env, folder)
                python, peak = run(precheck, mine, folder)
                ratios.append(python / shell)
                ours.append(python)
                theirs.append(shell)
                memory.append(peak)
            (folder / "hook").mkdir()
            (folder / "hook/sitecustomize.py").write_text(COUNTER)
            counted = folder / "children"
            run(precheck, {**mine, "PYTHONPATH": f"{ROOT}:{folder / 'hook'}", "COUNT_CHILDREN": str(counted)}, folder)
            children = len(counted.read_text().splitlines())
        finally:
            server.stdin.close()
            server.wait()
    print(f"pairs                {pairs}")
    print(f"script, median       {statistics.median(theirs) * 1000:.0f} ms")
    print(f"precheck, median     {statistics.median(ours) * 1000:.0f} ms")
    print(f"ratio, median        {statistics.median(ratios):.2f} (least {min(ratios):.2f}, most {max(ratios):.2f})")
    print(f"child processes      {children}")
    print(f"peak memory          {max(memory):.1f} MiB")


if __name__ == "__main__":
    main()
