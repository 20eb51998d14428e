"""action.yml itself: what the runner accepts, and the lines of shell that find a Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
(STEP,) = ACTION["runs"]["steps"]
OUTPUTS = ["status", "exit-code", "failed", "codes", "first", "retryable", "host", "dir", "json", "junit"]

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action needs bash, and so does this")


def test_inputs_and_outputs_are_these():
    assert list(ACTION["inputs"]) == [
        "spec",
        "spec-ref",
        "mode",
        "report",
        "args",
        "budget",
        "on-not-ready",
        "out",
        "summary",
        "python",
        "wheelhouse",
    ]
    assert [(name, one["value"]) for name, one in ACTION["outputs"].items()] == [
        (name, f"${{{{ steps.precheck.outputs.{name} }}}}") for name in OUTPUTS
    ]
    for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()):
        assert one["description"].endswith(".")
    assert {one["default"] for one in ACTION["inputs"].values()} == {
        "",
        "fail",
        "precheck.yml",
        "run",
        "true",
    }


def test_the_one_step_has_only_keys_that_a_composite_action_may_have():
    assert ACTION["runs"]["using"] == "composite"
    assert set(ACTION["runs"]) == {"using", "steps"}
    assert set(STEP) == {"id", "shell", "run", "env"}


def test_inputs_reach_the_shell_by_its_environment_only():
    assert "${{" not in STEP["run"]
    assert STEP["env"] == {
        f"PRECHECK_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]
    }


def test_the_library_gives_the_outputs_that_the_action_has():
    source = (ROOT / "precheck_lib" / "report" / "github.py").read_text(encoding="utf-8")
    body = source[source.index("def outputs(") : source.index("def output_text(")]
    assert re.findall(r'^        "([a-z-]+)":', body, re.MULTILINE) == OUTPUTS


class Shell:
    """Runs the step's lines as the runner does, with stand-ins of Python on PATH."""

    def __init__(self, place):
        self.bin, self.outputs = place / "bin", place / "outputs"
        self.bin.mkdir()
        self.script = place / "step.sh"
        self.script.write_text(STEP["run"], encoding="utf-8")

    def add(self, name, version, folder=None, probed=":"):
        """Add a Python of that version: it can be asked for it, does `probed` then, and tells how it was started."""
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        known = 42 + (version < (3, 10))
        path.write_text(f'#!/bin/sh\ncase "$*" in *version_info*) {probed}; exit {known};; esac\necho "$0|$*|$$"\n')
        path.chmod(0o755)
        return path

    def add_timeout(self, seconds):
        """Add a `timeout` that is less patient than it is told to be."""
        path, real = self.bin / "timeout", shutil.which("timeout")
        if real is None:
            pytest.skip("there is no timeout here")
        path.write_text(
            f'#!/bin/sh\n[ "$1 $2 $3" = "-s KILL 10" ] || exit 9\nshift 3; exec {real} -s KILL {seconds} "$@"\n'
        )
        path.chmod(0o755)

    def run(self, python="", **env):
        bash = shutil.which("bash")
        process = subprocess.Popen(
            [bash, "--noprofile", "--norc", "-e", "-o", "pipefail", str(self.script)],
            env={
                "PATH": str(self.bin),
                "GITHUB_ACTION_PATH": "/an action",
                "GITHUB_OUTPUT": str(self.outputs),
                "PRECHECK_PYTHON": python,
                **env,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            out, _ = process.communicate(timeout=20)
        return process, out


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def started(out):
    """Which Python was started, how, and as which process."""
    path, arguments, pid = out.strip().split("|")
    return Path(path).name, arguments, int(pid)


def test_python3_is_started_isolated_and_takes_the_place_of_the_shell(shell):
    shell.add("python3", (3, 11))
    process, out = shell.run()
    assert started(out) == ("python3", "-I -X utf8 /an action/entrypoint.py action", process.pid)


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"python3": (3, 8), "python3.12": (3, 12), "python3.10": (3, 10)}, "python3.12"),
        ({"python3": (3, 6), "python": (3, 13)}, "python"),
        ({"python": (3, 10)}, "python"),
        ({"python3": (3, 10), "python3.14": (3, 14)}, "python3"),
    ],
)
def test_the_first_python_that_is_new_enough_is_taken(shell, there, chosen):
    for name, version in there.items():
        shell.add(name, version)
    assert started(shell.run()[1])[0] == chosen


