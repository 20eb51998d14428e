"""A server with one hostile fault, on a real socket of the loopback interface."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.frames import CLOSE, PING, PONG, TEXT, Reader, accept_key
from precheck_lib.simulate.hostile.fault import Wire
from precheck_lib.simulate.hostile.frames import AGREED, frame
from precheck_lib.simulate.hostile.names import addresses, resolving
from precheck_lib.simulate.hostile.tables import hostile_named
from precheck_lib.simulate.loopback import Connection, LoopbackServer, Seen
from precheck_lib.simulate.options import count, flag, seconds
from precheck_lib.simulate.reading import MalformedError, read_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.simulate.hostile.authority import Authority

_RIGHT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: $LENGTH\r\n\r\n$BODY"


class HostileServer(LoopbackServer):
    """A server that speaks HTTP and WebSocket and does one thing wrong, from construction to `close()`.

    `answer` gives the right body for an HTTP request and `reply` the right message for one of a WebSocket (`None`: no
    reply is due); the fault spoils them. The first `after` of either are answered right. `every` is the pause of what
    drips, in seconds. With `secure` it speaks TLS (which the faults of TLS imply), with certificates of `authority`;
    where none is given it makes one in a temporary folder, which takes the `openssl` command and a few hundredths of a
    second. Faults of names act in this process only. An option that cannot be is refused at once, with `TypeError` or
    `ValueError`.

    A fault of WebSocket (`ws-*`) acts on an upgrade and what follows it: a plain GET is answered right.
    """

    def __init__(
        self,
        fault: str,
        *,
        answer: Callable[[Seen], bytes] = lambda _: b"{}",
        reply: Callable[[str], str | None] = lambda _: "{}",
        after: int = 0,
        every: float = 1.0,
        secure: bool = False,
        authority: Authority | None = None,
    ) -> None:
        self.fault = hostile_named(fault)
        for name, function in (("answer", answer), ("reply", reply)):
            if not callable(function):
                raise TypeError(f"{name}={function!r} is not a function")
        self.secure = flag("secure", secure) or self.fault.layer in ("tls", "secure")
        self._answer, self._reply = answer, reply
        self._after, self._every = count("after", after), seconds("every", every)
        self._answered = 0
        self.certificates: Authority | None = None
        self._closing = threading.Event()
        self._stack = contextlib.ExitStack()
        super().__init__(listen=self.fault.listening == "yes")
        try:
            self._context = self._tls(authority) if self.secure else None
            self.name = self._named()
            self._listen()
        except BaseException:
            self.close()
            raise
        self.start()

    @property
    def scheme(self) -> str:  # type: ignore[override]
        """`http` or `https`."""
        return "https" if self.secure else "http"

    @property
    def url(self) -> str:
        """Where an HTTP client reaches it."""
        return f"{self.scheme}://{self.name}:{self.port}"

    @property
    def ws_url(self) -> str:
        """Where a WebSocket client reaches it."""
        return f"{'wss' if self.secure else 'ws'}://{self.name}:{self.port}"

    def close(self) -> None:
        """End every connection, free the port and the name; a second call does nothing."""
        self._closing.set()
        super().close()
        self._stack.close()

    def serve(self, connection: Connection) -> None:
        """Be right until the fault's turn comes."""
        layer, script = self.fault.layer, self.fault.script
        if layer in ("tcp", "tls") and script is not None:
            script(self._wire(connection))
            return
        if self._context is not None:
            connection.secure(self._context)
        try:
            request = read_request(connection)
        except MalformedError:
            connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return
        if "upgrade" in request.headers:
            self._converse(connection, request)
        else:
            wire = self._wire(connection, self._answer(request))
            self._act(wire, "http", "json", "secure", right=_RIGHT)

    def _act(self, wire: Wire, *layers: str, right: bytes) -> None:
        with self.changed:
            self._answered += 1
            turn = self._answered > self._after
        if self.fault.layer in layers and self.fault.script is not None and turn:
            self.fault.script(wire)
        else:
            wire.send(right)

    def _converse(self, connection: Connection, request: Seen) -> None:
        accept = accept_key(request.headers.get("sec-websocket-key", ""))
        wire = self._wire(connection, accept=accept)
        if self.fault.layer == "handshake" and self.fault.script is not None:
            self.fault.script(wire)
            return
        wire.send(AGREED, b"\r\n")
        reader = Reader(connection)
        while (message := reader.message()).opcode != CLOSE:
            if message.opcode == PING:
                connection.send(frame(message.payload, PONG))
            if message.opcode != TEXT or (reply := self._reply(message.payload.decode())) is None:
                continue
            body = reply.encode()
            self._act(self._wire(connection, body), "frame", "message", right=frame(body))

    def _wire(self, connection: Connection, body: bytes = b"", accept: str = "") -> Wire:
        return Wire(connection, body, self._every, accept)

    def _tls(self, authority: Authority | None) -> Any:
        from precheck_lib.simulate.hostile.authority import Authority

        if authority is None:
            import tempfile

            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="precheck-hostile-"))
            authority = Authority(folder)
        self.certificates = authority
        return authority.context(self.fault.chain)

    def _named(self) -> str:
        kind = self.fault.names
        if not kind:
            return self.host
        name = f"hostile-{self.port}.invalid"
        dead = self._full(self._stack.enter_context(socket.socket())) if kind.startswith("dead") else 0
        answer = lambda: addresses(kind, self.port, dead, self._closing)  # noqa: E731
        self._stack.enter_context(resolving(name, answer))
        return name

    def _listen(self) -> None:
        if self.fault.listening == "never-accepts":
            self._listener.listen(128)
        elif self.fault.listening == "full":
            self._full(self._listener)

    def _full(self, listener: socket.socket) -> int:
        """Listen with a queue that is full: the system then drops every packet that asks for a connection."""
        if listener is not self._listener:
            listener.bind(("0.0.0.0", 0))  # every address of 127.0.0.0/8
        listener.listen(0)
        port: int = listener.getsockname()[1]
        for _ in range(3):
            filler = self._stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        return port
