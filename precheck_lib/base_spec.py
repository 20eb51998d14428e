"""The spec of the base commit of a pull request, whose author may have changed the one that was checked out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from precheck_lib.bounded.budget import Budget
from precheck_lib.findings import make
from precheck_lib.hiding import as_warning
from precheck_lib.spec.files import UnreadableError, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.cancel import Cancel
    from precheck_lib.event import Event
    from precheck_lib.outcome import Report

_GIT_SECONDS = 5.0
_MOST_BYTES = (1 << 20) + 1
"""One more than a spec may have, so that a larger one is refused and not cut."""

_FETCH = "give actions/checkout `fetch-depth: 2`"


class BaseFiles:
    """Files of the base commit of a pull request, read with git from the checkout that they lie in."""

    def __init__(self, event: Event, env: Mapping[str, str], cancel: Cancel | None = None) -> None:
        self._event = event
        self._env = {name: env[name] for name in ("PATH", "HOME", "LANG", "LC_ALL") if name in env}
        self._cancel = cancel

    def read(self, path: str) -> bytes:
        """Return the file as it is there; raises `UnreadableError` where git cannot tell."""
        from precheck_lib.bounded.process import Command, run_children

        folder, name = os.path.split(path)
        # The base as the event names it; where that was not fetched, the first parent of the merge that is there.
        commits = [commit for commit in (self._event.base, "HEAD^1") if commit]
        reasons = []
        for commit in commits:
            # `cat-file` runs no filter and no program that the repository names.
            argv = ["git", "-C", folder or ".", "cat-file", "blob", f"{commit}:./{name}"]
            command = Command(argv=argv, env=self._env)
            budget = Budget(_GIT_SECONDS, cancel=self._cancel)
            (result,) = run_children([command], budget=budget, max_stdout=_MOST_BYTES)
            if result.ended == "exit" and result.code == 0:
                return result.stdout
            said = result.stderr.decode("utf-8", "replace").strip().splitlines()
            reasons.append(said[-1] if said else f"git {result.ended}")
        raise UnreadableError(f"{name} cannot be read from the base commit: {reasons[0]}; {_FETCH}")


def changed_here(path: str, event: Event, env: Mapping[str, str], cancel: Cancel | None = None) -> bool | None:
    """Say whether the pull request of this run changes the spec at `path`; `None` where that cannot be seen."""
    try:
        before = BaseFiles(event, env, cancel).read(path)
        return read_file(path) != before
    except UnreadableError:
        return None


def note_change(report: Report, changed: bool | None) -> None:
    """Warn in a report that the pull request of this run changes its own spec, or note that this cannot be seen."""
    path = report.spec.path
    if changed:
        text = f"this pull request changes the spec that it is measured by, {path}"
        report.checks[0].findings.append(as_warning(make("spec.changed-here", text)))
    else:
        report.notes.append(f"whether this pull request changes {path} cannot be seen: {_FETCH}")
