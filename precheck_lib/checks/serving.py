"""Which process of this machine serves a URL: another one later means that the server was started anew."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from precheck_lib.errors import DeadlineError

if TYPE_CHECKING:
    from precheck_lib.checks.kind import Context
    from precheck_lib.checks.listeners import Sockets

_LOOK_SECONDS = 1.0
"""What the look may take of a check's time: it decides nothing by itself."""

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def place_of(url: str) -> str:
    """Return host and port of a URL as one names a server by them; never more of it."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return "an unknown place"
    host = parts.hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}" if port else host


def note_process(context: Context, url: str) -> None:
    """Keep which process listens where `url` leads to, where that is this machine and it can be seen.

    Only where the run keeps facts: to look at all sockets takes some milliseconds. What cannot be seen is not kept.
    """
    if not context.keeps_facts:
        return
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return
    if not port or not _is_loopback(parts.hostname or ""):
        return
    from precheck_lib.bounded.thread import call_bounded
    from precheck_lib.checks.listeners import Sockets

    sockets = context.known.setdefault("sockets", Sockets())  # one look for all checks of the run
    try:
        found = call_bounded(
            lambda: _processes(port, sockets), budget=context.budget.child(_LOOK_SECONDS), phase="wait"
        )
    except DeadlineError:
        return
    context.saw(f"the server at {place_of(url)}", "process", found)


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _processes(port: int, sockets: Sockets) -> str:
    """Describe who listens on a port; empty where not all of them can be seen. May block."""
    from precheck_lib.checks.listeners import listeners_on

    listeners = listeners_on(port, sockets)
    if isinstance(listeners, OSError) or not listeners.complete:
        return ""
    told = set()
    for one in listeners.found:
        if one.process is None or one.process.started is None:
            return ""
        told.add(
            f"pid {one.process.pid}, started {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(one.process.started))}"
        )
    return " and ".join(sorted(told))
