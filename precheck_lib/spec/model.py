"""A spec as a value."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from precheck_lib.outcome import Source, SpecIdentity


def quoted(text: str) -> str:
    """Put a text in double quotes, as a person writes it in YAML; where it holds something unseen, all in ASCII."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a spec: where, and what to do about it."""

    file: str
    line: int
    column: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.text}"


class SpecError(Exception):
    """A spec that cannot be used; `problems` are all that was found, in the order of their lines (at most 20)."""

    def __init__(self, problems: list[Problem], identity: SpecIdentity | None = None) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
        self.identity = identity or SpecIdentity()


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Ask again and again, for `seconds`, until it was right `stable` times in a row."""

    seconds: float
    stable: int = 1


class When(msgspec.Struct, frozen=True, kw_only=True):
    """Run a check only where the environment variable `env` is set and not blank, or `equals` that text."""

    env: Annotated[str, Meta(description="The name of an environment variable; it has to be set and not blank.")]
    equals: Annotated[str | None, Meta(description="The value that it has to have; text, so quote `true` and `1`.")] = (
        None
    )

    def holds(self, value: str) -> bool:
        """Say whether it does, for the variable's value (empty where it is not set)."""
        return bool(value.strip()) if self.equals is None else value == self.equals

    def __str__(self) -> str:
        return f"{self.env} is set" if self.equals is None else f"{self.env} is {self.equals!r}"


class CheckSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a spec: `options` are typed by its kind; `budget` in seconds where the spec gives one.

    With `severity: warning` a check that does not pass is a warning. `wait` asks again, `when` says where it runs.
    `left_out` is why this run does not carry it out, as the command line asks (see `precheck_lib.selection`).
    """

    id: str
    title: str
    kind: str
    options: Any
    source: Source | None
    needs: tuple[str, ...] = ()
    budget: float | None = None
    wait: Wait | None = None
    severity: Literal["error", "warning"] = "error"
    when: When | None = None
    left_out: str | None = None


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole spec, its checks in the order written.

    `success` is the line printed on a pass; `pins` are the versions of the pins file by name; `exit_codes: curl` asks
    for curl's exit codes (CONTRACT H4); with `fail_fast` the first check that does not pass ends the run.
    """

    identity: SpecIdentity
    checks: tuple[CheckSpec, ...]
    success: str
    pins: dict[str, str]
    budget: float | None = None
    exit_codes: Literal["plain", "curl"] = "plain"
    fail_fast: bool = False
