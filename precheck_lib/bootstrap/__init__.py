"""The bootstrap behind `entrypoint.py`: from a bare Python to one that has the dependencies on its path.

It imports the standard library and `interrupt`, nothing else of precheck: all of it runs before the dependencies are
there. A warm start reads this file and `cache`; the rest is imported where something has to be installed.

    cache         what the folder of the dependencies is called, where it may lie, whether it is whole
    install       make that folder: one start at a time, by rename
    installers    pip, the pip of ensurepip, uv; for an air-gapped machine `wheels`, which unpacks them itself
    bytecode      where the bytecode of precheck itself goes when it cannot stay beside its source
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from precheck_lib.interrupt import Interrupts

_NEEDS_NONE = ("-h", "--help", "--version")
_RENEWED = "precheck-renewed"
"""The -X option of a start whose dependencies have just been installed anew: the folder that it is to use."""
_INTERNAL = 70


class CannotStartError(Exception):
    """Why precheck cannot start, and what to do about it."""

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(text)
        self.text = text
        self.remedy = remedy


class StoppedError(Exception):
    """A signal has asked for the end before precheck itself began."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def make_ready(root: str, arguments: Sequence[str], interrupts: Interrupts) -> str:
    """Put the dependencies on the path, installing them where that has to be; return their folder."""
    from precheck_lib.bootstrap import cache

    renewed = sys._xoptions.get(_RENEWED)  # noqa: SLF001 - documented as CPython's way to read them
    folder = renewed if isinstance(renewed, str) else cache.find(root, os.environ)
    if folder is None:
        folder = _install(root, None, interrupts)
    cache.mark_used(folder)
    sys.path.insert(0, folder)
    if loses_bytecode(root):
        from precheck_lib.bootstrap.bytecode import keep

        keep(root, cache.bytecode_in(folder))
    if arguments and arguments[0] in _NEEDS_NONE:
        return folder
    seen = cache.identity(folder)
    try:
        import msgspec  # noqa: F401 - every command that reads a spec needs both
        import yaml  # noqa: F401
    except Exception as error:  # noqa: BLE001 - a damaged file can raise anything
        why = f"{type(error).__name__}: {error}"
    else:
        return folder
    if renewed:
        raise CannotStartError(
            f"precheck's dependencies in {folder} cannot be imported, not even newly installed ({why}).",
            "See whether that folder may hold programs (a mount with noexec may not), or name another one with "
            "XDG_CACHE_HOME.",
        )
    tell(f"its dependencies in {folder} cannot be imported ({why}); installing them anew")
    return _start_again(_install(root, (folder, seen), interrupts), interrupts)


def look_back(folder: str, code: int) -> None:
    """After an internal error: see whether the dependencies are what was installed."""
    if code == _INTERNAL:
        from precheck_lib.bootstrap.install import condemn

        condemn(folder)


def tell(text: str) -> None:
    """Say what goes on, on stderr, where it can be said."""
    line = f"precheck: {' '.join(text.split())}".replace("##[", "## [")
    with contextlib.suppress(OSError):
        os.write(2, (line + "\n").encode("utf-8", "backslashreplace"))


def _install(root: str, doubted: tuple[str, object] | None, interrupts: Interrupts) -> str:
    from precheck_lib.bootstrap.install import ensure

    return ensure(root, os.environ, interrupts, doubted=doubted)


def _start_again(folder: str, interrupts: Interrupts) -> NoReturn:
    """Start this program again with that folder: what of the old one is imported cannot be taken back."""
    if interrupts.stop.signum is not None:
        raise StoppedError(interrupts.stop.signum)
    options = ["-I", "-X", "utf8", "-X", f"{_RENEWED}={folder}"]
    os.execv(sys.executable, [sys.executable, *options, *sys.argv])  # noqa: S606 - this very program


def loses_bytecode(root: str) -> bool:
    """Tell whether bytecode beside the source cannot be written, or is gone by the next job.

    A runner fetches an action anew for each job, into its folder `_actions`, with the times of the commit.
    """
    return "_actions" in root.split(os.sep) or not os.access(os.path.join(root, "precheck_lib"), os.W_OK)
