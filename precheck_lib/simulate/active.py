"""The fault that a stand-in has at work: whether it means this step, and whether it has a turn left."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.faults import Server, fault_named
from precheck_lib.simulate.hostile.tables import HOSTILE
from precheck_lib.simulate.options import check, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.simulate.hostile.fault import Layer, Wire


class Active:
    """The fault that a stand-in has at work, if any: its options, checked, and how often it has acted."""

    def __init__(self, server: Server, name: str | None, options: Mapping[str, Any] | None) -> None:
        self.fault = fault_named(server, name) if name is not None else None
        given = dict(options or {})
        self.options: dict[str, Any] = dict(self.fault.options) if self.fault else {}
        if unknown := sorted(given.keys() - self.options.keys()):
            known = ", ".join(self.options) or "none"
            near = meant(unknown[0], self.options)
            raise ValueError(f"{server} fault {name!r} has no option {', '.join(unknown)}; it has {known}{near}")
        if self.fault is not None:
            check(self.fault, given)
        self.options.update(given)
        self._passed = 0
        self._acted = 0
        self._lock = threading.Lock()

    def named(self, *names: str) -> bool:
        """Say whether it is one of these."""
        return self.fault is not None and self.fault.name in names

    def spoils(self, at: str, *layers: Layer) -> Callable[[Wire], None] | None:
        """Give what is to be done to the right answer of this step, where the fault is hostile and of these layers."""
        if self.fault is None:
            return None
        for hostile in HOSTILE:
            if hostile.name == self.fault.name and hostile.layer in layers and self.acts(hostile.name, at):
                return hostile.script
        return None

    def concerns(self, name: str, model: str) -> bool:
        """Say whether it is this one and means this model (a canonical name)."""
        return self.named(name) and self.options.get("model") in (None, model)

    def acts(self, name: str, at: str | None = None) -> bool:
        """Say whether it is this one, means this step, and has a turn left; a turn is taken by asking."""
        if not self.named(name) or (self.options.get("at") is not None and self.options["at"] != at):
            return False
        with self._lock:
            if self._passed < self.options.get("skip", 0):
                self._passed += 1
                return False
            times = self.options.get("times")
            if times is not None and self._acted >= times:
                return False
            self._acted += 1
            return True
