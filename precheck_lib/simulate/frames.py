"""WebSocket frames (RFC 6455) as a server reads and writes them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from precheck_lib.simulate.loopback import Gone

if TYPE_CHECKING:
    from precheck_lib.simulate.loopback import Connection

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
# Codex 0.171.0 takes frames of 15 MiB and resets the connection at 17.
_LIMIT = 16 * 1024 * 1024
# This in the place of a length says that the length follows in two bytes, one more that it does in eight.
_TWO_BYTES = 126


@dataclass(frozen=True)
class Message:
    """A whole message, or a control frame; `opcode` is that of its first frame."""

    opcode: int
    payload: bytes


def accept_key(key: str) -> str:
    """Give the Sec-WebSocket-Accept that proves that the server read `key`."""
    import hashlib

    digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False)
    return base64.b64encode(digest.digest()).decode()


def frame(opcode: int, payload: bytes) -> bytes:
    """Give one unmasked final frame."""
    length = len(payload)
    if length < _TWO_BYTES:
        size = bytes([length])
    elif length < 1 << 16:
        size = b"\x7e" + length.to_bytes(2, "big")
    else:
        size = b"\x7f" + length.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + size + payload


def _require_utf8(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        raise Gone from error


class Reader:
    """Reads messages of one connection; fragments are joined, control frames come in between as they do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._opcode: int | None = None
        self._parts = b""

    def message(self) -> Message:
        """Wait for the next message; `Gone` for a forbidden frame, on which the real server drops TCP."""
        while True:
            final, opcode, payload = self._frame()
            if opcode >= CLOSE:
                return Message(opcode, payload)
            if (opcode == CONTINUATION) == (self._opcode is None):
                raise Gone
            self._opcode = opcode if self._opcode is None else self._opcode
            self._parts += payload
            if len(self._parts) > _LIMIT:
                self._connection.reset()
            if final:
                if self._opcode == TEXT:
                    _require_utf8(self._parts)
                done = Message(self._opcode, self._parts)
                self._opcode, self._parts = None, b""
                return done

    def _frame(self) -> tuple[bool, int, bytes]:
        first, second = self._connection.read_exactly(2)
        length = second & 0x7F
        if length >= _TWO_BYTES:
            length = int.from_bytes(self._connection.read_exactly(2 if length == _TWO_BYTES else 8), "big")
        opcode, masked, reserved = first & 0x0F, second & 0x80, first & 0x70
        if reserved or not masked or opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise Gone
        if length > _LIMIT:
            self._connection.reset()
        mask = self._connection.read_exactly(4)
        data = self._connection.read_exactly(length)
        key = int.from_bytes(mask * (length // 4 + 1), "big") >> (8 * (4 - length % 4))
        return bool(first & 0x80), opcode, (int.from_bytes(data, "big") ^ key).to_bytes(length, "big")
