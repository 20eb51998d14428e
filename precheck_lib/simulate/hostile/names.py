"""Names that resolve as a hostile resolver would have it, for this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_lock = threading.Lock()
_answers: dict[str, Callable[[], list[Any]]] = {}
_original = socket.getaddrinfo


def _ask(host: Any, *arguments: Any, **options: Any) -> list[Any]:
    with _lock:
        answer = _answers.get(host)
    return _original(host, *arguments, **options) if answer is None else answer()


@contextlib.contextmanager
def resolving(name: str, answer: Callable[[], list[Any]]) -> Iterator[None]:
    """Let `socket.getaddrinfo` of this process answer for `name` with what `answer` returns or raises.

    The system's resolver cannot be told on a machine without root, so nothing outside the process sees the name.
    """
    with _lock:
        _answers[name] = answer
        socket.getaddrinfo = _ask
    try:
        yield
    finally:
        with _lock:
            del _answers[name]
            if not _answers:
                socket.getaddrinfo = _original


def addresses(kind: str, port: int, dead: int, closing: threading.Event) -> list[Any]:
    """Answer as the fault `kind` does: the server is on 127.0.0.1 `port`; nothing comes back from the port `dead`."""

    def at(host: str, number: int) -> tuple[Any, ...]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = (host, number, 0, 0) if ":" in host else (host, number)
        return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address

    if kind == "stall":
        closing.wait()
    if kind in ("stall", "unknown"):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if kind == "broken":
        raise socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution")
    found = {
        "none": [],
        "dead": [at(f"127.0.0.{number}", dead) for number in range(1, 6)],
        "refuse": [at(f"127.0.0.{number}", 1) for number in range(2, 7)],
        "dead-first": [at("127.0.0.1", dead), at("127.0.0.2", dead), at("127.0.0.1", port)],
        "ipv6": [at("::1", port), at("127.0.0.1", port)],
        "doubled": [at("127.0.0.1", port)] * 100,
    }
    return found[kind]
