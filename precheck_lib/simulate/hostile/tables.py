"""Every hostile fault in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.simulate.hostile.answers import HTTP
from precheck_lib.simulate.hostile.bodies import JSON
from precheck_lib.simulate.hostile.frames import FRAMES, HANDSHAKE, MESSAGES
from precheck_lib.simulate.hostile.transport import NAMES, SECURE, TCP, TLS

if TYPE_CHECKING:
    from precheck_lib.simulate.hostile.fault import HostileFault

HOSTILE: tuple[HostileFault, ...] = (*NAMES, *TCP, *TLS, *SECURE, *HTTP, *JSON, *HANDSHAKE, *FRAMES, *MESSAGES)
"""Every hostile fault, from the name to the last message."""


def hostile_named(name: str) -> HostileFault:
    """Look a fault up; `ValueError` names those that there are."""
    for fault in HOSTILE:
        if fault.name == name:
            return fault
    raise ValueError(f"there is no hostile fault {name!r}; there are {', '.join(fault.name for fault in HOSTILE)}")
