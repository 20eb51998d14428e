"""A server that does to its clients what servers should not, by more than a hundred named faults on real sockets."""

from __future__ import annotations

from precheck_lib.simulate.hostile.authority import Authority
from precheck_lib.simulate.hostile.fault import HostileFault, Layer
from precheck_lib.simulate.hostile.server import HostileServer
from precheck_lib.simulate.hostile.tables import HOSTILE, hostile_named

__all__ = ["HOSTILE", "Authority", "HostileFault", "HostileServer", "Layer", "hostile_named"]
