"""`python -m precheck_lib`: handlers first, then everything else."""

from __future__ import annotations

import os
import sys

from precheck_lib.exits import INTERNAL
from precheck_lib.interrupt import Interrupts


def main() -> int:
    """Run the command line and return the exit code."""
    _fill_closed_streams()
    try:
        interrupts = Interrupts()
    except OSError as error:  # a process that may open no descriptor can ask nobody anything
        os.write(2, f"precheck: it cannot run here: {error.strerror} (see `ulimit -n`)\n".encode())
        return INTERNAL
    interrupts.install()
    _leave_the_working_folder_out()
    from precheck_lib.cli import run_command_line

    return run_command_line(sys.argv[1:], interrupts)


def _fill_closed_streams() -> None:
    """Put something on each standard descriptor that is closed, or the first pipe or file opened would land there.

    It cannot be written to: whoever closed stdout cannot have seen that a run passed.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest that is free


def _leave_the_working_folder_out() -> None:
    """Take the working folder off the import path, which `python -m` puts there.

    It is somebody's checkout: a `requests.py` or `json.py` in it is not ours to import. Where precheck itself lies in
    it (its own checkout), it stays.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        working = os.getcwd()
    except OSError:
        return  # it has been removed, and nothing can be imported from it
    if sys.path[:1] in ([working], [""]) and working != home:
        del sys.path[0]


if __name__ == "__main__":
    sys.exit(main())
