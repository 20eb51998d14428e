"""The stand-ins in `precheck_lib.simulate` answer as the real servers do: the same requests go to both."""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import websocket

from precheck_lib.simulate import CodexStandIn, OpenCodeStandIn
from tests.live.servers import (
    NO_JSON,
    SHARED_CONTENT,
    SHARED_ENVIRONMENT,
    WRONG_SHAPE,
    CodexClient,
    CodexServer,
    Commands,
    OpenCodeServer,
    basic,
    codex_client,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DAEMON = "codex_app_server_daemon"


# --- HTTP ---


@dataclass(frozen=True)
class Told:
    """One HTTP answer; `headers` by lower-case name, without the date."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def tell(port: int, method: str, path: str, headers: Mapping[str, str] | None = None) -> Told:
    """Send one request with just these headers and the least that HTTP wants."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        assert named.pop("date", "")
        return Told(answer.status, answer.reason, named, answer.read())
    finally:
        connection.close()


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def without(*names: str, **more: str) -> dict[str, str]:
    return {**{name: value for name, value in UPGRADE.items() if name not in names}, **more}


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        *(
            (method, path, {})
            for path in ("/readyz", "/healthz", "/readyz?a=b", "/", "/health", "/readyz/", "/READYZ")
            for method in ("GET", "HEAD", "POST")
        ),
        ("GET", "/readyz", {"Origin": "http://127.0.0.1"}),
        ("GET", "/", {"Origin": ""}),
        ("POST", "/", {"Origin": "null"}),
        ("GET", "/", {**UPGRADE, "Origin": "http://127.0.0.1"}),
        ("GET", "/readyz", UPGRADE),
        ("POST", "/", UPGRADE),
        ("GET", "/", without("Connection")),
        ("GET", "/", without("Upgrade")),
        ("GET", "/", without("Sec-WebSocket-Key")),
        ("GET", "/", without("Sec-WebSocket-Version")),
        ("GET", "/", {**UPGRADE, "Sec-WebSocket-Version": "8"}),
        ("GET", "/", {"Connection": "close"}),
        ("GET", "/readyz", {"Connection": "close"}),
        ("GET", "/readyz", {"Host": "somebody.example"}),
    ],
)  # fmt: skip
def test_codex_answers_a_plain_request(
    codex: CodexServer, codex_stand_in: CodexStandIn, method: str, path: str, headers: dict[str, str]
) -> None:
    real = tell(codex.find_port(), method, path, headers)
    held = tell(codex_stand_in.port, method, path, headers)
    assert held == real


@pytest.mark.parametrize("path", ["/", "/ws", "/foo?bar"])
def test_codex_upgrades_on_any_other_path(codex: CodexServer, codex_stand_in: CodexStandIn, path: str) -> None:
    real = tell(codex.find_port(), "GET", path, UPGRADE)
    held = tell(codex_stand_in.port, "GET", path, UPGRADE)
    assert real.status == 101
    assert held == real


# --- the dialect of Codex ---


@pytest.fixture(scope="module")
def codex_stand_in(codex: CodexServer) -> Iterator[CodexStandIn]:
    with CodexStandIn(str(codex.home), version=codex.commands.codex_version, account=None) as stand_in:
        yield stand_in


def masked(value: Any, key: str = "") -> Any:
    """Replace what is another at every start, or on another machine, by its type."""
    if key in ("emittedAtMs", "installationId", "serverName", "codexHome"):
        return type(value).__name__
    if key == "userAgent":
        return re.sub(r" \([^()]*; [^()]*\) \S+", " (OS; ARCH) TERMINAL", value, count=1)
    if isinstance(value, dict):
        return {name: masked(below, name) for name, below in value.items()}
    if isinstance(value, list):
        return [masked(below) for below in value]
    return value


def fence(client: CodexClient, least: int = 0) -> list[dict[str, Any]]:
    """Return the answers that came before the one to a call that is made now, and that many at least."""
    client.socket.send(json.dumps({"id": "fence", "method": "account/read", "params": {}}))
    client.answer("fence")
    client.listen(lambda: len(client.answers) > least, f"{least} answers before that one")
    others = [answer for answer in client.answers if answer["id"] != "fence"]
    client.answers.clear()
    return others


INITIALIZE = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": DAEMON, "version": "1.0"}}}


def introduced(info: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "method": "initialize", "params": {"clientInfo": info, **more}}


