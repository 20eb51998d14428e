"""`scripts/reliability`: what it measures, where it writes, and that its page says what its template says."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "reliability.py"
PAGE = ROOT / "docs" / "reliability.md"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("reliability", SCRIPT)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def measure():
    """Run the script with these arguments."""

    def run(*arguments):
        return subprocess.run(
            [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture
def calls(script):
    """Make calls of one fault on one path, each of these milliseconds, in as many runs."""

    def make(*milliseconds):
        fault, path = next((fault, path) for fault, path in script.matrix.pairs() if fault.name == "tcp-refused")
        seen = SimpleNamespace(error=None)
        return [
            script.Measured(fault, path, seen, seconds=time / 1000, mib=0.0, left=0, run=run)
            for run, time in enumerate(milliseconds)
        ]

    return make


def test_the_page_says_what_its_template_says(script):
    said = re.split(r"\{[^}]*\}", " ".join(script.HEAD.split()))
    pattern = ".+?".join(map(re.escape, said))
    assert re.match(pattern, " ".join(PAGE.read_text(encoding="utf-8").split()))


def test_one_run_shows_its_worst(script, calls):
    assert script.over_runs(calls(510), script.overrun) == "10.0"


def test_several_runs_show_the_median_and_the_worst_of_all(script, calls):
    assert script.over_runs(calls(510, 502, 540), script.overrun) == "10.0 / 40.0"


def test_several_runs_are_told_on_the_page(script, calls):
    assert "Measured 3 times" in script.document(calls(1, 2, 3))
    assert "Measured" not in script.document(calls(1))


def test_what_was_not_measured_has_no_table(script, calls):
    shown = script.document(calls(1))
    assert "## TCP" in shown
    assert "## HTTP" not in shown


def test_a_part_of_it_is_measured_and_the_page_left_alone(measure):
    before = PAGE.read_bytes()
    ended = measure("--only", "TCP/tcp-ref", "--runs", "2")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "| `tcp-refused` | Nobody listens on the port. | ConnectError, connect (7) | 2 |" in ended.stdout
    assert "tcp-black-hole" not in ended.stdout
    assert PAGE.read_bytes() == before


def test_it_writes_where_it_is_told_and_keeps_what_is_not_its_own(measure, script, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"old\n\n{script.GUARDS}\nthe guards\n", encoding="utf-8")
    assert measure("--only", "tcp/tcp-refused", "--out", str(page)).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Reliability\n")
    assert text.endswith(f"\n\n{script.GUARDS}\nthe guards\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--only", "zzz"], "no CLIENT/FAULT has this text in it; clients are tcp, "), (["--runs", "0"], "at least 1")],
)
def test_what_cannot_be_measured_is_a_usage_error(measure, arguments, said):
    ended = measure(*arguments)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_the_help_names_every_option(measure):
    shown = measure("--help").stdout
    assert all(option in shown for option in ("--out FILE", "--runs N", "--only TEXT"))
