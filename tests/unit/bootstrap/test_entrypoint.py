"""entrypoint.py: any Python gets a sentence, nothing of the checkout is imported, and what is said is said once."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENTRYPOINT = ROOT / "entrypoint.py"
SUCCESS = "strict live precheck passed"


# Which Python ---------------------------------------------------------------------------------------------------------


def old_pythons():
    """Find Pythons of this machine that are too old: one of each version."""
    folder = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    for minor in range(6, 10):
        found = [str(path) for path in folder.glob(f"3.{minor}.*/bin/python3")] or [shutil.which(f"python3.{minor}")]
        if found[0] and _begins(found[0]):
            yield found[0]


def _begins(python):
    # A shim of pyenv is on PATH for versions that are not to be had without its other variables.
    ended = subprocess.run([python, "-c", ""], env={"PATH": os.environ["PATH"]}, capture_output=True, check=False)
    return ended.returncode == 0


def test_the_source_can_be_read_by_python_3_6():
    ast.parse(ENTRYPOINT.read_text(encoding="ascii"), feature_version=(3, 6))


def test_an_old_python_gets_a_sentence_and_an_annotation(tmp_path):
    pythons = list(old_pythons())
    if not pythons:
        pytest.skip("this machine has no Python from 3.6 to 3.9")
    for python in pythons:
        env = {"PATH": os.environ["PATH"], "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path / "outputs")}
        ended = subprocess.run([python, str(ENTRYPOINT), "demo"], env=env, capture_output=True, text=True, check=False)
        assert ended.returncode == 70
        assert re.match(
            r"precheck: Python 3\.10 or newer is needed; .* is 3\.[6-9]\.\n    do: Install one", ended.stderr
        )
        assert ended.stdout.startswith("::error title=precheck could not start::Your code was not tested. Python 3.10")
        assert "Traceback" not in ended.stderr
    assert (tmp_path / "outputs").read_text() == "status=error\nexit-code=70\n" * len(pythons)


def test_a_system_that_is_not_supported_is_named(entrypoint, monkeypatch, capfd):
    monkeypatch.setattr(entrypoint.os, "name", "nt")
    with pytest.raises(SystemExit) as ended:
        entrypoint.main()
    assert ended.value.code == 70
    assert "precheck runs on Linux and macOS" in capfd.readouterr().err


def test_only_the_standard_library_is_imported():
    foreign = set()
    for file in (ENTRYPOINT, *(ROOT / "precheck_lib" / "bootstrap").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            names |= {node.module} if isinstance(node, ast.ImportFrom) else set()
            foreign |= {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    # The command line at the end, and what every command needs that reads a spec: tried so that damage is noticed.
    assert {name for name in foreign if not name.startswith("precheck_lib.bootstrap")} == {
        "msgspec",
        "precheck_lib",
        "precheck_lib.cli",
        "precheck_lib.interrupt",
        "yaml",
    }


# Isolation ------------------------------------------------------------------------------------------------------------


def test_nothing_of_the_working_folder_or_of_pythonpath_is_imported(machine):
    marker = machine.work / "imported"
    trap = f"open({str(marker)!r}, 'a').write(__name__)\n"
    other = machine.work / "other"
    (other / "precheck_lib").mkdir(parents=True)
    (machine.work / "precheck_lib").mkdir()
    for folder in (machine.work, other):
        (folder / "precheck_lib" / "__init__.py").write_text(trap)
        for name in ("requests", "json", "yaml", "msgspec", "psutil", "contextlib", "tempfile", "rich", "typing"):
            (folder / f"{name}.py").write_text(trap)
    path = str(other / "precheck_lib" / "..")
    # A module that Python itself takes from PYTHONPATH when it starts is not ours to keep away.
    for name in ("contextlib", "typing"):
        (other / f"{name}.py").unlink()
    ended = machine.start("demo", PYTHONPATH=path)
    assert (ended.code, ended.out.splitlines()[-1]) == (0, SUCCESS), ended.err
    assert not marker.exists()


def test_arguments_and_exit_codes_pass_through(machine):
    assert machine.start("--version").out.startswith("precheck ")
    assert machine.start("fly").code == 2


# What is said ---------------------------------------------------------------------------------------------------------


def test_a_message_is_one_line_and_no_command_whatever_a_path_in_it_is(entrypoint, monkeypatch, capfd):
    monkeypatch.setattr(os, "environ", {"GITHUB_ACTIONS": "true"})
    with pytest.raises(SystemExit):
        entrypoint.fail("tried /x\n::set-output name=a::b ##[error]c 100%", "Do\n::this.")
    streams = capfd.readouterr()
    assert streams.err == "precheck: tried /x ::set-output name=a::b ## [error]c 100%\n    do: Do ::this.\n"
    assert streams.out == (
        "::error title=precheck could not start::Your code was not tested. "
        "tried /x ::set-output name=a::b ## [error]c 100%25 What to do: Do ::this.\n"
    )


def test_outside_of_actions_there_is_no_annotation_and_no_output(entrypoint, monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(os, "environ", {"GITHUB_OUTPUT": str(tmp_path / "outputs")})
    with pytest.raises(SystemExit):
        entrypoint.fail("x", "y")
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "outputs").exists()


def test_later_steps_get_no_variable_and_no_path(machine):
    files = {name: machine.work / name for name in ("GITHUB_ENV", "GITHUB_PATH")}
    for file in files.values():
        file.touch()
    variables = {name: str(file) for name, file in files.items()}
    assert machine.start("explain", "usage", GITHUB_ACTIONS="true", **variables).code == 0
    assert [file.read_bytes() for file in files.values()] == [b"", b""]
    (call,) = machine.installs
    assert not [name for name in call["env"] if name.startswith("GITHUB_")]


@pytest.mark.parametrize(("closed", "code"), [("<&- 2>&-", 0), ("<&- >&- 2>&-", 70)])
def test_closed_streams_are_no_trouble(machine, closed, code):
    (machine.work / "precheck.yml").write_text("version: 1\nname: x\nchecks: [{id: a, env: {required: {PATH: {}}}}]\n")
    command = f'exec "$0" "$1" run --json report.json {closed}'
    ended = subprocess.run(
        ["sh", "-c", command, str(machine.python), str(ENTRYPOINT)],
        env=machine.env,
        cwd=machine.work,
        capture_output=True,
        text=True,
        check=False,
    )
    # Nobody can have seen that it passed where stdout is closed.
    assert ended.returncode == code
    assert json.loads((machine.work / "report.json").read_text())["exit_code"] == code


def test_a_process_that_may_open_no_descriptor_gets_a_sentence(machine):
    command = 'ulimit -n 6; exec "$0" -I -X utf8 "$1" --version'
    ended = subprocess.run(
        ["sh", "-c", command, str(machine.python), str(ENTRYPOINT)],
        env=machine.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 70
    assert ended.stderr == "precheck: It cannot run here: Too many open files.\n    do: See `ulimit -n`.\n"