@pytest.mark.parametrize("initialized", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "message",
    [
        # what is met with silence
        "",
        "null",
        "7",
        "[]",
        '{"id":1',
        [{"id": 1, "method": "account/read", "params": {}}],
        {"id": 1},
        {"method": "account/read", "params": {}},
        {"method": "initialized"},
        {"method": "no/such/notification"},
        {"id": 1.5, "method": "account/read", "params": {}},
        {"id": None, "method": "account/read", "params": {}},
        {"id": True, "method": "account/read", "params": {}},
        {"id": [], "method": "account/read", "params": {}},
        {"id": 1, "method": 5, "params": {}},
        # what is answered
        {"id": 0, "method": "account/read", "params": {}},
        {"id": -5, "method": "account/read", "params": {}},
        {"id": "one", "method": "account/read", "params": {"refreshToken": False}},
        {"jsonrpc": "2.0", "id": 1, "method": "account/read", "params": {}},
        {"id": 1, "method": "account/read"},
        {"id": 1, "method": "account/read", "params": None},
        {"id": 1, "method": "account/read", "params": 5},
        {"id": 1, "method": "account/read", "params": []},
        {"id": 1, "method": "account/read", "params": {"refreshToken": "yes"}},
        {"id": 1, "method": "account/read", "params": {"no_such_key": 1}},
        {"id": 1, "method": "no/such/method", "params": {}},
        {"id": 1, "method": "no/such/method"},
        {"id": 1, "method": "mcpServerStatus/list", "params": {}},
        {"id": 1, "method": "mcpServerStatus/list"},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": "0"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": "1000000"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": "+1"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": "-1"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": ""}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": "zzz"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": "99999999999999999999999"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": None, "limit": 100}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"cursor": 5}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"limit": "5"}},
        {"id": 1, "method": "mcpServerStatus/list", "params": {"limit": -1}},
        INITIALIZE,
        {"id": 1, "method": "initialize"},
        {"id": 1, "method": "initialize", "params": {}},
        introduced(5),
        introduced({}),
        introduced({"name": DAEMON}),
        introduced({"name": 5, "version": "1"}),
        introduced({"name": DAEMON, "version": 1}),
        introduced({"name": "two\nlines", "version": "1"}),
        introduced({"name": DAEMON, "version": ""}),
        introduced({"name": DAEMON, "version": "1", "title": None, "no_such_key": 1}),
    ],
    ids=lambda message: message if isinstance(message, str) else json.dumps(message),
)  # fmt: skip
def test_codex_answers_a_message(
    codex: CodexServer, codex_stand_in: CodexStandIn, message: Any, initialized: bool
) -> None:
    def answers(url: str, least: int = 0) -> list[Any]:
        with codex_client(url) as client:
            if initialized:
                client.initialize(DAEMON)
                client.answers.clear()
            client.socket.send(message if isinstance(message, str) else json.dumps(message))
            told: list[Any] = masked(fence(client, least))
            return told

    held = answers(codex_stand_in.url)
    assert held == answers(codex.url, len(held))


def test_codex_names_its_clients(commands: Commands, tmp_path: Path) -> None:
    def agents(url: str) -> list[str]:
        told = []
        for name, version in (
            (DAEMON, "1"),
            ("codex-backend", "2"),
            ("first", "3"),
            ("a/9.9.9 (b; c)", "4"),
            (DAEMON, "5"),
        ):
            with codex_client(url) as client:
                told.append(masked(client.initialize(name, version))["userAgent"])
        return told

    with (
        CodexServer(commands, tmp_path) as server,
        CodexStandIn("/", version=commands.codex_version) as stand_in,
    ):
        assert agents(stand_in.url) == agents(server.ready().url)


def test_codex_notifies_after_initialize(codex: CodexServer, codex_stand_in: CodexStandIn) -> None:
    status = "remoteControl/status/changed"

    def notified(url: str) -> dict[str, Any]:
        with codex_client(url) as client:
            client.initialize(DAEMON)
            client.listen(lambda: status in [note["method"] for note in client.notified], f"a notification {status}")
            return {note["method"]: masked(note) for note in client.notified}

    real, held = notified(codex.url), notified(codex_stand_in.url)
    # A machine with bubblewrap on its PATH gets no warning about it.
    assert held.keys() - real.keys() <= {"configWarning"}
    assert {method: held.get(method) for method in real} == real


def test_codex_keeps_silent_of_what_a_client_does_not_want_to_hear(
    codex: CodexServer, codex_stand_in: CodexStandIn
) -> None:
    unwanted = ["configWarning", "remoteControl/status/changed"]
    for url in (codex.url, codex_stand_in.url):
        with codex_client(url) as client:
            info = {"name": DAEMON, "version": "1"}
            client.ask("initialize", {"clientInfo": info, "capabilities": {"optOutNotificationMethods": unwanted}})
            for _ in range(20):
                fence(client)
            assert client.notified == []


