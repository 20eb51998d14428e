"""A command in the foreground: in our process group, with the signals that come to us alone handed on."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Foreground:
    """Holds signals back from the moment it is entered, in every thread that is started then, and hands them on.

    They are taken one by one with `sigwaitinfo`, which tells who sent them: what the terminal sends (Ctrl-C) has gone
    to the command as well, and is not given to it twice. Where that is missing (macOS) each is handed on.
    """

    def __enter__(self) -> Self:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code with it
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run it to its end and return its exit code, as a shell would."""
        found = shutil.which(command[0], path=environment.get("PATH"))
        if found is None and not os.path.exists(command[0]):
            return _not_run(command[0], "there is no such command", 127)
        try:
            pid = os.posix_spawn(
                found or command[0], list(command), environment, setsigmask=self._before, setsigdef=_IGNORED_BY_PYTHON
            )
        except OSError as error:
            return _not_run(command[0], error.strerror or str(error), 126)
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            number, is_of_the_terminal = _next()
            if number != signal.SIGCHLD and not is_of_the_terminal:
                os.kill(pid, number)  # it is ours until we have waited for it


def _next() -> tuple[int, bool]:
    """Take the next signal, and say whether the kernel sent it, which it does to the whole group."""
    wanted = (*_FORWARDED, signal.SIGCHLD)
    informed = getattr(signal, "sigwaitinfo", None)
    if informed is None:
        return signal.sigwait(wanted), False
    told = informed(wanted)
    return told.si_signo, told.si_code > 0


def _not_run(name: str, why: str, code: int) -> int:
    sys.stderr.write(f"python -m precheck_lib.simulate: {name}: {why}\n")
    return code


__all__ = ["Foreground"]
