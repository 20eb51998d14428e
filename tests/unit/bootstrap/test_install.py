"""One start of a machine installs, the others wait for it; what installs is told what, and ends with us."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from precheck_lib.bootstrap import CannotStartError, StoppedError, cache, install, installers

ROOT = Path(__file__).resolve().parents[3]
LOCK = str(ROOT / "scripts" / "requirements.lock")
QUICK = ("explain", "usage")


# One at a time --------------------------------------------------------------------------------------------------------


def waits_for_the_lock(process, cached):
    """Whether a start has the lock file open: it has asked for the lock, or holds it."""
    names = [file.path for file in psutil.Process(process.pid).open_files()]
    return str(cached / ".lock") in names


def test_four_at_the_same_time_install_once_and_all_succeed(machine, wait_until):
    started = [machine.popen(*QUICK, FAKE_PIP="waits") for _ in range(4)]
    wait_until(lambda: machine.installs and all(waits_for_the_lock(one, machine.cache) for one in started))
    Path(f"{machine.log}.go").touch()
    ended = [process.communicate(timeout=40) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0, 0], ended
    assert all(out.startswith("usage: ") for out, _ in ended)
    assert len(machine.installs) == 1
    assert len(machine.cached) == 1


def test_a_start_that_dies_while_it_installs_frees_the_lock(machine, wait_until, is_alive):
    child = Path(f"{machine.log}.child")
    with machine.popen(*QUICK, FAKE_PIP="hangs") as first:
        wait_until(lambda: child.exists() and child.read_text())
        pip = machine.installs[0]["pid"]
        try:
            first.kill()
            first.wait(timeout=10)
            assert is_alive(pip)  # what was installing still lives, and has no part in the lock
            second = machine.start(*QUICK)
        finally:
            os.killpg(pip, signal.SIGKILL)
    wait_until(lambda: not is_alive(pip))
    assert (second.code, len(machine.installs)) == (0, 2), second.err
    assert "waiting" not in second.err


@pytest.fixture
def held(tmp_path):
    """A folder whose lock somebody holds, who has written down who that is."""
    with open(tmp_path / ".lock", "w", encoding="ascii") as file:
        file.write("4711")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield str(tmp_path)


def test_who_waits_says_so_once_and_ends_with_a_message_that_names_who_holds_the_lock(
    held, interrupts, monkeypatch, capfd
):
    monkeypatch.setattr(install, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(install, "PIP_SECONDS", 0.2)
    with pytest.raises(CannotStartError) as raised, install._alone(held, interrupts):
        pass
    assert raised.value.text == f"For 0.2 s another start (process 4711) has held the lock of {held}."
    assert capfd.readouterr().err == (
        f"precheck: waiting for another start (process 4711) that installs its dependencies into {held}\n"
    )


def test_a_signal_ends_the_waiting(held, interrupts):
    interrupts.stop.set(signal.SIGTERM)
    with pytest.raises(StoppedError) as raised, install._alone(held, interrupts):
        pass
    assert raised.value.signum == signal.SIGTERM


def test_where_nothing_can_be_locked_it_goes_on_without(tmp_path, interrupts, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    done = []
    with install._alone(str(tmp_path), interrupts):
        done.append("locked nothing")
    with install._alone(str(tmp_path / "not there"), interrupts):
        done.append("opened nothing")
    assert done == ["locked nothing", "opened nothing"]


# What is half made ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["half", "fails"])
def test_a_pip_that_fails_has_a_clear_message_an_annotation_and_outputs(machine, mode):
    ended = machine.start("demo", FAKE_PIP=mode, GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(machine.outputs))
    assert ended.code == 70
    lines = ended.err.splitlines()
    assert "ERROR: no matching distribution" in lines
    assert lines[-2] == "precheck: precheck's dependencies could not be installed: pip ended with 1."
    assert lines[-1].startswith("    do: Read pip's message above.")
    (annotation,) = ended.out.splitlines()
    assert annotation.startswith("::error title=precheck could not start::Your code was not tested. precheck's dep")
    assert machine.outputs.read_text() == "status=error\nexit-code=70\n"


def test_what_is_half_made_is_never_used(machine):
    assert machine.start(*QUICK, FAKE_PIP="half").code == 70
    assert machine.cached == []
    assert machine.start(*QUICK).code == 0


def test_what_is_installed_is_compiled(machine):
    machine.start("--version")
    (folder,) = machine.cached
    modules = {path for path in folder.rglob("*.py") if path.stat().st_size}
    compiled = {path.parent.parent / f"{path.name.partition('.')[0]}.py" for path in folder.rglob("*.pyc")}
    assert len(modules) > 50
    assert modules <= compiled


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_pip_and_all_that_it_has_started(machine, wait_until, is_alive, number):
    child = Path(f"{machine.log}.child")
    with machine.popen("demo", FAKE_PIP="hangs", GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(machine.outputs)) as process:
        wait_until(lambda: child.exists() and child.read_text())
        pids = [machine.installs[0]["pid"], int(child.read_text())]
        assert os.getpgid(pids[0]) != os.getpgid(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert "ended by a signal while its dependencies were installed" in err
    assert out == ""
    assert machine.outputs.read_text() == f"status=cancelled\nexit-code={128 + number}\n"
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
    assert machine.cached == []


# What installs --------------------------------------------------------------------------------------------------------


def test_pip_is_told_to_install_exactly_the_lock(machine):
    away = {"TEST_OPENAI_API_KEY": "s3cret", "OPENCODE_CONFIG_CONTENT": "{}", "ACTIONS_RUNTIME_TOKEN": "s3cret"}
    machine.start("--version", **away, PIP_TARGET="/x", PIP_USER="1", PIP_CONSTRAINT="/x", PIP_INDEX_URL="http://m/")
    (call,) = machine.installs
    arguments = call["argv"]
    assert arguments[:2] == ["install", "--quiet"]
    assert {"--require-hashes", "--no-deps", "--only-binary", "--no-input"} <= set(arguments)
    assert arguments[arguments.index("--requirement") + 1] == LOCK
    # An option that pip 22.0 (Ubuntu 22.04) does not know; as a variable it is ignored by one.
    assert not any("root-user-action" in argument for argument in arguments)
    assert not {*away, "PIP_TARGET", "PIP_CONSTRAINT"} & set(call["env"])
    assert {name: value for name, value in call["env"].items() if name.startswith("PIP_")} == {
        "PIP_INDEX_URL": "http://m/",
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_USER": "0",
    }


def test_with_a_wheelhouse_no_index_is_asked(machine, tmp_path):
    house = tmp_path / "a wheelhouse"
    house.mkdir()
    assert machine.start("--version", PRECHECK_WHEELHOUSE=str(house), PIP_INDEX_URL="http://m/").code == 0
    (call,) = machine.installs
    assert call["argv"][-3:] == ["--no-index", "--find-links", str(house)]
    assert "PIP_INDEX_URL" not in call["env"]


def test_a_wheelhouse_that_is_no_folder_is_said(machine):
    ended = machine.start("--version", PRECHECK_WHEELHOUSE="wheels")
    assert ended.code == 70
    assert f"The wheelhouse {machine.work}/wheels is not a folder." in ended.err
    assert machine.installs == []


def test_a_wheel_that_cannot_be_read_is_not_blamed_on_the_cache(machine, tmp_path):
    version = re.search(r"^certifi==(\S+)", Path(LOCK).read_text(), re.MULTILINE)[1]
    (tmp_path / f"certifi-{version}-py3-none-any.whl").mkdir()
    ended = machine.start("--version", PRECHECK_WHEELHOUSE=str(tmp_path))
    assert ended.code == 70
    assert f"The wheelhouse {tmp_path} cannot be read: " in ended.err


def test_an_empty_name_is_no_wheelhouse(machine):
    assert machine.start("--version", PRECHECK_WHEELHOUSE="").code == 0
    assert "--no-index" not in machine.installs[0]["argv"]


def test_a_pip_that_lacks_a_wheel_is_followed_by_what_is_missing(machine, tmp_path):
    ended = machine.start("--version", PRECHECK_WHEELHOUSE=str(tmp_path), FAKE_PIP="fails")
    assert ended.code == 70
    assert f"pip ended with 1. The wheelhouse {tmp_path} has no wheel for this Python (cp3" in ended.err
    assert re.search(r"of certifi \S+, charset-normalizer ", ended.err)
    assert "scripts/wheelhouse DIR" in ended.err


def test_a_pip_that_takes_too_long_is_ended(interrupts, monkeypatch, tmp_path):
    program = [sys.executable, "-I", "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(installers, "pip_command", lambda: ["pip", *program])
    with pytest.raises(CannotStartError, match=r"pip took longer than 0\.1 s"):
        installers.install(LOCK, str(tmp_path), {}, interrupts, seconds=0.1)


def test_a_python_without_pip_takes_the_one_that_ensurepip_carries(monkeypatch, tmp_path):
    wheel = tmp_path / "_bundled" / "pip-99.0-py3-none-any.whl"
    (wheel / "pip").mkdir(parents=True)
    (wheel / "pip" / "__init__.py").touch()
    (wheel / "pip" / "__main__.py").write_text("import sys; print(__name__, sys.argv[1:], __file__)\n")
    (tmp_path / "__init__.py").touch()
    carried = importlib.util.spec_from_file_location("ensurepip", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else carried)
    tool, *command = installers.pip_command()
    ended = subprocess.run([*command, "install", "x"], capture_output=True, text=True, check=True)
    assert (tool, ended.stdout) == ("pip", f"__main__ ['install', 'x'] {wheel}/pip/__main__.py\n")


def test_a_python_without_any_installer_is_told_so(pipless, tmp_path, machine):
    machine.python = pipless
    ended = machine.start("--version", PATH=str(tmp_path))
    assert ended.code == 70
    assert re.search(r"python\S* has no pip to install .* with, and there is no uv on PATH\.", ended.err)
    assert "apt-get install python3-pip" in ended.err


FAKE_UV = """\
#!/bin/sh
printf '%s\\n' "$@" > "$FAKE_UV_LOG"
env > "$FAKE_UV_LOG.env"
echo 'error: no such package' >&2
exit 2
"""


def test_a_python_without_any_pip_takes_uv_without_its_configuration(pipless, machine, tmp_path):
    machine.python = pipless
    log, uv = tmp_path / "uv.log", tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(FAKE_UV)
    uv.chmod(0o755)
    given = {"UV_TARGET": "/x", "UV_CONSTRAINT": "/x", "PIP_INDEX_URL": "http://m/", "UV_HTTP_TIMEOUT": "9"}
    ended = machine.start("--version", PATH=f"{uv.parent}:/usr/bin:/bin", FAKE_UV_LOG=str(log), **given)
    assert ended.code == 70
    assert "could not be installed: uv ended with 2." in ended.err
    arguments = log.read_text().splitlines()
    assert arguments[:3] == ["--no-config", "pip", "install"]
    assert {"--require-hashes", "--no-deps"} <= set(arguments)
    assert arguments[arguments.index("--python") + 1] == str(pipless)
    assert arguments[arguments.index("--requirement") + 1] == LOCK
    seen = dict(line.partition("=")[::2] for line in Path(f"{log}.env").read_text().splitlines())
    assert {name: seen[name] for name in seen if name.startswith("UV_")} == {
        "UV_HTTP_TIMEOUT": "9",
        "UV_INDEX_URL": "http://m/",
    }


def test_an_index_of_uv_itself_is_not_replaced_by_that_of_pip():
    env = {"UV_DEFAULT_INDEX": "http://u/", "PIP_INDEX_URL": "http://p/"}
    assert "UV_INDEX_URL" not in installers.environment(env, "uv", None)


def test_where_the_first_place_cannot_be_written_any_more_the_next_is_taken(machine, interrupts, monkeypatch, tmp_path):
    places = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(cache, "places", lambda _: [cache.Place(str(place)) for place in places])
    monkeypatch.setattr(cache, "last_place", lambda: None)

    def make(_root, folder, *_):
        if folder.startswith(str(places[0])):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(install, "_make", make)
    assert install.ensure(str(ROOT), {}, interrupts).startswith(str(places[1]))