def test_codex_lists_and_counts_mcp_servers(commands: Commands, tmp_path: Path) -> None:
    names = ["beta", "alpha", "Gamma"]
    config = "".join(f'[mcp_servers.{name}]\ncommand = "/no/such/command"\n' for name in names)
    asked: list[dict[str, Any]] = [
        {},
        {"limit": 1},
        {"limit": 0},
        {"limit": 2, "cursor": "2"},
        {"limit": 3},
        {"cursor": "3"},
        {"cursor": "4"},
        {"cursor": "1000000"},
    ]

    def answers(url: str) -> list[Any]:
        with codex_client(url) as client:
            client.initialize(DAEMON)
            return [masked(client.ask("mcpServerStatus/list", params, seconds=20)) for params in asked]

    with (
        CodexServer(commands, tmp_path, config=config) as server,
        CodexStandIn("/", version=commands.codex_version, mcp_servers=names) as stand_in,
    ):
        assert answers(stand_in.url) == answers(server.ready().url)


def test_codex_with_an_api_key(signed_in_codex: CodexServer) -> None:
    def answer(url: str) -> Any:
        with codex_client(url) as client:
            client.initialize(DAEMON)
            return client.ask("account/read", {"refreshToken": False})

    with CodexStandIn("/", version=signed_in_codex.commands.codex_version) as stand_in:
        assert answer(stand_in.url) == answer(signed_in_codex.url)


def test_codex_answers_a_ping_and_drops_a_connection_that_is_closed(
    codex: CodexServer, codex_stand_in: CodexStandIn
) -> None:
    def frames(url: str) -> list[tuple[int, bytes]]:
        came: list[tuple[int, bytes]] = []
        with codex_client(url) as client:
            client.socket.ping("a payload")
            client.socket.send(json.dumps({"id": 1, "method": "account/read", "params": {}}))
            while not came or came[-1][0] != websocket.ABNF.OPCODE_TEXT:
                came.append(client.socket.recv_data(control_frame=True))
            client.socket.send_close()
            with pytest.raises(websocket.WebSocketConnectionClosedException):
                client.socket.recv_data(control_frame=True)
        return came

    real = frames(codex.url)
    assert (websocket.ABNF.OPCODE_PONG, b"a payload") in real
    assert frames(codex_stand_in.url) == real


# --- OpenCode ---


def same_answer(real: Told, held: Told) -> None:
    assert (held.status, held.reason) == (real.status, real.reason)
    assert held.headers.keys() == real.headers.keys()
    assert held.headers.get("content-type") == real.headers.get("content-type")
    # Of the page that answers for unknown paths the stand-in has a short form; all else is equal to the byte.
    if real.headers.get("content-type") != "text/html":
        assert held == real


@pytest.fixture(scope="module")
def opencode_stand_in(opencode: OpenCodeServer) -> Iterator[OpenCodeStandIn]:
    version = opencode.commands.opencode_version
    with OpenCodeStandIn(SHARED_CONTENT, version=version, environment=SHARED_ENVIRONMENT) as stand_in:
        yield stand_in


READS = (
    "/global/health",
    "/api/health",
    "/global/config",
    "/experimental/capabilities",
    "/config",
    "/config/providers",
)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in READS),
        *(("GET", f"{path}/") for path in READS),
        ("GET", "/global/health?a=b"),
        ("GET", "//global//health"),
        ("GET", "/GLOBAL/Health"),
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/config/nothing"),
        ("HEAD", "/"),
        ("HEAD", "/global/health"),
        ("HEAD", "/config"),
        ("POST", "/global/health"),
        ("POST", "/no/such/path"),
    ],
)
def test_opencode_answers(opencode: OpenCodeServer, opencode_stand_in: OpenCodeStandIn, method: str, path: str) -> None:
    same_answer(tell(opencode.port, method, path), tell(opencode_stand_in.port, method, path))


@pytest.mark.parametrize("encoding", ["identity", "gzip", "gzip, deflate", "br"])
@pytest.mark.parametrize("path", ["/global/health", "/config", "/config/providers"])
def test_opencode_compresses(
    opencode: OpenCodeServer, opencode_stand_in: OpenCodeStandIn, path: str, encoding: str
) -> None:
    headers = {"Accept-Encoding": encoding}
    real = tell(opencode.port, "GET", path, headers)
    held = tell(opencode_stand_in.port, "GET", path, headers)
    assert held.headers.keys() == real.headers.keys()
    assert held.headers.get("content-encoding") == real.headers.get("content-encoding")


