"""What a fault changes in a model of the Ollama stand-in and in its rows of the inventory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precheck_lib.simulate.active import Active
    from precheck_lib.simulate.ollama_models import Model

# Faults that need a model in memory to act on when the run begins.
PRELOADING = (
    "never-leaves",
    "leaves-slowly",
    "ps-500-empty",
    "ps-500-with-body",
    "ps-hangs-once",
    "ps-invalid",
)
_MISSING = {"missing-size": "size", "missing-size-vram": "size_vram", "missing-context": "context_length"}


def faulted_model(fault: Active, name: str, model: Model) -> Model:
    """Give a model as the fault at work has it."""
    if fault.concerns("cloud-model", name):
        return replace(model, remote_host="https://ollama.com:443")
    if fault.concerns("leaves-slowly", name):
        return replace(model, unload_seconds=fault.options["seconds"])
    if fault.concerns("partly-on-cpu", name):
        return replace(model, vram=model.size * fault.options["percent"] // 100)
    if fault.concerns("on-cpu", name):
        return replace(model, vram=0)
    if fault.concerns("short-context", name):
        return replace(model, context_length=fault.options["context_length"])
    return model


def faulted_rows(fault: Active, name: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the rows that list a model: one, or what the fault at work makes of it."""
    for missing, key in _MISSING.items():
        if fault.concerns(missing, name):
            del row[key]
    if fault.concerns("bool-context", name):
        row["context_length"] = True
    if fault.concerns("size-as-string", name):
        row.update(size=str(row["size"]), size_vram=str(row["size_vram"]))
    if fault.concerns("size-as-float", name):
        row.update(size=float(row["size"]), size_vram=float(row["size_vram"]))
    if fault.concerns("alias-row", name):
        row.update(name=fault.options["alias"], model=fault.options["alias"])
    if fault.concerns("no-row", name):
        return []
    return [row, dict(row)] if fault.concerns("two-rows", name) else [row]
