"""What a run would do, in order, with budgets; for a person. Nothing is touched and no secret is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precheck_lib.budgets import Plan
from precheck_lib.checks import changes_server, kind_named
from precheck_lib.redact import without_url_credentials
from precheck_lib.report.text import clean
from precheck_lib.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.spec.model import Spec


def plan_lines(spec: Spec, env: Mapping[str, str], budget: float | None = None) -> list[str]:
    """Return the plan of a spec as lines of text."""
    plan = Plan(spec, env)
    lines = [f"{spec.identity.name} ({spec.identity.path})", ""]
    for check in sorted(spec.checks, key=changes_server):
        needs = f", after {', '.join(check.needs)}" if check.needs else ""
        each = _each(plan, check.id)
        lines.append(f"{check.id}: {check.title} (at most {duration_text(plan.parts[check.id])}{each}{needs})")
        deeds = kind_named(check.kind).plan(check.options)
        lines += [f"    {'CHANGES' if deed.changes else 'reads  '}  {deed.text}" for deed in deeds]
    further, further_reserve, further_waits = _further(spec, plan)
    lines += ["", f"budget: {_sum(plan.total, further + further_reserve)}, the sum of the parts"]
    chosen = budget if budget is not None else spec.budget
    if chosen is not None:
        small = plan.reserve and chosen <= plan.reserve
        refused = "; it leaves no time for a load, and a run would be refused (exit code 2)" if small else ""
        lines.append(f"budget given: {duration_text(chosen)}{refused}")
    if plan.reserve:
        lines.append(f"reserve: {_sum(plan.reserve, further_reserve)}, kept of it for cleanup and reports")
        lines.append(
            f"smallest budget that leaves time for a load: {_sum(plan.smallest, further_reserve + further_waits)}"
        )
    return [_indented(line) for line in lines]


def plan_document(spec: Spec, env: Mapping[str, str], budget: float | None = None) -> dict[str, Any]:
    """Return the plan of a spec for programs: the checks in the order in which they begin, times in seconds.

    Where the environment does not tell how many models a check cycles, `models` is null, the times are those for one,
    and `each_further_model` says what every other one adds.
    """
    plan = Plan(spec, env)
    part, reserve, waits = _further(spec, plan)
    further = {"total_s": part + reserve, "reserve_s": reserve, "smallest_s": reserve + waits}
    chosen = budget if budget is not None else spec.budget
    return {
        "version": 1,
        "spec": {"name": _text(spec.identity.name or ""), "path": _text(spec.identity.path or "")},
        "budget_s": chosen,
        "total_s": plan.total,
        "reserve_s": plan.reserve,
        "smallest_s": plan.smallest,
        "each_further_model": further if any(further.values()) else None,
        "checks": [
            {
                "id": check.id,
                "title": _text(check.title),
                "kind": check.kind,
                "budget_s": plan.parts[check.id],
                "needs": list(check.needs),
                "changes": changes_server(check),
                **({"models": plan.models[check.id]} if check.id in plan.models else {}),
                "deeds": [
                    {"text": _text(deed.text), "changes": deed.changes}
                    for deed in kind_named(check.kind).plan(check.options)
                ],
            }
            for check in sorted(spec.checks, key=changes_server)
        ],
    }


def _each(plan: Plan, check: str) -> str:
    if check not in plan.models:
        return ""
    count = plan.models[check]
    if count is None:
        return " for one model"
    return f" for {count} model{'s' if count != 1 else ''}"


def _further(spec: Spec, plan: Plan) -> tuple[float, float, float]:
    """Return what a second model adds to parts, reserve and waits, where it is not known how many there are."""
    part = reserve = waits = 0.0
    for check in spec.checks:
        if check.id in plan.models and plan.models[check.id] is None:
            of = kind_named(check.kind)
            if check.budget is None:
                part += of.seconds(check.options, 2) - of.seconds(check.options, 1)
            reserve += of.reserve(check.options, 2) - of.reserve(check.options, 1)
            waits += of.waits(check.options, 2) - of.waits(check.options, 1)
    return part, reserve, waits


def _sum(seconds: float, further: float) -> str:
    return duration_text(seconds) + (
        f" for one model and {duration_text(further)} for each further one" if further else ""
    )


def _indented(line: str) -> str:
    """Clean a line (a title or an option may hold anything) and keep its indentation."""
    text = line.lstrip(" ")
    return " " * (len(line) - len(text)) + _text(text)


def _text(text: str) -> str:
    return clean(without_url_credentials(text))
