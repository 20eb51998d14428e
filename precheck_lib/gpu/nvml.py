"""Reads NVIDIA's cards through NVML. Runs in a child: a call into a driver may never come back.

Every card is counted by its handle and its name, not by the number that the library has of them: a lost card is still
in that number. What an old driver does not know and what a card does not have is `None`; what is refused for any other
reason is `trouble` of that card.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.gpu.reading import Card, Holder, Reading, Trouble
from precheck_lib.gpu.system import module_version

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+\.\d+(?:\.\d+)?)\Z")
_NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND, _NO_FUNCTION, _DEPRECATED = 3, 4, 6, 13, 26
_NOT_THERE = {_NOT_SUPPORTED, _NO_FUNCTION, _DEPRECATED}
_UNCORRECTED, _SINCE_LOADED = 1, 0
_RECOVERY_ACTION = 230


def read(_argument: Any = None) -> Any:
    """Read everything; returns a `Reading` as plain data. What NVML refuses is in it, and nothing is raised for it."""
    began = time.monotonic()
    made = Reading(source="nvml", module=module_version())
    try:
        import pynvml
    except ImportError as error:
        made.trouble.append(Trouble(call="import pynvml", code=12, text=str(error)))
        return msgspec.to_builtins(made)
    try:
        # No start of a driver that sleeps for want of a card: 0 is the plain initialisation.
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        made.trouble.append(_trouble("nvmlInit", error))
        made.library = _library_version()
    else:
        made.library = _library_version() or _or_none(pynvml.nvmlSystemGetDriverVersion)
        made.module = made.module or _or_none(pynvml.nvmlSystemGetDriverVersion)
        version = _or_none(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        made.cuda = None if version is None else (version // 1000, version % 1000 // 10)
        try:
            made.count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            made.trouble.append(_trouble("nvmlDeviceGetCount", error))
        made.cards = [_card(pynvml, index) for index in range(made.count or 0)]
        _or_none(pynvml.nvmlShutdown)
    made.seconds = round(time.monotonic() - began, 3)
    return msgspec.to_builtins(made)


def _card(nvml: Any, index: int) -> Card:
    card = Card(index=index)
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        card.trouble.append(_trouble("nvmlDeviceGetHandleByIndex", error))
        return card
    _read_identity(nvml, card, handle)
    ask = _Asking(card)
    modes = ask(nvml.nvmlDeviceGetMigMode, handle)
    card.mig = bool(modes and modes[0] == 1)
    _read_memory(nvml, card, handle)
    if card.mig:
        card.instances = list(_instances(nvml, handle))
    _read_health(nvml, card, handle)
    _read_conditions(nvml, card, handle)
    return card


class _Asking:
    """Makes calls for one card: what it cannot answer is `None`, what it refuses for another reason is its trouble."""

    def __init__(self, card: Card, *, also_none: tuple[int, ...] = ()) -> None:
        self.card = card
        self.none = _NOT_THERE | set(also_none)

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as error:  # noqa: BLE001 - NVML's errors, and what its binding makes of an odd answer
            code = getattr(error, "value", None)
            if not isinstance(code, int) or code not in self.none:
                self.card.trouble.append(_trouble(call.__name__, error))
            return None


def _read_identity(nvml: Any, card: Card, handle: Any) -> None:
    ask = _Asking(card)
    card.name = ask(nvml.nvmlDeviceGetName, handle)
    card.uuid = ask(nvml.nvmlDeviceGetUUID, handle)
    place = ask(nvml.nvmlDeviceGetPciInfo, handle)
    if place is not None:
        card.bus = f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0"


def _read_memory(nvml: Any, card: Card, handle: Any) -> None:
    # In a container that has one instance of a MIG card, the card itself says nothing of its memory.
    ask = _Asking(card, also_none=(_NO_PERMISSION,) if card.mig else ())
    # The first form of it counts what is reserved as used; old drivers have no other.
    memory = _or_none(nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2) or ask(
        nvml.nvmlDeviceGetMemoryInfo, handle
    )
    if memory is not None:
        card.total, card.used, card.free = int(memory.total), int(memory.used), int(memory.free)
    found: dict[int, int | None] = {}
    calls = ("ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses")
    unseen = _Asking(card, also_none=(_NO_PERMISSION,))
    for name in calls:
        listed = unseen(getattr(nvml, f"nvmlDeviceGet{name}_v3"), handle)
        if listed is None:  # drivers before 510
            listed = _or_none(getattr(nvml, f"nvmlDeviceGet{name}_v2"), handle)
        for process in listed or ():
            held = process.usedGpuMemory
            before = found.get(process.pid)
            found[process.pid] = max(held or 0, before or 0) if held is not None or before is not None else None
    card.holders = [Holder(pid=pid, bytes=size) for pid, size in sorted(found.items())]


def _instances(nvml: Any, handle: Any) -> list[Card]:
    found = []
    for number in range(_or_none(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        card = Card(index=number)
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError as error:
            if error.value in (_NOT_FOUND, _NOT_SUPPORTED):  # a gap
                continue
            card.trouble.append(_trouble("nvmlDeviceGetMigDeviceHandleByIndex", error))
        else:
            ask = _Asking(card)
            card.name, card.uuid = ask(nvml.nvmlDeviceGetName, instance), ask(nvml.nvmlDeviceGetUUID, instance)
            _read_memory(nvml, card, instance)
        found.append(card)
    return found


def _read_health(nvml: Any, card: Card, handle: Any) -> None:
    ask = _Asking(card)
    values = ask(nvml.nvmlDeviceGetFieldValues, handle, [_RECOVERY_ACTION])
    if values and values[0].nvmlReturn == 0:
        card.recovery = int(values[0].value.uiVal)
    card.uncorrected = ask(nvml.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _SINCE_LOADED)
    remaps = ask(nvml.nvmlDeviceGetRemappedRows, handle)
    if remaps is not None:
        corrected, uncorrected, pending, failed = map(int, remaps)
        card.remaps = corrected, uncorrected, pending, failed
    pending = ask(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    card.retirement_pending = None if pending is None else bool(pending)


def _read_conditions(nvml: Any, card: Card, handle: Any) -> None:
    ask = _Asking(card)
    reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    card.throttle = None if reasons is None else _or_none(reasons, handle)
    if card.throttle is None:  # drivers before 535 have it under its old name
        card.throttle = ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    card.temperature = ask(nvml.nvmlDeviceGetTemperature, handle, 0)
    card.margin = _or_none(nvml.nvmlDeviceGetMarginTemperature, handle)
    card.link_width = ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)
    card.link_width_most = ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    card.compute_mode = ask(nvml.nvmlDeviceGetComputeMode, handle)
    persistence = ask(nvml.nvmlDeviceGetPersistenceMode, handle)
    card.persistence = None if persistence is None else bool(persistence)


def _or_none(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception:  # noqa: BLE001 - as above; what this reads decides nothing
        return None


def _trouble(call: str, error: BaseException) -> Trouble:
    code = getattr(error, "value", None)
    return Trouble(call=call, code=code if isinstance(code, int) else 999, text=str(error) or type(error).__name__)


def _library_version() -> str | None:
    """Return the version in the name of the library that was loaded: a library that refuses to begin has no other."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(maxsplit=5)[5].strip() for line in file if "libnvidia-ml" in line}
    except (OSError, IndexError):
        return None
    for path in paths:
        if found := _LIBRARY.search(os.path.realpath(path)):
            return found[1]
    return None


__all__ = ["read"]
