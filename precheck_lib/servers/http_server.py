"""What the HTTP servers have in common: where they are, how long one may ask, and reading one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.bounded import http
from precheck_lib.bounded.strict_json import parse_object
from precheck_lib.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.http import Answer
    from precheck_lib.bounded.journal import Journal


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much one request may use: seconds to connect and in total, bytes of a body."""

    connect: float = 2.0
    total: float = 10.0
    max_bytes: int = 2 << 20


class HttpServer:
    """A server that speaks JSON over HTTP at `url` (a trailing slash is the same); errors call it by its `name`."""

    def __init__(
        self,
        url: str,
        *,
        journal: Journal,
        bounds: Bounds,
        headers: Mapping[str, str] | None = None,
        name: str = "the server",
    ) -> None:
        self.url = url.rstrip("/")
        self.name = name
        self.journal = journal
        self.bounds = bounds
        self._headers = dict(headers or {})

    def ask(
        self, method: str, path: str, *, budget: Budget, body: bytes | None = None, total: float | None = None
    ) -> Answer:
        """Make one request and return the answer whatever its status; `total` seconds instead of the usual bound."""
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        return http.send(
            method,
            self.url + path,
            budget=budget,
            journal=self.journal,
            connect_seconds=self.bounds.connect,
            total_seconds=self.bounds.total if total is None else total,
            max_body=self.bounds.max_bytes,
            headers=headers,
            body=body,
            peer=self.name,
        )

    def object_of(self, answer: Answer, what: str) -> dict[str, Any]:
        """Return the JSON object of a 200 answer; raises `StatusError` or `AnswerError`."""
        if answer.status != 200:
            raise StatusError(f"status {answer.status} instead of 200", answer.status)
        return parse_object(answer.body, what)
