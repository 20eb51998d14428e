"""Whether the row of a loaded model is right (CONTRACT G4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.findings import not_ready
from precheck_lib.servers.names import canonical
from precheck_lib.servers.words import short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from precheck_lib.servers.ollama import Row


def listed(rows: Sequence[Row], model: str) -> list[Row]:
    """Return the rows that have the model's name, compared canonically."""
    wanted = canonical(model)
    return [row for row in rows if canonical(row.name) == wanted]


def judge(
    rows: Sequence[Row], model: str, *, context_length: int | None, digest: str | None = None, loaded: bool = True
) -> Row:
    """Return the model's one row where it is fully on the GPU with context enough; raises `NotReadyError` otherwise.

    Fully on the GPU: `size` and `size_vram` are integers (not `1.0`, not `"1"`, not `true`) and equal, above 0. That is
    what Ollama reports, not a measurement: some versions report an expectation. `digest` is the model's among the
    installed ones; with it a missing row can be found under another name of the same weights. `loaded` says that this
    run has loaded it.
    """
    found = listed(rows, model)
    if not found:
        raise not_ready(
            "residency.absent",
            f"{model} is not resident{' after its load' if loaded else ''}",
            evidence=_neighbours(rows, digest),
        )
    if len(found) > 1:
        raise not_ready("residency.doubled", f"{model} is listed {len(found)} times, not once")
    row = found[0]
    _judge_types(row, model, needs_context=context_length is not None)
    if row.size_vram > row.size or row.size <= 0:
        sizes = f"size {_number(row.size)} and size_vram {_number(row.size_vram)}"
        raise not_ready("residency.row", f"{model}: {sizes} cannot both be true")
    if row.size_vram != row.size:
        raise not_ready(
            "residency.partial",
            f"{model} is not fully on the GPU: {_number(row.size_vram)} of {_number(row.size)} bytes, "
            f"{_number(row.size - row.size_vram)} bytes are on the CPU",
            evidence=_partial_cause(row, context_length),
            remedy=None if row.size_vram else "See whether the driver answers (nvidia-smi), then restart Ollama.",
            retryable=row.size_vram > 0,
        )
    if context_length is not None and row.context_length < context_length:
        raise not_ready(
            "residency.context",
            f"{model} has a context length of {_number(row.context_length)}, below the {context_length} that is needed",
            evidence="4096 is what Ollama gives by itself on a GPU under 23 GiB, or when it saw no GPU at its start"
            if row.context_length == 4096
            else "",
        )
    return row


def _number(value: int) -> str:
    """Write an integer as it is, unless it is beyond all sense: Python refuses to write 4,301 digits."""
    return str(value) if abs(value) < 10**60 else "a number of more than 60 digits"


def _judge_types(row: Row, model: str, *, needs_context: bool) -> None:
    keys = ("size", "size_vram", "context_length") if needs_context else ("size", "size_vram")
    missing = [key for key in keys if key in row.missing]
    if missing:
        raise not_ready("residency.row", f"the inventory says no {' and no '.join(missing)} of {model}")
    for key in keys:
        value = getattr(row, key)
        # bool is a subclass of int, and true == 1.
        if type(value) is not int:
            raise not_ready("residency.row", f"{model}: {key} is {short(value)}, not an integer")


def _partial_cause(row: Row, context_length: int | None) -> str:
    if row.size_vram == 0:
        return "nothing of it is on the GPU: Ollama sees none, or its driver and library do not match"
    share = f"{_number(row.size_vram * 100 // row.size)} % are on the GPU"
    if context_length is not None and type(row.context_length) is int and row.context_length > context_length:
        return (
            f"{share}; its context of {_number(row.context_length)} is larger than the {context_length} that is needed"
        )
    return share


def _neighbours(rows: Sequence[Row], digest: str | None) -> str:
    for row in rows:
        if digest is not None and row.digest == digest:
            return f"the same weights are resident under the name {short(row.name)}"
    if not rows:
        return "nothing is resident"
    return f"resident are {', '.join(short(row.name) for row in rows[:5])}"
