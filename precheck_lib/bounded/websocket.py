"""WebSocket with `websocket-client` over the bounded socket.

The library gets a socket that is already connected: it then does no name resolution, knows no proxy and has no
address trap of its own. Its loops (a header line without end, pings without data, fragments without end) have no limit;
the budget inside the socket is theirs too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import websocket

from precheck_lib import __version__
from precheck_lib.bounded import net
from precheck_lib.bounded.handshake import HandshakeRefused, Line
from precheck_lib.bounded.peer import tell
from precheck_lib.errors import AnswerError, DeadlineError, GarbledError, ReceiveError, SendError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.journal import Journal
    from precheck_lib.errors import Phase

MAX_BYTES = 2 << 20
"""The most bytes received on one connection (CONTRACT H1)."""

_GOODBYE_SECONDS = 0.25  # how long a server may take to hang up after our close frame; Codex takes milliseconds


class _Protocol(websocket.WebSocket):
    """The library's protocol, with the frames that it wrongly lets through refused."""

    def recv_frame(self) -> Any:
        frame = super().recv_frame()  # type: ignore[no-untyped-call]
        if frame.mask_value:
            raise websocket.WebSocketProtocolException("a server must not mask its frames")
        return frame

    # Both are sent while receiving. That a server has hung up by then is for the next receive to say: what it sent
    # before may still be there.

    def pong(self, *arguments: Any) -> None:
        with contextlib.suppress(SendError):
            super().pong(*arguments)

    def send_close(self, *arguments: Any) -> None:
        with contextlib.suppress(TransportError):
            super().send_close(*arguments)


class Session:
    """One WebSocket connection for text messages; use as a context manager. Everything on it ends by `budget`."""

    def __init__(self, protocol: _Protocol, sock: Any, late: Callable[[DeadlineError], None]) -> None:
        self._protocol = protocol
        self._sock = sock
        self._late = late

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, text: str) -> None:
        """Send one text message."""
        with _translated("send", self._late):
            self._protocol.send(text)

    def receive(self) -> str:
        """Return the next text message; raises `ReceiveError` when the server ends the connection."""
        with _translated("frame", self._late):
            opcode, frame = self._protocol.recv_data_frame(control_frame=False)
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            raise ReceiveError("the server closed the WebSocket", phase="frame")
        if opcode != websocket.ABNF.OPCODE_TEXT:
            raise AnswerError("the server sent a binary message")
        data: bytes = frame.data
        try:
            # Not by the library: its validation is written in Python, and 2 MiB would take a second beyond any budget.
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise GarbledError("a text message is not UTF-8", phase="frame") from None

    def close(self) -> None:
        """Say goodbye where there is time, and close the socket in every case, with FIN where the server hangs up."""
        budget = self._sock.budget
        cancelled = budget.cancel is not None and budget.cancel.is_set
        try:
            if self._protocol.connected and budget.left() > 0:
                self._sock.budget = budget.child(_GOODBYE_SECONDS)
                self._sock.budget.cancel = None
                self._protocol.send_close()
                # What has not been read yet (notifications) would make the close an RST.
                net.close_orderly(self._sock, 0.0 if cancelled else self._sock.budget.left())
        finally:
            self._protocol.shutdown()  # type: ignore[no-untyped-call]
            self._sock.close()


def open_session(
    url: str,
    *,
    budget: Budget,
    journal: Journal,
    connect_seconds: float = 2.0,
    headers: Mapping[str, str] | None = None,
    peer: str = "the server",
) -> Session:
    """Connect, upgrade and return the session; all of it, and all that is done with it, ends by `budget`.

    No `Origin` header is sent (the Codex App Server answers 403 to any), no redirect is followed, no cookie is kept.
    Raises `TransportError` of the phase that failed and `HandshakeRefused` for a status other than 101. `peer` is what
    a `DeadlineError` calls the server.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    allowed = budget.child(max_bytes=MAX_BYTES)
    record = journal.open(
        "GET",
        url,
        connect_seconds=connect_seconds,
        total_seconds=budget.asked,
        allowed_seconds=allowed.left(),
    )
    host = parts.hostname or ""
    dialing = allowed.child(connect_seconds)
    sock: Any = None
    protocol = _Protocol(enable_multithread=False, skip_utf8_validation=True)

    def late(error: DeadlineError) -> None:
        tell(error, peer, url, sock)

    try:
        sock = net.connect(host, parts.port or (443 if secure else 80), dialing)
        if secure:
            from precheck_lib.bounded import tls

            sock = tls.wrap(sock, host, dialing)
        sock.budget = allowed
        line = Line(sock)
        with _translated("head", late):
            protocol.connect(  # type: ignore[no-untyped-call]
                url,
                socket=line,
                suppress_origin=True,
                redirect_limit=0,
                header={
                    "User-Agent": f"precheck/{__version__}",
                    "Sec-WebSocket-Key": line.key,
                    **(headers or {}),
                },
            )
        record.status = protocol.getstatus()
    except HandshakeRefused as refused:
        record.status = refused.status
        _abandon(protocol, sock)
        raise
    except BaseException as error:
        if isinstance(error, DeadlineError):
            late(error)
        _abandon(protocol, sock)
        raise
    finally:
        record.elapsed_s = round(allowed.elapsed(), 3)
        record.bytes = sock.received if sock is not None else 0
    return Session(protocol, sock, late)


def _abandon(protocol: _Protocol, sock: Any) -> None:
    protocol.shutdown()  # type: ignore[no-untyped-call]
    if sock is not None:
        sock.close()


class _translated:  # noqa: N801 - reads as a clause at its use
    """The one place where the errors of `websocket-client` are turned into ours; the socket's own pass through."""

    def __init__(self, phase: Phase, late: Callable[[DeadlineError], None]) -> None:
        self.phase: Phase = phase
        self.late = late

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        foreign = (websocket.WebSocketException, OSError, ValueError)
        if isinstance(error, DeadlineError):
            self.late(error)
        if isinstance(error, websocket.WebSocketConnectionClosedException):
            raise ReceiveError("the server closed the connection", phase=self.phase) from error
        if isinstance(error, foreign):
            what = "the handshake" if self.phase == "head" else "a frame"
            raise GarbledError(f"{what} is not WebSocket as RFC 6455 has it", phase=self.phase) from error


__all__ = ["MAX_BYTES", "HandshakeRefused", "Session", "open_session"]
