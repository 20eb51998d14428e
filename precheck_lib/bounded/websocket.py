"""WebSocket with `websocket-client` over the bounded socket.

The library gets a socket that is already connected: it then does no name resolution, knows no proxy and has no
address trap of its own. Its loops (a header line without end, pings without data, fragments without end) have no limit;
the budget inside the socket is theirs too.
"""

from __future__ import annotations

import http
import re
from typing import TYPE_CHECKING, Any

import websocket
from websocket import _handshake

from precheck_lib import __version__
from precheck_lib.bounded import net
from precheck_lib.errors import (
    AnswerError,
    GarbledError,
    ReceiveError,
    StatusError,
    TooLargeError,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.journal import Journal
    from precheck_lib.errors import Phase

MAX_BYTES = 2 << 20
"""The most bytes received on one connection (CONTRACT H1)."""

_MAX_HEAD = 64 << 10


class HandshakeRefused(StatusError):
    """The server answered the upgrade with an HTTP status other than 101."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the WebSocket upgrade was answered with status {status} instead of 101", status)


class _Line:
    """What the library takes for its socket: it reads the head of the handshake's answer itself, then hands it on.

    The library would read the whole body of a refusal, however long, before it says the status, has no limit for a head,
    and follows redirects; none of that happens once anything but 101 is an error right after the head.
    """

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._read = bytearray()
        self.status: int | None = None

    @property
    def _closed(self) -> bool:
        return bool(self._sock.fileno() < 0)

    def gettimeout(self) -> float:
        """Say that the socket is non-blocking, so that the library never waits by itself."""
        return 0.0

    def send(self, data: bytes) -> int:
        return int(self._sock.send(data))

    def recv(self, size: int) -> bytes:
        if self.status is None:
            self._read_head()
        if not self._read:
            return bytes(self._sock.recv(size))
        part = bytes(self._read[:size])
        del self._read[:size]
        return part

    def _read_head(self) -> None:
        self._sock.phase = "head"
        interim = True
        while interim:
            while (end := self._read.find(b"\r\n\r\n")) < 0:
                if len(self._read) > _MAX_HEAD:
                    raise TooLargeError(f"the head is larger than {_MAX_HEAD} bytes", phase="head")
                self._read += self._sock.recv(4096)
            status = re.match(rb"HTTP/1\.[01] (\d{3})[ \r]", self._read)
            if status is None:
                raise GarbledError("the WebSocket handshake was not answered as one", phase="head")
            self.status = int(status[1])
            interim = 100 <= self.status < http.HTTPStatus.SWITCHING_PROTOCOLS or 101 < self.status < 200
            if interim:
                del self._read[: end + 4]
        self._sock.phase = "frame"
        if self.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            raise HandshakeRefused(self.status or 0)

    def close(self) -> None:
        self._sock.close()


class _Protocol(websocket.WebSocket):  # type: ignore[misc]  # the library has no types
    """The library's protocol, with the frames that it wrongly lets through refused."""

    def recv_frame(self) -> Any:
        frame = super().recv_frame()
        if frame.mask_value:
            raise websocket.WebSocketProtocolException("a server must not mask its frames")
        return frame


class Session:
    """One WebSocket connection for text messages; use as a context manager. Everything on it ends by `budget`."""

    def __init__(self, protocol: _Protocol, sock: Any) -> None:
        self._protocol = protocol
        self._sock = sock

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, text: str) -> None:
        """Send one text message."""
        with _translated("send"):
            self._protocol.send(text)

    def receive(self) -> str:
        """Return the next text message; raises `ReceiveError` when the server ends the connection."""
        with _translated("frame"):
            opcode, frame = self._protocol.recv_data_frame(control_frame=False)
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            raise ReceiveError("the server closed the WebSocket", phase="frame")
        if opcode != websocket.ABNF.OPCODE_TEXT:
            raise AnswerError("the server sent a binary message")
        data: bytes = frame.data
        return data.decode("utf-8")  # the library has validated it

    def close(self) -> None:
        """Say goodbye where there is time, and close the socket in every case."""
        try:
            if self._protocol.connected and self._sock.budget.left() > 0:
                self._sock.budget = self._sock.budget.child(min(1.0, self._sock.budget.left()))
                self._sock.budget.cancel = None
                self._protocol.send_close()
        except (TransportError, OSError, ValueError, websocket.WebSocketException):
            pass
        finally:
            self._protocol.shutdown()
            self._sock.close()


def open_session(
    url: str,
    *,
    budget: Budget,
    journal: Journal,
    connect_seconds: float = 2.0,
    headers: Mapping[str, str] | None = None,
) -> Session:
    """Connect, upgrade and return the session; all of it, and all that is done with it, ends by `budget`.

    No `Origin` header is sent (the Codex App Server answers 403 to any), no redirect is followed, no cookie is kept.
    Raises `TransportError` of the phase that failed and `HandshakeRefused` for a status other than 101.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    allowed = budget.child(max_bytes=MAX_BYTES)
    record = journal.open(
        "GET",
        url,
        connect_seconds=connect_seconds,
        total_seconds=budget.seconds,
        allowed_seconds=allowed.left(),
    )
    host = parts.hostname or ""
    dialing = allowed.child(connect_seconds)
    sock: Any = None
    protocol = _Protocol(enable_multithread=False)
    try:
        sock = net.connect(host, parts.port or (443 if secure else 80), dialing)
        if secure:
            from precheck_lib.bounded import tls

            sock = tls.wrap(sock, host, dialing)
        sock.budget = allowed
        line = _Line(sock)
        with _translated("head"):
            protocol.connect(
                url,
                socket=line,
                suppress_origin=True,
                redirect_limit=0,
                header={"User-Agent": f"precheck/{__version__}", **(headers or {})},
            )
        record.status = protocol.getstatus()
    except HandshakeRefused as refused:
        record.status = refused.status
        _abandon(protocol, sock)
        raise
    except BaseException:
        _abandon(protocol, sock)
        raise
    finally:
        _handshake.CookieJar.jar.clear()  # process-wide in the library, and sent to any port of the same host
        record.elapsed_s = round(allowed.elapsed(), 3)
        record.bytes = sock.received if sock is not None else 0
    return Session(protocol, sock)


def _abandon(protocol: _Protocol, sock: Any) -> None:
    protocol.shutdown()
    if sock is not None:
        sock.close()


class _translated:  # noqa: N801 - reads as a clause at its use
    """The one place where the errors of `websocket-client` are turned into ours; the socket's own pass through."""

    def __init__(self, phase: Phase) -> None:
        self.phase: Phase = phase

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        foreign = (websocket.WebSocketException, OSError, ValueError)
        if isinstance(error, websocket.WebSocketConnectionClosedException):
            raise ReceiveError("the server closed the connection", phase=self.phase) from error
        if isinstance(error, foreign):
            what = "the handshake" if self.phase == "head" else "a frame"
            raise GarbledError(f"{what} is not WebSocket as RFC 6455 has it", phase=self.phase) from error
