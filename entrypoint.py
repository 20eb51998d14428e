"""Runs precheck from a checkout: `python3 entrypoint.py demo`, and the same from `action.yml`.

Standard library only. It starts itself again isolated (`-I`: no module of the working folder, the user's site or
PYTHONPATH), installs the hash-pinned dependencies of scripts/requirements.lock once into a cache keyed by lock, Python
and platform, and hands over to `precheck_lib` in the same process, so that a signal reaches it.

The syntax up to the version check is that of Python 3.6, so that an old one gets a sentence and not a traceback.
"""

import os
import sys

OLDEST = (3, 10)
ROOT = os.path.dirname(os.path.abspath(__file__))
LOCK = os.path.join(ROOT, "scripts", "requirements.lock")
PIP_SECONDS = 300


def fail(text, remedy):
    """End with one clear message, as an annotation too where GitHub runs us."""
    sys.stderr.write("precheck: {}\n    do: {}\n".format(text, remedy))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        line = "{} Your code was not tested. {}".format(text, remedy)
        for raw, coded in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
            line = line.replace(raw, coded)
        sys.stdout.write("::error title=precheck could not start::{}\n".format(line))
    sys.stdout.flush()
    sys.exit(70)


def main():
    """Make sure of the Python, isolate, install, hand over."""
    if sys.version_info < OLDEST:
        fail(
            "Python {}.{} or newer is needed; {} is {}.{}.".format(
                OLDEST[0], OLDEST[1], sys.executable, sys.version_info[0], sys.version_info[1]
            ),
            "Install one, or name it (the action's input `python`).",
        )
    if not sys.flags.isolated or not sys.flags.utf8_mode:
        # exec, not a child: the process stays the one that gets the signals.
        os.execv(sys.executable, [sys.executable, "-I", "-X", "utf8", os.path.abspath(__file__)] + sys.argv[1:])
    sys.path[:0] = [ROOT]
    from precheck_lib.interrupt import Interrupts

    interrupts = Interrupts()
    interrupts.install()
    sys.path[:0] = [dependencies(interrupts)]
    sys.path.remove(ROOT)
    sys.path.insert(1, ROOT)
    from precheck_lib.cli import run_command_line

    sys.exit(run_command_line(sys.argv[1:], interrupts))


def dependencies(interrupts):
    """Return the folder that holds the locked dependencies, installing them first where it is not there yet."""
    import hashlib
    import platform

    with open(LOCK, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:16]
    libc = "-".join(part for part in platform.libc_ver() if part) if sys.platform == "linux" else ""
    tag = "-".join((sys.implementation.cache_tag, sys.platform, platform.machine(), libc)).rstrip("-")
    name = "{}-{}".format(digest, tag)
    tried = []
    for cache in caches():
        folder = os.path.join(cache, name)
        if os.path.exists(os.path.join(folder, ".complete")):
            return folder
        try:
            os.makedirs(cache, exist_ok=True)
            return install(cache, folder, interrupts)
        except OSError as error:
            tried.append("{} ({})".format(cache, error.strerror or error))
    fail(
        "No folder can hold precheck's dependencies; tried {}.".format(", ".join(tried)),
        "Make one of them writable, or set XDG_CACHE_HOME.",
    )
    return None


def caches():
    """Yield the folders to try, best first: the runner's tool cache persists between jobs, RUNNER_TEMP does not."""
    for variable, below in (
        ("RUNNER_TOOL_CACHE", "precheck"),
        ("XDG_CACHE_HOME", "precheck"),
        ("HOME", os.path.join(".cache", "precheck")),
    ):
        base = os.environ.get(variable)
        if base and os.path.isabs(base):
            yield os.path.join(base, below)
    import tempfile

    # Shared with other users: only a folder of our own, which nobody else can have put there.
    yield os.path.join(tempfile.gettempdir(), "precheck-{}".format(os.getuid()))


def install(cache, folder, interrupts):
    """Install the lock into a new folder and rename it into place, so that a half-made one is never used."""
    import compileall
    import shutil
    import tempfile

    owner = os.stat(cache).st_uid
    if owner != os.getuid():
        raise PermissionError(1, "it belongs to user {}".format(owner))
    made = tempfile.mkdtemp(prefix=".new-", dir=cache)
    try:
        sys.stderr.write("precheck: installing its dependencies into {} (once)\n".format(folder))
        sys.stderr.flush()
        run_pip(made, interrupts)
        compileall.compile_dir(made, quiet=2)
        compileall.compile_dir(os.path.join(ROOT, "precheck_lib"), quiet=2)
        with open(os.path.join(made, ".complete"), "w"):
            pass
        os.chmod(made, 0o755)
        try:
            os.rename(made, folder)
        except OSError:
            # Another run was faster; or what is there was never completed.
            if not os.path.exists(os.path.join(folder, ".complete")):
                shutil.rmtree(folder, ignore_errors=True)
                os.rename(made, folder)
        return folder
    finally:
        shutil.rmtree(made, ignore_errors=True)


def run_pip(target, interrupts):
    """Let pip install exactly what the lock says; it and all that it starts end with us."""
    import signal
    import subprocess
    import time

    command = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile"]
    command += ["--target", target, "--requirement", LOCK]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "OPENCODE_"))}
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=2, stderr=2, env=env, start_new_session=True
    )
    end = time.monotonic() + PIP_SECONDS
    try:
        while child.poll() is None and time.monotonic() < end and not interrupts.stop.is_set:
            time.sleep(0.02)
    finally:
        code = child.poll()
        if code is None:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass
            child.wait()
    if interrupts.stop.is_set:
        sys.stderr.write("precheck: ended by a signal while its dependencies were installed\n")
        sys.exit(128 + interrupts.stop.signum)
    if code != 0:
        how = "took longer than {} s".format(PIP_SECONDS) if code is None else "ended with {}".format(code)
        fail(
            "The dependencies could not be installed: pip {}.".format(how),
            "See pip's message above; this machine needs a package index once (PIP_INDEX_URL names a mirror).",
        )


if __name__ == "__main__":
    main()
