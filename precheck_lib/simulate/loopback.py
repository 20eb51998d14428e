"""Real sockets on the loopback interface: accept, read, send, hold, drip, drop, and leave nothing behind."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

How = Literal["fin", "rst", "server"]
"""Who ended a connection: the client in order, the client with a reset, or the stand-in itself."""


class Gone(Exception):  # noqa: N818 - it is how a conversation ends, not a fault
    """The other side, or the stand-in's own `close()`, has ended the connection."""


@dataclass(frozen=True)
class Seen:
    """One HTTP request as it arrived: `headers` by lower-case name, `at` in seconds of `time.monotonic()`."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float


@dataclass
class ConnectionSeen:
    """One accepted connection: when it came (`time.monotonic()`), and how it ended (`None` while it is open).

    `upgraded` says that it became a WebSocket and `close_frame` that the client sent a WebSocket close frame.
    """

    number: int
    at: float
    ended: How | None = None
    upgraded: bool = False
    close_frame: bool = False


class Connection:
    """One accepted connection, used by the thread that serves it; every wait ends when the client goes."""

    def __init__(self, sock: socket.socket, record: ConnectionSeen) -> None:
        self.record = record
        self._sock = sock
        self._pending = b""
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def _receive(self) -> None:
        try:
            data = self._sock.recv(65536)
        except OSError as error:
            self.record.ended = self.record.ended or "rst"
            raise Gone from error
        if not data:
            self.record.ended = self.record.ended or "fin"
            raise Gone
        self._pending += data

    def read_until(self, end: bytes, limit: int) -> bytes:
        """Take bytes up to and including `end`; `ValueError` when more than `limit` bytes hold no `end`."""
        while (at := self._pending.find(end)) < 0:
            if len(self._pending) > limit:
                raise ValueError(f"no {end!r} in the first {limit} bytes")
            self._receive()
        taken, self._pending = self._pending[: at + len(end)], self._pending[at + len(end) :]
        return taken

    def read_exactly(self, count: int) -> bytes:
        """Take `count` bytes, waiting for them."""
        while len(self._pending) < count:
            self._receive()
        taken, self._pending = self._pending[:count], self._pending[count:]
        return taken

    def arrives(self, seconds: float) -> bool:
        """Say whether anything to read is there within `seconds`; `Gone` is for the read that follows."""
        return bool(self._pending) or bool(self._poll.poll(max(0.0, seconds) * 1000))

    def stays(self, seconds: float | None) -> bool:
        """Wait `seconds` (`None`: for ever), say whether the client is still there; what it sends is kept."""
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return True
                # poll() counts in whole milliseconds and would turn the last fraction into a busy loop.
                if self._poll.poll(None if left is None else left * 1000 + 1):
                    self._receive()
        except Gone:
            return False

    def send(self, data: bytes) -> None:
        """Send all of `data` in one call."""
        try:
            self._sock.sendall(data)
        except OSError as error:
            self.record.ended = self.record.ended or "rst"
            raise Gone from error

    def drip(self, data: bytes, every: float) -> None:
        """Send one byte each `every` seconds: the way past any timeout that counts from the last byte."""
        for index in range(len(data)):
            self.send(data[index : index + 1])
            if not self.stays(every):
                raise Gone

    def hold(self) -> None:
        """Say nothing more until the client goes or the stand-in is closed."""
        self.stays(None)

    def repeat(self, data: bytes, every: float) -> None:
        """Send `data` each `every` seconds, for as long as the client takes it."""
        while True:
            self.send(data)
            if not self.stays(every):
                raise Gone

    def flood(self, data: bytes) -> None:
        """Send `data` again and again, as fast as the client takes it."""
        block = data * max(1, 65536 // len(data))
        while True:
            self.send(block)

    def reset(self) -> None:
        """End the connection with a reset (RST) in place of an orderly end."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.record.ended = self.record.ended or "server"
        raise Gone

    def finish(self) -> None:
        """End our direction in order (FIN) and read away what still comes: no reset, whatever was not read before."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)
        self.hold()
        raise Gone

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on, as a server; `Gone` where the handshake fails."""
        # It takes the descriptor over, so there is one socket at any time.
        plain, self._sock = (
            self._sock,
            context.wrap_socket(
                self._sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=False
            ),
        )
        plain.close()
        try:
            self._sock.do_handshake()
        except OSError as error:
            self.record.ended = self.record.ended or "fin"
            raise Gone from error

    def send_in_the_clear(self, data: bytes) -> None:
        """Send past the encryption of a connection that is `secure`."""
        with socket.socket(fileno=socket.dup(self._sock.fileno())) as plain:
            plain.sendall(data)

    def say_the_end(self) -> None:
        """Send TLS its closing alert, which an end of the TCP connection alone is not."""
        with contextlib.suppress(OSError):
            self._sock.unwrap()  # type: ignore[attr-defined]
        raise Gone

    def cut(self) -> None:
        """Take the connection away under whoever reads or writes on it, in whichever thread."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back."""
        self._sock.close()


