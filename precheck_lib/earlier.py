"""An earlier run that found this machine ready, and what has changed since: for `verify`.

The earlier run is read from its JSON report. Every check that passed then is made again, so that it only looks, and the
facts that it had seen (versions, processes, contexts, memory) are compared with those of now.
"""

from __future__ import annotations

import calendar
import os
import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.checks import changes_server, kind_named
from precheck_lib.checks.look import age, size_text
from precheck_lib.exits import UsageError
from precheck_lib.findings import NotReadyError, make
from precheck_lib.hiding import as_warning
from precheck_lib.outcome import Fact, SpecIdentity  # noqa: TC001 - types of fields
from precheck_lib.spec.files import UnreadableError, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from precheck_lib.outcome import Finding, Observed
    from precheck_lib.spec.model import CheckSpec, Spec

_MOST_BYTES = 64 << 20
_SAME_START_SECONDS = 5.0
"""The start of a process is told against the clock, which may have been set since."""

_GROWN_BYTES, _GROWN_SHARE = 256 << 20, 1 / 16
"""GPU memory has grown when it is more by both; a server's own buffers come and go."""

_PROCESS = re.compile(r"pid (\d{1,10}), started (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


class _Check(msgspec.Struct):
    id: str
    outcome: str
    started_s: float | None = None
    elapsed_s: float | None = None


class _Fact(msgspec.Struct):
    check: str
    subject: str
    fact: Fact
    value: str | int


class _Saved(msgspec.Struct):
    """What is read of a report; all else in it is passed over."""

    version: int
    spec: SpecIdentity
    verdict: str
    started: str
    checks: list[_Check]
    observed: list[_Fact] = []


class EarlierRun:
    """A run that found the machine ready: `path` of its report, `spec` that it ran, when it `started` (ISO 8601)."""

    def __init__(self, path: str, saved: _Saved, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self.spec = saved.spec
        self.started = saved.started
        self._now = now
        self._began = float(calendar.timegm(time.strptime(saved.started, "%Y-%m-%dT%H:%M:%SZ")))
        self._passed = {one.id: (one.started_s or 0.0) + (one.elapsed_s or 0.0) for one in saved.checks if _right(one)}
        self._facts: dict[str, dict[tuple[str, Fact], str | int]] = {}
        for one in saved.observed:
            self._facts.setdefault(one.check, {})[one.subject, one.fact] = one.value

    def passed(self, check: str) -> bool:
        """Say whether a check was made then, and passed."""
        return check in self._passed

    def last_right(self, check: str) -> str:
        """Say when a check was seen right, as evidence; empty where it was not."""
        if check not in self._passed:
            return ""
        moment = self._began + self._passed[check]
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
        return f"last seen right at {when}, {age(max(0.0, self._now() - moment))} ago"

    def judge(self, check: str, observed: Sequence[Observed]) -> list[Finding]:
        """Compare what a check that passed has seen; returns warnings, raises `NotReadyError`."""
        now = {(one.subject, one.fact): one.value for one in observed}
        errors: list[Finding] = []
        warnings: list[Finding] = []
        for (subject, fact), then in self._facts.get(check, {}).items():
            found = now.get((subject, fact))
            if found is None:
                text = f"{subject}: its {fact} cannot be seen now; it was {_told(fact, then)}"
                errors.append(make("drift.unseen", text))
            elif _differs(fact, then, found):
                code, said = _CHANGES[fact]
                finding = make(code, said.format(subject, _told(fact, found), _told(fact, then)))
                if fact == "GPU memory":
                    warnings.append(as_warning(finding))
                else:
                    errors.append(finding)
        if errors:
            unknown = all(finding.code == "drift.unseen" for finding in errors)
            raise NotReadyError(errors + warnings, word="error" if unknown else "failed")
        return warnings


_CHANGES: dict[Fact, tuple[str, str]] = {
    "version": ("drift.version", "{} is {} now, it was {}"),
    "digest": ("drift.digest", "{} has the digest {} now, it had {}"),
    "context length": ("drift.context", "{} has a context length of {} now, it had {}"),
    "GPU memory": ("drift.memory", "{} holds {} of GPU memory now, it held {}"),
    "process": ("drift.process", "{} was started anew: it is {} now, it was {}"),
}
"""The code of a fact that has changed, and how that is said: of what, what it is now, what it was."""


def read_earlier(path: str) -> EarlierRun:
    """Read the JSON report of a run, or that of a folder; raises `UsageError` where there is nothing to verify."""
    if os.path.isdir(path):
        path = os.path.join(path, "precheck.json")
    try:
        data = read_file(path, _MOST_BYTES)
    except UnreadableError as error:
        raise UsageError(f"the report {path!r} cannot be read: {error}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"the report {path!r} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        saved = msgspec.json.decode(data, type=_Saved)
        if saved.version != 1:
            raise UsageError(f"the report {path!r} has version {saved.version}; this precheck reads version 1")
        if saved.verdict != "ready":
            text = f"the report {path!r} says {saved.verdict}, so there is nothing to verify"
            raise UsageError(f"{text}; verify only after a run that was ready (if: steps.ID.outputs.status == 'ready')")
        return EarlierRun(path, saved)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"{path!r} is not a JSON report of precheck: {error}") from None


def looking_only(spec: Spec, earlier: EarlierRun) -> Spec:
    """Return the spec so that every check that passed then is made again, changes nothing and stops no other."""

    def looking(check: CheckSpec) -> CheckSpec:
        if not earlier.passed(check.id):
            return msgspec.structs.replace(check, left_out="it did not pass then either")
        if not changes_server(check):
            return check
        options: Any = kind_named(check.kind).looking(check.options)
        if options is None:
            return msgspec.structs.replace(check, left_out="it changes a server")
        return msgspec.structs.replace(check, options=options)

    return msgspec.structs.replace(
        spec,
        checks=tuple(looking(check) for check in spec.checks),
        success=f"nothing has changed since {earlier.started}",
        fail_fast=False,
    )


def _right(check: _Check) -> bool:
    return check.outcome == "passed"


def _differs(fact: Fact, then: str | int, now: str | int) -> bool:
    if fact == "GPU memory" and isinstance(then, int) and isinstance(now, int):
        return now - then > max(_GROWN_BYTES, then * _GROWN_SHARE)
    if fact == "process":
        before, after = _processes(then), _processes(now)
        same = before and before.keys() == after.keys()
        return not (same and all(abs(before[pid] - after[pid]) <= _SAME_START_SECONDS for pid in before))
    return type(then) is not type(now) or then != now


def _processes(value: str | int) -> dict[str, float]:
    found = _PROCESS.findall(str(value))
    return {pid: float(calendar.timegm(time.strptime(start, "%Y-%m-%dT%H:%M:%SZ"))) for pid, start in found}


def _told(fact: Fact, value: str | int) -> str:
    return size_text(value) if fact == "GPU memory" and isinstance(value, int) else str(value)