@pytest.mark.parametrize("path", [*READS, "/", "/no/such/path"])
def test_opencode_answers_whoever_knows_the_password_and_nobody_else(
    locked_opencode: OpenCodeServer, path: str
) -> None:
    username, password = locked_opencode.username, locked_opencode.password
    assert username
    assert password
    tries = {
        "nothing": {},
        "right": {"Authorization": basic(username, password)},
        "lower case": {"Authorization": basic(username, password).replace("Basic", "basic")},
        "another password": {"Authorization": basic(username, "other")},
        "another user": {"Authorization": basic("opencode", password)},
        "latin-1": {"Authorization": basic(username, password, "latin-1")},
        "bearer": {"Authorization": "Bearer nothing"},
        "no base64": {"Authorization": "Basic !!!"},
        "empty": {"Authorization": ""},
    }
    with OpenCodeStandIn(
        SHARED_CONTENT,
        version=locked_opencode.commands.opencode_version,
        username=username,
        password=password,
        environment=SHARED_ENVIRONMENT,
    ) as stand_in:
        for name, headers in tries.items():
            real = tell(locked_opencode.port, "GET", path, headers)
            held = tell(stand_in.port, "GET", path, headers)
            assert held.status == real.status, name
            same_answer(real, held)


@pytest.mark.parametrize("path", READS)
def test_opencode_refuses_a_configuration_of_the_wrong_shape(
    opencode_of_wrong_shape: OpenCodeServer, path: str
) -> None:
    with OpenCodeStandIn(WRONG_SHAPE, version=opencode_of_wrong_shape.commands.opencode_version) as stand_in:
        same_answer(tell(opencode_of_wrong_shape.port, "GET", path), tell(stand_in.port, "GET", path))


@pytest.mark.parametrize("path", READS)
def test_opencode_refuses_a_configuration_that_is_no_json(opencode_without_json: OpenCodeServer, path: str) -> None:
    with OpenCodeStandIn(NO_JSON, version=opencode_without_json.commands.opencode_version) as stand_in:
        real, held = tell(opencode_without_json.port, "GET", path), tell(stand_in.port, "GET", path)
    assert (held.status, held.headers.keys()) == (real.status, real.headers.keys())
    if real.status == 200:
        assert held.json == real.json
        return
    assert held.json["name"] == real.json["name"]
    assert held.json["data"].keys() == real.json["data"].keys()
    assert held.json["data"]["path"] == real.json["data"]["path"]
    for told in (held, real):
        assert NO_JSON in told.json["data"]["message"]


def test_opencode_fills_in_what_a_configuration_leaves_out(commands: Commands, tmp_path: Path) -> None:
    content = json.dumps(
        {
            "no_such_key": {},
            "small_model": "ollama/small",
            "model": "ollama/big",
            "username": "me",
            "disabled_providers": ["opencode", "off"],
            "provider": {
                "off": {"models": {"m": {}}},
                "empty": {"npm": "@ai-sdk/openai-compatible"},
                "ollama": {
                    "no_such_key": 1,
                    "api": "http://127.0.0.1:9/v1",
                    "env": ["NOT_SET"],
                    "options": {
                        "z": 1,
                        "baseURL": "{env:BASE}",
                        "a": {"b": ["{env:NOT_SET}", 1]},
                        "timeout": 5000,
                    },
                    "models": {
                        "z": {},
                        "big": {
                            "no_such_key": 1,
                            "id": "big:70b",
                            "name": "Big",
                            "tool_call": False,
                            "temperature": True,
                            "attachment": True,
                            "release_date": "2026-01-01",
                            "cost": {"input": 1, "output": 2, "cache_read": 0.5},
                            "limit": {"context": 65536, "output": 8192},
                            "modalities": {"input": ["text", "image"], "output": ["text"]},
                            "options": {"num_ctx": 65536},
                            "headers": {"x": "y"},
                        },
                        "a": {"provider": {"npm": "@ai-sdk/openai"}},
                    },
                },
                "acme": {"name": "Acme", "models": {"only": {"name": "Only"}}},
            },
        }
    )
    environment = {"BASE": "http://127.0.0.1:9/v1"}
    with (
        OpenCodeServer(commands, tmp_path, content=content, environment=environment) as server,
        OpenCodeStandIn(content, version=commands.opencode_version, environment=environment) as stand_in,
    ):
        server.ready()
        for path in ("/config", "/config/providers"):
            real, held = tell(server.port, "GET", path), tell(stand_in.port, "GET", path)
            assert held.headers == real.headers
            assert held.json == real.json
            assert orders_of_models(held.json) == orders_of_models(real.json)


def orders_of_models(value: Any) -> list[list[str]]:
    """Return the keys of every `models` in their order: the first is a provider's default model."""
    if isinstance(value, dict):
        here = [list(value["models"])] if isinstance(value.get("models"), dict) else []
        return here + [order for below in value.values() for order in orders_of_models(below)]
    return [order for below in value for order in orders_of_models(below)] if isinstance(value, list) else []
