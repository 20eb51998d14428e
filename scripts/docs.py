"""Makes docs/failures.md: every fault of `demo` as a person sees it, then the catalogue of findings.

README.md shows one of them, between two comments. What differs from run to run (ports, times, folders) is replaced by
something that does not. Also made here: specs/precheck.schema.json, and the tables of docs/spec.md from it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "failures.md"
README = ROOT / "README.md"
SCHEMA = ROOT / "specs" / "precheck.schema.json"
FORMAT = ROOT / "docs" / "spec.md"
sys.path.insert(0, str(ROOT))

from spec_tables import with_tables  # noqa: E402

from precheck_lib.demo import DEMOS, SHORT, Demo  # noqa: E402
from precheck_lib.report.explain import catalogue_page  # noqa: E402
from precheck_lib.spec.schema import schema_text, spec_schema  # noqa: E402

HEAD = """\
# What a red verdict looks like, and what to do

Made by `scripts/docs`; do not edit. The first part shows every fault that `demo` can show: what the terminal says, and
the annotation on the page of the job. The second part lists every finding there is; `explain CODE` prints the same.

In the terminal text the lines of checks that passed or were skipped are left out. The demo of a fault that uses up a
bound gives that bound one second; in the strict spec they are 10 s to 360 s.

A verdict that is not `ready` never says anything about the code under test: it was not tested.
"""

GROUPS = {
    "A": "The run itself",
    "B": "Variables",
    "C": "Versions",
    "D": "The order of the checks",
    "E": "The Codex App Server",
    "F": "The OpenCode Server",
    "G": "Ollama and the GPU",
    "H": "Bounds",
}


class Shown(NamedTuple):
    """What a fault shows: exit code, lines on the terminal, the title and text of each annotation."""

    code: int
    terminal: list[str]
    annotations: list[tuple[str, str]]


def show(name: str) -> Shown:
    """Run a demo as GitHub would."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "GITHUB_ACTIONS": "true", "RUNNER_NAME": "gpu-runner-1"}
    command = [sys.executable, "-X", "utf8", "-m", "precheck_lib", "demo", "--fault", name]
    ended = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in ended.stdout.splitlines() if not line.startswith(("ok ", "skipped "))]
    terminal = [line for line in lines if not line.startswith("::")] + ended.stderr.splitlines()
    elapsed = f"{SHORT:g}" if DEMOS[name].short else "0.01"
    annotations = [read_annotation(line) for line in lines if line.startswith("::")]
    return Shown(
        ended.returncode,
        [normalised(line, elapsed) for line in terminal],
        [(normalised(title), normalised(body)) for title, body in annotations],
    )


def read_annotation(line: str) -> tuple[str, str]:
    """Read title and text of a workflow command, as GitHub shows them."""
    header, _, body = line[2:].partition("::")
    title = header.partition("title=")[2]
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%25", "%")):
        title, body = title.replace(code, character), body.replace(code, character)
    return title, body


def normalised(line: str, elapsed: str = "") -> str:
    """Replace what differs from run to run; `elapsed` is what a check took."""
    line = re.sub(r"/\S*/precheck-demo-[a-z0-9_]{8}", "/tmp/precheck-demo", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z", "2026-01-02T03:04:05Z", line)
    port = 4500 if re.search("codex", line, re.IGNORECASE) else 4096
    line = re.sub(r"(127\.0\.0\.1(?::| port ))\d+", rf"\g<1>{port}", line)
    timed = re.fullmatch(r"(.*\S) +([\d.]+)( of [\d.]+ s)", line)
    if timed is not None:
        begin, _, end = timed.groups()
        line = f"{begin}{f'{elapsed}{end}':>{max(0, 80 - len(begin))}}"
    return line


def page(shown: dict[str, Shown]) -> str:
    """Write the whole page."""
    lines = [HEAD, "# The faults of the demo", ""]
    for letter, title in GROUPS.items():
        lines += [f"## {title}", ""]
        for name, demo in DEMOS.items():
            if demo.letter == letter:
                lines += section(name, demo, shown[name])
    lines += ["# All findings", "", *catalogue_page()]
    return "\n".join(lines).rstrip("\n") + "\n"


def section(name: str, demo: Demo, shown: Shown) -> list[str]:
    """Write the section of a fault."""
    return [
        f"### {name}: {demo.text}",
        "",
        f"`demo --fault {name}`, exit code {shown.code}.",
        "",
        *blocks(shown),
        "",
    ]


def blocks(shown: Shown) -> list[str]:
    """Write what the terminal says, and what the page of the job does."""
    told = []
    for title, body in shown.annotations:
        told += [title, *textwrap.wrap(body, 100, break_long_words=False, break_on_hyphens=False), ""]
    return ["```text", *shown.terminal, "```", "", "On the page of the job:", "", "```text", *told[:-1], "```"]


def readme(text: str, shown: dict[str, Shown]) -> str:
    """Put the faults that README.md shows between their comments."""

    def block(found: re.Match[str]) -> str:
        return "\n".join([found[1], "", *blocks(shown[found[2]]), "", found[3]])

    return re.sub(r"(<!-- demo: ([a-z-]+) -->)\n(?:.*\n)*?(<!-- end of demo -->)", block, text)


def main() -> int:
    """Write what is made, or compare it with what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where a page is not in step")
    check = parser.parse_args().check
    with ThreadPoolExecutor(2) as pool:
        shown = dict(zip(DEMOS, pool.map(show, DEMOS), strict=True))
    broken = [name for name, one in shown.items() if any("run.internal" in title for title, _ in one.annotations)]
    if broken:
        print(f"precheck itself has failed in the demo of {', '.join(broken)}; nothing is written", file=sys.stderr)
        return 1
    code = 0
    for file, made in (
        (PAGE, page(shown)),
        (README, readme(README.read_text(encoding="utf-8"), shown)),
        (SCHEMA, schema_text()),
        (FORMAT, with_tables(FORMAT.read_text(encoding="utf-8"), spec_schema())),
    ):
        there = file.read_text(encoding="utf-8") if file.exists() else ""
        name = str(file.relative_to(ROOT))
        if check:
            for line in difflib.unified_diff(there.splitlines(), made.splitlines(), name, "made now", lineterm=""):
                print(line)
            print(f"{name}: {'in step' if there == made else 'not in step; run scripts/docs'}")
            code = code if there == made else 1
        elif there != made:
            file.parent.mkdir(exist_ok=True)
            file.write_text(made, encoding="utf-8", newline="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
