"""Machines on which precheck was never started, with a pip that needs no network; and, once, real wheels."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from precheck_lib.interrupt import Interrupts

ROOT = Path(__file__).resolve().parents[3]
ENTRYPOINT = ROOT / "entrypoint.py"
SITE = Path(psutil.__file__).resolve().parents[1]
PACKAGES = (
    "_yaml",
    "certifi",
    "charset_normalizer",
    "idna",
    "junit_xml",
    "msgspec",
    "psutil",
    "requests",
    "six.py",
    "urllib3",
    "websocket",
    "yaml",
)

# It notes how it was called, does what FAKE_PIP says, and installs what the tests run with, by hard links: a test that
# damages a file puts another one in its place.
FAKE_PIP = """\
import json, os, shutil, subprocess, sys, time
target = sys.argv[sys.argv.index("--target") + 1]
with open(os.environ["FAKE_PIP_LOG"], "a") as log:
    log.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid()}}) + "\\n")
mode = os.environ.get("FAKE_PIP", "works")
if mode == "hangs":
    child = subprocess.Popen(["sleep", "60"])
    with open(os.environ["FAKE_PIP_LOG"] + ".child", "w") as file:
        file.write(str(child.pid))
    child.wait()
if mode == "waits":
    while not os.path.exists(os.environ["FAKE_PIP_LOG"] + ".go"):
        time.sleep(0.01)
for name in sorted(os.listdir({store!r})):
    if mode == "half" and name > "n":
        continue
    path = os.path.join({store!r}, name)
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(target, name), copy_function=os.link)
    else:
        os.link(path, os.path.join(target, name))
if mode == "unimportable":
    os.unlink(os.path.join(target, "msgspec", "__init__.py"))
    with open(os.path.join(target, "msgspec", "__init__.py"), "w") as file:
        file.write("raise ImportError('cannot be loaded here')\\n")
if mode in ("half", "fails"):
    print("ERROR: no matching distribution", file=sys.stderr)
    sys.exit(1)
"""

NO_PIP = """\
import sys; sys.modules.update(pip=None, ensurepip=None)
"""


def store_of(place):
    """Copy what the tests run with, and its .dist-info, into a folder."""
    for name in PACKAGES:
        path = SITE / name
        if path.is_dir():
            shutil.copytree(path, place / name)
        elif path.exists():
            shutil.copy2(path, place / name)
    for path in SITE.glob("*.dist-info"):
        if path.name.partition("-")[0].lower() in (*PACKAGES, "pyyaml", "websocket_client", "six"):
            shutil.copytree(path, place / path.name)


def bare_python(place):
    """Make a Python of its own, with nothing in it; return its folder of packages."""
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(place)], check=True)
    (site,) = place.glob("lib/python3.*/site-packages")
    return site


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """A Python of its own that has nothing but the pip above."""
    place, store = tmp_path_factory.mktemp("python"), tmp_path_factory.mktemp("store")
    store_of(store)
    site = bare_python(place)
    (site / "pip").mkdir()
    (site / "pip" / "__init__.py").touch()
    (site / "pip" / "__main__.py").write_text(FAKE_PIP.format(store=str(store)), encoding="utf-8")
    return place / "bin" / "python"


@pytest.fixture(scope="session")
def pipless(tmp_path_factory):
    """A Python of its own without any pip, as some distributors ship it."""
    place = tmp_path_factory.mktemp("pipless")
    (bare_python(place) / "none.pth").write_text(NO_PIP, encoding="ascii")
    return place / "bin" / "python"


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory):
    """The real wheels of the lock for this Python, fetched once."""
    place = tmp_path_factory.mktemp("wheelhouse")
    ended = subprocess.run(
        [str(ROOT / "scripts" / "wheelhouse"), str(place)],
        env={**os.environ, "PRECHECK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        pytest.skip(f"no package index can be reached: {last}")
    return place


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
        self.entrypoint = ENTRYPOINT
        self.before = []  # what the command is started with, such as `unshare`
        self.home, self.work, self.temporary = place / "home", place / "work", place / "temporary"
        for folder in (self.home, self.work, self.temporary):
            folder.mkdir()
        self.log = place / "pip.log"
        self.outputs = place / "outputs"
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "FAKE_PIP_LOG": str(self.log),
        }

    def popen(self, *arguments, **env):
        merged = {name: value for name, value in {**self.env, **env}.items() if value is not None}
        return subprocess.Popen(
            [*self.before, str(self.python), str(self.entrypoint), *arguments],
            env=merged,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start(self, *arguments, **env):
        with self.popen(*arguments, **env) as process:
            out, err = process.communicate(timeout=50)
        return Started(process.returncode, out, err)

    @property
    def installs(self):
        """How pip was called, each time."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def cache(self):
        return self.home / ".cache" / "precheck"

    @property
    def cached(self):
        """The folders in the cache under the home, half-made ones too."""
        return sorted(path for path in self.cache.iterdir() if path.is_dir()) if self.cache.exists() else []


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


@pytest.fixture
def wait_until():
    def wait(found, seconds=20.0):
        end = time.monotonic() + seconds
        while not found():
            assert time.monotonic() < end
            time.sleep(0.01)

    return wait


@pytest.fixture
def is_alive():
    def ask(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return False

    return ask


@pytest.fixture
def spoil():
    """Put something else in the place of a file, whose other names keep what they have."""

    def put(path, data):
        path.unlink()
        if data is not None:
            path.write_bytes(data)

    return put
