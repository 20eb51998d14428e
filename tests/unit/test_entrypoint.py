"""The bootstrap: any Python gets a sentence, nothing of the checkout is imported, and what is installed is whole."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from precheck_lib.interrupt import Interrupts

ROOT = Path(__file__).resolve().parents[2]
ENTRYPOINT = ROOT / "entrypoint.py"
SUCCESS = "strict live precheck passed"
QUICK = ("explain", "usage")  # a command that needs the dependencies, and little time

# A pip that needs no network: it notes how it was called, and does what FAKE_PIP says. What it installs are links to
# the packages that the tests run with.
FAKE_PIP = """\
import json, os, subprocess, sys, time
target = sys.argv[sys.argv.index("--target") + 1]
with open(os.environ["FAKE_PIP_LOG"], "a") as log:
    log.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid()}}) + "\\n")
mode = os.environ.get("FAKE_PIP", "works")
if mode == "hangs":
    child = subprocess.Popen(["sleep", "60"])
    with open(os.environ["FAKE_PIP_LOG"] + ".child", "w") as file:
        file.write(str(child.pid))
    child.wait()
for name in os.listdir({site!r}):
    if mode == "half" and name > "n":
        continue
    if name != "pip" and not name.startswith(("pip-", "_pytest", "__pycache__")):
        os.symlink(os.path.join({site!r}, name), os.path.join(target, name))
if mode in ("half", "fails"):
    print("ERROR: no matching distribution", file=sys.stderr)
    sys.exit(1)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python of its own that has nothing but the pip above."""
    place = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(place)], check=True)
    (site,) = place.glob("lib/python3.*/site-packages")
    (site / "pip").mkdir()
    (site / "pip" / "__init__.py").touch()
    packages = os.path.dirname(os.path.dirname(psutil.__file__))
    (site / "pip" / "__main__.py").write_text(FAKE_PIP.format(site=packages), encoding="utf-8")
    return place / "bin" / "python"


class Started:
    """How a start of entrypoint.py ended."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err


