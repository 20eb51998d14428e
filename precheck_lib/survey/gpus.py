"""The GPUs on the PCI bus, read from sysfs: that enters no driver, and so cannot hang in one."""

from __future__ import annotations

import contextlib
import os

from precheck_lib.survey.machine import Gpu

_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
_DISPLAY = ("0x0300", "0x0302", "0x0380")  # VGA, 3D, other display
_ACCELERATOR = "0x1200"  # as which AMD's Instinct cards come; with others it is no GPU


def gpus(root: str = "/sys/bus/pci/devices") -> tuple[Gpu, ...]:
    """Return the GPUs of the three vendors; none where there is no such bus. May block, as every file system may."""
    try:
        addresses = sorted(os.listdir(root))
    except OSError:
        return ()
    found = []
    for address in addresses:
        folder = os.path.join(root, address)
        vendor = _VENDORS.get(_line(folder, "vendor"))
        kind = _line(folder, "class")[:6]
        if vendor is not None and (kind in _DISPLAY or (vendor == "AMD" and kind == _ACCELERATOR)):
            found.append(Gpu(vendor=vendor, address=address, driver=_driver(folder)))
    return tuple(found)


def _line(folder: str, name: str) -> str:
    with (
        contextlib.suppress(OSError),
        open(os.path.join(folder, name), encoding="ascii", errors="replace") as file,
    ):
        return file.read(64).strip().lower()
    return ""


def _driver(folder: str) -> str | None:
    try:
        return os.path.basename(os.readlink(os.path.join(folder, "driver"))) or None
    except OSError:
        return None


__all__ = ["gpus"]
