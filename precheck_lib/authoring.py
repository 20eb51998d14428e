"""Commands for whoever writes a spec: `validate`, `schema`, `list`, `plan`. None of them touches anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from precheck_lib.exits import USAGE
from precheck_lib.report.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from precheck_lib.ending import Ending
    from precheck_lib.outcome import Report, SpecIdentity
    from precheck_lib.redact import Redactor
    from precheck_lib.spec.model import SpecError


def validate(name: str, ending: Ending, redactor: Redactor) -> int:
    """Say whether a spec is right, or all that is wrong with it, up to 20 problems."""
    from precheck_lib.spec import SpecError, load_spec

    try:
        spec = load_spec(name)
    except SpecError as error:
        for problem in error.problems:
            ending.terminal.out(clean(redactor.text(str(problem))))
        texts = [str(problem) for problem in error.problems]
        ending.annotate(
            unusable_report(texts, code="spec.invalid", env=ending.env, redactor=redactor, of=error.identity)
        )
        return USAGE
    count = len(spec.checks)
    ending.terminal.out(clean(redactor.text(f"{name}: right, {count} check{'s' if count != 1 else ''}")))
    return 0


def unusable_report(
    texts: Iterable[str], *, code: str, env: Mapping[str, str], redactor: Redactor, of: SpecIdentity | None
) -> Report:
    """Make the report about a spec or a command line that cannot be used."""
    from precheck_lib import engine
    from precheck_lib.findings import make
    from precheck_lib.hiding import hide_names
    from precheck_lib.outcome import CheckResult

    report = engine.empty_report(env, of)
    hide_names(report, redactor)
    findings = [make(code, redactor.text(text), retryable=False) for text in texts]
    name = "spec" if code == "spec.invalid" else "usage"
    report.checks = [CheckResult(id=name, title=f"the {name}", kind=name, outcome="error", findings=findings)]
    report.exit_code = USAGE
    return report


def schema(ending: Ending) -> int:
    """Print the JSON Schema of a spec."""
    from precheck_lib.spec.schema import schema_text

    for line in schema_text().splitlines():
        ending.terminal.out(line)
    return 0


def list_all(ending: Ending) -> int:
    """Print the built-in specs and the kinds of checks, a line each."""
    from precheck_lib.checks import KINDS
    from precheck_lib.spec.load import built_in_names
    from precheck_lib.spec.schema import about_kind

    ending.terminal.out("built-in specs:")
    for name in built_in_names():
        ending.terminal.out(f"  {name:<12} {about_spec(name)}")
    ending.terminal.out("")
    ending.terminal.out("kinds of checks:")
    for name in KINDS:
        ending.terminal.out(f"  {name:<12} {about_kind(name)}")
    return 0


def about_spec(name: str) -> str:
    """Return the first sentence of the comment with which a built-in spec begins."""
    from precheck_lib.spec.load import built_in_folder

    comment: list[str] = []
    with open(os.path.join(built_in_folder(), f"{name}.yml"), encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                break
            comment.append(line[1:].strip())
    sentence, _, _ = " ".join(comment).partition(". ")
    return sentence.rstrip(".")


def plan(name: str, ending: Ending, redactor: Redactor, *, budget: float | None, as_json: bool) -> int:
    """Say what a run would do, as lines or as JSON."""
    from precheck_lib.plan import plan_document, plan_lines
    from precheck_lib.spec import SpecError, load_spec

    try:
        spec = load_spec(name)
    except SpecError as error:
        return _refuse(error, ending, redactor)
    if as_json:
        import json

        lines = json.dumps(plan_document(spec, ending.env, budget), indent=2).splitlines()
    else:
        lines = plan_lines(spec, ending.env, budget)
    for line in lines:
        ending.terminal.out(line)
    return 0


def _refuse(error: SpecError, ending: Ending, redactor: Redactor) -> int:
    for problem in error.problems:
        ending.terminal.err(f"precheck: {clean(redactor.text(str(problem)))}")
    return USAGE
