"""The command `init`: a look at this machine, a spec for it in a new file, and how much of that holds now."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from precheck_lib.bounded.budget import Budget
from precheck_lib.errors import Cancelled
from precheck_lib.exits import UsageError
from precheck_lib.interrupt import signal_name
from precheck_lib.report.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.ending import Ending
    from precheck_lib.outcome import CheckResult, Report
    from precheck_lib.spec.model import Spec

STDOUT = "-"
"""The name of a file that is none: the spec is printed."""

_TRIAL_SECONDS = 10.0
_MOST_SAID = 160
_OTHERWISE = "name another file, or have it printed with `precheck init -`"


def init(file: str, ending: Ending, hide: Callable[[str], str]) -> int:
    """Write a spec for this machine into a new file, or print it, and say how many of its checks pass now.

    Returns 0 where it is written, whatever passes, and 128 + n where signal n came. Raises `UsageError` where the file
    cannot be made; one that is there stays as it is. `hide` takes secrets out of a text.
    """
    if file != STDOUT:
        _refuse(file)
    from precheck_lib.survey import SECONDS

    terminal, stop = ending.terminal, ending.interrupts.stop
    say = terminal.err if file == STDOUT else terminal.out
    try:
        text, spec = _drafted(ending, hide)
        Budget(SECONDS, cancel=stop).check("wait")  # from here on a signal finds the file whole
    except Cancelled as error:
        terminal.err(f"precheck: ended by {signal_name(error.signum)}; nothing is written")
        return 128 + error.signum
    if file == STDOUT:
        for line in text.splitlines():
            terminal.out(line)
        begin = _count(len(spec.checks))
    else:
        _write(file, text.encode(), ending.interrupts.unfinished)
        begin = f"wrote {file}: {_count(len(spec.checks))}"
    report = _tried(spec, ending)
    if stop.signum is not None:
        say(clean(hide(f"{begin}; {signal_name(stop.signum)} came before it was known how many pass")))
        return 128 + stop.signum
    say(clean(hide(f"{begin}, {_passing(report)}")))
    return 0


def _drafted(ending: Ending, hide: Callable[[str], str]) -> tuple[str, Spec]:
    """Look around and write a spec; it is read as any other before anybody sees it."""
    from precheck_lib.draft import draft
    from precheck_lib.spec.load import build_spec
    from precheck_lib.spec.yaml_text import read_yaml
    from precheck_lib.survey import SECONDS, survey

    text = draft(survey(ending.env, Budget(SECONDS, cancel=ending.interrupts.stop)), hide)
    document, _ = read_yaml(text.encode(), "the draft")
    return text, build_spec(document)


# The file -----------------------------------------------------------------------------------------------------------


def _refuse(file: str) -> None:
    """Refuse a file that cannot be made, before anything is looked at; the writing itself has the last word."""
    from precheck_lib.spec.load import built_in_names

    folder, name = os.path.split(file)
    if not name:
        raise UsageError(f"{file!r} is not the name of a file; {_OTHERWISE}")
    if os.path.lexists(file):
        raise UsageError(_is_there(file))
    if file in built_in_names():
        raise UsageError(f"{file} is the name of a built-in spec, which `precheck run {file}` would run; {_OTHERWISE}")
    if not os.path.isdir(folder or "."):
        raise UsageError(
            f"{file} cannot be made: there is no folder {folder or '.'}; make it (mkdir -p), or {_OTHERWISE}"
        )
    if not os.access(folder or ".", os.W_OK | os.X_OK):
        raise UsageError(f"{file} cannot be made: this user may not write in {folder or 'this folder'}; {_OTHERWISE}")


def _is_there(file: str) -> str:
    return f"{file} is there already, and nothing is overwritten; {_OTHERWISE}"


def _write(file: str, content: bytes, unfinished: set[str]) -> None:
    """Make a new file with this content, or none; what is there by then stays as it is."""
    made = False
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        made = True
        unfinished.add(file)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)  # a network file system may report a full disk only here
    except FileExistsError:
        raise UsageError(_is_there(file)) from None
    except (OSError, ValueError) as error:
        if made:
            with contextlib.suppress(OSError):
                os.unlink(file)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{file} cannot be written: {reason}; {_OTHERWISE}") from None
    finally:
        unfinished.discard(file)


# What passes now ----------------------------------------------------------------------------------------------------


def _tried(spec: Spec, ending: Ending) -> Report:
    """Run what of a spec changes nothing and has no server compute anything."""
    from precheck_lib import engine
    from precheck_lib.selection import select

    computing = [check.id for check in spec.checks if check.kind == "openai"]
    part = select(spec, skip=computing, read_only=True)
    return engine.run(part, env=ending.env, budget=_TRIAL_SECONDS, interrupts=ending.interrupts)


def _count(number: int) -> str:
    return f"{number} check{'' if number == 1 else 's'}"


def _passing(report: Report) -> str:
    passed = [result for result in report.checks if result.outcome == "passed"]
    left_out = [result.id for result in report.checks if result.unmet is not None]
    bad = [result for result in report.checks if result not in passed and result.unmet is None]
    said = f"{len(passed)} pass{'es' if len(passed) == 1 else ''} now"
    if bad:
        said += f"; not yet: {', '.join(f'{result.id} ({_why(result)})' for result in bad)}"
    if left_out:
        said += f"; not tried, a server would have to compute: {', '.join(left_out)}"
    return said


def _why(result: CheckResult) -> str:
    if result.skipped_for is not None:
        return f"needs {result.skipped_for}"
    message = result.findings[0].message if result.findings else result.outcome
    return clean(re.sub(r"\s+", " ", message), _MOST_SAID)


__all__ = ["STDOUT", "init"]
