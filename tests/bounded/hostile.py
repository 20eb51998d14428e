"""A server that does to its clients what servers should not: each connection is handed to a script in a thread."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import struct
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from precheck_lib.bounded.budget import Budget

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

PATIENCE_SECONDS = 10.0
"""No call of a script waits longer, so that a test that fails does not hang as well."""


class Peer:
    """One connection as the server sees it. Every call raises `OSError` once the client, or the server, has gone."""

    def __init__(self, sock: socket.socket, closing: threading.Event, requests: list[bytes]) -> None:
        self.sock = sock
        self._closing = closing
        self._requests = requests
        self.head = b""
        sock.settimeout(PATIENCE_SECONDS)

    def request(self) -> bytes:
        """Read one request with its body; returns all of it and keeps the head."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        self.head, _, body = data.partition(b"\r\n\r\n")
        self._requests.append(self.head)
        length = 0
        for line in self.head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(body) < length:
            body += self._more()
        return self.head + b"\r\n\r\n" + body

    def _more(self) -> bytes:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the client has gone")
        return data

    def send(self, *parts: bytes) -> None:
        self.sock.sendall(b"".join(parts))

    def answer(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        """Send a healthy answer."""
        head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
        self.send("\r\n".join(head).encode(), b"\r\n\r\n", body)

    def drip(self, data: bytes, every: float = 0.04) -> None:
        """Send a byte at a time."""
        for number in range(len(data)):
            self.send(data[number : number + 1])
            self.pause(every)

    def drip_for_ever(self, data: bytes, every: float = 0.04) -> None:
        while True:
            self.send(data)
            self.pause(every)

    def flood(self, data: bytes) -> None:
        """Send without end, as fast as it goes."""
        block = data * max(1, 65536 // len(data))
        while True:
            self.send(block)

    def pause(self, seconds: float) -> None:
        if self._closing.wait(seconds):
            raise ConnectionError("the server closes")

    def hold(self) -> None:
        """Do nothing until the client has gone, whatever it sends; raises as it went."""
        while self._more():
            pass

    def watch_close(self) -> None:
        """Read until the client closes, and tell a close that stays one from a FIN with an RST on its heels."""
        while self.sock.recv(65536):
            pass
        self.pause(0.03)
        if self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise ConnectionResetError("FIN, then RST")
        raise ConnectionError("the client has gone")

    def reset(self) -> None:
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket.close(self.sock)

    def accept_key(self) -> str:
        """Return the `Sec-WebSocket-Accept` that belongs to the request."""
        (key,) = (
            line[19:].strip() for line in self.head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:")
        )
        return base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()

    def upgrade(self, *headers: str, accept: str | None = None) -> None:
        """Take the request for a WebSocket and agree to it."""
        self.request()
        self.send(self.agreement(*headers, accept=accept))

    def agreement(self, *headers: str, accept: str | None = None) -> bytes:
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {self.accept_key() if accept is None else accept}",
            *headers,
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"


class Hostile:
    """Accepts on a port of the loopback interface and runs `script` for each connection."""

    def __init__(self, script: Callable[[Peer], None], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._script = script
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._socks: list[socket.socket] = []
        self.connections = 0
        self.requests: list[bytes] = []
        self.ends: list[str] = []
        self.failures: list[BaseException] = []
        self.ended = threading.Condition()
        self._listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.listen(64)
        self.host = f"[{host}]" if ":" in host else host
        self.port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name=f"hostile-{self.port}")
        self._acceptor.start()

    def url(self, path: str = "/", scheme: str = "http") -> str:
        return f"{scheme}://{self.host}:{self.port}{path}"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._socks.append(sock)
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(sock,), name=f"hostile-{self.port}-{self.connections}")
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        peer = Peer(sock, self._closing, self.requests)
        how = "server"
        try:
            self._script(peer)
        except ConnectionResetError:
            how = "rst"
        except OSError:
            how = "fin"
        except BaseException as error:  # noqa: BLE001 - a script that is wrong must fail its test
            self.failures.append(error)
        finally:
            # The script may have put TLS around the socket: what it holds now is what has to be closed.
            peer.sock.close()
            sock.close()
        with self.ended:
            self.ends.append(how)
            self.ended.notify_all()

    def wait_for_end(self, count: int = 1, seconds: float = 2.0) -> list[str]:
        """Wait until that many connections are over; returns how each ended: `fin` or `rst` of the client, `server`."""
        with self.ended:
            assert self.ended.wait_for(lambda: len(self.ends) >= count, seconds), "a connection is still open"
            return self.ends

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(PATIENCE_SECONDS)
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        if self.failures:
            raise self.failures[0]


def over_tls(context: ssl.SSLContext, script: Callable[[Peer], None]) -> Callable[[Peer], None]:
    """Make a script of one that speaks inside TLS."""

    def wrapped(peer: Peer) -> None:
        peer.sock = context.wrap_socket(peer.sock, server_side=True)
        script(peer)

    return wrapped


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """Yield a port that drops every SYN, on all addresses of 127.0.0.0/8: a listener whose queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("0.0.0.0", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        time.sleep(0.02)
        yield port


def closed_port(host: str = "127.0.0.1") -> int:
    """Return a port on which nobody listens."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


def told(error: Exception | None) -> tuple[type[Exception], str, int]:
    """Return what a test asserts of an error: its class, the phase in it, curl's exit code."""
    return type(error), getattr(error, "phase", ""), getattr(error, "curl", 0)


def held_up() -> float:
    """Return the seconds that the threads of this process were ready to run and had no processor.

    Tests of time allow for it: it is what a busy machine adds, and nothing of it is the fault of what is tested.
    """
    total = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            total += int(file.read_text().split()[1])
    return total / 1e9


class Ended(NamedTuple):
    """How one of several calls ended, after how many seconds, and for how many the machine had held it up."""

    error: Exception | None
    seconds: float
    held_up: float


def at_the_same_time(calls: dict[str, Callable[[], object]]) -> dict[str, Ended]:
    """Make the calls in a thread each; returns how they ended."""
    ended: dict[str, Ended] = {}

    def make(name: str, call: Callable[[], object]) -> None:
        started, before = time.monotonic(), held_up()
        error = None
        try:
            call()
        except Exception as caught:  # noqa: BLE001 - the test says what it should have been
            error = caught
        ended[name] = Ended(error, time.monotonic() - started, max(0.0, held_up() - before))

    threads = [threading.Thread(target=make, args=item) for item in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return ended


@contextlib.contextmanager
def deadline_when(is_ready: Callable[[], bool], *, seconds: float = 0.1, overrun: float = 0.5) -> Iterator[Budget]:
    """Yield a budget that ends `seconds` after a condition has come true, and hold the block to that and `overrun`.

    So no test depends on how fast a child begins.
    """
    budget = Budget(30)
    started: list[tuple[float, float]] = []

    def watch() -> None:
        while not is_ready() and budget.left() > 20:
            time.sleep(0.005)
        started.append((time.monotonic(), held_up()))
        budget.cut(seconds)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield budget
    finally:
        ended, busy = time.monotonic(), held_up()
        watcher.join()
    at, before = started[0]
    took = ended - at - max(0.0, busy - before)
    assert took <= seconds + overrun, f"took {took:.3f} s of {seconds} s"
