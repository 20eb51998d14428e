"""Faults of names, of TCP and of TLS: before a server has said a word of its protocol, or under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.simulate.hostile.fault import HostileFault, after, drips, finishes, holds, repeats, resets
from precheck_lib.simulate.loopback import Connection, Gone

if TYPE_CHECKING:
    from precheck_lib.simulate.hostile.fault import Wire

NAMES = (
    HostileFault("name-stalls", "name", "The resolver does not answer.", names="stall"),
    HostileFault("name-unknown", "name", "The resolver knows no such name.", names="unknown"),
    HostileFault("name-broken", "name", "The resolver itself fails.", names="broken"),
    HostileFault("name-without-address", "name", "The resolver answers without an address.", names="none"),
    HostileFault("name-all-dead", "name", "Five addresses, and each drops every packet.", names="dead"),
    HostileFault("name-all-refuse", "name", "Five addresses, and each refuses.", names="refuse"),
    HostileFault("name-dead-ones-first", "name", "Two addresses drop packets, the third answers.", names="dead-first"),
    HostileFault("name-ipv6-first", "name", "::1 comes first, and the server is on 127.0.0.1 only.", names="ipv6"),
    HostileFault("name-doubled", "name", "The one right address is there a hundred times.", names="doubled"),
)
"""Faults of name resolution. They act in the process that holds the server, on its own name (`hostile.invalid`)."""

TCP = (
    HostileFault("tcp-refused", "tcp", "Nobody listens on the port.", listening="refuses"),
    HostileFault("tcp-black-hole", "tcp", "Every packet to the port is dropped.", listening="full"),
    HostileFault("tcp-never-accepted", "tcp", "Connections wait to be accepted.", listening="never-accepts"),
    HostileFault("tcp-silence", "tcp", "Connections are accepted, and nothing is read or said.", holds()),
    HostileFault("tcp-fin", "tcp", "Connections are closed as soon as they are there.", finishes),
    HostileFault("tcp-rst", "tcp", "Connections are reset as soon as they are there.", resets()),
    HostileFault(
        "tcp-fin-in-request",
        "tcp",
        "The server closes in the middle of the request.",
        after(lambda connection: connection.read_exactly(10), finishes),
    ),
    HostileFault(
        "tcp-rst-in-request",
        "tcp",
        "The server resets in the middle of the request.",
        after(lambda connection: connection.read_exactly(10), resets()),
    ),
    HostileFault("tcp-other-protocol", "tcp", "An SSH server greets.", holds(b"SSH-2.0-OpenSSH_9.2\r\n")),
)


def _hello(connection: Connection) -> None:
    """Take the first flight of the client's handshake."""
    connection.read_exactly(5)


_RECORD = b"\x16\x03\x03"

TLS = (
    HostileFault("tls-stalls", "tls", "The handshake is never answered.", after(_hello, holds())),
    HostileFault(
        "tls-drips",
        "tls",
        "The answer to the handshake comes one byte at a time.",
        after(_hello, drips(_RECORD + b"\x40\x00\x02\x00\x3f\xf0", then=b"x")),
    ),
    HostileFault(
        "tls-tiny-records",
        "tls",
        "The answer to the handshake comes in records of one byte.",
        after(_hello, repeats(_RECORD + b"\x00\x04\x02\x00\x3f\xf0", then=_RECORD + b"\x00\x01x")),
    ),
    HostileFault(
        "tls-plain-http",
        "tls",
        "The server speaks plain HTTP.",
        after(_hello, holds(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
    ),
    HostileFault("tls-fin", "tls", "The server closes in the handshake.", after(_hello, finishes)),
    HostileFault("tls-rst", "tls", "The server resets in the handshake.", after(_hello, resets())),
    HostileFault(
        "tls-alert", "tls", "The server refuses the handshake.", after(_hello, holds(b"\x15\x03\x03\x00\x02\x02\x28"))
    ),
    HostileFault("tls-unknown-authority", "tls", "Nobody vouches for the certificate.", chain="unknown-authority"),
    HostileFault("tls-expired", "tls", "The certificate has expired.", chain="expired"),
    HostileFault("tls-other-name", "tls", "The certificate is for another name.", chain="other-name"),
    HostileFault("tls-wants-certificate", "tls", "The server wants a certificate of the client.", chain="wants-ours"),
)

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _noise(wire: Wire) -> None:
    wire.connection.send_in_the_clear(b"\x17\x03\x03\x00\x20" + b"noise that has not been encrypted")
    wire.connection.hold()


def _without_alert(wire: Wire) -> None:
    wire.send(_HEAD, b"\r\n$BODY")
    raise Gone


def _cut_in_the_body(wire: Wire) -> None:
    wire.send(_HEAD, b"Content-Length: $LENGTH\r\n\r\n", wire.body[:1])
    wire.connection.say_the_end()


SECURE = (
    HostileFault("tls-noise", "secure", "What comes is not encrypted any more.", _noise),
    HostileFault("tls-end-without-alert", "secure", "Only the end of TCP says that the body is over.", _without_alert),
    HostileFault("tls-end-in-body", "secure", "TLS is closed in order in the middle of the body.", _cut_in_the_body),
)
"""Faults of the connection under an HTTP answer inside TLS."""
