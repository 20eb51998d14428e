"""Where the dependencies lie, what their folder is called, and that damage to it is noticed and made good."""

from __future__ import annotations

import importlib.machinery
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import precheck_lib
from precheck_lib.bootstrap import CannotStartError, bytecode, cache, install

ROOT = Path(__file__).resolve().parents[3]
SUCCESS = "strict live precheck passed"
QUICK = ("explain", "usage")  # a command that needs the dependencies, and little time


# Its name -------------------------------------------------------------------------------------------------------------


def test_the_name_changes_with_precheck_lock_python_abi_and_platform(monkeypatch, tmp_path):
    lock = tmp_path / "scripts" / "requirements.lock"
    lock.parent.mkdir()
    lock.write_text("six==1.17.0\n")
    names = [cache.key_of(str(tmp_path))]
    assert cache.key_of(str(tmp_path)) == names[0]
    lock.write_text("six==1.17.1\n")
    names.append(cache.key_of(str(tmp_path)))
    for target, name, value in (
        (precheck_lib, "__version__", "99.0.0"),
        (importlib.machinery, "EXTENSION_SUFFIXES", [f".{sys.implementation.cache_tag}t-x86_64-linux-gnu.so"]),
        (importlib.machinery, "EXTENSION_SUFFIXES", [".so"]),
        (os, "uname", lambda: os.uname_result(("Linux", "h", "6", "1", "riscv64"))),
        (os, "confstr", lambda _: "glibc 2.99"),
        (os, "confstr", lambda _: (_ for _ in ()).throw(ValueError("unrecognized configuration name"))),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            names.append(cache.key_of(str(tmp_path)))
    assert len(set(names)) == len(names)
    assert names[0].startswith(f"{precheck_lib.__version__}-")
    assert sys.implementation.cache_tag in names[0]
    assert not re.search(r"[^A-Za-z0-9._-]", "".join(names))
    assert all(install._KEY.fullmatch(name) for name in names)  # what is unused for long is found by its name


def test_the_lock_pins_everything_by_hash():
    text = (ROOT / "scripts" / "requirements.lock").read_text()
    # No line has a condition: without pip none could be judged.
    entries = re.findall(r"^([a-z0-9-]+)==\S+ \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    names = [name for name, _ in entries]
    assert len(names) == len(re.findall(r"^\S", text, re.MULTILINE))
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)[1]
    wanted = {name.lower() for name in re.findall(r'^  "([A-Za-z0-9-]+)', listed, re.MULTILINE)}
    assert wanted <= set(names)
    assert "rich" in names  # what a person's terminal is drawn with


# Where it lies --------------------------------------------------------------------------------------------------------


def test_the_second_start_does_not_call_pip(machine):
    first = machine.start("--version")
    assert first.code == 0
    assert "installing its dependencies into" in first.err
    assert len(machine.installs) == 1
    second = machine.start("demo")
    assert (second.code, second.err, second.out.splitlines()[-1]) == (0, "", SUCCESS)
    assert len(machine.installs) == 1
    (folder,) = machine.cached
    assert (folder / ".complete").exists()


def test_the_tool_cache_of_the_runner_comes_first(machine):
    tools = machine.home / "tools"
    assert machine.start("--version", RUNNER_TOOL_CACHE=str(tools)).code == 0
    assert machine.cached == []
    assert [path.name for path in (tools / "precheck").iterdir() if path.is_dir()] == [cache.key_of(str(ROOT))]


def test_what_is_whole_anywhere_is_used_before_anything_is_installed(machine):
    machine.start("--version")
    ended = machine.start("--version", RUNNER_TOOL_CACHE=str(machine.home / "tools"))
    assert (ended.code, ended.err) == (0, "")
    assert len(machine.installs) == 1


def test_without_a_home_the_folder_for_temporary_files_is_used(machine):
    assert machine.start(*QUICK, HOME=None).code == 0
    (folder,) = (path for path in machine.temporary.iterdir() if path.name.startswith("precheck-"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert machine.start(*QUICK, HOME="relative/path").code == 0
    assert len(machine.installs) == 1


@pytest.mark.parametrize("planted", ["open", "link"])
def test_a_folder_of_somebody_else_for_temporary_files_is_not_trusted(
    machine, monkeypatch, interrupts, planted, tmp_path
):
    monkeypatch.setattr("tempfile.tempdir", str(machine.temporary))
    last = cache.last_place()
    real = Path(last.folder) if planted == "open" else machine.temporary / "elsewhere"
    folder = real / cache.key_of(str(ROOT))
    folder.mkdir(parents=True)
    install.complete(str(folder))
    (folder / ".complete").write_text("0 .used\nend\n")
    assert cache.damage(str(folder)) is None
    if planted == "open":
        real.chmod(0o777)
    else:
        os.symlink(real, last.folder)
    assert cache.find(str(ROOT), {}) is None
    with pytest.raises(CannotStartError, match="somebody else can write to it"):
        install.ensure(str(ROOT), {}, interrupts)


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


# Damage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("msgspec/__init__.py", None),
        ("msgspec/__init__.py", b""),
        ("requests/sessions.py", b"import os\n"),
        (".complete", b""),
        (".complete", b"12 msgspec/__init"),
        (".complete", None),
        (".complete", b"\xff\nend\n"),
    ],
    ids=["deleted", "emptied", "cut-short", "list-emptied", "list-cut-short", "list-deleted", "list-garbage"],
)
def test_a_damaged_cache_is_made_anew(machine, spoil, name, data):
    machine.start("--version")
    (folder,) = machine.cached
    spoil(folder / name, data)
    ended = machine.start(*QUICK)
    assert (ended.code, len(machine.installs)) == (0, 2), ended.err
    assert f"into {folder}, which is damaged (" in ended.err
    assert name in ended.err
    assert machine.cached == [folder]
    assert machine.start(*QUICK).err == ""


def test_what_cannot_be_imported_though_it_has_its_size_is_made_anew_once(machine, spoil):
    machine.start("--version")
    (folder,) = machine.cached
    (extension,) = folder.glob("msgspec/_core.*.so")
    spoil(extension, b"\0" * extension.stat().st_size)
    ended = machine.start(*QUICK)
    assert (ended.code, len(machine.installs)) == (0, 2), ended.err
    assert "cannot be imported (ImportError: " in ended.err
    assert ended.out.startswith("usage: ")
    assert machine.start(*QUICK).err == ""


def test_what_cannot_be_imported_even_newly_installed_is_a_clear_failure(machine):
    ended = machine.start(*QUICK, FAKE_PIP="unimportable", GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(machine.outputs))
    assert (ended.code, len(machine.installs)) == (70, 2), ended.err
    assert "not even newly installed (ImportError: cannot be loaded here)" in ended.err
    assert ended.out.startswith("::error title=precheck could not start::")
    assert machine.outputs.read_text() == "status=error\nexit-code=70\n"


def test_a_damage_that_only_a_check_runs_into_is_found_by_its_hash_and_made_good_at_the_next_start(machine, spoil):
    spec = "version: 1\nname: x\nchecks: [{id: a, process: {name: no-such-process}}]\n"
    (machine.work / "precheck.yml").write_text(spec)
    machine.start("--version")
    (folder,) = machine.cached
    module = folder / "psutil" / "_common.py"
    size = module.stat().st_size
    spoil(module, b"raise ImportError('bits have rotten')".ljust(size, b"\n"))
    for stale in (folder / "psutil" / "__pycache__").glob("_common.*"):
        stale.unlink()
    ended = machine.start("run")
    assert ended.code == 70
    assert f"psutil/_common.py in {folder} is not what was installed; the next start installs it anew" in ended.err
    assert machine.start("run").code == 1
    assert len(machine.installs) == 2


def test_an_internal_error_alone_condemns_nothing(machine):
    machine.start("--version")
    (folder,) = machine.cached
    install.condemn(str(folder))
    assert cache.damage(str(folder)) is None


def test_a_process_that_uses_the_old_folder_is_not_disturbed_by_the_new_one(machine, spoil):
    machine.start("--version")
    (folder,) = machine.cached
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import msgspec; print('ready', flush=True); sys.stdin.readline();"
        "import requests, certifi, yaml; print(len(open(certifi.where()).read()) > 0, msgspec.json.encode([1]))"
    )
    with subprocess.Popen(
        [machine.python, "-I", "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        spoil(folder / "six.py", None)
        assert machine.start(*QUICK).code == 0
        out, _ = process.communicate("go\n", timeout=20)
    assert (process.returncode, out) == (0, "True b'[1]'\n")
    assert len(machine.installs) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked to swap two names in one moment")
def test_while_a_folder_takes_the_place_of_another_its_name_is_never_without_one(tmp_path):
    program = (
        "import os, sys\nprint('ready', flush=True)\nwhile not os.path.exists(sys.argv[2]):\n    os.stat(sys.argv[1])\n"
    )
    one, other, done = tmp_path / "one", tmp_path / "other", tmp_path / "done"
    for place in (one, other):
        place.mkdir()
    with subprocess.Popen([sys.executable, "-c", program, str(one), str(done)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        for _ in range(20_000):
            assert install._exchange(str(other), str(one))
        done.touch()
        process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.parametrize("swap", [True, False], ids=["swapped", "renamed-aside"])
def test_what_is_made_takes_the_name_and_what_had_it_is_gone(monkeypatch, tmp_path, swap):
    if not swap:
        monkeypatch.setattr(install, "_exchange", lambda *_: False)
    made, folder = tmp_path / ".new-made", tmp_path / "folder"
    for place in (made, folder):
        place.mkdir()
        (place / place.name.strip(".")).touch()
    install.put(str(made), str(folder))
    assert [path.name for path in folder.iterdir()] == ["new-made"]
    assert {path.name for path in tmp_path.iterdir()} <= {"folder", ".new-made"}


# What is old ----------------------------------------------------------------------------------------------------------


def old_folder(place, name, days):
    folder = place / name
    folder.mkdir(parents=True)
    (folder / ".complete").write_text("0 .used\nend\n")
    (folder / ".used").touch()
    then = time.time() - days * 86400
    os.utime(folder / ".used", (then, then))
    return folder


def test_an_installation_removes_what_nobody_has_used_for_a_month_and_nothing_else(machine):
    key = cache.key_of(str(ROOT))
    unused = old_folder(machine.cache, key.replace(precheck_lib.__version__, "0.0.9", 1), days=31)
    used = old_folder(machine.cache, key.replace(precheck_lib.__version__, "0.0.8", 1), days=29)
    foreign = old_folder(machine.cache, "node_modules-of-somebody", days=400)
    link = machine.cache / key.replace(precheck_lib.__version__, "0.0.7", 1)
    link.symlink_to(foreign)
    machine.start("--version")
    assert not unused.exists()
    assert {used, foreign, link} <= set(machine.cached)
    assert (foreign / ".used").exists()
    assert not [path for path in machine.cached if path.name.startswith(".new-")]


def test_a_start_that_installs_nothing_removes_nothing(machine):
    machine.start("--version")
    key = cache.key_of(str(ROOT))
    unused = old_folder(machine.cache, key.replace(precheck_lib.__version__, "0.0.9", 1), days=31)
    machine.start("--version")
    assert unused.exists()


def test_a_use_is_noted_once_a_day(tmp_path):
    used = tmp_path / ".used"
    used.touch()
    for hours, noted in ((23, False), (25, True)):
        then = time.time() - hours * 3600
        os.utime(used, (then, then))
        cache.mark_used(str(tmp_path))
        assert (used.stat().st_mtime > then + 1) is noted


def test_what_a_killed_start_has_left_is_swept_away(machine):
    old, new = machine.cache / ".new-old", machine.cache / ".new-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    long_ago = time.time() - install.ABANDONED_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    machine.start("--version")
    assert not old.exists()
    assert new.exists()


# Bytecode -------------------------------------------------------------------------------------------------------------


def tree(machine, *parts):
    """Copy what an action has into a folder of its own."""
    import shutil

    place = machine.work.joinpath(*parts)
    for name in ("entrypoint.py", "precheck_lib", "specs", "scripts/requirements.lock"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, place / name)
    machine.entrypoint = place / "entrypoint.py"
    return place


def bytecode_of(folder):
    return {path.name.partition(".")[0]: path.stat().st_mtime_ns for path in (folder / ".bytecode").rglob("*.pyc")}


def test_the_bytecode_of_an_action_that_is_fetched_anew_for_each_job_stays_in_the_cache(machine):
    tree(machine, "_actions", "o", "precheck", "v1")
    assert machine.start(*QUICK).code == 0
    (folder,) = machine.cached
    written = bytecode_of(folder)
    assert {"cli", "arguments", "engine"} <= set(written)
    assert machine.start("demo").code == 0
    assert bytecode_of(folder) == written
    assert not list((machine.entrypoint.parent / "precheck_lib").glob("report/__pycache__"))


def test_a_read_only_action_is_compiled_into_the_cache(machine):
    place = tree(machine, "action")
    if os.geteuid() == 0:
        pytest.skip("root can write anywhere; a mount that is read-only is tried in test_real.py")
    for path in [place, *place.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    assert machine.start(*QUICK).code == 0
    (folder,) = machine.cached
    assert "engine" in bytecode_of(folder)


def test_only_the_modules_of_precheck_are_loaded_by_way_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    bytecode.keep(str(tmp_path), str(tmp_path / "prefix"))
    with pytest.raises(ImportError):
        sys.path_hooks[0](str(tmp_path / "precheck_library"))
    with pytest.raises(ImportError):
        sys.path_hooks[0](os.path.dirname(os.__file__))
    assert sys.path_hooks[0](str(tmp_path / "precheck_lib" / "checks")) is not None
    assert sys.pycache_prefix is None
