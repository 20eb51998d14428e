"""What a run would do, in order, with budgets; for a person. Nothing is touched and no secret is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.checks import kind_named
from precheck_lib.engine import Plan
from precheck_lib.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.spec.model import Spec


def plan_lines(spec: Spec, env: Mapping[str, str], budget: float | None = None) -> list[str]:
    """Return the plan of a spec as lines of text."""
    plan = Plan(spec, env)
    lines = [f"{spec.identity.name} ({spec.identity.path})", ""]
    changing = [check for check in spec.checks if kind_named(check.kind).changes]
    for check in (*(check for check in spec.checks if check not in changing), *changing):
        needs = f", after {', '.join(check.needs)}" if check.needs else ""
        each = _each(plan, check.id)
        lines.append(f"{check.id}: {check.title} (at most {duration_text(plan.parts[check.id])}{each}{needs})")
        deeds = kind_named(check.kind).plan(check.options)
        lines += [f"    {'CHANGES' if deed.changes else 'reads  '}  {deed.text}" for deed in deeds]
    unknown = any(count is None for count in plan.models.values())
    each = " for one model; more for each further one" if unknown else ""
    chosen = budget if budget is not None else spec.budget
    lines += ["", f"budget: {duration_text(plan.total)}{each}, the sum of the parts"]
    if chosen is not None:
        lines.append(f"budget given: {duration_text(chosen)}")
    if plan.reserve:
        lines.append(f"reserve: {duration_text(plan.reserve)}{each}, kept of it for cleanup and reports")
        lines.append(f"smallest budget that leaves time for a load: {plan.smallest}s{each}")
    return lines


def _each(plan: Plan, check: str) -> str:
    if check not in plan.models:
        return ""
    count = plan.models[check]
    if count is None:
        return " for one model"
    return f" for {count} model{'s' if count != 1 else ''}"
