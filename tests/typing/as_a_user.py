"""The library as its users write with it: held by mypy (`scripts/check`), and run by tests/unit/test_public_surface.py.

Everything comes from `precheck_lib` itself. `assert_type` says what an editor has to show; where a line must not be
accepted it says so with `type: ignore`, which mypy reports where it is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import precheck_lib
from precheck_lib import (
    CATALOGUE,
    BudgetTooSmallError,
    CheckResult,
    CheckSpec,
    Finding,
    Interrupts,
    Report,
    Spec,
    SpecError,
    Watcher,
    build_spec,
    json_bytes,
    junit_bytes,
    load_spec,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import assert_type
else:

    def assert_type(value: object, _type: object) -> object:
        """Stand in for what only a type checker needs."""
        return value


class Progress(Watcher):
    """A face of the user's own."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def ended(self, result: CheckResult) -> None:
        """Keep a line of each check."""
        self.lines.append(f"{result.id}: {result.outcome}")


def from_a_file(path: str) -> list[str]:
    """Load a spec, and give what is wrong with it."""
    try:
        spec = load_spec(path)
    except SpecError as error:
        return [f"{one.file}:{one.line}: {one.text}" for one in error.problems]
    assert_type(spec, Spec)
    assert_type(spec.checks, tuple[CheckSpec, ...])
    return []


def from_plain_data(url: str) -> Spec:
    """Build a spec without a file."""
    web: Mapping[str, Any] = {"id": "web", "http": {"url": url, "status": 200}, "budget": "2s"}
    return build_spec({"version": 1, "name": "mine", "checks": [web]})


def verdict_of(spec: Spec, env: Mapping[str, str]) -> tuple[Report, list[str]]:
    """Run a spec as a program of the user's own would."""
    watcher = Progress()
    with Interrupts() as interrupts:
        try:
            report = run(spec, env=env, budget=5.0, watcher=watcher, interrupts=interrupts)
        except BudgetTooSmallError as error:
            report = precheck_lib.run(spec, env=env, budget=error.smallest)
    assert_type(report.verdict, Literal["ready", "not-ready", "error", "cancelled"])
    assert_type(report.exit_code, int)
    assert_type(json_bytes(report), bytes)
    assert_type(junit_bytes(report), bytes)
    return report, watcher.lines


def what_to_do(report: Report) -> list[str]:
    """Give the remedies of a report."""
    wrong: list[Finding] = [finding for check in report.checks for finding in check.findings]
    return [CATALOGUE[finding.code].remedy for finding in wrong]


def never_called(report: Report, spec: Spec) -> None:
    """What a type checker has to refuse."""
    run("strict")  # type: ignore[arg-type]
    run(spec, budget="5s")  # type: ignore[arg-type]
    report.verdict = "fine"  # type: ignore[assignment]
    spec.name = "another"  # type: ignore[attr-defined]