class LoopbackServer:
    """A listener on a loopback port with a thread for each connection, from construction to `close()`.

    `port` 0 takes a free one. With `listen=False` the port is bound but not listened on: connecting to it is
    refused, and nobody else can take it. A subclass says in `serve` what happens on a connection.
    """

    scheme = "tcp"

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0, listen: bool = True) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._connections: list[ConnectionSeen] = []
        self._serving: dict[threading.Thread, Connection] = {}
        self._closed = False
        self._acceptor: threading.Thread | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._wake, self._woken = socket.socketpair()
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((host, port))
            if listen:
                self._listener.listen(128)
                self._acceptor = threading.Thread(target=self._accept, daemon=True)
        except BaseException:
            for sock in (self._listener, self._wake, self._woken):
                sock.close()
            raise
        self.host = host
        self.port: int = self._listener.getsockname()[1]

    def start(self) -> None:
        """Begin to accept; a subclass calls it once its own state is complete."""
        if self._acceptor is not None:
            self._acceptor.start()

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Where a client reaches this stand-in."""
        return f"{self.scheme}://{self.authority}"

    @property
    def connections(self) -> list[ConnectionSeen]:
        """The accepted connections in order, open ones too."""
        with self.changed:
            return list(self._connections)

    def wait_for(self, predicate: Callable[[], object], timeout: float) -> bool:
        """Wait until `predicate()` is true, at most `timeout` seconds, and say whether it became so.

        It is asked again whenever the stand-in has seen or changed something, so nothing is polled.
        """
        end = time.monotonic() + timeout
        with self.changed:
            while not predicate():
                left = end - time.monotonic()
                if left <= 0:
                    return False
                change = self._next_change()
                self.changed.wait(left if change is None else max(0.0, min(left, change - time.monotonic())))
            return True

    def close(self) -> None:
        """End every connection, join every thread, free the port; a second call does nothing."""
        with self.changed:
            if self._closed:
                return
            self._closed = True
            serving = dict(self._serving)
            for record in self._connections:
                record.ended = record.ended or "server"
            for connection in serving.values():
                connection.cut()
            self.changed.notify_all()
        self._wake.close()
        if self._acceptor is not None and self._acceptor.ident is not None:
            self._acceptor.join()
        for thread in serving:
            thread.join()
        self._listener.close()
        self._woken.close()

    def serve(self, connection: Connection) -> None:
        """Talk on one connection until there is nothing more to say; `Gone` may pass."""
        raise NotImplementedError

    def _next_change(self) -> float | None:
        """Let happen what is due, and say when something next will by time alone (for `wait_for`)."""
        return None

    def _accept(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            poll.poll()
            with self.changed:
                if self._closed:
                    return
            try:
                sock, _ = self._listener.accept()
            except OSError:
                # The client was gone before it was accepted.
                continue
            self._begin(sock)

    def _begin(self, sock: socket.socket) -> None:
        # A client that has already reset the connection makes this fail on some systems.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.changed:
            if self._closed:
                sock.close()
                return
            record = ConnectionSeen(number=len(self._connections), at=time.monotonic())
            self._connections.append(record)
            connection = Connection(sock, record)
            thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
            self._serving[thread] = connection
            thread.start()
            self.changed.notify_all()

    def _run(self, connection: Connection) -> None:
        try:
            with contextlib.suppress(Gone):
                self.serve(connection)
        finally:
            with self.changed:
                connection.record.ended = connection.record.ended or "server"
                del self._serving[threading.current_thread()]
                connection.close()
                self.changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
