"""What installs the lock: pip of this Python, the pip of its ensurepip, uv; or nothing but a folder of wheels.

Each is told to install exactly the lock, checked by hash, from wheels only, into the folder that it is given. Where
from is the machine's own setting: an index mirror, a proxy, certificates. The tests' secrets and the runner's files for
later steps (GITHUB_ENV among them) are not in its environment.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from precheck_lib.bootstrap import CannotStartError, StoppedError, wheels

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from precheck_lib.interrupt import Interrupts

BUNDLED_PIP = """\
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""

_SECRETS = ("TEST_", "OPENCODE_", "GITHUB_", "ACTIONS_")
# Of its settings only those that are about where files come from: others could install elsewhere, or something else.
_SETTINGS = {
    "PIP_": [
        "CACHE_DIR",
        "CERT",
        "CLIENT_CERT",
        "CONFIG_FILE",
        "DEFAULT_TIMEOUT",
        "EXTRA_INDEX_URL",
        "FIND_LINKS",
        "INDEX_URL",
        "KEYRING_PROVIDER",
        "NO_CACHE_DIR",
        "NO_INDEX",
        "PROXY",
        "RETRIES",
        "TIMEOUT",
        "TRUSTED_HOST",
    ],
    "UV_": [
        "CACHE_DIR",
        "DEFAULT_INDEX",
        "EXTRA_INDEX_URL",
        "FIND_LINKS",
        "HTTP_TIMEOUT",
        "INDEX",
        "INDEX_STRATEGY",
        "INDEX_URL",
        "INSECURE_HOST",
        "KEYRING_PROVIDER",
        "NATIVE_TLS",
        "NO_CACHE",
        "NO_INDEX",
        "OFFLINE",
        "SYSTEM_CERTS",
    ],
}
_PAUSE_SECONDS = 0.02


def install(lock: str, target: str, env: Mapping[str, str], interrupts: Interrupts, *, seconds: float) -> None:
    """Install the lock into `target`, from the wheelhouse where one is named."""
    house = wheelhouse(env)
    try:
        chosen = wheels.choose(lock, house) if house else None
    except OSError as error:  # which says nothing about the cache
        raise CannotStartError(f"The wheelhouse {house} cannot be read: {error}.", "Make it readable.") from None
    command = pip_command() or uv_command(env)
    if command is None:
        if chosen is None:
            raise CannotStartError(
                f"{sys.executable} has no pip to install precheck's dependencies with, and there is no uv on PATH.",
                "Install one (Debian and Ubuntu: apt-get install python3-pip), or name another Python or a wheelhouse.",
            )
        if chosen.missing:
            raise CannotStartError(chosen.what_is_missing(), wheels.FILL_IT)
        wheels.unpack(chosen, target)
        return
    tool, *command = command
    command += wanted(tool, lock, target, house)
    code = _run(command, environment(env, tool, house), interrupts, seconds)
    if code != 0:
        how = f"took longer than {seconds:g} s" if code is None else f"ended with {code}"
        missing = f" {chosen.what_is_missing()}" if chosen is not None and chosen.missing else ""
        raise CannotStartError(
            f"precheck's dependencies could not be installed: {tool} {how}.{missing}",
            wheels.FILL_IT
            if house
            else f"Read {tool}'s message above. This machine needs a package index once "
            "(PIP_INDEX_URL names a mirror), or a wheelhouse (docs/air-gapped.md).",
        )


def wheelhouse(env: Mapping[str, str]) -> str | None:
    """Return the folder of wheels that the user names, which has to be one."""
    named = env.get("PRECHECK_WHEELHOUSE")
    if not named:
        return None
    folder = os.path.abspath(named)
    if not os.path.isdir(folder):
        raise CannotStartError(f"The wheelhouse {folder} is not a folder.", "Correct the input `wheelhouse`.")
    return folder


def pip_command() -> list[str] | None:
    """Return the command that runs pip, behind its name: this Python's own, or the one that its ensurepip carries."""
    import glob
    import importlib.util

    if importlib.util.find_spec("pip") is not None:
        return ["pip", sys.executable, "-I", "-m", "pip"]
    ensurepip = importlib.util.find_spec("ensurepip")
    if ensurepip is not None and ensurepip.origin:
        folders = [os.path.join(os.path.dirname(ensurepip.origin), "_bundled"), _distributor()]
        for folder in filter(None, folders):
            for wheel in glob.glob(os.path.join(glob.escape(folder), "pip-*.whl")):
                return ["pip", sys.executable, "-I", "-c", BUNDLED_PIP, wheel]
    return None


def _distributor() -> str | None:
    """Return where a distributor keeps the wheels of ensurepip (Debian, Fedora)."""
    import sysconfig

    found: str | None = sysconfig.get_config_var("WHEEL_PKG_DIR")
    return found


def uv_command(env: Mapping[str, str]) -> list[str] | None:
    """Return the command that runs uv, behind its name."""
    import shutil

    found = shutil.which("uv", path=env.get("PATH"))
    return ["uv", found, "--no-config", "pip"] if found else None


def wanted(tool: str, lock: str, target: str, house: str | None) -> list[str]:
    """Return the arguments that say what to install, and where."""
    arguments = ["install", "--quiet"]
    if tool == "pip":
        arguments += ["--disable-pip-version-check", "--no-input", "--no-compile"]
    else:
        arguments += ["--python", sys.executable, "--link-mode", "copy", "--no-progress"]
    arguments += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", target, "--requirement", lock]
    return [*arguments, "--no-index", "--find-links", house] if house else arguments


def environment(env: Mapping[str, str], tool: str, house: str | None) -> dict[str, str]:
    """Return the environment of an installer: no secret of the tests, no setting about another kind of installing."""
    kept = {}
    for name, value in env.items():
        prefix, _, setting = name.partition("_")
        settings = _SETTINGS.get(f"{prefix}_")
        if name.startswith(_SECRETS) or (settings is not None and setting not in settings):
            continue
        if house and settings is not None and ("INDEX" in setting or setting == "FIND_LINKS"):
            continue
        kept[name] = value
    if tool == "pip":
        # As options they would be refused by an old pip, which ignores a variable that it does not know.
        kept.update(PIP_ROOT_USER_ACTION="ignore", PIP_REQUIRE_VIRTUALENV="0", PIP_USER="0")
    elif "PIP_INDEX_URL" in kept and not {"UV_INDEX_URL", "UV_DEFAULT_INDEX"} & set(kept):
        kept["UV_INDEX_URL"] = kept["PIP_INDEX_URL"]
    return kept


def _run(command: Sequence[str], env: Mapping[str, str], interrupts: Interrupts, seconds: float) -> int | None:
    """Run an installer; it and all that it starts end with us. None where it took too long."""
    import signal
    import subprocess

    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=2, stderr=2, env=dict(env), start_new_session=True
    )
    end = time.monotonic() + seconds
    try:
        while child.poll() is None and time.monotonic() < end and not interrupts.stop.is_set:
            time.sleep(_PAUSE_SECONDS)
    finally:
        code = child.poll()
        if code is None:
            with contextlib.suppress(OSError):  # it has ended just now
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if interrupts.stop.signum is not None:
        raise StoppedError(interrupts.stop.signum)
    return code
