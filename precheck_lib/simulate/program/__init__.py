"""`python -m precheck_lib.simulate`: the stand-ins for a person or a script, until told to end or around a command."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from typing import TYPE_CHECKING

from precheck_lib.simulate.program.arguments import parsed
from precheck_lib.simulate.program.child import Foreground
from precheck_lib.simulate.program.env_file import env_file
from precheck_lib.simulate.program.listing import listing
from precheck_lib.simulate.program.serving import for_a_command, serving
from precheck_lib.simulate.program.waiting import Told

if TYPE_CHECKING:
    import argparse


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to end, or as long as a command runs, and give the exit code."""
    parser, given, command = parsed(sys.argv[1:] if arguments is None else arguments)
    if given.list is not None:
        try:
            sys.stdout.write(listing(given.list))
        except ValueError as error:
            parser.error(str(error))
        return 0
    return _until_told(parser, given) if command is None else _around(parser, given, command)


def _until_told(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    # What is entered first is left last: a signal is looked after until all is gone.
    with Told() as told, contextlib.ExitStack() as stack:
        environment = _started(parser, given, stack)
        lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
        sys.stdout.write("\n".join([*lines, "ready", ""]))
        sys.stdout.flush()
        told.wait()
    return 0


def _around(parser: argparse.ArgumentParser, given: argparse.Namespace, command: list[str]) -> int:
    with Foreground() as foreground, contextlib.ExitStack() as stack:
        return foreground.run(command, for_a_command(_started(parser, given, stack)))


def _started(parser: argparse.ArgumentParser, given: argparse.Namespace, stack: contextlib.ExitStack) -> dict[str, str]:
    """Start what was asked for; returns the variables that say where it is, or ends with a usage error."""
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="precheck-stage-", dir=given.folder))
        environment = stack.enter_context(serving(given, folder))
        if given.env_file is not None:
            stack.enter_context(env_file(given.env_file, environment))
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        parser.error(str(error))
    return environment


__all__ = ["main"]
