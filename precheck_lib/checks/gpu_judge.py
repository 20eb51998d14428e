"""What a reading of the GPUs means: findings, each with what was seen.

Pure: a reading and what is wanted in, findings out. What only a broken machine shows is an error; what a healthy, busy
or shared one may show is a warning, which a spec can ask to be an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from precheck_lib.checks.look import shown, size_text
from precheck_lib.findings import make
from precheck_lib.gpu.cuda import NO_DEVICE, OUT_OF_MEMORY, UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from precheck_lib.gpu.reading import Card, CudaReading, Reading, Trouble
    from precheck_lib.outcome import Finding

# NVML's numbers: nvml.h of the 550 and 580 drivers.
_NO_PERMISSION, _LIBRARY_MISSING, _NOT_LOADED, _LOST, _RESET_REQUIRED, _MISMATCH, _INFOROM = 4, 12, 9, 15, 16, 18, 14
_PROHIBITED = 2
_SLOWDOWN = {0x8: "hardware slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake"}
_RECOVERY = {1: "reset", 2: "reboot", 3: "drain peer-to-peer", 4: "drain and reset", 6: "bus reset", 7: "system reboot"}
_BASIC = {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"}
_CONDITIONS = {
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
}
_SLOW_SECONDS = 2.0
_SLACK = 1 << 30
"""Memory in use that belongs to no process: a driver keeps some hundred MiB for itself, more on the largest cards."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a spec asks for (`None`: nothing); `count` is exact, `at_least` is not, and sizes are bytes of each card."""

    count: int | None = None
    at_least: int = 1
    name: str | None = None
    total: int | None = None
    free: int | None = None
    margin: int | None = None
    link_width: int | None = None


# The driver as a whole ------------------------------------------------------------------------------------------------


def judge_driver(reading: Reading) -> Iterator[Finding]:
    """Say what keeps the driver from being used at all; where that is so, there are no cards to judge."""
    here = [card for card in reading.pci if card.vendor == "NVIDIA"]
    for trouble in reading.trouble:
        seen = f"{len(here)} NVIDIA cards are on PCI" if here else "no NVIDIA card is on PCI"
        if trouble.code == _MISMATCH:
            module, library = reading.module or "unknown", reading.library or "unknown"
            text = f"the kernel runs NVIDIA driver {module}, and the library on disk is {library}"
            yield make("gpu.mismatch", text, evidence=_said(trouble))
        elif trouble.code in (_LIBRARY_MISSING, _NOT_LOADED) and not here:
            yield make("gpu.none", "there is no NVIDIA GPU", evidence=f"{_pci_text(reading)}; {_said(trouble)}")
        elif trouble.code == _LIBRARY_MISSING:
            yield make(
                "gpu.library", f"NVIDIA's library libnvidia-ml.so.1 cannot be loaded; {seen}", evidence=_said(trouble)
            )
        elif trouble.code == _NOT_LOADED:
            yield make("gpu.driver", f"NVIDIA's driver is not loaded; {seen}", evidence=_said(trouble))
        else:
            yield make("gpu.refused", f"NVIDIA's driver does not answer as it should; {seen}", evidence=_said(trouble))


def _said(trouble: Trouble) -> str:
    return f"{trouble.call} says {trouble.code}: {shown(trouble.text)}"


# How many -------------------------------------------------------------------------------------------------------------


def judge_count(reading: Reading, cards: Sequence[Card], wanted: Wanted) -> Iterator[Finding]:
    """Count the cards that can be used, by a handle and a name each, and compare with what is on PCI."""
    usable = [card for card in cards if is_usable(card)]
    for card in cards:
        if not is_usable(card):
            yield from _unusable(card)
    listed = {card.bus for card in reading.cards if card.bus}
    nameless = sum(not card.bus for card in reading.cards)
    # One whose node is not in this container is another's.
    missing = [
        card.address
        for card in reading.pci
        if card.driver == "nvidia" and card.node is not False and card.address not in listed
    ][nameless:]
    if missing and any(card.node for card in reading.pci if card.address in missing):
        text = f"NVIDIA's driver has a card that it does not list: {', '.join(missing)}"
        yield make("gpu.missing", text, evidence=f"it lists {', '.join(sorted(listed)) or 'none'}")
    if wanted.count is not None and len(usable) != wanted.count:
        yield make(
            "gpu.count", f"{len(usable)} GPUs can be used, {wanted.count} have to be", evidence=_pci_text(reading)
        )
    elif wanted.count is None and len(usable) < wanted.at_least:
        code = "gpu.count" if cards else "gpu.none"
        text = f"{len(usable) or 'no'} GPU can be used, at least {wanted.at_least} has to be"
        yield make(code, text, evidence=_pci_text(reading))