def test_a_python_of_the_runners_tool_cache_is_better_than_none(shell, tmp_path):
    tools = tmp_path / "tool cache"
    shell.add("python3", (3, 11), tools / "Python" / "3.11.7" / "x64" / "bin")
    process, out = shell.run(RUNNER_TOOL_CACHE=str(tools))
    assert (process.returncode, started(out)[0]) == (0, "python3")


@pytest.mark.parametrize(
    ("there", "seen"),
    [
        ({}, ""),
        ({"python": (3, 9)}, "; python is older"),
        ({"python3": (3, 6), "python3.10": (3, 9)}, "; python3 is older; python3.10 is older"),
    ],
)
def test_without_a_python_that_will_do_there_is_an_annotation_and_an_output(shell, there, seen):
    for name, version in there.items():
        shell.add(name, version)
    process, out = shell.run()
    assert process.returncode == 70
    assert out == (
        "::error title=precheck could not start::Your code was not tested. Python 3.10 or newer was not found on PATH "
        f"or in the runner's tool cache{seen}. What to do: Install it on this host, or name it with the input python.\n"
    )
    assert shell.outputs.read_text() == "status=error\nexit-code=70\n"


def test_the_python_that_the_input_names_is_the_one(shell, tmp_path):
    shell.add("python3", (3, 11))
    mine = shell.add("my python", (3, 9), tmp_path / "mine")
    # Too old, but named: entrypoint.py itself says so.
    assert started(shell.run(python=str(mine))[1])[0] == "my python"


@pytest.mark.parametrize("python", ["/nowhere/python3", "no-such-python", "-c", "$(exit 3)"])
def test_a_named_python_that_cannot_be_run_is_said(shell, python):
    shell.add("python3", (3, 11))
    process, out = shell.run(python=python)
    assert process.returncode == 70
    assert "The Python that the input python names cannot be run. What to do: Correct the input" in out


HANGS = f"exec {shutil.which('sleep')} 60"


def test_a_python_that_hangs_is_passed_over(shell):
    shell.add_timeout(0.3)
    shell.add("python3", (3, 11), probed=HANGS)
    shell.add("python3.10", (3, 10))
    assert started(shell.run()[1])[0] == "python3.10"


def test_where_every_python_hangs_it_is_said_and_nothing_else_is(shell):
    shell.add_timeout(0.3)
    shell.add("python3", (3, 11), probed=HANGS)
    process, out = shell.run()
    assert process.returncode == 70
    assert out.startswith("::error title=precheck could not start::")
    assert "tool cache; python3 did not answer within 10 s. What to do" in out


def test_a_named_python_that_hangs_is_said(shell):
    shell.add_timeout(0.3)
    python = shell.add("python3", (3, 11), probed=HANGS)
    process, out = shell.run(python=str(python))
    assert process.returncode == 70
    assert "The Python that the input python names did not answer within 10 s." in out


def test_a_python_that_prints_is_taken_and_what_it_prints_when_asked_is_not_shown(shell):
    shell.add("python3", (3, 11), probed="echo '::warning::hello'; echo hello >&2")
    _, out = shell.run()
    assert (started(out)[0], out.count("\n")) == ("python3", 1)


def test_a_python_below_a_folder_with_spaces_is_taken_where_it_is(shell, tmp_path):
    python = shell.add("python3", (3, 12), tmp_path / "my tools" / "bin")
    process, out = shell.run(PATH=f"{shell.bin}:{python.parent}")
    assert (process.returncode, started(out)[0]) == (0, "python3")


def test_a_program_that_is_no_python_never_passes_for_a_gate(shell):
    process, out = shell.run(python=shutil.which("true"))
    assert process.returncode == 70
    assert "The Python that the input python names cannot be run." in out


def test_the_python_of_these_tests_is_found_new_enough(shell):
    os.symlink(sys.executable, shell.bin / "python3")
    _, out = shell.run(PATH=f"{shell.bin}:{os.environ['PATH']}")
    assert "can't open file '/an action/entrypoint.py'" in out
