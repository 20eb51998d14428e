"""Run the stand-ins for a person or a script: `python -m precheck_lib.simulate [--fault SERVER=NAME]`."""

from __future__ import annotations

import argparse
import json
import os
import select
import shlex
import signal
import socket
import stat
import sys
import tempfile
from typing import Any

from precheck_lib.simulate import FAULTS, Stage

_EPILOG = """\
It prints an export line for each variable of a strict run, then the line "ready", and serves until SIGTERM,
SIGINT, SIGHUP or the end of stdin (the null device does not count as one). Its files lie in a new folder,
which is removed at the end.
"""


def _fault(text: str) -> tuple[str, str, dict[str, Any]]:
    """Read `SERVER=NAME[,OPTION=VALUE...]`; a value is JSON where it can be, else text."""
    first, *pairs = text.split(",")
    server, equals, name = first.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not SERVER=NAME")
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{pair!r} is not OPTION=VALUE")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return server, name, options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m precheck_lib.simulate",
        description="Stand-ins of all that the strict precheck talks to, with named faults.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        type=_fault,
        metavar="SERVER=NAME[,OPTION=VALUE]",
        help="let a server do something wrong; once for each server",
    )
    parser.add_argument("--folder", metavar="DIR", help="make the folder in here instead of the system's place")
    parser.add_argument("--password", metavar="TEXT", help="let OpenCode ask for it (user opencode)")
    parser.add_argument("--list", action="store_true", help="list the faults and end")
    return parser


def _ends_with_stdin() -> bool:
    """Say whether the end of stdin means anything: that of a pipe or a terminal does, the null device not."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return not stat.S_ISCHR(mode) or os.isatty(0)


def _wait(woken: socket.socket) -> None:
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    if _ends_with_stdin():
        poll.register(0, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != 0 or not os.read(0, 4096):
                return


def main(arguments: list[str] | None = None) -> int:
    """Run the stand-ins until told to end, and give the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        for fault in FAULTS:
            options = "".join(f",{key}={json.dumps(value)}" for key, value in fault.options.items())
            sys.stdout.write(f"{fault.server}={fault.name}{options}\n    {fault.where}: {fault.description}\n")
        return 0
    woken, wake = socket.socketpair()
    with woken, wake, tempfile.TemporaryDirectory(prefix="precheck-stage-", dir=given.folder) as folder:
        wake.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            stage = Stage(
                folder,
                password=given.password,
                faults={server: name for server, name, _ in given.fault},
                fault_options={server: options for server, _, options in given.fault},
            )
        except ValueError as error:
            parser.error(str(error))
        with stage:
            lines = [f"export {name}={shlex.quote(value)}" for name, value in stage.environment.items()]
            sys.stdout.write("\n".join([*lines, "ready", ""]))
            sys.stdout.flush()
            _wait(woken)
        signal.set_wakeup_fd(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
