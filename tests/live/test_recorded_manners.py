"""What precheck takes for granted of the real servers, one manner a test."""

from __future__ import annotations

import functools
import json
import re
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import requests
import websocket

from precheck_lib.servers.codex import version_of
from tests.live.servers import (
    KEY_IN_IT,
    SHARED_MODELS,
    CodexServer,
    Commands,
    OpenCodeServer,
    basic,
    get,
    lines_of,
    poll,
)

if TYPE_CHECKING:
    from pathlib import Path

DAEMON = "codex_app_server_daemon"
FAR = {"cursor": "1000000"}
"""Params of `mcpServerStatus/list`: a cursor that is beyond the end of every list."""


def ended_version(commands: Commands, folder: Path, name: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [commands.folder / name, "--version"],
        env={"PATH": commands.path, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )


# --- the commands ---


def test_codex_prints_its_version_as_the_only_line_of_stdout(commands: Commands, tmp_path: Path) -> None:
    ended = ended_version(commands, tmp_path, "codex")
    assert (ended.returncode, ended.stdout) == (0, f"codex-cli {commands.codex_version}\n".encode())


def test_opencode_prints_its_bare_version_as_the_only_line_of_stdout(commands: Commands, tmp_path: Path) -> None:
    ended = ended_version(commands, tmp_path, "opencode")
    assert (ended.returncode, ended.stdout) == (0, f"{commands.opencode_version}\n".encode())


# --- Codex: who is talking ---


def test_the_daemon_client_gets_the_servers_own_originator_and_no_suffix(codex: CodexServer) -> None:
    with codex.connect() as client:
        agent = client.initialize(DAEMON)["userAgent"]
    pinned = re.escape(codex.commands.codex_version)
    assert re.fullmatch(rf"codex_cli_rs/{pinned} \([^()]+; [^()]+\) \S+", agent), agent


def test_a_client_that_comes_after_the_daemon_client_still_heads_its_own_user_agent(
    commands: Commands, tmp_path: Path
) -> None:
    with CodexServer(commands, tmp_path) as server:
        server.ready()
        for _ in range(2):
            with server.connect() as client:
                assert client.initialize(DAEMON)["userAgent"].startswith("codex_cli_rs/")
        with server.connect() as client:
            agent = client.initialize("their-agent", "4.5.6")["userAgent"]
    assert agent.startswith(f"their-agent/{commands.codex_version} (")
    assert agent.endswith(" (their-agent; 4.5.6)")


def test_an_ordinary_client_that_comes_first_heads_every_later_user_agent(commands: Commands, tmp_path: Path) -> None:
    with CodexServer(commands, tmp_path) as server:
        server.ready()
        agents = []
        for name in ("first", "second", DAEMON):
            with server.connect() as client:
                agents.append(client.initialize(name, "1.0")["userAgent"])
    first, second, daemon = agents
    assert first.startswith("first/")
    assert first.endswith(" (first; 1.0)")
    assert second.startswith("first/")
    assert second.endswith(" (second; 1.0)")
    # The daemon client adds nothing of its own: it is told what the last ordinary client was.
    assert daemon == second


@pytest.mark.parametrize("originator", ["a/b", "evil/9.9.9 (x; y) z"])
def test_originator_and_terminal_can_hold_slashes_versions_and_brackets_of_their_own(
    commands: Commands, tmp_path: Path, originator: str
) -> None:
    environment = {
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE": originator,
        "TERM_PROGRAM": "vscode",
        "TERM_PROGRAM_VERSION": "1.2.3",
    }
    with (
        CodexServer(commands, tmp_path, environment=environment) as server,
        server.ready().connect() as client,
    ):
        agent = client.initialize("me", "7.7.7")["userAgent"]
    before, after = re.escape(f"{originator}/{commands.codex_version} ("), re.escape(") vscode/1.2.3 (me; 7.7.7)")
    assert re.fullmatch(rf"{before}[^()]+; [^()]+{after}", agent), agent
    assert version_of(agent, "me", "7.7.7") == commands.codex_version


# --- Codex: the transport ---


@pytest.mark.parametrize("origin", ["http://127.0.0.1", "null", "http://evil.example"])
def test_a_handshake_with_an_origin_header_is_refused_with_403(codex: CodexServer, origin: str) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException) as caught:
        websocket.create_connection(codex.url, timeout=10, origin=origin)
    assert caught.value.status_code == requests.codes.forbidden


def test_a_plain_request_with_an_origin_header_is_refused_with_403(codex: CodexServer) -> None:
    refused = get(f"{codex.http_url}/readyz", {"Origin": "http://127.0.0.1"})
    assert (refused.status_code, refused.content) == (403, b"")


