"""The gate that decides in seconds whether a self-hosted GPU runner is fit for an expensive job.

    from precheck_lib import load_spec, run

    report = run(load_spec("precheck.yml"))
    report.verdict        # "ready", "not-ready", "error", "cancelled"

`build_spec` makes a spec of plain data, without a file. A `Watcher` is told what goes on, `Interrupts` turns signals
into an orderly end.

Everything public is listed in `__all__`; the rest may change. Names are imported when they are first used, so that
`precheck --version` does not pay for what it does not need.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as `typing` has it, whose import would take a third of what `--version` takes
if TYPE_CHECKING:
    from precheck_lib.budgets import BudgetTooSmallError
    from precheck_lib.catalogue import CATALOGUE
    from precheck_lib.engine import run
    from precheck_lib.interrupt import Interrupts
    from precheck_lib.outcome import (
        CheckResult,
        CycleRecord,
        Finding,
        Host,
        Report,
        RequestRecord,
        Source,
        SpecIdentity,
    )
    from precheck_lib.report import json_bytes, junit_bytes
    from precheck_lib.spec import CheckSpec, Problem, Spec, SpecError, Wait, When, build_spec, load_spec
    from precheck_lib.watcher import Watcher

__version__ = "0.1.0"

_HOMES = {
    "BudgetTooSmallError": "budgets",
    "CATALOGUE": "catalogue",
    "CheckResult": "outcome",
    "CheckSpec": "spec",
    "CycleRecord": "outcome",
    "Finding": "outcome",
    "Host": "outcome",
    "Interrupts": "interrupt",
    "Problem": "spec",
    "Report": "outcome",
    "RequestRecord": "outcome",
    "Source": "outcome",
    "Spec": "spec",
    "SpecError": "spec",
    "SpecIdentity": "outcome",
    "Wait": "spec",
    "Watcher": "watcher",
    "When": "spec",
    "build_spec": "spec",
    "json_bytes": "report",
    "junit_bytes": "report",
    "load_spec": "spec",
    "run": "engine",
}

__all__ = [
    "CATALOGUE",
    "BudgetTooSmallError",
    "CheckResult",
    "CheckSpec",
    "CycleRecord",
    "Finding",
    "Host",
    "Interrupts",
    "Problem",
    "Report",
    "RequestRecord",
    "Source",
    "Spec",
    "SpecError",
    "SpecIdentity",
    "Wait",
    "Watcher",
    "When",
    "__version__",
    "build_spec",
    "json_bytes",
    "junit_bytes",
    "load_spec",
    "run",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
