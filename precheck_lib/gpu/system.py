"""What the kernel says of GPUs without a call into their driver: such a look cannot hang in one.

It may block all the same, as every look at a file system may: callers bound it.
"""

from __future__ import annotations

import contextlib
import os
import re

from precheck_lib.gpu.reading import PciCard

_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
_DISPLAY = ("0x0300", "0x0302", "0x0380")  # VGA, 3D, other display
_ACCELERATOR = "0x1200"  # as which AMD's Instinct cards come; with others it is no GPU
_MINOR = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_DRIVERS = re.compile(r"nvidia|nvml|nv_|amdgpu|kfd")
_MOST_STUCK = 20


def pci_cards(root: str = "/") -> list[PciCard]:
    """Return the GPUs of the three vendors on PCI; none where there is no such bus."""
    place = os.path.join(root, "sys/bus/pci/devices")
    try:
        addresses = sorted(os.listdir(place))
    except OSError:
        return []
    found = []
    for address in addresses:
        folder = os.path.join(place, address)
        vendor = _VENDORS.get(_line(os.path.join(folder, "vendor")).lower())
        kind = _line(os.path.join(folder, "class"))[:6].lower()
        if vendor is not None and (kind in _DISPLAY or (vendor == "AMD" and kind == _ACCELERATOR)):
            driver = _driver(folder)
            node = _node(root, address) if driver == "nvidia" else None
            found.append(PciCard(vendor=vendor, address=address, driver=driver, node=node))
    return found


def module_version(root: str = "/") -> str | None:
    """Return the version of NVIDIA's driver in the kernel; `None` where none is loaded."""
    line = _line(os.path.join(root, "sys/module/nvidia/version"))
    if _VERSION.fullmatch(line):
        return line
    # A kernel that does not show module versions, and containers without /sys/module.
    found = re.search(
        r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", _text(os.path.join(root, "proc/driver/nvidia/version"))
    )
    return found[1] if found else None


def stuck_processes(root: str = "/") -> list[tuple[int, str]]:
    """Return pid and name of what sleeps in a GPU's driver and cannot be woken (state D), as far as it can be seen."""
    found: list[tuple[int, str]] = []
    place = os.path.join(root, "proc")
    try:
        pids = [entry for entry in os.listdir(place) if entry.isdigit()]
    except OSError:
        return []
    for pid in pids:
        stat = _text(os.path.join(place, pid, "stat"))
        name, _, rest = stat.partition("(")[2].rpartition(")")
        if rest.split()[:1] != ["D"]:
            continue
        waits_in = _line(os.path.join(place, pid, "wchan"))
        if _DRIVERS.search(waits_in) or _DRIVERS.search(name):
            found.append((int(pid), name))
    return sorted(found)[:_MOST_STUCK]


def _node(root: str, address: str) -> bool | None:
    """Say whether the node of a card is here: without it the card is another container's, whatever the bus shows."""
    text = _text(os.path.join(root, "proc/driver/nvidia/gpus", address, "information"))
    minor = _MINOR.search(text)
    return os.path.exists(os.path.join(root, f"dev/nvidia{minor[1]}")) if minor else None


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read(4096)
    return ""


def _line(path: str) -> str:
    return _text(path).partition("\n")[0].strip()


def _driver(folder: str) -> str | None:
    try:
        return os.path.basename(os.readlink(os.path.join(folder, "driver"))) or None
    except OSError:
        return None


__all__ = ["module_version", "pci_cards", "stuck_processes"]