def _pci_text(reading: Reading) -> str:
    on_bus = [f"{card.vendor} at {card.address} ({card.driver or 'no driver'})" for card in reading.pci]
    return f"on PCI: {', '.join(on_bus)}" if on_bus else "no GPU is on PCI"


def is_usable(card: Card) -> bool:
    """Whether a card has a handle, a name and its memory, and is not lost."""
    if any(trouble.code in (_LOST, _RESET_REQUIRED) or trouble.call in _BASIC for trouble in card.trouble):
        return False
    return bool(card.name) and (card.total is not None or card.mig)


def _unusable(card: Card) -> Iterator[Finding]:
    lost = [trouble for trouble in card.trouble if trouble.code == _LOST]
    reset = [trouble for trouble in card.trouble if trouble.code == _RESET_REQUIRED]
    if lost:
        yield make("gpu.lost", f"{label(card)} is lost: the driver cannot reach it any more", evidence=_said(lost[0]))
    elif reset:
        yield make("gpu.reset", f"{label(card)} has to be reset before it can be used", evidence=_said(reset[0]))
    else:
        said = "; ".join(map(_said, card.trouble)) or "it has no name, or does not tell its memory"
        yield make("gpu.unread", f"{label(card)} does not say what it is", evidence=said)


def label(card: Card) -> str:
    """Name a card: its number, its name and its address, as far as it is known."""
    more = [shown(part) for part in (card.name, card.bus) if part]
    return f"GPU {card.index}" + (f" ({', '.join(more)})" if more else "")


# Each card ------------------------------------------------------------------------------------------------------------


def judge_health(card: Card) -> Iterator[Finding]:
    """Say what is broken in a card that can be used: errors first, then what is worth a look."""
    if card.recovery:
        action = _RECOVERY.get(card.recovery, f"action {card.recovery}")
        yield make("gpu.reset", f"{label(card)} waits for a {action}", evidence="NVML's recovery action is not `none`")
    if card.uncorrected:
        text = f"{label(card)} had {card.uncorrected} uncorrectable memory errors since the driver was loaded"
        yield make("gpu.ecc", text)
    if card.remaps is not None and (card.remaps[2] or card.remaps[3]):
        what = "has failed" if card.remaps[3] else "is pending"
        yield make("gpu.remap", f"{label(card)}: a remapping of broken memory rows {what}")
    if card.compute_mode == _PROHIBITED:
        yield make("gpu.prohibited", f"{label(card)} is in compute mode `prohibited`: no program can use it")
    for trouble in card.trouble:
        if trouble.code == _INFOROM:
            text = f"{label(card)}: its inforom is corrupted; the card itself can be used"
            yield make("gpu.inforom", text, evidence=_said(trouble), severity="warning")
        else:
            # What a virtual machine or a container may refuse is no sign of a broken card.
            softly = trouble.code == _NO_PERMISSION or trouble.call in _CONDITIONS
            text = f"{label(card)}: a part of its state cannot be read"
            yield make("gpu.unread", text, evidence=_said(trouble), severity="warning" if softly else "error")
    if card.retirement_pending:
        text = f"{label(card)}: memory pages are to be retired at the next reset"
        yield make("gpu.pages", text, severity="warning")
    reasons = [word for bit, word in _SLOWDOWN.items() if (card.throttle or 0) & bit]
    if reasons:
        hot = f"it has {card.temperature} °C" if card.temperature is not None else ""
        yield make(
            "gpu.throttled", f"{label(card)} is slowed down: {', '.join(reasons)}", evidence=hot, severity="warning"
        )
    if card.link_width and card.link_width_most and card.link_width < card.link_width_most:
        text = f"{label(card)} uses {card.link_width} of {card.link_width_most} PCIe lanes"
        yield make("gpu.link", text, severity="warning")


