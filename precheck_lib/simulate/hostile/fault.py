"""What a hostile fault is, and the few things that all of them are made of: send, drip, flood, hold, end, reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from precheck_lib.simulate.loopback import Gone

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.simulate.loopback import Connection

Layer = Literal["name", "tcp", "tls", "secure", "http", "json", "handshake", "frame", "message"]
"""Where a fault acts: on the name, the connection, the TLS handshake, the answer inside TLS, the HTTP answer, its JSON,
the WebSocket handshake, its frames, or the JSON of its messages."""

Listening = Literal["yes", "refuses", "full", "never-accepts"]

Chain = Literal["right", "unknown-authority", "expired", "other-name", "wants-ours"]

_RESET_SECONDS = 0.05  # what was sent has to be read before the reset, which throws away what was not


class Wire:
    """One connection as a fault sees it: `body` is what a right server would answer here, in bytes.

    In what is sent, `$BODY` stands for it, `$LENGTH` for its length, and `$HEX` for the same as a chunk size. `every`
    is the pause of what drips, in seconds.
    """

    def __init__(self, connection: Connection, body: bytes, every: float, accept: str = "") -> None:
        self.connection = connection
        self.body = body
        self.every = every
        self.accept = accept

    def filled(self, *parts: bytes) -> bytes:
        """Put the right answer in."""
        data = b"".join(parts)
        for name, value in (
            (b"$ACCEPT", self.accept.encode()),
            (b"$LENGTH", b"%d" % len(self.body)),
            (b"$HEX", b"%x" % len(self.body)),
            (b"$BODY", self.body),
        ):
            data = data.replace(name, value)
        return data

    def send(self, *parts: bytes) -> None:
        """Send the parts in one call."""
        if data := self.filled(*parts):
            self.connection.send(data)


@dataclass(frozen=True)
class HostileFault:
    """One thing that a server can do to its clients.

    `script` does it on a connection that has got as far as `layer` says. A fault without one is in how the server
    listens, in its certificate (`chain`), or in the addresses of its `names`.
    """

    name: str
    layer: Layer
    description: str
    script: Callable[[Wire], None] | None = None
    listening: Listening = "yes"
    chain: Chain = "right"
    names: str = ""


def ends(*parts: bytes) -> Callable[[Wire], None]:
    """Send the parts and close in order (FIN)."""

    def script(wire: Wire) -> None:
        wire.send(*parts)
        raise Gone

    return script


def finishes(wire: Wire) -> None:
    """Close in order (FIN) although something of the client's may not have been read."""
    wire.connection.finish()


def holds(*parts: bytes) -> Callable[[Wire], None]:
    """Send the parts and leave the connection open."""

    def script(wire: Wire) -> None:
        wire.send(*parts)
        wire.connection.hold()

    return script


def drips(*parts: bytes, then: bytes) -> Callable[[Wire], None]:
    """Send the parts, then the bytes of `then` one by one, again and again."""

    def script(wire: Wire) -> None:
        wire.send(*parts)
        data = wire.filled(then)
        while True:
            wire.connection.drip(data, wire.every)

    return script


def repeats(*parts: bytes, then: bytes) -> Callable[[Wire], None]:
    """Send the parts, then all of `then` at a time, again and again."""

    def script(wire: Wire) -> None:
        wire.send(*parts)
        wire.connection.repeat(wire.filled(then), wire.every)

    return script


def floods(*parts: bytes, then: bytes) -> Callable[[Wire], None]:
    """Send the parts, then `then` without end, as fast as it goes."""

    def script(wire: Wire) -> None:
        wire.send(*parts)
        wire.connection.flood(wire.filled(then))

    return script


def resets(*parts: bytes) -> Callable[[Wire], None]:
    """Send the parts and reset the connection (RST)."""

    def script(wire: Wire) -> None:
        wire.send(*parts)
        if parts:
            wire.connection.stays(_RESET_SECONDS)
        wire.connection.reset()

    return script


def after(step: Callable[[Connection], object], script: Callable[[Wire], None]) -> Callable[[Wire], None]:
    """Do something to the connection first: take a part of the request, say."""

    def both(wire: Wire) -> None:
        step(wire.connection)
        script(wire)

    return both
