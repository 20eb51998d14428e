"""Who a deadline is about: the server as people call it, where it is, and how much had come from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precheck_lib.errors import DeadlineError


def tell(error: DeadlineError, peer: str, url: str, sock: Any) -> None:
    """Note on an error with whom the request was, and what its socket (`None`: not connected) had received."""
    error.peer = f"{peer} at {origin(url)}"
    error.received = 0 if sock is None else sock.received


def origin(url: str) -> str:
    """Return scheme, host and port of a URL: no user, no password, no path and no query."""
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0].partition("?")[0].partition("#")[0]
    return f"{scheme}://{authority.rpartition('@')[2]}"


__all__ = ["origin", "tell"]
