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

from precheck_lib.simulate import FAULTS, HOSTILE, HOSTILE_FAULTS, HostileServer, Stage

_EPILOG = """\
It prints an export line for each variable of a strict run, then the line "ready", and serves until SIGTERM,
SIGINT, SIGHUP or the end of stdin (the null device does not count as one). Its files lie in a new folder,
which is removed at the end.
"""


def _fault(text: str) -> tuple[str, str, dict[str, Any]]:
    """Read `SERVER=NAME[,OPTION=VALUE...]`."""
    first, *pairs = text.split(",")
    server, equals, name = first.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not SERVER=NAME")
    return server, name, _options(pairs)


def _hostile(text: str) -> tuple[str, dict[str, Any]]:
    """Read `NAME[,OPTION=VALUE...]`."""
    name, *pairs = text.split(",")
    options = _options(pairs)
    if unknown := options.keys() - {"after", "every", "secure"}:
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} is no option: there are after, every, secure")
    for fault in HOSTILE:
        if fault.name == name and fault.layer == "name":
            raise argparse.ArgumentTypeError(f"{name} acts in the process of the client: use HostileServer in it")
    return name, options


def _options(pairs: list[str]) -> dict[str, Any]:
    """Read `OPTION=VALUE` of each; a value is JSON where it can be, else text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{pair!r} is not OPTION=VALUE")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options


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
    parser.add_argument(
        "--hostile",
        type=_hostile,
        metavar="NAME[,OPTION=VALUE]",
        help="serve one hostile server in place of the stand-ins, at $HOSTILE_URL and $HOSTILE_WS_URL",
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


def _listing() -> str:
    lines = []
    for fault in (*FAULTS, *HOSTILE_FAULTS):
        options = "".join(f",{key}={json.dumps(value)}" for key, value in fault.options.items())
        lines.append(f"{fault.server}={fault.name}{options}\n    {fault.where}: {fault.description}\n")
    lines += [f"--hostile {fault.name}\n    {fault.layer}: {fault.description}\n" for fault in HOSTILE]
    return "".join(lines)


def _serve(given: argparse.Namespace, folder: str) -> tuple[Stage | HostileServer, dict[str, str]]:
    """Start what was asked for; returns it with the variables that say where it is."""
    if given.hostile:
        name, options = given.hostile
        server = HostileServer(name, **options)
        where = {"HOSTILE_URL": server.url, "HOSTILE_WS_URL": server.ws_url}
        if server.certificates is not None:
            where["HOSTILE_CA_FILE"] = str(server.certificates.certificate)
        return server, where
    stage = Stage(
        folder,
        password=given.password,
        faults={server: name for server, name, _ in given.fault},
        fault_options={server: options for server, _, options in given.fault},
    )
    return stage, dict(stage.environment)


def main(arguments: list[str] | None = None) -> int:
    """Run the stand-ins until told to end, and give the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        sys.stdout.write(_listing())
        return 0
    woken, wake = socket.socketpair()
    with woken, wake, tempfile.TemporaryDirectory(prefix="precheck-stage-", dir=given.folder) as folder:
        wake.setblocking(False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        before = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            served, environment = _serve(given, folder)
        except (ValueError, RuntimeError) as error:
            parser.error(str(error))
        with served:
            lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
            sys.stdout.write("\n".join([*lines, "ready", ""]))
            sys.stdout.flush()
            _wait(woken)
        signal.set_wakeup_fd(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
