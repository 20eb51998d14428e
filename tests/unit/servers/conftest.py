from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.bounded.http import Answer
from precheck_lib.servers.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable


class Asked:
    """What a server was asked in place of a network: `requests` in order; `answers` are given in turn, the last on."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: list[Any] = []

    def ask(self, server: HttpServer, method: str, path: str, **more: Any) -> Answer:
        self.requests.append({"url": server.url + path, "method": method, "headers": dict(server._headers), **more})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()

    def ask(self: HttpServer, method: str, path: str, **more: Any) -> Answer:
        return made.ask(self, method, path, **more)

    monkeypatch.setattr(HttpServer, "ask", ask)
    return made


@pytest.fixture
def answer() -> Callable[..., Answer]:
    """Make an answer: `body` is bytes as they are, text, or a value that becomes JSON."""

    def make(
        body: Any = b"", status: int = 200, content_type: str = "application/json", *, complete: bool = True
    ) -> Answer:
        if isinstance(body, str):
            body = body.encode()
        elif not isinstance(body, bytes):
            body = json.dumps(body).encode()
        return Answer(status, {"Content-Type": content_type} if content_type else {}, body, complete=complete)

    return make
