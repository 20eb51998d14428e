"""The command `gpu`: the cards of this machine in a table, and what is wrong with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.checks import gpu
from precheck_lib.checks.gpu_judge import label
from precheck_lib.checks.kind import Context
from precheck_lib.checks.look import size_text
from precheck_lib.errors import Cancelled
from precheck_lib.exits import UsageError
from precheck_lib.findings import NotReadyError
from precheck_lib.gpu.reading import Reading
from precheck_lib.interrupt import signal_name
from precheck_lib.report.text import clean
from precheck_lib.report.wording import advice
from precheck_lib.spec.files import UnreadableError, read_file
from precheck_lib.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from precheck_lib.ending import Ending
    from precheck_lib.gpu.reading import Card
    from precheck_lib.outcome import Finding

_SECONDS = 60.0
_MOST_BYTES = 4 << 20
_HEADS = ("GPU", "NAME", "PCI", "MEMORY IN USE", "TEMP", "PROCESSES")


def show(
    ending: Ending,
    *,
    expect: int | None,
    as_json: bool,
    record: str | None,
    replay: str | None,
    hide: Callable[[str], str],
) -> int:
    """Print the cards and what is wrong with them, and return the exit code.

    That is 0 where they could be read, or there is none; with `expect`, 1 where they are not so many whole ones. 3
    where it could not be found out, 128 + n where signal n came. `record` names a file for what was read, `replay` one
    with what another run has recorded. Raises `UsageError` for files that cannot be read or written.
    """
    terminal = ending.terminal
    context = Context(
        env=ending.env,
        budget=Budget(_SECONDS, cancel=ending.interrupts.stop),
        journal=Journal(),
        expand=lambda value: value,
        exit_code=lambda _: 1,
    )
    options = gpu.GpuOptions(count=expect, probe=replay is None, settle=Seconds(0))
    reading: Reading | None = None
    word = ""
    found: list[Finding] = []
    try:
        reading = gpu.read(context) if replay is None else _replayed(replay)
        if record is not None:
            _write(record, reading)
        found = gpu.judged(options, context, reading)
    except NotReadyError as error:
        word, found = error.word, error.findings
    except Cancelled as error:
        terminal.err(f"precheck: ended by {signal_name(error.signum)}")
        return 128 + error.signum
    nothing_here = [finding.code for finding in found] == ["gpu.none"]
    if as_json:
        document = {"reading": msgspec.to_builtins(reading), "findings": msgspec.to_builtins(found)}
        for line in json.dumps(document, indent=2, ensure_ascii=True).splitlines():
            terminal.out(hide(line))
    else:
        for indent, line in _lines(reading, [] if nothing_here and expect is None else found):
            terminal.out(indent + clean(hide(line)))
    if expect is not None:
        return {"": 0, "error": 3}.get(word, 1)
    return 3 if reading is None or (word == "error" and not nothing_here) else 0


def _lines(reading: Reading | None, found: list[Finding]) -> Iterator[tuple[str, str]]:
    """Yield each line as its indent and its text."""
    if reading is not None:
        yield "", _head(reading)
        if reading.cards:
            yield from (("", line) for line in _table([_HEADS, *map(_row, _all(reading.cards))]))
    for finding in found:
        yield "", f"{finding.severity}: {finding.message} [{finding.code}]"
        yield from (("    ", line) for line in advice(finding))
    if reading is not None and reading.cards and not found:
        yield "", "nothing is wrong with them"


def _head(reading: Reading) -> str:
    if not reading.cards and not any(card.vendor == "NVIDIA" for card in reading.pci):
        there = ", ".join(f"{card.vendor} at {card.address}" for card in reading.pci)
        return f"this machine has no NVIDIA GPU ({f'on PCI: {there}' if there else 'and none of another maker on PCI'})"
    driver = f"NVIDIA driver {reading.module}" if reading.module else "no NVIDIA driver is loaded"
    cuda = f", CUDA {reading.cuda[0]}.{reading.cuda[1]}" if reading.cuda else ""
    on_bus = [card for card in reading.pci if card.vendor == "NVIDIA"]
    others = sorted({card.vendor for card in reading.pci} - {"NVIDIA"})
    more = f", and of {' and '.join(others)}" if others else ""
    return f"{driver}{cuda}; {len(reading.cards)} listed, {len(on_bus)} of NVIDIA on PCI{more}"


def _all(cards: list[Card]) -> Iterator[Card]:
    for card in cards:
        yield card
        yield from card.instances


def _row(card: Card) -> tuple[str, ...]:
    if card.name is None:
        return str(card.index), label(card), card.bus or "", "", "", ""
    used = f"{size_text(card.used or 0)} of {size_text(card.total)}" if card.total else ""
    degrees = f"{card.temperature} °C" if card.temperature is not None else ""
    holders = ", ".join(
        f"{one.pid} ({size_text(one.bytes)})" if one.bytes is not None else str(one.pid) for one in card.holders
    )
    return str(card.index), card.name, card.bus or (card.uuid or "")[:12], used, degrees, holders


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


# Files ----------------------------------------------------------------------------------------------------------------


def _write(path: str, reading: Reading) -> None:
    try:
        with open(path, "x", encoding="utf-8") as file:
            json.dump(msgspec.to_builtins(reading), file, indent=2)
            file.write("\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"what was read cannot be written to {path!r}: {reason}") from None


def _replayed(path: str) -> Reading:
    try:
        data: Any = json.loads(read_file(path, _MOST_BYTES))
        return msgspec.convert(data.get("reading", data), Reading)
    except UnreadableError as error:
        raise UsageError(f"{path!r} cannot be read: {error}") from None
    except (ValueError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise UsageError(f"{path!r} is not what `precheck gpu --record` writes: {error}") from None