def judge_wanted(card: Card, wanted: Wanted) -> Iterator[Finding]:
    """Compare a card that can be used with what the spec asks of each; free memory is judged apart."""
    if wanted.name is not None and wanted.name.lower() not in (card.name or "").lower():
        yield make("gpu.model", f"{label(card)} is not the {shown(wanted.name)} that is wanted")
    if wanted.total is not None and (card.total or 0) < wanted.total:
        text = f"{label(card)} has {size_text(card.total or 0)} of memory, {size_text(wanted.total)} are needed"
        yield make("gpu.size", text)
    if wanted.link_width is not None and card.link_width is not None and card.link_width < wanted.link_width:
        yield make("gpu.link", f"{label(card)} uses {card.link_width} PCIe lanes, {wanted.link_width} are needed")
    if wanted.margin is not None and card.margin is not None and card.margin < wanted.margin:
        text = f"{label(card)} is {card.margin} °C below the temperature at which it slows down"
        yield make("gpu.hot", f"{text}, {wanted.margin} are needed")


def free_bytes(card: Card) -> int:
    """Return the free memory of a card; of one that is split, that of the instance that has most."""
    if card.free is None and card.instances:
        return max((instance.free or 0) for instance in card.instances)
    return card.free or 0


def judge_speed(reading: Reading) -> Iterator[Finding]:
    """Say that the driver was slow because nothing keeps it loaded, and how to cure that."""
    asleep = [card for card in reading.cards if card.persistence is False]
    if reading.seconds >= _SLOW_SECONDS and asleep:
        text = f"NVIDIA's driver took {reading.seconds:.1f} s to answer, with persistence mode off"
        yield make("gpu.persistence", text, severity="warning")


def ownerless_bytes(card: Card, living: Mapping[int, object]) -> int:
    """Return how much memory of a card is in use and belongs to no living process, beyond what a driver keeps."""
    if card.used is None or any(holder.bytes is None for holder in card.holders if holder.pid in living):
        return 0
    owned = sum(holder.bytes or 0 for holder in card.holders if holder.pid in living)
    left = card.used - owned
    return left if left > _SLACK else 0


# Which are this runner's ----------------------------------------------------------------------------------------------


def visible(cards: Sequence[Card], chosen: str | None) -> list[Card]:
    """Return the cards that `CUDA_VISIBLE_DEVICES` leaves, as CUDA reads it: numbers, or beginnings of UUIDs.

    What follows the first entry that names no card does not count. A MIG instance stands for itself.
    """
    if chosen is None:
        return list(cards)
    found: list[Card] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if re.fullmatch(r"\d{1,4}", entry):
            fits = [card for card in cards if card.index == int(entry)]
        elif re.match(r"MIG-", entry):
            fits = [one for card in cards for one in card.instances if (one.uuid or "").startswith(entry)]
        else:
            fits = [card for card in cards if entry and (card.uuid or "").startswith(entry)]
        if len(fits) != 1:
            break
        if fits[0] not in found:
            found += fits
    return found


# CUDA -----------------------------------------------------------------------------------------------------------------


def judge_cuda(reading: CudaReading, cards: int) -> Iterator[Finding]:
    """Say whether programs can begin on the cards: busy ones are no fault, and are told as a warning."""

    def words(code: int | None) -> str:
        return f"{reading.words.get(code or 0, 'CUDA error')} ({code})"

    if reading.load is not None:
        yield make("gpu.cuda", "CUDA's library libcuda.so.1 cannot be loaded", evidence=shown(reading.load))
        return
    if reading.init or not reading.count:
        code = reading.init or NO_DEVICE
        yield make("gpu.cuda", f"CUDA cannot begin on any card: {words(code)}", evidence=f"the driver lists {cards}")
        return
    if reading.count < cards:
        yield make("gpu.cuda", f"CUDA sees {reading.count} of the {cards} cards that the driver lists")
    for number, card in enumerate(reading.cards):
        failed = card.context or card.allocation
        if failed in (OUT_OF_MEMORY, UNAVAILABLE):
            text = f"CUDA device {number} is busy: {words(failed)}, so it could not be tried"
            yield make("gpu.busy", text, severity="warning")
        elif failed:
            step = "a context cannot be made" if card.context else "memory cannot be allocated"
            yield make("gpu.cuda", f"CUDA device {number}: {step}: {words(failed)}")