def test_ready_is_an_empty_200_and_says_nothing_of_a_version(codex: CodexServer) -> None:
    answer = get(f"{codex.http_url}/readyz")
    assert (answer.status_code, answer.content) == (200, b"")
    assert "server" not in answer.headers


def test_a_plain_request_for_the_root_is_400_and_no_html(codex: CodexServer) -> None:
    answer = get(f"{codex.http_url}/")
    assert answer.status_code == requests.codes.bad_request
    assert answer.headers["content-type"].startswith("text/plain")


def test_one_early_fin_leaves_the_server_unharmed(codex: CodexServer) -> None:
    with socket.create_connection(("127.0.0.1", codex.find_port()), timeout=5) as connection:
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(5)
        assert connection.recv(1) == b""
    with codex.connect() as client:
        assert client.initialize(DAEMON)


# --- Codex: the calls ---


def test_before_initialize_nothing_is_told(codex: CodexServer) -> None:
    with codex.connect() as client:
        assert client.ask("account/read", {})["error"] == {"code": -32600, "message": "Not initialized"}


def test_no_initialized_notification_is_needed_and_notifications_come_between(codex: CodexServer) -> None:
    with codex.connect() as client:
        client.initialize(DAEMON)
        assert "result" in client.ask("account/read", {})
        poll("a notification", lambda: bool(client.ask("account/read", {}) and client.notified), seconds=10)
        assert all("id" not in notification for notification in client.notified)
        assert all(isinstance(notification["method"], str) for notification in client.notified)


def test_without_an_account_the_server_says_null_and_that_one_is_required(codex: CodexServer) -> None:
    with codex.connect() as client:
        client.initialize(DAEMON)
        result = client.ask("account/read", {})["result"]
    assert result["account"] is None
    assert result["requiresOpenaiAuth"] is True


def test_with_an_api_key_the_account_is_there(commands: Commands, tmp_path: Path) -> None:
    auth = json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-made-up-for-a-test"})
    with CodexServer(commands, tmp_path, auth=auth) as server, server.ready().connect() as client:
        client.initialize(DAEMON)
        answer = client.ask("account/read", {})
    assert answer["result"]["account"] == {"type": "apiKey"}
    assert answer["result"]["requiresOpenaiAuth"] is True
    assert "sk-made-up" not in json.dumps(answer)


def test_with_a_local_provider_no_account_is_there_and_none_is_required(commands: Commands, tmp_path: Path) -> None:
    with (
        CodexServer(commands, tmp_path, config='model_provider = "ollama"\n') as server,
        server.ready().connect() as client,
    ):
        client.initialize(DAEMON)
        result = client.ask("account/read", {})["result"]
    assert result["account"] is None
    assert result["requiresOpenaiAuth"] is False


def test_an_unreadable_auth_file_is_an_account_that_is_not_there(commands: Commands, tmp_path: Path) -> None:
    with CodexServer(commands, tmp_path, auth="{nonsense") as server, server.ready().connect() as client:
        client.initialize(DAEMON)
        answer = client.ask("account/read", {})
    assert answer["result"]["account"] is None


def test_an_auth_file_without_a_key_makes_account_read_an_error(commands: Commands, tmp_path: Path) -> None:
    with CodexServer(commands, tmp_path, auth="{}") as server, server.ready().connect() as client:
        client.initialize(DAEMON)
        answer = client.ask("account/read", {})
    assert answer["error"] == {"code": -32600, "message": "plan type is required for chatgpt authentication"}


