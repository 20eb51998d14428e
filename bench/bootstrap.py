"""What the bootstrap costs: the first start of a machine, every later one, four at once, and one without a network.

    python bench/bootstrap.py [ROUNDS]

Prints, over ROUNDS rounds (default 9), the median and the worst of: a cold start (empty cache, from a local folder of
wheels, so that no network is timed); a warm start as action.yml makes it (`python -I -X utf8`), as a person makes it
(`python entrypoint.py`, which starts Python twice), and of an action in the folder that its runner empties for each job
(bytecode in the cache), each in turn with the library alone, its dependencies already on the path, as a difference
(aim: at most 60 ms). Then once: four cold starts at the same time, with the number of installations; and a cold start
in a network namespace that has nothing, with pip and without it. The command is `plan strict`, which reads a spec and
touches nothing.

The wheels come from a package index, once (scripts/wheelhouse).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ("plan", "strict")
LIBRARY = """
import sys
sys.path[:0] = sys.argv[1:3]
del sys.argv[1:3]
from precheck_lib.__main__ import main
sys.exit(main())
"""
UNSHARE = ("unshare", "-rn")


def start(*command: str, env: dict[str, str]) -> tuple[float, str]:
    """Run a command that has to pass; return its wall seconds and what it said."""
    began = time.perf_counter()
    ended = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if ended.returncode:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return took, ended.stderr


def told(name: str, seconds: list[float], unit: float = 1.0, suffix: str = "s") -> None:
    """Print the median and the worst of one row."""
    middle, worst = statistics.median(seconds) * unit, max(seconds) * unit
    print(f"{name:<56} median {middle:6.2f} {suffix}, worst {worst:6.2f} {suffix}")


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wheels = place / "wheels"
        fetch = {**os.environ, "PRECHECK_PYTHON": sys.executable}
        start(str(ROOT / "scripts" / "wheelhouse"), str(wheels), env=fetch)
        bare = place / "bare"
        start(sys.executable, "-I", "-m", "venv", str(bare), env=dict(os.environ))
        measure(place, wheels, str(bare / "bin" / "python"), rounds)


def measure(place: Path, wheels: Path, python: str, rounds: int) -> None:
    """Measure with a Python that has a pip and nothing else."""
    action = place / "_actions" / "owner" / "precheck" / "v1"
    for part in ("entrypoint.py", "precheck_lib", "specs", "scripts"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, action / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            action.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / part, action / part)
    env = {"PATH": "/usr/bin:/bin", "PRECHECK_WHEELHOUSE": str(wheels)}
    cold = []
    for number in range(rounds):
        env["HOME"] = str(place / f"home-{number}")
        cold.append(start(python, "-I", "-X", "utf8", str(ROOT / "entrypoint.py"), *COMMAND, env=env)[0])
    (dependencies,) = (path for path in Path(env["HOME"], ".cache", "precheck").iterdir() if path.is_dir())
    ways = {
        "library": (python, "-I", "-X", "utf8", "-c", LIBRARY, str(dependencies), str(ROOT), *COMMAND),
        "warm start, as action.yml makes it": (python, "-I", "-X", "utf8", str(ROOT / "entrypoint.py"), *COMMAND),
        "warm start, as a person makes it": (python, str(ROOT / "entrypoint.py"), *COMMAND),
        "warm start of an action that is fetched for each job": (
            *(python, "-I", "-X", "utf8", str(action / "entrypoint.py")),
            *COMMAND,
        ),
    }
    for command in ways.values():
        start(*command, env=env)
    seen = [{name: start(*command, env=env)[0] for name, command in ways.items()} for _ in range(rounds)]
    told("cold start (local wheels)", cold)
    told("library alone", [one["library"] for one in seen], 1000, "ms")
    for name in list(ways)[1:]:
        told(f"{name}, more", [one[name] - one["library"] for one in seen], 1000, "ms")

    env["HOME"] = str(place / "four")
    began = time.perf_counter()
    four = [
        subprocess.Popen(
            ways["warm start, as action.yml makes it"],
            env=env,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [one.communicate()[1] for one in four]
    took = time.perf_counter() - began
    installs = sum("installing" in text for text in said)
    codes = [one.returncode for one in four]
    print(f"four cold starts at once: {took:.2f} s, exit codes {codes}, installations: {installs}")

    pipless = place / "pipless"
    start(sys.executable, "-I", "-m", "venv", "--without-pip", str(pipless), env=dict(os.environ))
    (site,) = pipless.glob("lib/python3.*/site-packages")
    (site / "none.pth").write_text("import sys; sys.modules.update(pip=None, ensurepip=None)\n")
    for name, interpreter in (("by pip", python), ("unpacked by precheck itself", str(pipless / "bin" / "python"))):
        env["HOME"] = str(place / name)
        try:
            took, _ = start(*UNSHARE, interpreter, str(ROOT / "entrypoint.py"), *COMMAND, env=env)
        except FileNotFoundError:
            print("without a network: not measured, there is no unshare")
            return
        print(f"cold start without a network, {name}: {took:.2f} s")


if __name__ == "__main__":
    main()
