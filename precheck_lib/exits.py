"""How the process ends where no check could decide it: the exit codes, and what makes a command line unusable."""

from __future__ import annotations

USAGE = 2
"""The spec or the command line cannot be used."""

INTERNAL = 70
"""A fault of precheck's own, or a report that could not be written."""


class UsageError(Exception):
    """Arguments that cannot be used; each of its own arguments is one thing that is wrong."""
