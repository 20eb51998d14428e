"""`python -m precheck_lib`: handlers first, then everything else."""

from __future__ import annotations

import os
import sys

from precheck_lib.interrupt import Interrupts


def main() -> int:
    """Run the command line and return the exit code."""
    interrupts = Interrupts()
    interrupts.install()
    _leave_the_working_folder_out()
    from precheck_lib.cli import run_command_line

    return run_command_line(sys.argv[1:], interrupts)


def _leave_the_working_folder_out() -> None:
    """Take the working folder off the import path, which `python -m` puts there.

    It is somebody's checkout: a `requests.py` or `json.py` in it is not ours to import. Where precheck itself lies in
    it (its own checkout), it stays.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    working = os.getcwd() if sys.path[:1] != [""] else ""
    if sys.path and sys.path[0] == working and os.path.abspath(working) != home:
        del sys.path[0]


if __name__ == "__main__":
    sys.exit(main())
