"""Small clients on plain sockets, so that a stand-in is not judged by the library that it is to test."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 5.0


class Answer:
    """One HTTP answer with its headers in order."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.order = response.getheaders()
        self.headers = {name.lower(): value for name, value in self.order}
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _ask(
    url: str,
    path: str = "",
    method: str = "GET",
    body: Any = None,
    timeout: float = PATIENCE,
    headers: dict[str, str] | None = None,
) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, parts.path + path, data, headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def _generate(url: str, model: str, keep_alive: Any, timeout: float = PATIENCE, **more: Any) -> Answer:
    body = {"model": model, "prompt": "", "stream": False, "keep_alive": keep_alive, **more}
    return _ask(url, "/generate", "POST", body, timeout)


def _basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}


class Line:
    """A plain TCP connection to a stand-in."""

    def __init__(self, url: str, timeout: float = PATIENCE) -> None:
        parts = urlsplit(url)
        self.sock = socket.create_connection((parts.hostname, parts.port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes | str) -> None:
        self.sock.sendall(data.encode() if isinstance(data, str) else data)

    def until(self, end: bytes) -> bytes:
        got = b""
        while not got.endswith(end):
            byte = self.sock.recv(1)
            if not byte:
                raise EOFError(got)
            got += byte
        return got

    def exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            more = self.sock.recv(count - len(got))
            if not more:
                raise EOFError(got)
            got += more
        return got

    def rest(self) -> bytes:
        """All up to the end of the connection."""
        got = b""
        while more := self.sock.recv(65536):
            got += more
        return got

    def close(self) -> None:
        self.sock.close()


UPGRADE = (
    "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Socket(Line):
    """A WebSocket connection: text out, frames in."""

    def __init__(self, url: str, timeout: float = PATIENCE) -> None:
        super().__init__(url, timeout)
        try:
            self.send(UPGRADE)
            self.head = self.until(b"\r\n\r\n").decode()
        except BaseException:
            self.close()
            raise

    def frame(self, opcode: int, payload: bytes, *, final: bool = True) -> None:
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        mask = b"\x01\x02\x03\x04"
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        self.send(bytes([(0x80 if final else 0) | opcode]) + length + mask + masked)

    def say(self, message: Any) -> None:
        self.frame(1, (message if isinstance(message, str) else json.dumps(message)).encode())

    def hear(self) -> tuple[int, bytes]:
        first, size = self.exactly(2)
        if size >= 126:
            size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
        return first & 0x0F, self.exactly(size)

    def text(self) -> str:
        opcode, payload = self.hear()
        assert opcode == 1
        return payload.decode()

    def call(self, number: int, method: str, params: Any) -> Any:
        """The answer to a call; notifications before it are passed over."""
        self.say({"id": number, "method": method, "params": params})
        while True:
            message = json.loads(self.text())
            if message.get("id") == number and "method" not in message:
                return message

    def initialize(self, name: str = "codex_app_server_daemon", version: str = "1.0.0") -> Any:
        return self.call(0, "initialize", {"clientInfo": {"name": name, "version": version}})


@pytest.fixture
def ask() -> Callable[..., Answer]:
    return _ask


@pytest.fixture
def generate() -> Callable[..., Answer]:
    """`POST /generate` as a precheck sends it."""
    return _generate


@pytest.fixture
def basic() -> Callable[[str, str], dict[str, str]]:
    return _basic


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.fixture
def line(stack: contextlib.ExitStack) -> Callable[..., Line]:
    def connect(url: str, timeout: float = PATIENCE) -> Line:
        return stack.enter_context(contextlib.closing(Line(url, timeout)))

    return connect


@pytest.fixture
def dial(stack: contextlib.ExitStack) -> Callable[..., Socket]:
    def connect(url: str, timeout: float = PATIENCE) -> Socket:
        return stack.enter_context(contextlib.closing(Socket(url, timeout)))

    return connect


@pytest.fixture
def recorded() -> Callable[[str], Any]:
    folder = Path(__file__).with_name("recorded")
    return lambda name: json.loads((folder / name).read_text(encoding="utf-8"))


@pytest.fixture
def refused() -> Callable[[str], bool]:
    """Say whether nobody takes a connection at a URL."""

    def look(url: str) -> bool:
        parts = urlsplit(url)
        with socket.socket() as client:
            return client.connect_ex((parts.hostname, parts.port)) != 0

    return look