def test_the_home_that_the_server_names_has_its_links_resolved(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    with CodexServer(commands, tmp_path / "server", home=link) as server, server.ready().connect() as client:
        assert client.initialize(DAEMON)["codexHome"] == str((tmp_path / "real").resolve())


def test_a_broken_configuration_is_only_a_warning(commands: Commands, tmp_path: Path) -> None:
    with (
        CodexServer(commands, tmp_path, config="model = = 1\n") as server,
        server.ready().connect() as client,
    ):
        client.initialize(DAEMON)

        def warned() -> bool:
            client.ask("account/read", {})
            return any(
                notification["method"] == "configWarning" and notification["params"].get("path")
                for notification in client.notified
            )

        poll("a warning that names the file", warned, seconds=10)


# --- Codex: MCP servers ---


def mcp_server(name: str, mark: Path, then: str, *, more: str = "") -> str:
    """Return the configuration of an MCP server that leaves a line in `mark` whenever it is started."""
    script = f"echo started >>'{mark}'; {then}"
    return f'[mcp_servers.{name}]\ncommand = "/bin/sh"\nargs = ["-c", {json.dumps(script)}]\n{more}\n'


def is_there(mark: Path) -> bool:
    return bool(lines_of(mark))


HANGS = "while read -r line; do :; done"
"""It reads all, says nothing, keeps its stdout open, and ends when nobody holds its stdin any more."""


def test_far_beyond_the_end_no_mcp_server_is_counted_as_none(codex: CodexServer) -> None:
    with codex.connect() as client:
        client.initialize(DAEMON)
        assert client.ask("mcpServerStatus/list", FAR, seconds=5)["error"] == {
            "code": -32600,
            "message": "cursor 1000000 exceeds total MCP servers 0",
        }
        assert client.ask("mcpServerStatus/list", {})["result"] == {"data": [], "nextCursor": None}


def test_far_beyond_the_end_mcp_servers_are_counted_at_once_and_none_is_started(
    commands: Commands, tmp_path: Path
) -> None:
    hanging, ending = tmp_path / "hanging", tmp_path / "ending"
    config = (
        mcp_server("hangs", hanging, HANGS)
        + mcp_server("ends", ending, "exit 0")
        + mcp_server("off", tmp_path / "off", HANGS, more="enabled = false")
    )
    with (
        CodexServer(commands, tmp_path / "server", config=config) as server,
        server.ready().connect() as client,
    ):
        client.initialize(DAEMON)
        before = time.monotonic()
        answer = client.ask("mcpServerStatus/list", FAR, seconds=5)
        took = time.monotonic() - before
        assert answer["error"]["message"] == "cursor 1000000 exceeds total MCP servers 3"
        assert took < 3  # the one that hangs would have kept it for 30 s
        # An ordinary list starts those that are enabled, once each: two lines, had the first call too.
        client.send("mcpServerStatus/list", {})
        for mark in (hanging, ending):
            poll(f"{mark.name} was started", functools.partial(is_there, mark), seconds=15)
        assert lines_of(hanging) == ["started"]
        assert lines_of(ending) == ["started"]
        assert not lines_of(tmp_path / "off")


def test_answers_come_out_of_order(commands: Commands, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with (
        CodexServer(commands, tmp_path / "server", config=mcp_server("hangs", mark, HANGS)) as server,
        server.ready().connect() as client,
    ):
        client.initialize(DAEMON)
        late = client.send("mcpServerStatus/list", {})
        assert "result" in client.ask("account/read", {}, seconds=5)
        assert late not in [answer["id"] for answer in client.answers]


# --- OpenCode ---


def json_of(answer: requests.Response) -> Any:
    assert answer.status_code == requests.codes.ok
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"].isdecimal()
    return answer.json()


PLAIN = {"Accept-Encoding": "identity"}


def test_health_is_healthy_and_the_version(opencode: OpenCodeServer) -> None:
    answer = json_of(opencode.get("/global/health", PLAIN))
    assert answer == {"healthy": True, "version": opencode.commands.opencode_version}


def test_capabilities_have_no_background_subagents(opencode: OpenCodeServer) -> None:
    assert json_of(opencode.get("/experimental/capabilities", PLAIN)) == {"backgroundSubagents": False}


def test_the_configuration_comes_back_with_its_key_in_clear(opencode: OpenCodeServer) -> None:
    answer = json_of(opencode.get("/config", PLAIN))
    assert answer["model"] == "ollama/gpt-oss:20b"
    assert answer["provider"]["ollama"] == {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Ollama",
        "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "the value of LIVE_TEST_KEY"},
        "models": SHARED_MODELS,
    }


def test_unknown_keys_are_dropped_and_files_and_variables_are_put_in(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "organization").write_text("the text of the file\n", encoding="utf-8")
    text = f"a {{file:{tmp_path}/organization}}"
    options = {"apiKey": "{env:NOT_SET}", "organization": text, "own": {"is": "kept"}}
    models = {"m": {"no_such_key": 1, "limit": {"context": 1, "output": 2}}}
    ollama = {"no_such_key": 1, "options": options, "models": models}
    content = json.dumps({"no_such_key": 1, "model": "ollama/m", "provider": {"ollama": ollama}})
    with OpenCodeServer(commands, tmp_path / "server", content=content) as server:
        server.ready()
        answer = json_of(server.get("/config"))
    assert "no_such_key" not in answer
    assert answer["provider"]["ollama"] == {
        "options": {"apiKey": "", "organization": "a the text of the file", "own": {"is": "kept"}},
        "models": {"m": {"limit": {"context": 1, "output": 2}}},
    }


def test_connected_providers_offer_the_models_that_are_configured(opencode: OpenCodeServer) -> None:
    response = opencode.get("/config/providers", PLAIN)
    answer = json_of(response)
    assert answer.keys() == {"providers", "default"}
    providers = {provider["id"]: provider for provider in answer["providers"]}
    assert {"ollama", "opencode"} <= providers.keys()
    assert set(providers["ollama"]["models"]) == set(SHARED_MODELS)
    assert all(model["id"] == key for key, model in providers["ollama"]["models"].items())
    assert len(response.content) < 65536
    assert "content-encoding" not in response.headers


def test_a_provider_without_models_is_not_connected(commands: Commands, tmp_path: Path) -> None:
    content = json.dumps({"model": "ollama/absent", "provider": {"ollama": {"npm": "@ai-sdk/openai-compatible"}}})
    with OpenCodeServer(commands, tmp_path, content=content) as server:
        server.ready()
        assert json_of(server.get("/config"))["model"] == "ollama/absent"
        providers = json_of(server.get("/config/providers"))["providers"]
    assert "ollama" not in [provider["id"] for provider in providers]


def test_the_models_are_offered_though_nobody_asked_ollama(commands: Commands, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ollama:
        ollama.setblocking(False)
        url = f"http://127.0.0.1:{ollama.getsockname()[1]}/v1"
        content = {"provider": {"ollama": {"options": {"baseURL": url}, "models": {"m": {"id": "other:1b"}}}}}
        with OpenCodeServer(commands, tmp_path, content=json.dumps(content)) as server:
            server.ready()
            configured = json_of(server.get("/config"))["provider"]["ollama"]["models"]
            providers = json_of(server.get("/config/providers"))["providers"]
        with pytest.raises(BlockingIOError):
            ollama.accept()
    assert configured == {"m": {"id": "other:1b"}}
    (offered,) = [provider["models"] for provider in providers if provider["id"] == "ollama"]
    assert set(offered) == {"m"}  # by its key, though Ollama knows it by its id
    assert offered["m"]["api"]["id"] == "other:1b"


@pytest.mark.parametrize("path", ["/", "/health", "/no/such/path", "/config/nothing"])
def test_an_unknown_path_is_200_and_html(opencode: OpenCodeServer, path: str) -> None:
    answer = opencode.get(path)
    assert answer.status_code == requests.codes.ok
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/global/health", "/config", "/config/providers", "/no/such/path"])
def test_a_password_is_asked_for_on_every_path_and_taken_as_utf_8(locked_opencode: OpenCodeServer, path: str) -> None:
    username, password = locked_opencode.username, locked_opencode.password
    assert username
    assert password
    wrong = [
        {},
        {"Authorization": basic(username, "other")},
        {"Authorization": basic("opencode", password)},
        {"Authorization": basic(username, password, "latin-1")},
        {"Authorization": "Bearer nothing"},
    ]
    for headers in wrong:
        refused = get(f"{locked_opencode.url}{path}", headers)
        assert (refused.status_code, refused.content) == (401, b""), headers
        assert refused.headers["www-authenticate"] == 'Basic realm="Secure Area"'
    assert locked_opencode.get(path).status_code == requests.codes.ok


def test_without_a_username_of_its_own_the_server_knows_opencode(commands: Commands, tmp_path: Path) -> None:
    with OpenCodeServer(commands, tmp_path, content="{}", password="a password") as server:
        server.ready()
        right = get(f"{server.url}/global/health", {"Authorization": basic("opencode", "a password")})
        wrong = get(f"{server.url}/global/health", {"Authorization": basic("", "a password")})
    assert (right.status_code, wrong.status_code) == (200, 401)


BEHIND_THE_CONFIGURATION = pytest.mark.parametrize(
    "path", ["/experimental/capabilities", "/config", "/config/providers"]
)


@BEHIND_THE_CONFIGURATION
def test_with_a_configuration_that_is_no_json_it_is_400_with_all_of_it_in_the_message(
    opencode_without_json: OpenCodeServer, path: str
) -> None:
    assert json_of(opencode_without_json.get("/global/health"))["healthy"] is True
    answer = opencode_without_json.get(path)
    assert answer.status_code == requests.codes.bad_request
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["name"] == "ConfigJsonError"
    assert body["data"]["path"] == "OPENCODE_CONFIG_CONTENT"
    assert KEY_IN_IT in body["data"]["message"]


@BEHIND_THE_CONFIGURATION
def test_with_a_configuration_of_the_wrong_shape_it_is_400_with_a_key_in_the_messages(
    opencode_of_wrong_shape: OpenCodeServer, path: str
) -> None:
    assert json_of(opencode_of_wrong_shape.get("/global/health"))["healthy"] is True
    answer = opencode_of_wrong_shape.get(path)
    assert answer.status_code == requests.codes.bad_request
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["name"] == "ConfigInvalidError"
    assert body["data"]["path"] == "OPENCODE_CONFIG_CONTENT"
    issues = body["data"]["issues"]
    assert ["model"] in [issue["path"] for issue in issues]
    assert KEY_IN_IT in json.dumps(issues)
