"""`python -m precheck_lib`: handlers first, then everything else."""

from __future__ import annotations

import sys

from precheck_lib.interrupt import Interrupts


def main() -> int:
    """Run the command line and return the exit code."""
    interrupts = Interrupts()
    interrupts.install()
    from precheck_lib.cli import run_command_line

    return run_command_line(sys.argv[1:], interrupts)


if __name__ == "__main__":
    sys.exit(main())
