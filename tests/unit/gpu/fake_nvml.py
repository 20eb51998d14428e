"""An NVML library that is a Python object: the real binding (pynvml) talks to it, as to `libnvidia-ml.so.1`."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import pynvml

GIB = 1 << 30
INSUFFICIENT_SIZE = 7
NOT_SUPPORTED = 3


@dataclass
class FakeCard:
    """One card as NVML would tell of it; `errors` are the results of calls by their names (without `nvmlDevice`)."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = ""
    bus: int = 0x3B
    total: int = 80 * GIB
    reserved: int = 600 << 20
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    unowned: int = 0
    recovery: int | None = 0
    uncorrected: int | None = 0
    remaps: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    retirement_pending: int | None = 0
    throttle: int = 0x1
    temperature: int = 41
    margin: int | None = 46
    link_width: int = 16
    link_width_most: int = 16
    compute_mode: int = 0
    persistence: int = 1
    mig: int | None = 0
    instances: list[FakeCard | None] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        return self.unowned + sum(size or 0 for _, size in self.processes)


def an_instance(**more: Any) -> FakeCard:
    return FakeCard(**{"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "total": 10 * GIB, **more})


class FakeNvml:
    """The library: `errors` are results of calls by their whole names, `missing` the functions of newer drivers."""

    def __init__(self, *cards: FakeCard, errors: dict[str, int] | None = None, missing: tuple[str, ...] = ()) -> None:
        self.cards = list(cards)
        self.errors = errors or {}
        self.missing = missing
        self.asked: list[str] = []
        for number, card in enumerate(self.cards):
            card.uuid = card.uuid or f"GPU-{number:08x}-aaaa-bbbb-cccc-000000000000"
            for place, one in enumerate(card.instances):
                if one is not None:
                    one.uuid = one.uuid or f"MIG-{number:04x}{place:04x}-aaaa-bbbb-cccc-000000000000"

    def __getattr__(self, name: str) -> Any:
        method = type(self).__dict__.get(f"_{name}") or type(self).__dict__.get(f"_{name.partition('_v')[0]}")
        if name in self.missing or not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.asked.append(name)
            plain = name.partition("_v")[0]
            error = self.errors.get(plain, 0)
            card = self._card(arguments[0]) if arguments and name.startswith("nvmlDevice") else None
            if card is not None:
                error = error or card.errors.get(plain.removeprefix("nvmlDevice"), 0) or card.errors.get("*", 0)
            if error:
                return error
            if method is None:
                return 0 if not name.startswith("nvmlDevice") else NOT_SUPPORTED
            return int(method(self, *(() if card is None else (card,)), *arguments[card is not None :]) or 0)

        return call

    def _card(self, handle: Any) -> FakeCard | None:
        if not isinstance(handle, pynvml.c_nvmlDevice_t):
            return None
        number, place = divmod(ctypes.cast(handle, ctypes.c_void_p).value or 0, 100)
        card = self.cards[number - 1]
        return card if place == 0 else card.instances[place - 1]

    # What each function answers ---------------------------------------------------------------------------------------

    def _nvmlSystemGetDriverVersion(self, text, _size):
        text.value = b"550.163.01"

    def _nvmlSystemGetCudaDriverVersion(self, version):
        version._obj.value = 12040

    def _nvmlDeviceGetCount(self, count):
        count._obj.value = len(self.cards)

    def _nvmlDeviceGetHandleByIndex(self, index, handle):
        code = self.cards[index.value].errors.get("GetHandleByIndex", 0)
        _point(handle, (index.value + 1) * 100)
        return code

    def _nvmlDeviceGetName(self, card, text, _size):
        text.value = card.name.encode()

    def _nvmlDeviceGetUUID(self, card, text, _size):
        text.value = card.uuid.encode()

    def _nvmlDeviceGetPciInfo(self, card, place):
        place._obj.domain, place._obj.bus, place._obj.device = 0, card.bus, 0

    def _nvmlDeviceGetMigMode(self, card, current, pending):
        if card.mig is None:
            return NOT_SUPPORTED
        current._obj.value = pending._obj.value = card.mig
        return 0

    def _nvmlDeviceGetMaxMigDeviceCount(self, card, count):
        count._obj.value = len(card.instances)

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, card, index, handle):
        if card.instances[index.value] is None:
            return 6
        _point(handle, (self.cards.index(card) + 1) * 100 + index.value + 1)
        return 0

    def _nvmlDeviceGetMemoryInfo(self, card, memory):
        made = memory._obj
        made.total, made.used = card.total, card.used
        made.free = card.total - card.used - card.reserved
        if hasattr(made, "reserved"):
            made.reserved = card.reserved
        else:
            made.used += card.reserved

    def _nvmlDeviceGetComputeRunningProcesses(self, card, count, rows):
        return _list(card.processes, count, rows)

    def _nvmlDeviceGetGraphicsRunningProcesses(self, _card, count, rows):
        return _list([], count, rows)

    def _nvmlDeviceGetMPSComputeRunningProcesses(self, _card, count, rows):
        return _list([], count, rows)

    def _nvmlDeviceGetFieldValues(self, card, _count, values):
        one = values._obj[0]
        one.nvmlReturn = NOT_SUPPORTED if card.recovery is None else 0
        one.value.uiVal = card.recovery or 0

    def _nvmlDeviceGetTotalEccErrors(self, card, _kind, _since, count):
        if card.uncorrected is None:
            return NOT_SUPPORTED
        count._obj.value = card.uncorrected
        return 0

    def _nvmlDeviceGetRemappedRows(self, card, *numbers):
        if card.remaps is None:
            return NOT_SUPPORTED
        for number, value in zip(numbers, card.remaps, strict=True):
            number._obj.value = value
        return 0

    def _nvmlDeviceGetRetiredPagesPendingStatus(self, card, pending):
        if card.retirement_pending is None:
            return NOT_SUPPORTED
        pending._obj.value = card.retirement_pending
        return 0

    def _nvmlDeviceGetCurrentClocksEventReasons(self, card, reasons):
        reasons._obj.value = card.throttle

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, card, reasons):
        reasons._obj.value = card.throttle

    def _nvmlDeviceGetTemperature(self, card, _sensor, degrees):
        degrees._obj.value = card.temperature

    def _nvmlDeviceGetMarginTemperature(self, card, margin):
        if card.margin is None:
            return NOT_SUPPORTED
        margin._obj.marginTemperature = card.margin
        return 0

    def _nvmlDeviceGetCurrPcieLinkWidth(self, card, width):
        width._obj.value = card.link_width

    def _nvmlDeviceGetMaxPcieLinkWidth(self, card, width):
        width._obj.value = card.link_width_most

    def _nvmlDeviceGetComputeMode(self, card, mode):
        mode._obj.value = card.compute_mode

    def _nvmlDeviceGetPersistenceMode(self, card, state):
        state._obj.value = card.persistence


def _point(handle: Any, number: int) -> None:
    ctypes.cast(ctypes.byref(handle._obj), ctypes.POINTER(ctypes.c_void_p))[0] = number


def _list(processes: list[tuple[int, int | None]], count: Any, rows: Any) -> int:
    room = count._obj.value
    count._obj.value = len(processes)
    if not processes:
        return 0
    if rows is None or room < len(processes):
        return INSUFFICIENT_SIZE
    for row, (pid, size) in zip(rows, processes, strict=False):
        row.pid = pid
        row.usedGpuMemory = 0xFFFFFFFFFFFFFFFF if size is None else size
    return 0
