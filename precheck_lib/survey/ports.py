"""Who listens at the loopback, as far as it can be seen: an owner that is not seen is none that is guessed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from precheck_lib.checks.listeners import address_of, listeners_on
from precheck_lib.checks.look import process_seen
from precheck_lib.survey.machine import Port

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_ASKED_AGAIN = 8
"""Ports whose process is hidden and whose user is looked up: each costs another read of the table of sockets."""


def listening() -> tuple[Port, ...] | None:
    """Return the ports that take connections at the loopback, `None` where the table cannot be read. May block."""
    import psutil

    try:
        rows = psutil.net_connections("tcp")
    except (psutil.Error, OSError, RuntimeError):
        return None
    owners: dict[int, set[int | None]] = {}
    for row in rows:
        if row.status == psutil.CONN_LISTEN and row.laddr and _is_ours(row.laddr.ip):
            owners.setdefault(row.laddr.port, set()).add(getattr(row, "pid", None))
    found = []
    hidden = 0
    for port, pids in sorted(owners.items()):
        process, user = _owner(pids)
        if process is None and user is None and hidden < _MOST_ASKED_AGAIN:
            hidden += 1
            user = _user(port)
        found.append(Port(port=port, process=process, user=user))
    return tuple(found)


def _is_ours(address: str) -> bool:
    with contextlib.suppress(ValueError):
        parsed = address_of(address)
        return parsed.is_loopback or parsed.is_unspecified
    return False


def _owner(pids: Iterable[int | None]) -> tuple[str | None, str | None]:
    """Return name and user of the process that listens; nothing where one is not seen, or they are not the same."""
    import psutil

    seen: set[tuple[str | None, str | None]] = set()
    for pid in pids:
        process, user = None, None
        if pid is not None:
            with contextlib.suppress(psutil.Error):
                one = process_seen(psutil.Process(pid))
                process, user = one.name, one.user
        seen.add((process, user))
    return seen.pop() if len(seen) == 1 else (None, None)


def _user(port: int) -> str | None:
    """Return the user of a socket, which Linux tells everybody."""
    found = listeners_on(port)
    if isinstance(found, OSError):
        return None
    users = {one.user for one in found.found}
    return users.pop() if len(users) == 1 else None


__all__ = ["listening"]
