"""Runs precheck from a checkout: `python3 entrypoint.py demo`, and the same from `action.yml`.

Standard library only. It starts itself again isolated (`-I`: no module of the working folder, the user's site or
PYTHONPATH), installs the hash-pinned dependencies of scripts/requirements.lock once into a cache keyed by lock, Python
and platform, and hands over to `precheck_lib` in the same process, so that a signal reaches it.

The syntax is that of Python 3.6, so that an old one gets a sentence and not a traceback.
"""
# ruff: noqa: I002, UP032

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from precheck_lib.interrupt import Interrupts

OLDEST = (3, 10)
ROOT = os.path.dirname(os.path.abspath(__file__))
LOCK = os.path.join(ROOT, "scripts", "requirements.lock")
PIP_SECONDS = 300
ABANDONED_SECONDS = 3600
BUNDLED_PIP = """\
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def main() -> None:
    """Make sure of the Python, isolate, install, hand over."""
    if sys.version_info < OLDEST:
        fail(
            "Python {}.{} or newer is needed; {} is {}.{}.".format(*OLDEST, sys.executable, *sys.version_info[:2]),
            "Install one, or name it (the action's input `python`).",
        )
    if os.name != "posix":
        fail("precheck runs on Linux and macOS; this is {}.".format(sys.platform), "Run the job on another machine.")
    if not sys.executable:
        fail("This Python does not know where it is.", "Start it by its whole path.")
    fill_closed_streams()
    if not (sys.flags.isolated and sys.flags.utf8_mode):
        # exec, not a child: the process stays the one that gets the signals.
        command = [sys.executable, "-I", "-X", "utf8", os.path.abspath(__file__), *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606 - this very program
    sys.path.insert(0, ROOT)
    from precheck_lib.interrupt import Interrupts

    interrupts = Interrupts()
    interrupts.install()
    sys.path.insert(0, dependencies(interrupts))
    from precheck_lib.cli import run_command_line

    sys.exit(run_command_line(sys.argv[1:], interrupts))


def fail(text: str, remedy: str) -> None:
    """End with one clear message; under GitHub with an annotation and the outputs of a run that could not begin."""
    text = " ".join(text.split()).replace("##[", "## [")  # a path in it may be anything
    say(2, "precheck: {}\n    do: {}".format(text, remedy))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        line = "Your code was not tested. {} What to do: {}".format(text, remedy)
        for raw, coded in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
            line = line.replace(raw, coded)
        say(1, "::error title=precheck could not start::{}".format(line))
    give_outputs("error", 70)
    sys.exit(70)


def fill_closed_streams() -> None:
    """Put something on each standard descriptor that is closed, as `precheck_lib` does, before it can be another's."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest that is free


def say(descriptor: int, text: str) -> None:
    """Write a line, where it can be written."""
    with contextlib.suppress(OSError):
        os.write(descriptor, (text + "\n").encode("utf-8", "backslashreplace"))


def give_outputs(status: str, code: int) -> None:
    """Write the outputs of the action, so that a step that asks for `status` gets an answer."""
    path = os.environ.get("GITHUB_OUTPUT")
    if os.environ.get("GITHUB_ACTIONS") == "true" and path:
        # An output that is not there counts as not ready, too.
        with contextlib.suppress(OSError), open(path, "a") as file:
            file.write("status={}\nexit-code={}\n".format(status, code))


# The cache ------------------------------------------------------------------------------------------------------------


def dependencies(interrupts: "Interrupts") -> str:
    """Return the folder that holds the locked dependencies, installing them first where it is not there yet."""
    name = cache_name()
    for cache, shared in caches():
        folder = os.path.join(cache, name)
        if os.path.exists(os.path.join(folder, ".complete")) and (not shared or is_ours_alone(cache)):
            return folder
    tried = []
    for cache, shared in caches():
        try:
            prepare(cache, shared)
            return install(cache, os.path.join(cache, name), interrupts)
        except OSError as error:
            tried.append("{} ({})".format(cache, error.strerror or error))
    return fail(
        "No folder can hold precheck's dependencies; tried {}.".format(", ".join(tried)),
        "Make one of them writable, or name another one with XDG_CACHE_HOME.",
    )


