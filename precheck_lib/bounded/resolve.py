"""Names to addresses, without ever letting the system's resolver hold the run."""

from __future__ import annotations

import socket
from typing import Any

from precheck_lib.bounded.budget import Budget  # noqa: TC001 - part of the public signature
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import ResolveError

Address = tuple[int, Any]
"""Family and socket address."""


def literal(host: str, port: int) -> Address | None:
    """Return the address that `host` itself spells, or `None` where it is a name. No resolver is asked."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):  # ValueError: a NUL inside
        pass
    else:
        return socket.AF_INET, (host, port)
    bare, _, scope = host.partition("%")
    try:
        socket.inet_pton(socket.AF_INET6, bare)
        number = 0 if not scope else int(scope) if scope.isdigit() else socket.if_nametoindex(scope)
    except (OSError, ValueError):
        return None
    return socket.AF_INET6, (bare, port, 0, number)


def resolve(host: str, port: int, budget: Budget) -> list[Address]:
    """Return the addresses of `host` in the order to try them.

    Literals and `localhost` never reach the resolver; `localhost` is 127.0.0.1, then ::1 (a server that listens on
    one of them is found whatever `/etc/hosts` says first). Any other name goes to a daemon thread. Raises
    `ResolveError`, or `DeadlineError` at the budget's end.
    """
    own = literal(host, port)
    if own is not None:
        return [own]
    if host.lower().rstrip(".") == "localhost":
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port, 0, 0))]
    try:
        found = call_bounded(
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), budget=budget, phase="resolve"
        )
    except (OSError, ValueError) as error:  # ValueError: a label that is too long, a NUL inside
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ResolveError(f"the name {host!r} could not be resolved: {reason}", phase="resolve") from error
    addresses: list[Address] = [
        (family, address) for family, _, _, _, address in found if family in (socket.AF_INET, socket.AF_INET6)
    ]
    if not addresses:
        raise ResolveError(f"the name {host!r} has no address", phase="resolve")
    return list(dict.fromkeys(addresses))
