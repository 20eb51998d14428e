"""Faults of WebSocket: the handshake, the frames after it, and the JSON of its messages."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from precheck_lib.simulate.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT
from precheck_lib.simulate.hostile.bodies import SPOILERS
from precheck_lib.simulate.hostile.fault import HostileFault, drips, ends, floods, holds, repeats, resets

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.simulate.hostile.fault import Wire

AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: $ACCEPT\r\n"
)
"""The right answer to the handshake but for its last line."""

_BEGUN = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


def _upgraded(*parts: bytes) -> Callable[[Wire], None]:
    return holds(_BEGUN, *parts)


def _swapped(wire: Wire) -> None:
    wire.send(_BEGUN, b"Sec-WebSocket-Accept: ", wire.accept.swapcase().encode(), b"\r\n\r\n")
    wire.connection.hold()


def _refused(status: bytes) -> Callable[[Wire], None]:
    """Refuse the upgrade, with a body that has no end."""
    return floods(b"HTTP/1.1 " + status + b"\r\nContent-Length: 1000000000000\r\n\r\n", then=b"x")


HANDSHAKE = tuple(
    HostileFault(name, "handshake", text, script)
    for name, text, script in (
        ("ws-silence", "The upgrade is never answered.", holds()),
        ("ws-drip-handshake", "The answer to the upgrade comes one byte at a time.", drips(_BEGUN, then=b"X: y\r\n")),
        ("ws-103-drip", "103 Early Hints, again and again.", repeats(then=b"HTTP/1.1 103 Early Hints\r\n\r\n")),
        ("ws-103-flood", "103 Early Hints without end.", floods(then=b"HTTP/1.1 103 Early Hints\r\n\r\n")),
        ("ws-header-flood", "Headers without end.", floods(_BEGUN, then=b"X: y\r\n")),
        ("ws-vast-header", "One header without end.", floods(_BEGUN, b"X: ", then=b"y")),
        ("ws-fin", "The server closes without an answer.", ends()),
        ("ws-rst", "The server resets without an answer.", resets()),
        ("ws-fin-in-head", "The server closes within the head.", ends(_BEGUN)),
        ("ws-rst-in-head", "The server resets within the head.", resets(_BEGUN)),
        ("ws-other-protocol", "What answers is no HTTP.", holds(b"220 mail.example ESMTP\r\n")),
        ("ws-bad-status", "The status is no number.", holds(b"HTTP/1.1 1O1 Switching\r\n\r\n")),
        ("ws-no-accept", "The answer has no Sec-WebSocket-Accept.", _upgraded(b"\r\n")),
        (
            "ws-wrong-accept",
            "Its key is another.",
            _upgraded(b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n"),
        ),
        ("ws-accept-other-case", "Its key is right but for small and capital letters.", _swapped),
        ("ws-two-accepts", "There are two keys.", holds(AGREED, b"Sec-WebSocket-Accept: x\r\n\r\n")),
        (
            "ws-compression",
            "A compression that was not asked for.",
            holds(AGREED, b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
        ),
        (
            "ws-subprotocol",
            "A subprotocol that was not asked for.",
            holds(AGREED, b"Sec-WebSocket-Protocol: chat\r\n\r\n"),
        ),
        (
            "ws-no-upgrade-header",
            "The Upgrade header is missing.",
            holds(AGREED.replace(b"Upgrade: websocket\r\n", b""), b"\r\n"),
        ),
        ("ws-bad-header", "A line in the head is no header.", holds(AGREED, b"no header\r\n\r\n")),
        ("ws-header-not-utf-8", "A header is not UTF-8.", holds(AGREED, b"X: \xff\r\n\r\n")),
        ("ws-200", "A page answers, and it has no end.", _refused(b"200 OK")),
        ("ws-302", "A redirect, and its body has no end.", _refused(b"302 Found\r\nLocation: ws://127.0.0.1:9/")),
        ("ws-403", "The upgrade is forbidden, and the page has no end.", _refused(b"403 Forbidden")),
        ("ws-503", "The server is busy, and the page has no end.", _refused(b"503 Service Unavailable")),
    )
)


def frame(payload: bytes, opcode: int = TEXT, *, final: bool = True, mask: bool = False, reserved: int = 0) -> bytes:
    """Spell one frame, right or not: a server must neither mask it nor set a reserved bit."""
    first = (0x80 if final else 0) | reserved << 4 | opcode
    length = len(payload)
    short = length if length < 126 else 126 if length < 1 << 16 else 127
    extended = b"" if short < 126 else struct.pack("!H" if short == 126 else "!Q", length)
    return bytes([first, (0x80 if mask else 0) | short]) + extended + (b"\0\0\0\0" if mask else b"") + payload


def _whole(**how: bool | int) -> Callable[[Wire], None]:
    """Send the right answer in a frame that is not right."""

    def script(wire: Wire) -> None:
        wire.connection.send(frame(wire.body, **how))  # type: ignore[arg-type]
        wire.connection.hold()

    return script


def _dripped(wire: Wire) -> None:
    wire.connection.drip(frame(wire.body + b" " * 90000), wire.every)


def _half(then: Callable[[Wire], None]) -> Callable[[Wire], None]:
    def script(wire: Wire) -> None:
        wire.connection.send(frame(wire.body)[:-1])
        then(wire)

    return script


_VAST = b"\x81\x7f" + struct.pack("!Q", 2**62)
_BEGIN = frame(b"", final=False)

FRAMES = tuple(
    HostileFault(name, "frame", text, script)
    for name, text, script in (
        ("ws-no-answer", "A message is never answered.", holds()),
        ("ws-drip-frame", "The answer's frame comes one byte at a time.", _dripped),
        ("ws-pings", "Pings come, and no answer.", repeats(then=frame(b"", PING))),
        ("ws-pongs", "Pongs come, and no answer.", repeats(then=frame(b"", PONG))),
        (
            "ws-fragments",
            "Fragments come one at a time, and never the last.",
            repeats(_BEGIN, then=frame(b" ", CONTINUATION, final=False)),
        ),
        ("ws-vast-frame-silence", "A frame says that it has 2^62 bytes, then silence.", holds(_VAST, b"$BODY")),
        ("ws-vast-frame", "A frame says that it has 2^62 bytes, and they come.", floods(_VAST, then=b"x")),
        ("ws-pong-flood", "Pongs without end.", floods(then=frame(b"x" * 100, PONG))),
        (
            "ws-fragment-flood",
            "Fragments without end.",
            floods(_BEGIN, then=frame(b"x" * 1000, CONTINUATION, final=False)),
        ),
        ("ws-message-flood", "Messages without end that are no answer.", floods(then=frame(b'{"method":"x"}'))),
        ("ws-fin-after", "The server closes TCP instead of answering.", ends()),
        ("ws-rst-after", "The server resets instead of answering.", resets(b"")),
        ("ws-fin-in-frame", "The server closes within a frame.", _half(ends())),
        ("ws-rst-in-frame", "The server resets within a frame.", _half(resets(b""))),
        ("ws-close", "The server closes the WebSocket.", holds(frame(struct.pack("!H", 1000) + b"bye", CLOSE))),
        ("ws-close-no-code", "It closes without a code.", holds(frame(b"", CLOSE))),
        (
            "ws-close-bad-code",
            "It closes with a code that nobody may send.",
            holds(frame(struct.pack("!H", 1006), CLOSE)),
        ),
        ("ws-close-then-rst", "It closes and resets.", resets(frame(b"", CLOSE))),
        ("ws-masked", "The right answer, masked.", _whole(mask=True)),
        ("ws-reserved-bit", "The right answer, with a reserved bit.", _whole(reserved=4)),
        ("ws-opcode", "The right answer, in a frame of a kind that is none.", _whole(opcode=3)),
        ("ws-binary", "The right answer, as a binary message.", _whole(opcode=BINARY)),
        ("ws-continuation", "The right answer, as the continuation of nothing.", _whole(opcode=CONTINUATION)),
        ("ws-long-ping", "A ping of 126 bytes.", holds(frame(b"x" * 126, PING))),
        ("ws-split-ping", "A ping in fragments.", holds(frame(b"x", PING, final=False))),
        ("ws-masked-ping", "A ping that is masked.", holds(frame(b"", PING, mask=True))),
        ("ws-surrogate", "The text holds half of a surrogate pair.", holds(frame(b'{"\xed\xa0\x80": 1}'))),
        ("ws-message-in-message", "A message begins within another.", holds(_BEGIN, frame(b"{}"))),
        ("ws-not-utf-8", "The text is not UTF-8.", holds(frame(b'{"\xff\xfe": 1}'))),
    )
)


def _message(spoil: Callable[[bytes], bytes]) -> Callable[[Wire], None]:
    def script(wire: Wire) -> None:
        wire.connection.send(frame(spoil(wire.body)))
        wire.connection.hold()

    return script


MESSAGES = tuple(
    HostileFault(f"ws-json-{name}", "message", text, _message(spoil))
    for name, (text, spoil) in SPOILERS.items()
    if name not in ("not-utf-8", "utf-16")  # of frames there is `ws-not-utf-8`
)
