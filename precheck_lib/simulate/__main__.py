"""Run the stand-ins for a person or a script: `python -m precheck_lib.simulate [--fault SERVER=NAME]`."""

from __future__ import annotations

import sys

from precheck_lib.simulate.program import main

if __name__ == "__main__":
    sys.exit(main())
