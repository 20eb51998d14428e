"""Connections, and the socket that re-arms itself from its budget on every call.

Two facts of CPython shape this file. Plain `sendall` is one call in C with a total of its own, so it is spelled out
over `send`. And a socket in non-blocking mode is waited for with `poll` beside the cancel descriptor, so that a signal
ends the wait in whichever thread it happens, without an exception thrown at an arbitrary bytecode.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from precheck_lib.bounded.budget import READ, WRITE, Budget
from precheck_lib.bounded.resolve import resolve
from precheck_lib.errors import (
    ConnectError,
    DeadlineError,
    EmptyReplyError,
    GarbledError,
    ReceiveError,
    SendError,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.tls import BudgetTlsSocket
    from precheck_lib.errors import Phase

T = TypeVar("T")

_HTTP = b"HTTP/"  # what every head begins with


class BoundedSocket:
    """The behaviour that a plain and a TLS socket share: each call is armed by `budget` and counted against it.

    `phase` is what the exchange is doing and goes into every error; whoever owns the socket keeps it right.
    An end of stream in the phase `head` is an error at once: no parser above can then take half a head for a whole one.
    """

    budget: Budget
    phase: Phase = "connect"
    ended = False  # the peer has closed its side
    received = 0  # bytes of this connection
    greeting = b""  # the first of them, where they came into a buffer

    if TYPE_CHECKING:

        def fileno(self) -> int:
            """Say for the type checker what the subclasses have."""

    def _retry(self, error: OSError, event: int) -> int | None:
        """Return the event to wait for where the call only has to be made again, else `None`."""
        return event if isinstance(error, BlockingIOError) else None

    def _receive(self, call: Callable[[], T], size: Callable[[T], int]) -> T:
        while True:
            self.budget.check(self.phase)
            try:
                value = call()
            except OSError as error:
                event = self._retry(error, READ)
                if event is None:
                    raise self._receive_fault(error) from error
                self.budget.wait(self.fileno(), event, self.phase)
                continue
            count = size(value)
            if count == 0:
                self.ended = True
                if self.phase == "head":
                    self._head_cut()
            self.received += count
            self.budget.take(count, self.phase)
            return value

    def _receive_fault(self, error: OSError) -> TransportError:
        return ReceiveError(f"the connection broke: {reason(error)}", phase=self.phase)

    def _greeted(self, buffer: Any, count: int) -> int:
        if len(self.greeting) < len(_HTTP):
            self.greeting += bytes(memoryview(buffer)[: min(count, len(_HTTP))])
        return count

    def _head_cut(self) -> NoReturn:
        if self.received == 0:
            raise EmptyReplyError("the server closed the connection without an answer", phase="head")
        if self.greeting and not self.greeting.startswith(_HTTP[: len(self.greeting)]):
            # A line that never ended, of another protocol or of HTTP/0.9: no head was begun that could have broken off.
            raise GarbledError("the answer is not HTTP that can be read", phase="head")
        raise ReceiveError("the server closed the connection in the middle of the head", phase="head")

    def _send_all(self, call: Callable[[memoryview], int], data: Any) -> None:
        view = memoryview(data).cast("B")
        sent = 0
        while sent < len(view):
            self.budget.check("send")
            try:
                sent += call(view[sent : sent + 65536])
            except OSError as error:
                event = self._retry(error, WRITE)
                if event is None:
                    raise SendError(f"the connection broke: {reason(error)}", phase="send") from error
                self.budget.wait(self.fileno(), event, "send")


class BudgetSocket(BoundedSocket, socket.socket):
    """A TCP socket whose every call ends by its budget. It is always in non-blocking mode; `settimeout` is ignored."""

    def __init__(self, family: int, budget: Budget) -> None:
        socket.socket.__init__(self, family, socket.SOCK_STREAM)
        socket.socket.setblocking(self, False)
        self.budget = budget

    def settimeout(self, value: float | None) -> None:
        """Ignore a library's own timeout: the budget is the only one."""

    def setblocking(self, flag: bool) -> None:
        """Ignore it: the socket stays non-blocking."""

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Receive up to `bufsize` bytes; `b""` at the end of the stream."""
        return self._receive(lambda: socket.socket.recv(self, bufsize, flags), len)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer and return the count; 0 at the end of the stream."""
        return self._greeted(buffer, self._receive(lambda: socket.socket.recv_into(self, buffer, nbytes, flags), int))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send all of `data` and return its length."""
        self.sendall(data, flags)
        return memoryview(data).nbytes

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of `data`."""
        self._send_all(lambda part: socket.socket.send(self, part, flags), data)