def cache_name() -> str:
    """Name what is cached by all that decides whether it fits: the lock, the Python, the platform."""
    import hashlib
    import platform

    with open(LOCK, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    libc = "".join(platform.libc_ver()) if sys.platform == "linux" else ""
    python = sys.implementation.cache_tag + sys.abiflags
    return "-".join(part for part in (digest, python, sys.platform, platform.machine(), libc) if part)


def caches() -> list:
    """List the folders to try, best first, and whether others can write beside them.

    The runner's tool cache persists between jobs; RUNNER_TEMP does not.
    """
    import tempfile

    found = []
    for variable, below in (
        ("RUNNER_TOOL_CACHE", "precheck"),
        ("XDG_CACHE_HOME", "precheck"),
        ("HOME", os.path.join(".cache", "precheck")),
    ):
        base = os.environ.get(variable)
        if base and os.path.isabs(base):
            found.append((os.path.join(base, below), False))
    with contextlib.suppress(OSError):  # there is no folder for temporary files
        found.append((os.path.join(tempfile.gettempdir(), "precheck-{}".format(os.getuid())), True))
    return found


def is_ours_alone(cache: str) -> bool:
    """Tell whether a folder is one that nobody else can have put there or can write to."""
    import stat

    found = os.lstat(cache)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def prepare(cache: str, shared: bool) -> None:
    """Make the folder of the cache; raises OSError where it cannot be ours."""
    if not shared:
        os.makedirs(cache, exist_ok=True)
        owner = os.stat(cache).st_uid
        if owner != os.getuid():
            raise PermissionError(1, "it belongs to user {}".format(owner))
        return
    try:
        os.mkdir(cache, 0o700)
    except FileExistsError:
        if not is_ours_alone(cache):
            raise PermissionError(1, "somebody else can write to it") from None


def install(cache: str, folder: str, interrupts: "Interrupts") -> str:
    """Install the lock into a new folder and rename it into place, so that a half-made one is never used."""
    import compileall
    import shutil
    import tempfile

    sweep(cache)
    made = tempfile.mkdtemp(prefix=".new-", dir=cache)
    try:
        say(2, "precheck: installing its dependencies into {} (once)".format(folder))
        run_pip(made, interrupts)
        compileall.compile_dir(made, quiet=2)
        compileall.compile_dir(os.path.join(ROOT, "precheck_lib"), quiet=2)
        with open(os.path.join(made, ".complete"), "w"):
            pass
        os.chmod(made, 0o755)  # noqa: S103 - other users of this machine may use it, and not change it
        put(made, folder, cache)
        return folder
    finally:
        shutil.rmtree(made, ignore_errors=True)


def put(made: str, folder: str, cache: str) -> None:
    """Rename what is made into place; another run may have been faster, or what is there was never completed."""
    import shutil
    import tempfile

    try:
        os.rename(made, folder)
    except OSError:
        if os.path.exists(os.path.join(folder, ".complete")):
            return
        aside = tempfile.mkdtemp(prefix=".new-", dir=cache)
        os.rename(folder, os.path.join(aside, "incomplete"))
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(made, folder)


def sweep(cache: str) -> None:
    """Remove what runs that were killed have left half-made."""
    import shutil
    import time

    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        with contextlib.suppress(OSError):  # another run was faster
            if name.startswith(".new-") and os.lstat(path).st_mtime < time.time() - ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


# pip ------------------------------------------------------------------------------------------------------------------


def pip_command() -> list:
    """Return the command that runs pip: this Python's own, or else the one that its ensurepip carries."""
    import glob
    import importlib.util

    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    ensurepip = importlib.util.find_spec("ensurepip")
    if ensurepip is not None and ensurepip.origin:
        for wheel in glob.glob(os.path.join(os.path.dirname(ensurepip.origin), "_bundled", "pip-*.whl")):
            return [sys.executable, "-I", "-c", BUNDLED_PIP, wheel]
    return fail(
        "{} has no pip to install precheck's dependencies with.".format(sys.executable),
        "Install it (Debian and Ubuntu: apt-get install python3-pip), or name another Python.",
    )


def pip_environment() -> dict:
    """Return the environment of pip: no secret of the tests, no setting that is about another kind of installing."""
    away = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "PIP_DRY_RUN", "PIP_NO_CLEAN")
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TEST_", "OPENCODE_")) and name not in away
    }
    # As options they would be refused by an old pip, which ignores a variable that it does not know.
    env.update(PIP_ROOT_USER_ACTION="ignore", PIP_REQUIRE_VIRTUALENV="0", PIP_USER="0")
    return env


def run_pip(target: str, interrupts: "Interrupts") -> None:
    """Let pip install exactly what the lock says; it and all that it starts end with us."""
    import signal
    import subprocess
    import time

    command = [*pip_command(), "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", target, "--requirement", LOCK]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=2, stderr=2, env=pip_environment(), start_new_session=True
    )
    end = time.monotonic() + PIP_SECONDS
    try:
        while child.poll() is None and time.monotonic() < end and not interrupts.stop.is_set:
            time.sleep(0.02)
    finally:
        code = child.poll()
        if code is None:
            with contextlib.suppress(OSError):  # it has ended just now
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if interrupts.stop.is_set:
        say(2, "precheck: ended by a signal while its dependencies were installed")
        give_outputs("cancelled", 128 + interrupts.stop.signum)
        sys.exit(128 + interrupts.stop.signum)
    if code != 0:
        how = "took longer than {} s".format(PIP_SECONDS) if code is None else "ended with {}".format(code)
        fail(
            "precheck's dependencies could not be installed: pip {}.".format(how),
            "Read pip's message above. This machine needs a package index once (PIP_INDEX_URL names a mirror).",
        )


if __name__ == "__main__":
    main()
