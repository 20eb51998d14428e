"""HTTP/1.1 as the stand-ins speak it: a strict reader, answers in one send, the faults of any HTTP server."""

from __future__ import annotations

import functools
import json
import pkgutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from precheck_lib.simulate.active import Active
from precheck_lib.simulate.hostile.fault import Wire
from precheck_lib.simulate.loopback import Connection, Gone, LoopbackServer, Seen
from precheck_lib.simulate.reading import MalformedError, read_request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from precheck_lib.simulate.faults import Server

_REASONS = {
    101: "Switching Protocols",
    200: "OK",
    204: "No Content",
    301: "Moved Permanently",
    302: "Found",
    307: "Temporary Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Reply:
    """One HTTP answer; `headers` go out as they stand, in this order, so each server keeps its manner."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def encode(self, *, head_only: bool = False) -> bytes:
        """Give the bytes that go on the wire."""
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Unknown')}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if head_only else self.body)


def http_date() -> str:
    """Give the time of now as a Date header has it."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())


def compact(value: object) -> bytes:
    """Give a value as JSON without spaces, as all three servers write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@functools.cache
def recorded(name: str) -> bytes:
    """Give a file of `recorded/`: what a real server said, too long to stand in the code."""
    return pkgutil.get_data("precheck_lib.simulate", f"recorded/{name}") or b""


class HttpStandIn(LoopbackServer):
    """A loopback HTTP server that records what it saw in `seen` and can have one named fault at work.

    A subclass answers in `answer`, names the step of a request in `step` (for the option `at` of faults), and
    writes headers in its server's manner in `reply`.
    """

    scheme = "http"

    def __init__(
        self,
        server: Server,
        *,
        fault: str | None = None,
        fault_options: Mapping[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.fault = Active(server, fault, fault_options)
        self._seen: list[Seen] = []
        super().__init__(host=host, port=port, listen=not self.fault.named("refuse"))

    @property
    def seen(self) -> list[Seen]:
        """The requests in the order of their arrival."""
        with self.changed:
            return list(self._seen)

    def note(self, request: Seen) -> None:
        """Record a request and wake whoever waits for it."""
        with self.changed:
            self._seen.append(request)
            self.changed.notify_all()

    def serve(self, connection: Connection) -> None:
        """Answer requests on one connection until the client goes or asks to close."""
        while True:
            try:
                request = read_request(connection)
            except MalformedError:
                connection.send(self.reply(400, b"", "text/plain").encode())
                return
            self.note(request)
            self._respond(connection, request)
            if "close" in request.headers.get("connection", "").lower():
                return

    def step(self, request: Seen) -> str:
        """Name the step that a request belongs to: its path without the query."""
        return request.path.partition("?")[0]

    def answer(self, connection: Connection, request: Seen) -> Reply:
        """Give the answer to one request; `Gone` ends the connection without one."""
        raise NotImplementedError

    def reply(self, status: int, body: bytes, kind: str = "application/json", **more: str) -> Reply:
        """Give an answer with the headers of this server; `more` are further ones, `_` for `-`."""
        headers = [("Content-Type", kind), ("Date", http_date()), ("Content-Length", str(len(body)))]
        headers += [(name.replace("_", "-"), value) for name, value in more.items()]
        return Reply(status, tuple(headers), body)

    def _respond(self, connection: Connection, request: Seen) -> None:
        fault, at = self.fault, self.step(request)
        if (spoil := fault.spoils(at, "http", "json")) is not None:
            spoil(Wire(connection, self.answer(connection, request).body, fault.options["every"]))
            raise Gone
        if fault.acts("silence", at):
            connection.hold()
            raise Gone
        if fault.acts("empty-reply", at):
            raise Gone
        if fault.acts("reset", at):
            connection.reset()
        reply = self._faulty(at) or self.answer(connection, request)
        data = reply.encode(head_only=request.method == "HEAD")
        if fault.acts("drip", at):
            connection.drip(data, fault.options["every"])
        elif fault.acts("cut-short", at):
            connection.send(replace(reply, body=reply.body[: len(reply.body) // 2]).encode())
            raise Gone
        else:
            connection.send(data)

    def _faulty(self, at: str) -> Reply | None:
        """Give the answer of a fault that stands in place of the right one."""
        fault = self.fault
        if fault.acts("huge", at):
            return self.reply(200, compact({"padding": "x" * fault.options["size"]}))
        if fault.acts("not-json", at):
            return self.reply(200, fault.options["body"].encode())
        if fault.acts("redirect", at):
            return self.reply(302, b"", "text/html", Location=fault.options["location"])
        if fault.acts("status", at):
            return self.reply(fault.options["status"], fault.options["body"].encode(), fault.options["type"])
        return None
