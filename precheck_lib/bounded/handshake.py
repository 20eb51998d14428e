"""The head of a WebSocket handshake, read with a bound and checked where `websocket-client` does not."""

from __future__ import annotations

import base64
import hashlib
import http
import os
import re
from typing import Any

from precheck_lib.errors import GarbledError, StatusError, TooLargeError

_MAX_HEAD = 64 << 10
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3


class HandshakeRefused(StatusError):  # noqa: N818 - a refusal is an answer
    """The server answered the upgrade with an HTTP status other than 101."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the WebSocket upgrade was answered with status {status} instead of 101", status)


class Line:
    """What the library takes for its socket: it reads the head of the handshake's answer itself, then hands it on.

    The library would read the whole body of a refusal, however long, before it says the status, has no limit for a
    head, and follows redirects; none of that happens once anything but 101 is an error right after the head. It also
    compares the accept key without regard to case, lets through what was not asked for, and keeps cookies for the whole
    process.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._read = bytearray()
        self._greeted = False
        self.key = base64.b64encode(os.urandom(16)).decode()

    @property
    def _closed(self) -> bool:
        return bool(self._sock.fileno() < 0)

    def gettimeout(self) -> float:
        """Say that the socket is non-blocking, so that the library never waits by itself."""
        return 0.0

    def send(self, data: bytes) -> int:
        """Send all of `data` and return its length."""
        return int(self._sock.send(data))

    def recv(self, size: int) -> bytes:
        """Return exactly `size` bytes, or `b""` at the end of the stream.

        The library keeps what it gets in a list until a frame is whole: of a peer that sends byte by byte that would be
        fifty times the frame.
        """
        if not self._greeted:
            self._read_head()
        self._sock.budget.check("frame")  # a flood of tiny frames is worked off from here without asking the socket
        while len(self._read) < size:
            part = self._sock.recv(65536)
            if not part:
                return b""
            self._read += part
        taken = bytes(self._read[:size])
        del self._read[:size]
        return taken

    def _read_head(self) -> None:
        self._sock.phase = "head"
        status = http.HTTPStatus.CONTINUE.value
        while 100 <= status < 200 and status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            head = self._one_head()
            found = re.match(rb"HTTP/1\.[01] (\d{3})[ \r]", head)
            if found is None:
                raise GarbledError("the WebSocket handshake was not answered as one", phase="head")
            status = int(found[1])
        if status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            raise HandshakeRefused(status)
        self._read[:0] = self._checked(head)
        self._greeted = True
        self._sock.phase = "frame"

    def _one_head(self) -> bytes:
        while (end := self._read.find(b"\r\n\r\n")) < 0:
            if self._sock.received > _MAX_HEAD:  # interim answers count as well
                raise TooLargeError(f"the head is larger than {_MAX_HEAD} bytes", phase="head")
            # Known by its first bytes: the greeting of another protocol may never have the end of a head.
            if not b"HTTP/1.".startswith(bytes(self._read[:7])):
                raise GarbledError("the WebSocket handshake was not answered as one", phase="head")
            self._read += self._sock.recv(4096)
        head = bytes(self._read[: end + 4])
        del self._read[: end + 4]
        return head

    def _checked(self, head: bytes) -> bytes:
        """Refuse what the library would let through; returns the head without its cookies."""
        lines = head.split(b"\n")  # as the library does: what it takes for a line must be one here too
        headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        digest = hashlib.sha1(self.key.encode() + _GUID, usedforsecurity=False).digest()
        accepts = [value for name, value in headers if name == b"sec-websocket-accept"]
        if accepts != [base64.b64encode(digest)]:
            raise GarbledError("the WebSocket handshake was answered with a wrong accept key", phase="head")
        for name, value in headers:
            if value and name in (b"sec-websocket-extensions", b"sec-websocket-protocol"):
                raise GarbledError(f"the server chose {name.decode()}, which was not asked for", phase="head")
        return b"\n".join(
            line for line, (name, _) in zip(lines, headers, strict=True) if name not in (b"set-cookie", b"set-cookie2")
        )

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


__all__ = ["HandshakeRefused", "Line"]