class Machine:
    """A machine on which precheck was never started: an empty home, and a folder to work in."""

    def __init__(self, python, place):
        self.python = python
        self.home, self.work, self.temporary = place / "home", place / "work", place / "temporary"
        for folder in (self.home, self.work, self.temporary):
            folder.mkdir()
        self.log = place / "pip.log"
        self.outputs = place / "outputs"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "FAKE_PIP_LOG": str(self.log),
        }

    def popen(self, *arguments, **env):
        merged = {name: value for name, value in {**self.env, **env}.items() if value is not None}
        return subprocess.Popen(
            [str(self.python), str(ENTRYPOINT), *arguments],
            env=merged,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments, **env):
        with self.popen(*arguments, **env) as process:
            out, err = process.communicate(timeout=30)
        return Started(process.returncode, out, err)

    @property
    def installs(self):
        """How pip was called, each time."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def cached(self):
        """What is in the cache under the home."""
        cache = self.home / ".cache" / "precheck"
        return sorted(cache.iterdir()) if cache.exists() else []


@pytest.fixture
def machine(python, tmp_path):
    return Machine(python, tmp_path)


@pytest.fixture
def entrypoint():
    spec = importlib.util.spec_from_file_location("entrypoint_under_test", ENTRYPOINT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def interrupts():
    made = Interrupts()
    yield made
    made.restore()


# Which Python ---------------------------------------------------------------------------------------------------------


def old_pythons():
    """Find Pythons of this machine that are too old: one of each version."""
    folder = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    for minor in range(6, 10):
        found = [str(path) for path in folder.glob(f"3.{minor}.*/bin/python3")] or [shutil.which(f"python3.{minor}")]
        if found[0]:
            yield found[0]


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
    tree = ast.parse(ENTRYPOINT.read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        names |= {node.module} if isinstance(node, ast.ImportFrom) else set()
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    assert foreign == {"precheck_lib.interrupt", "precheck_lib.cli"}


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


# The cache ------------------------------------------------------------------------------------------------------------


def test_the_second_start_does_not_call_pip(machine):
    first = machine.start("--version")
    assert first.code == 0
    assert "installing its dependencies into" in first.err
    assert len(machine.installs) == 1
    began = time.monotonic()
    second = machine.start("demo")
    assert time.monotonic() - began < 5
    assert (second.code, second.err, second.out.splitlines()[-1]) == (0, "", SUCCESS)
    assert len(machine.installs) == 1
    (folder,) = machine.cached
    assert (folder / ".complete").exists()


def test_pip_is_told_to_install_exactly_the_lock(machine):
    machine.start(
        "--version", TEST_OPENAI_API_KEY="s3cret", OPENCODE_CONFIG_CONTENT="{}", PIP_TARGET="/x", PIP_USER="1"
    )
    (call,) = machine.installs
    arguments = call["argv"]
    assert arguments[:2] == ["install", "--quiet"]
    assert {"--require-hashes", "--no-deps", "--only-binary", "--no-input"} <= set(arguments)
    assert arguments[arguments.index("--requirement") + 1] == str(ROOT / "scripts" / "requirements.lock")
    # An option that pip 22.0 (Ubuntu 22.04) does not know; as a variable it is ignored by one.
    assert not any("root-user-action" in argument for argument in arguments)
    assert call["env"]["PIP_ROOT_USER_ACTION"] == "ignore"
    assert not [name for name in call["env"] if name.startswith(("TEST_", "OPENCODE_")) or name == "PIP_TARGET"]
    assert call["env"]["PIP_USER"] == "0"


def test_the_name_in_the_cache_changes_with_lock_python_and_platform(entrypoint, monkeypatch, tmp_path):
    lock = tmp_path / "requirements.lock"
    lock.write_text("six==1.17.0\n")
    monkeypatch.setattr(entrypoint, "LOCK", str(lock))
    names = [entrypoint.cache_name()]
    assert entrypoint.cache_name() == names[0]
    lock.write_text("six==1.17.1\n")
    names.append(entrypoint.cache_name())
    import platform

    for target, name, value in (
        (platform, "machine", lambda: "riscv64"),
        (platform, "libc_ver", lambda: ("musl", "1.2")),
        (sys, "abiflags", "t"),
        (sys, "platform", "linux9"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            names.append(entrypoint.cache_name())
    assert len(set(names)) == len(names)
    assert sys.implementation.cache_tag in names[0]
    assert not re.search(r"[^A-Za-z0-9._-]", "".join(names))


def test_the_lock_pins_everything_by_hash():
    text = (ROOT / "scripts" / "requirements.lock").read_text()
    entries = re.findall(
        r"^([a-z0-9-]+)==\S+( ;.*)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
    )
    names = [name for name, _, _ in entries]
    assert len(names) == len(re.findall(r"^\S", text, re.MULTILINE))
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)[1]
    wanted = {name.lower() for name in re.findall(r'^  "([A-Za-z0-9-]+)', listed, re.MULTILINE)}
    assert wanted <= set(names)
    assert "rich" in names  # what a person's terminal is drawn with


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
    (folder,) = machine.cached
    # Somebody removed a part of it: what is there is not complete, and bad.
    (folder / ".complete").unlink()
    (folder / "msgspec").unlink()
    (folder / "msgspec.py").write_text("raise SystemExit('half-made')\n")
    ended = machine.start(*QUICK)
    assert (ended.code, "half-made" in ended.err) == (0, False)
    assert machine.cached == [folder]
    assert len(machine.installs) == 3


def test_what_a_killed_run_has_left_is_swept_away(machine, entrypoint):
    cache = machine.home / ".cache" / "precheck"
    old, new = cache / ".new-old", cache / ".new-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    long_ago = time.time() - entrypoint.ABANDONED_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    machine.start("--version")
    assert not old.exists()
    assert new.exists()


def test_two_starts_at_the_same_time_both_work(machine):
    with machine.popen(*QUICK) as first, machine.popen(*QUICK) as second:
        ended = [process.communicate(timeout=30) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], ended
    assert all(out.startswith("usage: ") for out, _ in ended)
    assert len(machine.cached) == 1


def test_another_run_that_was_faster_is_taken_as_it_is(entrypoint, tmp_path):
    made, folder = tmp_path / "made", tmp_path / "folder"
    for place in (made, folder):
        place.mkdir()
        (place / ".complete").touch()
    (folder / "theirs").touch()
    entrypoint.put(str(made), str(folder), str(tmp_path))
    assert (folder / "theirs").exists()


# Where it lies --------------------------------------------------------------------------------------------------------


def test_the_tool_cache_of_the_runner_comes_first(machine):
    tools = machine.home / "tools"
    assert machine.start("--version", RUNNER_TOOL_CACHE=str(tools)).code == 0
    assert machine.cached == []
    (folder,) = (tools / "precheck").iterdir()
    assert (folder / ".complete").exists()


def test_what_is_complete_anywhere_is_used_before_anything_is_installed(machine):
    machine.start("--version")
    ended = machine.start("--version", RUNNER_TOOL_CACHE=str(machine.home / "tools"))
    assert (ended.code, ended.err) == (0, "")
    assert len(machine.installs) == 1


def test_without_a_home_the_folder_for_temporary_files_is_used(machine):
    assert machine.start(*QUICK, HOME=None).code == 0
    (cache,) = (path for path in machine.temporary.iterdir() if path.name.startswith("precheck-"))
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert machine.start(*QUICK, HOME="relative/path").code == 0
    assert len(machine.installs) == 1


@pytest.mark.parametrize("planted", ["open", "link"])
def test_a_folder_of_somebody_else_for_temporary_files_is_not_trusted(entrypoint, machine, monkeypatch, planted):
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(tempfile, "tempdir", str(machine.temporary))
    ((cache, shared),) = entrypoint.caches()
    assert shared
    real = Path(cache) if planted == "open" else machine.temporary / "elsewhere"
    folder = real / entrypoint.cache_name()
    folder.mkdir(parents=True)
    (folder / ".complete").touch()
    if planted == "open":
        real.chmod(0o777)
    else:
        os.symlink(real, cache)
    with pytest.raises(SystemExit) as ended:
        entrypoint.dependencies(None)
    assert ended.value.code == 70


def test_folders_that_cannot_be_written_are_passed_over_and_named_when_none_is_left(machine):
    file = machine.home / "file"
    file.touch()
    places = {"RUNNER_TOOL_CACHE": str(file), "XDG_CACHE_HOME": str(file)}
    assert machine.start("--version", **places).code == 0
    assert len(machine.cached) == 1
    places["HOME"] = str(file)
    (machine.temporary / f"precheck-{os.getuid()}").touch()
    ended = machine.start("--version", **places)
    assert ended.code == 70
    message, remedy = ended.err.splitlines()
    assert message.startswith("precheck: No folder can hold precheck's dependencies; tried ")
    for place in (file / "precheck", file / ".cache" / "precheck", machine.temporary / f"precheck-{os.getuid()}"):
        assert f"{place} (" in message
    assert "XDG_CACHE_HOME" in remedy


# pip ------------------------------------------------------------------------------------------------------------------


def wait_until(found, seconds=15.0):
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_pip_and_all_that_it_has_started(machine, number):
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


def is_alive(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_a_pip_that_takes_too_long_is_ended(entrypoint, interrupts, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(entrypoint, "PIP_SECONDS", 0.1)
    monkeypatch.setattr(entrypoint, "pip_command", lambda: [sys.executable, "-I", "-c", "import time; time.sleep(60)"])
    with pytest.raises(SystemExit) as ended:
        entrypoint.run_pip(str(tmp_path), interrupts)
    assert ended.value.code == 70
    assert "pip took longer than 0.1 s" in capfd.readouterr().err


def test_a_python_without_pip_takes_the_one_that_ensurepip_carries(entrypoint, monkeypatch, tmp_path):
    wheel = tmp_path / "_bundled" / "pip-99.0-py3-none-any.whl"
    (wheel / "pip").mkdir(parents=True)
    (wheel / "pip" / "__init__.py").touch()
    (wheel / "pip" / "__main__.py").write_text("import sys; print(__name__, sys.argv[1:], __file__)\n")
    (tmp_path / "__init__.py").touch()
    carried = importlib.util.spec_from_file_location("ensurepip", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else carried)
    ended = subprocess.run([*entrypoint.pip_command(), "install", "x"], capture_output=True, text=True, check=True)
    assert ended.stdout == f"__main__ ['install', 'x'] {wheel}/pip/__main__.py\n"


def test_a_python_without_any_pip_is_told_so(entrypoint, monkeypatch, capfd):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        entrypoint.pip_command()
    assert ended.value.code == 70
    err = capfd.readouterr().err
    assert f"{sys.executable} has no pip" in err
    assert "apt-get install python3-pip" in err


# What is said ---------------------------------------------------------------------------------------------------------


def test_a_message_is_one_line_and_no_command_whatever_a_path_in_it_is(entrypoint, monkeypatch, capfd):
    monkeypatch.setattr(os, "environ", {"GITHUB_ACTIONS": "true"})
    with pytest.raises(SystemExit):
        entrypoint.fail("tried /x\n::set-output name=a::b ##[error]c 100%", "Do.")
    streams = capfd.readouterr()
    assert streams.err == "precheck: tried /x ::set-output name=a::b ## [error]c 100%\n    do: Do.\n"
    assert streams.out == (
        "::error title=precheck could not start::Your code was not tested. "
        "tried /x ::set-output name=a::b ## [error]c 100%25 What to do: Do.\n"
    )


def test_outside_of_actions_there_is_no_annotation_and_no_output(entrypoint, monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(os, "environ", {"GITHUB_OUTPUT": str(tmp_path / "outputs")})
    with pytest.raises(SystemExit):
        entrypoint.fail("x", "y")
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "outputs").exists()


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
