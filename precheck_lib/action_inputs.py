"""The inputs of the action, which `action.yml` passes as `PRECHECK_*` variables, as a command line."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from precheck_lib.arguments import ON_NOT_READY
from precheck_lib.exits import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODES = ("run", "verify")
_TRUTH = {"true": True, "false": False}


class Inputs:
    """The inputs as they were given; an empty one was not. Raises `UsageError` for one that cannot be used.

    `out` is the folder of the reports where one is named, `summary` whether the job summary is written.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        def given(name: str) -> str:
            return env.get(f"PRECHECK_{name.upper().replace('-', '_')}", "").strip()

        self.spec = given("spec")
        self.report = given("report")
        self.budget = given("budget")
        self.out = given("out")
        self.mode = _one_of("mode", given("mode") or "run", _MODES)
        self.spec_ref = given("spec-ref")
        self.on_not_ready = _one_of("on-not-ready", given("on-not-ready") or "fail", ON_NOT_READY)
        self.summary = _TRUTH[_one_of("summary", given("summary").lower() or "true", tuple(_TRUTH))]
        self.more = _words(given("args"))

    def arguments(self, out: str) -> list[str]:
        """Write them as arguments; the reports go to `out`."""
        made = [self.mode, "--out", out, "--on-not-ready", self.on_not_ready]
        made += ["--budget", self.budget] if self.budget else []
        if self.mode == "run" and self.spec_ref:
            made += ["--spec-ref", self.spec_ref]
        made += self.more
        if self.mode == "verify" and not self.report:
            raise UsageError(
                "mode verify needs the input report: the report of the step that has run precheck, "
                "${{ steps.ID.outputs.json }}; it is empty where that step was skipped or ended before its report"
            )
        last = self.report if self.mode == "verify" else self.spec
        # Behind `--`, so that a name that begins with a dash is a name.
        return [*made, "--", last] if last else made


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise UsageError(f"the input {name} is {value!r}, not {' or '.join(allowed)}")
    return value


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the input args cannot be read: {error}") from None
