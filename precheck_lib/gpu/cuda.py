"""Asks CUDA itself whether it works: every tool may be happy with a card on which no program can begin.

Runs in a child, through the driver's own API (`libcuda.so.1`), which is there wherever a driver is: initialise, count,
and on each card make a context, take a mebibyte of memory, and give both back. A card whose memory is full, or that is
another process's alone, is busy and not broken; who reads this tells them apart by the number.
"""

from __future__ import annotations

import ctypes
from typing import Any

import msgspec

from precheck_lib.gpu.reading import CudaCard, CudaReading

_BYTES = 1 << 20
OUT_OF_MEMORY, NO_DEVICE, UNAVAILABLE, NOT_SUPPORTED = 2, 100, 46, 801


def probe(_argument: Any = None) -> Any:
    """Try CUDA on every card that it sees (`CUDA_VISIBLE_DEVICES` decides); returns a `CudaReading` as plain data."""
    made = CudaReading()
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        made.load = str(error)
        return msgspec.to_builtins(made, str_keys=True)
    made.init = library.cuInit(0)
    if made.init == 0:
        count = ctypes.c_int()
        code = library.cuDeviceGetCount(ctypes.byref(count))
        if code:
            made.init = code
        else:
            made.count = count.value
            made.cards = [_try(library, number) for number in range(count.value)]
    codes = {made.init, *(code for card in made.cards for code in (card.context, card.allocation))}
    made.words = {code: _words(library, code) for code in codes if code}
    return msgspec.to_builtins(made, str_keys=True)


def _try(library: Any, number: int) -> CudaCard:
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    code = library.cuDeviceGet(ctypes.byref(device), number) or library.cuCtxCreate_v2(ctypes.byref(context), 0, device)
    if code:
        return CudaCard(context=code)
    code = library.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(_BYTES))
    if code == 0:
        code = library.cuMemFree_v2(memory)
    library.cuCtxDestroy_v2(context)
    return CudaCard(context=0, allocation=code)


def _words(library: Any, code: int) -> str:
    """Return CUDA's name of an error."""
    text = ctypes.c_char_p()
    if library.cuGetErrorName(code, ctypes.byref(text)) or not text.value:
        return f"CUDA error {code}"
    return text.value.decode("ascii", "replace")


__all__ = ["NOT_SUPPORTED", "NO_DEVICE", "OUT_OF_MEMORY", "UNAVAILABLE", "probe"]
