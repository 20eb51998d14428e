"""How long the checks of a spec may take, and what of a run's budget is kept back for its cleanup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precheck_lib.checks import kind_named
from precheck_lib.checks.kind import ollama_models
from precheck_lib.errors import TalkError
from precheck_lib.findings import NotReadyError
from precheck_lib.spec.variables import expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.spec.model import Spec


class BudgetTooSmallError(Exception):
    """A budget that leaves no time for a load; `smallest` is the least that works, in seconds."""

    def __init__(self, seconds: float, plan: Plan) -> None:
        super().__init__(
            f"a budget of {seconds:g}s leaves no time for a load: {plan.reserve:g}s of it are kept for cleanup and "
            f"reports; the smallest one that works is {plan.smallest}s"
        )
        self.smallest = plan.smallest


class Plan:
    """How long the checks of a spec may take: `parts` in seconds by check id, `reserve` for cleanup and reports.

    `models` is how many models each changing check cycles, `None` where the environment does not tell.
    """

    def __init__(self, spec: Spec, env: Mapping[str, str]) -> None:
        self.parts: dict[str, float] = {}
        self.models: dict[str, int | None] = {}
        self.reserve = 0.0
        self.waits = 0.0
        for check in spec.checks:
            if check.left_out is not None:
                self.parts[check.id] = 0.0
                continue
            of = kind_named(check.kind)
            models = of.models(check.options)
            count = None if models is None else _count(models, env, spec.pins)
            if models is not None:
                self.models[check.id] = count
            known = 1 if count is None else count
            usual = of.seconds(check.options, known) if check.wait is None else check.wait.seconds
            self.parts[check.id] = check.budget if check.budget is not None else usual
            self.reserve += of.reserve(check.options, known)
            self.waits += of.waits(check.options, known)

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return sum(self.parts.values()) + self.reserve

    @property
    def smallest(self) -> int:
        """The least budget that works, in whole seconds: the reserve, the waits of each cycle, and a second or two.

        Small models need no waits, which only the server can tell: before it is asked, a budget below this one is
        refused only where it leaves nothing at all beside the reserve.
        """
        return int(self.reserve + self.waits) + 2 if self.reserve else 1


def _count(models: Any, env: Mapping[str, str], pins: Mapping[str, str]) -> int | None:
    from precheck_lib.servers.names import canonical

    try:
        return len({canonical(name) for name in ollama_models(expand(models, env, pins)).values()})
    except (TalkError, NotReadyError):
        return None


__all__ = ["BudgetTooSmallError", "Plan"]
