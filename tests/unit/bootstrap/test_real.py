"""The real pip, uv and wheels: from an index once, and from then on from a folder, in a network that has nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SUCCESS = "strict live precheck passed"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def alone(machine):
    """A machine in a network namespace of its own, with loopback and nothing else."""
    machine.before = ["unshare", "-rn", "sh", "-c", 'ip link set lo up 2> /dev/null; exec "$0" "$@"']
    try:
        ended = subprocess.run(["unshare", "-rn", "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if ended.returncode != 0:
        pytest.skip(f"no network namespace can be made here: {ended.stderr.strip()}")
    return machine


@pytest.fixture(scope="session")
def pip_python(tmp_path_factory):
    """A Python with nothing but a real pip."""
    place = tmp_path_factory.mktemp("real")
    subprocess.run([sys.executable, "-I", "-m", "venv", str(place)], check=True)
    return place / "bin" / "python"


def test_pip_installs_from_a_wheelhouse_without_any_network(alone, pip_python, wheelhouse):
    alone.python = pip_python
    ended = alone.start("explain", "usage", PRECHECK_WHEELHOUSE=str(wheelhouse))
    assert ended.code == 0, ended.err
    again = alone.start("explain", "usage")
    assert (again.code, again.err) == (0, "")


def test_without_pip_and_uv_the_wheels_are_unpacked_without_any_network(alone, pipless, wheelhouse):
    alone.python = pipless
    ended = alone.start("explain", "usage", PRECHECK_WHEELHOUSE=str(wheelhouse))
    assert ended.code == 0, ended.err
    (folder,) = alone.cached
    assert {path.read_text() for path in folder.glob("*.dist-info/INSTALLER")} == {"precheck\n"}
    assert alone.start("explain", "usage").err == ""


def test_the_demo_passes_on_what_was_unpacked(machine, pipless, wheelhouse):
    machine.python = pipless
    ended = machine.start("demo", PRECHECK_WHEELHOUSE=str(wheelhouse))
    assert (ended.code, ended.out.splitlines()[-1]) == (0, SUCCESS), ended.err


def test_what_is_unpacked_is_what_pip_installs(machine, pipless, pip_python, wheelhouse):
    found = {}
    for name, python in (("unpacked", pipless), ("pip", pip_python)):
        machine.python = python
        place = machine.home / name
        assert machine.start("--version", XDG_CACHE_HOME=str(place), PRECHECK_WHEELHOUSE=str(wheelhouse)).code == 0
        (folder,) = (path for path in (place / "precheck").iterdir() if path.is_dir())
        listed = {line.partition(" ")[::2] for line in (folder / ".complete").read_text().splitlines()[:-1]}
        # What pip notes in a .dist-info, and the commands that it makes, are its own.
        found[name] = {
            (size, path)
            for size, path in listed
            if not path.startswith("bin/")
            and Path(path).name not in ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")
        }
        shutil.rmtree(place)
    assert found["unpacked"] == found["pip"]


def test_uv_installs_from_a_wheelhouse(machine, pipless, wheelhouse):
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    if not os.access(uv, os.X_OK):
        pytest.skip("there is no uv here")
    machine.python = pipless
    place = machine.work / "bin"
    place.mkdir()
    os.symlink(uv, place / "uv")
    ended = machine.start("explain", "usage", PATH=f"{place}:/usr/bin:/bin", PRECHECK_WHEELHOUSE=str(wheelhouse))
    assert ended.code == 0, ended.err
    (folder,) = machine.cached
    assert (next(folder.glob("msgspec-*.dist-info")) / "INSTALLER").read_text().strip() == "uv"


def test_a_wheel_that_was_exchanged_is_refused_before_pip_is_asked(machine, wheelhouse, tmp_path):
    mine = tmp_path / "wheels"
    shutil.copytree(wheelhouse, mine)
    (wheel,) = mine.glob("requests-*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    ended = machine.start("--version", PRECHECK_WHEELHOUSE=str(mine))
    assert ended.code == 70
    assert f"{wheel} is not the file that the lock names" in ended.err
    assert machine.installs == []


def test_without_a_network_and_a_wheelhouse_the_message_says_what_to_do(alone, pip_python):
    alone.python = pip_python
    ended = alone.start("--version", PIP_RETRIES="0")
    assert ended.code == 70
    assert "could not be installed: pip ended with 1." in ended.err
    assert "a wheelhouse (docs/air-gapped.md)" in ended.err


def test_an_action_on_a_read_only_mount_is_not_compiled_again(machine):
    place = machine.work / "action"
    place.mkdir()
    machine.entrypoint = place / "entrypoint.py"
    mounts = f'mount --bind "{ROOT}" "{place}" && mount -o remount,bind,ro "{place}" && exec "$0" "$@"'
    machine.before = ["unshare", "-rm", "sh", "-c", mounts]
    probe = subprocess.run([*machine.before, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {probe.stderr.strip()}")
    assert machine.start("explain", "usage").code == 0
    (folder,) = machine.cached
    kept = {path: path.stat().st_mtime_ns for path in (folder / ".bytecode").rglob("*.pyc")}
    assert any(path.name.startswith("engine.") for path in kept)
    assert machine.start("demo").code == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / ".bytecode").rglob("*.pyc")} == kept
