"""Every hostile fault in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.simulate.hostile.answers import HTTP
from precheck_lib.simulate.hostile.bodies import JSON
from precheck_lib.simulate.hostile.frames import FRAMES, HANDSHAKE, MESSAGES
from precheck_lib.simulate.hostile.transport import NAMES, SECURE, TCP, TLS
from precheck_lib.simulate.options import meant

if TYPE_CHECKING:
    from precheck_lib.simulate.hostile.fault import HostileFault

HOSTILE: tuple[HostileFault, ...] = (*NAMES, *TCP, *TLS, *SECURE, *HTTP, *JSON, *HANDSHAKE, *FRAMES, *MESSAGES)
"""Every hostile fault, from the name to the last message."""


def hostile_named(name: str) -> HostileFault:
    """Look a fault up; `ValueError` says what may have been meant."""
    for fault in HOSTILE:
        if fault.name == name:
            return fault
    near = meant(name, [fault.name for fault in HOSTILE])
    all_of_them = f"; `python -m precheck_lib.simulate --list` lists all {len(HOSTILE)}"
    raise ValueError(f"there is no hostile fault {name!r}{near or all_of_them}")
