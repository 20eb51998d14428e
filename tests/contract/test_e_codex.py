"""CONTRACT E: the TCP readiness check (E1) and the one exchange with the Codex App Server (E2), and C3 for it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest
import websocket

from precheck_lib.simulate import CodexStandIn, Stage
from tests.contract.harness import ORDER, Scripted, everything_seen, run_all, run_precheck, write_strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from precheck_lib.simulate.loopback import Connection
    from tests.contract.harness import Ended

    Passed = tuple[Stage, Ended]

FAILED = "precheck: codex-tcp: TCP readiness connection failed"
ELAPSED = "precheck: codex-tcp: TCP readiness deadline elapsed"
OTHERS = ("opencode", "ollama")


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passed]:
    """A run that passes, and what the servers saw of it."""
    with Stage(tmp_path_factory.mktemp("passed")) as stage:
        ended = run_precheck(stage)
        assert ended.code == 0, ended
        yield stage, ended


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Path]:
    """Write the strict spec with a smaller bound for TCP and for the exchange; all others stay as they are."""

    def write(tcp: str = "600ms", exchange: str = "2s", **options: Any) -> Path:
        changes = {"codex-tcp": {"budget": tcp}, "codex": {"budget": exchange, **options}}
        return write_strict(tmp_path / "spec", changes, small=False)

    return write


def ended_at(ended: Ended, check_id: str, word: str, code: int) -> dict[str, Any]:
    """Assert that the run ended at this check and in this way, and that nothing later was done; give the check."""
    before, later = ORDER[: ORDER.index(check_id)], ORDER[ORDER.index(check_id) + 1 :]
    assert ended.code == code, ended
    expected = {**dict.fromkeys(before, "passed"), check_id: word, **dict.fromkeys(later, "skipped")}
    assert ended.words == expected, ended
    suffix = f"[curl: ({code})]"
    assert (suffix in ended.err) == (code > 1), ended
    return ended.check(check_id)


def nobody_else_was_asked(stage: Stage) -> None:
    assert not stage.opencode.connections
    assert not stage.ollama.connections


def patched(folder: Path, source: str) -> dict[str, str]:
    """Give the environment that makes Python run this source before anything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(source, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


# E1 -----------------------------------------------------------------------------------------------------------------


UNRESOLVED = """
import socket
def refuse(host, *args, **more):
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
socket.getaddrinfo = refuse
"""


def test_refused_unreachable_and_not_resolved_have_failed_and_nothing_else_is_asked(
    make_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    refused, unreachable, unresolved = make_stage(faults={"codex": "refuse"}), make_stage(), make_stage()
    patch = patched(tmp_path / "patch", UNRESOLVED)
    ends = run_all(
        [
            lambda: run_precheck(refused),
            lambda: run_precheck({**unreachable.environment, "TEST_CODEX_WS_URL": "ws://255.255.255.255:9"}),
            lambda: run_precheck({**unresolved.environment, **patch, "TEST_CODEX_WS_URL": "ws://codex.example:1"}),
        ]
    )
    said = (f"port {refused.codex.port}: Connection refused", "255.255.255.255", "codex.example")
    for stage, ended, code, text in zip((refused, unreachable, unresolved), ends, (7, 7, 6), said, strict=True):
        check = ended_at(ended, "codex-tcp", "error", code)
        assert FAILED in ended.err
        assert "readiness deadline" not in ended.err
        assert text in check["findings"][0]["message"]
        assert ended.requests == []
        nobody_else_was_asked(stage)


def test_a_resolver_that_hangs_is_given_up_at_the_bound_and_holds_nothing(
    stage: Stage, tmp_path: Path, spec: Callable[..., Path]
) -> None:
    source = """
import socket, time
socket.getaddrinfo = lambda *args, **more: time.sleep(20)
"""
    env = {**stage.environment, **patched(tmp_path / "patch", source), "TEST_CODEX_WS_URL": "ws://codex.example:1"}
    ended = run_precheck(env, spec=spec(tcp="500ms"))
    check = ended_at(ended, "codex-tcp", "error", 28)
    assert ELAPSED in ended.err
    assert "not resolved" in check["findings"][0]["evidence"]
    assert 0.5 <= check["elapsed_s"] <= 0.75
    assert ended.elapsed < 10
    assert ended.requests == []
    nobody_else_was_asked(stage)


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """Listen on a port whose queue is full: a further SYN gets no answer at all."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


def test_a_connection_that_nothing_answers_ends_with_the_deadline(stage: Stage, spec: Callable[..., Path]) -> None:
    with full_backlog() as port:
        env = {**stage.environment, "TEST_CODEX_WS_URL": f"ws://127.0.0.1:{port}"}
        ended = run_precheck(env, spec=spec(tcp="500ms"))
    check = ended_at(ended, "codex-tcp", "error", 28)
    assert ELAPSED in ended.err
    assert "TCP readiness connection failed" not in ended.err
    assert 0.5 <= check["elapsed_s"] <= 0.75
    assert ended.requests == []
    nobody_else_was_asked(stage)


def test_the_connection_is_closed_in_an_orderly_way_and_nothing_is_said_on_it(passed: Passed) -> None:
    stage, _ = passed
    first, second = stage.codex.connections
    assert (first.ended, first.upgraded) == ("fin", False)
    assert second.upgraded
    assert len(stage.codex.seen) == 1


def test_the_connection_is_closed_in_an_orderly_way_though_the_server_speaks_first(stage: Stage) -> None:
    def greet(connection: Connection) -> None:
        connection.send(b"220 welcome\r\n" * 50)
        connection.hold()

    with Scripted(greet) as server:
        env = {**stage.environment, "TEST_CODEX_WS_URL": f"ws://{server.authority}"}
        ended = run_precheck(env)
        assert server.wait_for(lambda: all(seen.ended for seen in server.connections), 5)
        assert server.connections[0].ended == "fin"
    ended_at(ended, "codex", "error", 1)
    nobody_else_was_asked(stage)


# E2: what is asked --------------------------------------------------------------------------------------------------


def test_one_connection_without_an_origin_and_three_calls_in_order(passed: Passed) -> None:
    stage, ended = passed
    upgrades = [connection for connection in stage.codex.connections if connection.upgraded]
    assert len(upgrades) == 1
    (request,) = stage.codex.seen
    assert (request.method, request.path) == ("GET", "/")
    for header in ("origin", "authorization", "sec-websocket-protocol", "cookie"):
        assert header not in request.headers
    calls = stage.codex.calls
    assert [call.method for call in calls] == ["initialize", "account/read", "mcpServerStatus/list"]
    assert len({call.id for call in calls}) == 3
    assert {call.connection for call in calls} == {upgrades[0].number}
    assert calls[0].params["clientInfo"]["name"] == "codex_app_server_daemon"
    assert calls[1].params == {"refreshToken": False}
    assert calls[2].params == {"cursor": "1000000"}
    handshakes = [request for request in ended.json["requests"] if request["check"] == "codex"]
    assert [(one["method"], one["status"]) for one in handshakes] == [("GET", 101)]


def test_all_that_the_codex_server_sees_comes_before_any_other_server_is_asked(passed: Passed) -> None:
    stage, _ = passed
    assert everything_seen(stage)[:6] == [
        "codex TCP",
        "codex GET /",
        "codex initialize",
        "codex account/read",
        "codex mcpServerStatus/list",
        "opencode GET /global/health",
    ]


def test_the_path_of_the_url_and_the_name_of_the_client_are_as_configured(
    stage: Stage, spec: Callable[..., Path]
) -> None:
    env = {**stage.environment, "TEST_CODEX_WS_URL": f"{stage.codex.url}/ws/deep"}
    assert run_precheck(env, spec=spec(exchange="10s", client="my-gate")).code == 0
    assert [request.path for request in stage.codex.seen] == ["/ws/deep"]
    assert stage.codex.calls[0].params["clientInfo"]["name"] == "my-gate"


def test_answers_out_of_order_notifications_and_requests_of_the_server_are_normal(
    make_stage: Callable[..., Stage],
) -> None:
    ended = run_precheck(make_stage(faults={"codex": "out-of-order"}))
    assert ended.code == 0, ended


# E2: version and home -----------------------------------------------------------------------------------------------


def introduce(codex: CodexStandIn, name: str, version: str) -> None:
    """Initialize as somebody else."""
    client = websocket.create_connection(codex.url, suppress_origin=True, timeout=5)
    with contextlib.closing(client):
        info = {"name": name, "version": version}
        client.send(json.dumps({"id": 1, "method": "initialize", "params": {"clientInfo": info}}))
        client.recv()


def at(stage: Stage, codex: CodexStandIn) -> dict[str, str]:
    return {**stage.environment, "TEST_CODEX_WS_URL": codex.url}


ODD = "evil/9.9.9 (x; y) z"
IDENTITIES: tuple[tuple[str | None, tuple[str, ...], str | None], ...] = (
    # The originator, who has initialized before, and our name where it is not the quiet one.
    (None, (), None),
    (None, ("codex_vscode",), None),
    (ODD, ("first", ODD), None),
    (None, ("first",), "my-gate"),
)


def test_the_version_is_found_whatever_stands_beside_it(
    make_stage: Callable[..., Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on 0.171.0: the terminal has a version of its own, and a quiet client is shown the suffix of another one."""
    monkeypatch.setattr("precheck_lib.simulate.codex_rpc._PLATFORM", "(Debian 12.0.0; x86_64) vscode/1.106.3")
    with contextlib.ExitStack() as stack:
        calls = []
        for number, (originator, before, client) in enumerate(IDENTITIES):
            stage = make_stage()
            codex = stack.enter_context(CodexStandIn(stage.codex.home, originator=originator))
            for name in before:
                introduce(codex, name, "0.5.46")
            own = {"codex": {"client": client}} if client else {}
            path = write_strict(tmp_path / f"spec{number}", own, small=False)
            env = at(stage, codex)
            calls.append(lambda env=env, path=path: run_precheck(env, spec=path))
        ends = run_all(calls)
    for identity, ended in zip(IDENTITIES, ends, strict=True):
        assert ended.code == 0, (identity, ended)


def test_a_server_off_the_pin_or_of_no_version_or_in_another_home_is_a_failure_that_names_both(
    make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    version, home, nameless = (
        make_stage(faults={"codex": "wrong-version"}),
        make_stage(faults={"codex": "foreign-home"}),
        make_stage(),
    )
    monkeypatch.setattr(nameless.codex._dialect, "_user_agent", lambda name, version: "codex_cli_rs/ (x; y) z")
    stages = {
        version: ("codex.version", "0.171.0", "0.170.2"),
        nameless: ("codex.version", "0.171.0", "codex_cli_rs/"),
        home: ("codex.home", home.codex.home, "/srv/other/codex-home"),
    }
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages])
    for (stage, (code, pinned, found)), ended in zip(stages.items(), ends, strict=True):
        (finding,) = ended_at(ended, "codex", "failed", 1)["findings"]
        assert finding["code"] == code
        assert pinned in finding["message"]
        assert found in finding["message"]
        assert [call.method for call in stage.codex.calls] == ["initialize"]
        nobody_else_was_asked(stage)
    assert "server" in ends[0].check("codex")["findings"][0]["evidence"]


def test_the_home_is_the_same_folder_whichever_link_leads_to_it(
    make_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    stages = [make_stage() for _ in range(3)]
    links = []
    for number, stage in enumerate(stages):
        links.append(tmp_path / f"link{number}")
        links[-1].symlink_to(stage.codex.home)
    twice = tmp_path / "twice"
    twice.symlink_to(links[2])
    with CodexStandIn(str(links[2])) as reports_a_link:
        ends = run_all(
            [
                lambda: run_precheck({**stages[0].environment, "TEST_CODEX_HOME": str(links[0])}),
                lambda: run_precheck({**stages[1].environment, "TEST_CODEX_HOME": f"{stages[1].codex.home}/"}),
                lambda: run_precheck({**at(stages[2], reports_a_link), "TEST_CODEX_HOME": str(twice)}),
            ]
        )
    assert [ended.code for ended in ends] == [0, 0, 0], ends


# E2: account --------------------------------------------------------------------------------------------------------


def test_no_account_is_fine_where_the_provider_needs_none_and_a_missing_auth_json_is_nobodys_business(
    stage: Stage, tmp_path: Path
) -> None:
    (tmp_path / "stage0" / "codex-home" / "auth.json").unlink()
    with CodexStandIn(stage.codex.home, account=None, requires_openai_auth=False) as codex:
        ended = run_precheck(at(stage, codex))
    assert ended.code == 0, ended
    assert "auth.json" not in ended.out + ended.err


def test_no_account_where_one_is_needed_is_a_failure_and_mentions_auth_json(
    make_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    there, missing = make_stage(faults={"codex": "no-account"}), make_stage(faults={"codex": "no-account"})
    (tmp_path / "stage1" / "codex-home" / "auth.json").unlink()
    ends = run_all([lambda: run_precheck(there), lambda: run_precheck(missing)])
    for stage, ended in zip((there, missing), ends, strict=True):
        (finding,) = ended_at(ended, "codex", "failed", 1)["findings"]
        assert finding["code"] == "codex.account"
        assert "auth.json" in finding["evidence"]
        assert ("no auth.json" in finding["evidence"]) == (stage is missing)
        assert [call.method for call in stage.codex.calls] == ["initialize", "account/read"]
        nobody_else_was_asked(stage)


# E2: MCP servers ----------------------------------------------------------------------------------------------------


def mcp_calls(stage: Stage) -> list[Any]:
    return [call.params for call in stage.codex.calls if call.method == "mcpServerStatus/list"]


def test_configured_mcp_servers_are_a_failure_and_none_of_them_is_started(
    make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, listed = make_stage(faults={"codex": "mcp-configured"}), make_stage()
    page = {"data": [{"name": "alpha"}, {"name": "disabled", "serverInfo": None}], "nextCursor": None}
    monkeypatch.setattr(listed.codex._dialect, "_mcp", lambda cursor, limit: page)
    ends = run_all([lambda: run_precheck(counted), lambda: run_precheck(listed)])
    for stage, ended in zip((counted, listed), ends, strict=True):
        (finding,) = ended_at(ended, "codex", "failed", 1)["findings"]
        assert finding["code"] == "codex.mcp"
        assert "2 MCP servers" in finding["message"]
        # With any smaller cursor the real server starts them.
        assert mcp_calls(stage) == [{"cursor": "1000000"}]
        nobody_else_was_asked(stage)


def test_a_list_that_is_not_answered_in_time_is_a_failure_and_no_deadline(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    stage = make_stage(faults={"codex": "mcp-hangs"})
    ended = run_precheck(stage, spec=spec(exchange="600ms"))
    (finding,) = ended_at(ended, "codex", "failed", 1)["findings"]
    assert finding["code"] == "codex.mcp"
    assert 0.6 <= ended.check("codex")["elapsed_s"] <= 0.85
    assert mcp_calls(stage) == [{"cursor": "1000000"}]
    nobody_else_was_asked(stage)


def test_an_unknown_error_text_leads_to_the_plain_list(stage: Stage) -> None:
    options = {"at": "mcpServerStatus/list", "message": "invalid cursor: 1000000", "times": 1}
    with (
        CodexStandIn(stage.codex.home, fault="error-answer", fault_options=options) as none,
        CodexStandIn(stage.codex.home, mcp_servers=["a"], fault="error-answer", fault_options=options) as one,
    ):
        clean, configured = run_all([lambda: run_precheck(at(stage, none)), lambda: run_precheck(at(stage, one))])
        for codex in (none, one):
            asked = [call.params for call in codex.calls if call.method == "mcpServerStatus/list"]
            assert asked == [{"cursor": "1000000"}, {}]
    assert clean.code == 0, clean
    assert ended_at(configured, "codex", "failed", 1)["findings"][0]["code"] == "codex.mcp"


# E2: an exchange that fails -----------------------------------------------------------------------------------------

SECRETS = "no: stand-in-openai-key, stand-in-anthropic-key"
EXCHANGES: Mapping[str, tuple[str, dict[str, Any], str, int]] = {
    "silence": ("accept-and-silence", {}, "error", 28),
    "handshake-drip": ("handshake-drip", {"every": 0.2}, "error", 28),
    "never-answers-initialize": ("never-answers-initialize", {}, "error", 28),
    "frame-drip": ("frame-drip", {"every": 0.2}, "error", 28),
    "ping-flood": ("ping-flood", {}, "error", 28),
    "notification-flood": ("notification-flood", {}, "error", 28),
    "handshake-403": ("handshake-403", {}, "failed", 22),
    "handshake-200": ("handshake-200", {}, "failed", 1),
    "handshake-bad-accept": ("handshake-bad-accept", {}, "error", 1),
    "frame-huge": ("frame-huge", {}, "error", 63),
    "frame-not-json": ("frame-not-json", {}, "failed", 1),
    "closed": ("closes-mid-exchange", {}, "error", 56),
    "reset-at-the-list": ("closes-mid-exchange", {"at": "mcpServerStatus/list", "reset": True}, "error", 56),
    "error": ("error-answer", {"message": SECRETS}, "failed", 1),
    "error-at-the-list": ("error-answer", {"at": "mcpServerStatus/list"}, "failed", 1),
}


@pytest.mark.parametrize("names", [list(EXCHANGES)[:6], list(EXCHANGES)[6:]], ids=["deadlines", "answers"])
def test_an_exchange_that_fails_ends_the_run_with_its_own_word_and_code(
    make_stage: Callable[..., Stage], spec: Callable[..., Path], names: list[str]
) -> None:
    deadlines = names[0] == "silence"
    path = spec(exchange="500ms" if deadlines else "10s")
    stages = {
        name: make_stage(faults={"codex": EXCHANGES[name][0]}, fault_options={"codex": EXCHANGES[name][1]})
        for name in names
    }
    ends = run_all([lambda stage=stage: run_precheck(stage, spec=path) for stage in stages.values()])
    for (name, stage), ended in zip(stages.items(), ends, strict=True):
        _, _, word, code = EXCHANGES[name]
        check = ended_at(ended, "codex", word, code)
        nobody_else_was_asked(stage)
        assert "Codex App Server" in check["findings"][0]["message"], name
        # `run_precheck` looks for the secrets of the environment in everything that is shown.
        assert ("***" in ended.err) == (name == "error"), name
        if deadlines:
            assert 0.5 <= check["elapsed_s"] <= 0.75, name
            assert re.search(r"deadline of 0\.(5|49\d) s elapsed \[curl: \(28\)\]", ended.err), name


def test_one_deadline_covers_the_whole_exchange(make_stage: Callable[..., Stage], spec: Callable[..., Path]) -> None:
    """Bytes keep coming, and the answers before are there; the sum is what counts."""
    stage = make_stage(faults={"codex": "frame-drip"}, fault_options={"codex": {"every": 0.01, "at": "initialize"}})
    ended = run_precheck(stage, spec=spec(exchange="400ms"))
    check = ended_at(ended, "codex", "error", 28)
    assert 0.4 <= check["elapsed_s"] <= 0.65
