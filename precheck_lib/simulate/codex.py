"""A stand-in of the Codex App Server: health paths, WebSocket upgrade, and the dialect of release 0.171.0."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.codex_rpc import Answer, Dialect, Session, notification, parse
from precheck_lib.simulate.frames import CLOSE, PING, PONG, TEXT, Reader, accept_key, frame
from precheck_lib.simulate.hostile.fault import Wire
from precheck_lib.simulate.loopback import Connection, Gone, Seen
from precheck_lib.simulate.reading import MalformedError, read_request
from precheck_lib.simulate.web import HttpStandIn, Reply, compact, http_date

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROBES = ("/healthz", "/readyz")


@dataclass(frozen=True)
class Call:
    """One JSON-RPC request or notification as it came; `connection` is the number of its `ConnectionSeen`."""

    method: str
    params: Any
    id: int | str | None
    connection: int
    at: float


class CodexStandIn(HttpStandIn):
    """A Codex App Server that works in the folder `home` (what it reports as `codexHome`).

    The first client that initializes becomes its originator, unless one is given. `account` is what
    `account/read` reports, `mcp_servers` the names of configured MCP servers. `fault` is a name of `FAULTS`
    for `codex`, `fault_options` its parameters. `seen` are the HTTP requests (an upgrade is one), `calls` the
    messages.
    """

    scheme = "ws"

    def __init__(
        self,
        home: str,
        *,
        version: str = "0.171.0",
        originator: str | None = None,
        account: Mapping[str, Any] | None = {"type": "apiKey"},
        requires_openai_auth: bool = True,
        mcp_servers: Sequence[str] = (),
        fault: str | None = None,
        fault_options: Mapping[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__("codex", fault=fault, fault_options=fault_options, host=host, port=port)
        self.home = str(home)
        self._calls: list[Call] = []
        active = self.fault
        if active.named("no-account"):
            account, requires_openai_auth = None, True
        self._dialect = Dialect(
            home=active.options["home"] if active.named("foreign-home") else self.home,
            version=active.options["version"] if active.named("wrong-version") else version,
            originator=originator,
            account=None if account is None else dict(account),
            requires_openai_auth=requires_openai_auth,
            mcp_servers=list(active.options["names"] if active.named("mcp-configured") else mcp_servers),
        )
        self.start()

    @property
    def calls(self) -> list[Call]:
        """The JSON-RPC messages in the order of their arrival."""
        with self.changed:
            return list(self._calls)

    def serve(self, connection: Connection) -> None:
        """Answer HTTP requests until one of them upgrades, then talk JSON-RPC."""
        if self.fault.named("accept-and-silence"):
            connection.hold()
            return
        while True:
            try:
                request = read_request(connection)
            except MalformedError:
                connection.send(self.reply(400, b"", "", connection="close").encode())
                return
            self.note(request)
            refusal = self._refusal(request)
            if refusal is None:
                self._upgrade(connection, request)
                self._converse(connection)
                return
            connection.send(refusal.encode(head_only=request.method == "HEAD"))
            if "close" in request.headers.get("connection", "").lower():
                return

    def reply(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8", **more: str) -> Reply:
        """Give an answer with the headers of this server; without a type where there is no body."""
        length = ("content-length", str(len(body)))
        # What has a body has its length in front of `connection`, what has none behind it.
        headers = [("content-type", kind), length, *more.items()] if body else [*more.items(), length]
        headers.append(("date", http_date()))
        return Reply(status, tuple(headers), body)

    def _refusal(self, request: Seen) -> Reply | None:
        """Give the answer to a request that is no upgrade, or `None` for one that is."""
        headers, path = request.headers, request.path.partition("?")[0]
        more = {"connection": "close"} if headers.get("connection", "").lower() == "close" else {}
        if "origin" in headers or self.fault.named("handshake-403"):
            return self.reply(403, b"", **more)
        if path in _PROBES:
            if request.method in ("GET", "HEAD"):
                return self.reply(200, b"", **more)
            return self.reply(405, b"", allow="GET,HEAD", **more)
        if self.fault.named("handshake-200"):
            return self.reply(200, b"<!doctype html><title>It works!</title>", "text/html", **more)
        if request.method != "GET":
            return self.reply(405, b"Request method must be `GET`", **more)
        lacking = _lacking(headers)
        return self.reply(400, lacking.encode(), **more) if lacking else None

    def _upgrade(self, connection: Connection, request: Seen) -> None:
        accept = accept_key(request.headers["sec-websocket-key"])
        if (spoil := self.fault.spoils("handshake", "handshake")) is not None:
            spoil(Wire(connection, b"", self.fault.options["every"], accept))
            raise Gone
        if self.fault.named("handshake-bad-accept"):
            accept = accept_key("another key")
        headers = (("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-accept", accept))
        data = Reply(101, (*headers, ("date", http_date()))).encode()
        if self.fault.named("handshake-drip"):
            connection.drip(data, self.fault.options["every"])
        else:
            connection.send(data)
        with self.changed:
            connection.record.upgraded = True
            self.changed.notify_all()

    def _converse(self, connection: Connection) -> None:
        if self.fault.named("ping-flood"):
            self._flood(connection, frame(PING, b"are you there"))
        reader, session, held = Reader(connection), Session(), b""
        while True:
            if held and not connection.arrives(self.fault.options["pause"]):
                connection.send(held)
                held = b""
            message = reader.message()
            if message.opcode == CLOSE:
                # The real server does not answer a close frame; it drops TCP.
                connection.record.close_frame = True
                return
            if message.opcode == PING:
                # Twice, as Codex 0.171.0 does.
                connection.send(frame(PONG, message.payload) * 2)
            if message.opcode != TEXT or (call := parse(message.payload)) is None:
                continue
            self._note_call(call, connection)
            answer = self._dialect.answer(session, call)
            if self.fault.named("out-of-order") and answer.method == "account/read" and answer.first:
                connection.send(_noise(call))
                held = _frames(answer)
                continue
            self._say(connection, answer, call)
            if held:
                connection.send(held)
                held = b""

    def _say(self, connection: Connection, answer: Answer, call: dict[str, Any]) -> None:
        """Send an answer, or do to it what the fault says."""
        fault, method = self.fault, answer.method
        silent = {
            "never-answers-initialize": "initialize",
            "never-answers-account": "account/read",
            "mcp-hangs": "mcpServerStatus/list",
        }
        if not answer.first or any(fault.named(name) and method == at for name, at in silent.items()):
            return
        if (spoil := fault.spoils(method or "", "frame", "message")) is not None:
            spoil(Wire(connection, compact(answer.first[0]), fault.options["every"]))
            raise Gone
        if fault.named("notification-flood") and method == "account/read":
            self._flood(connection, frame(TEXT, compact(notification("account/updated", {"authMode": None}))))
        if fault.acts("closes-mid-exchange", method):
            if fault.options["reset"]:
                connection.reset()
            raise Gone
        if fault.acts("error-answer", method):
            error = {"code": fault.options["code"], "message": fault.options["message"]}
            connection.send(frame(TEXT, compact({"error": error, "id": call["id"]})))
        elif fault.acts("frame-not-json", method):
            connection.send(frame(TEXT, b'{"id":'))
        elif fault.acts("frame-huge", method):
            big = compact({"id": call["id"], "result": {"padding": "x" * fault.options["size"]}})
            connection.send(frame(TEXT, big))
        elif fault.acts("frame-drip", method):
            connection.drip(_frames(answer), fault.options["every"])
        else:
            connection.send(_frames(answer))

    def _flood(self, connection: Connection, data: bytes) -> None:
        while connection.stays(self.fault.options["every"]):
            connection.send(data)
        raise Gone

    def _note_call(self, message: dict[str, Any], connection: Connection) -> None:
        method, params, number = message["method"], message.get("params"), message.get("id")
        with self.changed:
            self._calls.append(Call(method, params, number, connection.record.number, time.monotonic()))
            self.changed.notify_all()


def _frames(answer: Answer) -> bytes:
    return b"".join(frame(TEXT, compact(message)) for message in (*answer.first, *answer.then))


def _noise(call: dict[str, Any]) -> bytes:
    """Give what may lawfully come before an answer: news, a request of the server's, a stranger's answer."""
    messages = (
        notification("account/updated", {"authMode": "apikey"}),
        {"id": call["id"], "method": "item/tool/requestUserInput", "params": {}},
        {"id": "stranger", "result": {"account": None, "requiresOpenaiAuth": True}},
        notification("mcpServer/startupStatus/updated", {"name": "x", "status": "ready"}),
    )
    return b"".join(frame(TEXT, compact(message)) for message in messages)


def _lacking(headers: Mapping[str, str]) -> str:
    """Say what an upgrade request lacks, in the server's words and order; empty when it lacks nothing."""
    if "upgrade" not in headers.get("connection", "").lower():
        return "Connection header did not include 'upgrade'"
    if headers.get("upgrade", "").lower() != "websocket":
        return "`Upgrade` header did not include 'websocket'"
    if "sec-websocket-key" not in headers:
        return "`Sec-WebSocket-Key` header missing"
    if headers.get("sec-websocket-version") != "13":
        return "`Sec-WebSocket-Version` header did not include '13'"
    return ""