def reason(error: OSError) -> str:
    """Say why the system (or OpenSSL) refused, in its own words."""
    if hasattr(error, "reason"):  # an `ssl.SSLError`: its errno is a number of OpenSSL's, not of the system's
        said = error.reason.replace("_", " ").lower() if error.reason else error.strerror
        return str(said).partition(" (_ssl")[0]
    if isinstance(error.errno, int) and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def connect(host: str, port: int, budget: Budget) -> BudgetSocket:
    """Connect to the first address of `host` that takes the connection; the addresses share the budget.

    Raises `ResolveError`, `ConnectError`, or `DeadlineError` (phase `connect`) when the time is over.
    """
    addresses = resolve(host, port, budget)
    refused: ConnectError | None = None
    late: DeadlineError | None = None
    for number, (family, address) in enumerate(addresses):
        share = budget.child(budget.left() / (len(addresses) - number))
        try:
            return _connect_one(family, address, share)
        except ConnectError as error:
            refused = error
        except DeadlineError as error:
            late = error
    if refused is not None and (late is None or budget.left() > 0):
        raise refused
    raise budget.over("connect") from late


def _connect_one(family: int, address: Any, budget: Budget) -> BudgetSocket:
    budget.check("connect")
    try:
        sock = BudgetSocket(family, budget)
    except OSError as error:  # no IPv6 on this machine, no descriptor left
        raise ConnectError(f"{address[0]} port {address[1]}: {reason(error)}", phase="connect") from error
    try:
        number = _dial(sock, address, budget)
        if number:
            raise ConnectError(  # noqa: TRY301 - the handler below is there to close the socket for this one too
                f"{address[0]} port {address[1]}: {os.strerror(number)}", phase="connect"
            )
        with contextlib.suppress(OSError):  # macOS: the peer may have gone by now, which the first call will say
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _dial(sock: BudgetSocket, address: Any, budget: Budget) -> int:
    """Connect and return the system's error number, 0 where the connection is made."""
    try:
        number = sock.connect_ex(address)
    except OverflowError:  # a port or a scope beyond what an address can hold
        return errno.EADDRNOTAVAIL
    if number in (errno.EINPROGRESS, errno.EWOULDBLOCK):
        budget.wait(sock.fileno(), WRITE, "connect")
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    with contextlib.suppress(OSError):  # the peer may have gone by now, which the first call will say
        if not number and sock.getsockname() == sock.getpeername():
            # Nobody listens, and of all ports the system has given our own end the one that was called: TCP connects
            # a socket with itself then (one call in 28,000 where the port is in the ephemeral range).
            return errno.ECONNREFUSED
    return number


def close_orderly(sock: BudgetSocket | BudgetTlsSocket, linger: float = 0.01) -> None:
    """Close with FIN, never RST: what the peer has sent by then is read away first, for at most `linger` seconds.

    A close with unread bytes in the buffer sends RST, which some servers log as a fault of the client.
    """
    # What is there already is read away even where the time is over: hence the millisecond, and no parent.
    sock.budget = Budget(max(0.001, min(linger, sock.budget.left())), max_bytes=1 << 20)
    sock.phase = "close"
    try:
        # `SSLSocket.shutdown` would forget the keys, and what is read then would be noise.
        socket.socket.shutdown(sock, socket.SHUT_WR)
        while sock.recv(65536):
            pass
    except (OSError, TransportError):
        pass
    finally:
        sock.close()
