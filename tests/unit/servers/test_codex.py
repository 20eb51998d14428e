"""The exchange with a Codex App Server, message by message (CONTRACT E2, C3; facts/codex-opencode.md 1.4 to 1.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from precheck_lib import __version__
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import AnswerError, DeadlineError, ReceiveError
from precheck_lib.servers import codex
from precheck_lib.servers.codex import CallError, CodexSession, version_of

OS = "(Debian 12.0.0; x86_64)"
OURS = f"codex_app_server_daemon; {__version__}"


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        (f"codex_cli_rs/0.171.0 {OS} unknown", "0.171.0"),
        (f"codex_cli_rs/0.171.0 {OS} unknown ({OURS})", "0.171.0"),
        (f"codex_cli_rs/0.171.0 {OS} xterm-256color", "0.171.0"),
        (f"readiness-check/0.171.0 {OS} dumb ({OURS})", "0.171.0"),
        (f"codex_cli_rs/0.171.0 {OS} vscode/1.2.3", "0.171.0"),
        (f"codex_cli_rs/0.171.0 {OS} vscode/1.2.3 ({OURS})", "0.171.0"),
        (f"a/b/0.171.0 {OS} unknown", "0.171.0"),
        (f"a/b/0.171.0 {OS} vscode/1.2.3 ({OURS})", "0.171.0"),
        (f"evil/9.9.9 (x; y) z/0.171.0 {OS} unknown ({OURS})", "0.171.0"),
        (f"evil/9.9.9 (x; y) z/0.171.0 {OS} vscode/1.2.3 ({OURS})", "0.171.0"),
        (f"codex_cli_rs/0.172.0-alpha.1 {OS} unknown", "0.172.0-alpha.1"),
        (f"codex_cli_rs/0.171.0+build.5 {OS} unknown", "0.171.0+build.5"),
        ("codex_cli_rs/0.171.0 (Mac OS 26.1.0; arm64) iTerm.app/3.6.6", "0.171.0"),
        (f"codex_cli_rs/1 {OS} unknown", "1"),
    ],
)
def test_the_version_is_found_in_a_user_agent(agent: str, version: str) -> None:
    assert version_of(agent, "codex_app_server_daemon", __version__) == version


@pytest.mark.parametrize(
    ("agent", "version"),
    [
        # A quiet client is shown the suffix of the last client that had one (measured on 0.171.0).
        (f"other/0.171.0 {OS} unknown (other; 3.3)", "0.171.0"),
        (f"first/0.171.0 {OS} vscode/1.2.3 (other; 3.3)", "0.171.0"),
        (f"codex_vscode/0.171.0 {OS} vscode/1.106.3 (codex_vscode; 0.5.46)", "0.171.0"),
        (f"evil/9.9.9 (x; y) z/0.171.0 {OS} unknown (evil/9.9.9 (x; y) z; 1.0)", "0.171.0"),
        (f"first/0.171.0 {OS} vscode/1.2.3 (evil/9.9.9 (x; y) z; 1.0)", "0.171.0"),
    ],
)
def test_the_suffix_of_another_client_does_not_hide_the_version(agent: str, version: str) -> None:
    assert version_of(agent, "codex_app_server_daemon", __version__) == version


def test_the_client_of_the_suffix_is_the_one_that_was_given() -> None:
    agent = f"me/0.171.0 {OS} vscode/1.2.3 (me; 7.7.7)"
    assert version_of(agent, "me", "7.7.7") == "0.171.0"


@pytest.mark.parametrize(
    "agent",
    ["", "codex", "codex_cli_rs 0.171.0", f"codex_cli_rs/ {OS}", f"codex_cli_rs/v0.171.0 {OS}", "x/0.171.0"],
)
def test_a_user_agent_without_a_version_has_none(agent: str) -> None:
    assert version_of(agent, "codex_app_server_daemon", __version__) is None


# The exchange -------------------------------------------------------------------------------------------------------


class Wire:
    """A WebSocket session that answers each message from a script: a list of frames for each call, by method."""

    def __init__(self, **frames: Any) -> None:
        self.script: dict[str, list[Any]] = {name.replace("__", "/"): list(value) for name, value in frames.items()}
        self.sent: list[dict[str, Any]] = []
        self.coming: list[Any] = []
        self.closed = 0

    def send(self, text: str) -> None:
        message = json.loads(text)
        self.sent.append(message)
        for step in self.script.get(message["method"], []):
            self.coming.append(step(message["id"]) if callable(step) else step)

    def receive(self) -> str:
        if not self.coming:
            raise DeadlineError("deadline of 10 s elapsed", phase="frame", seconds=10)
        frame = self.coming.pop(0)
        if isinstance(frame, Exception):
            raise frame
        return frame if isinstance(frame, str) else json.dumps(frame)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Open a session on a `Wire`; what it was opened with is in `wire.asked`."""

    def make(wire: Wire, **options: Any) -> CodexSession:
        def open_session(url: str, **given: Any) -> Wire:
            wire.asked = {"url": url, **given}
            return wire

        monkeypatch.setattr(codex.websocket, "open_session", open_session)
        return CodexSession("ws://127.0.0.1:1", budget=Budget(5), journal=Journal(), **options)

    return make


def result(**values: Any) -> Any:
    return lambda number: {"id": number, "result": values}


def refusal(message: Any) -> Any:
    return lambda number: {"error": {"code": -32600, "message": message}, "id": number}


def in_turn(*steps: Any) -> Any:
    """Answer the first call with the first step, the second with the second."""
    left = list(steps)

    def answer(number: int) -> Any:
        return left.pop(0)(number)

    return answer


HELLO = result(userAgent=f"codex_cli_rs/0.171.0 {OS} unknown", codexHome="/h", platformOs="linux")
MCP = "mcpServerStatus__list"


def test_the_client_introduces_itself_with_the_quiet_name(opened: Any) -> None:
    wire = Wire(initialize=[HELLO])
    with opened(wire) as session:
        identity = session.initialize()
    assert wire.sent == [
        {
            "id": 1,
            "method": "initialize",
            "params": {"clientInfo": {"name": "codex_app_server_daemon", "title": "precheck", "version": __version__}},
        }
    ]
    assert (identity.version, identity.home) == ("0.171.0", "/h")
    assert wire.closed == 1


def test_another_client_name_is_an_option(opened: Any) -> None:
    wire = Wire(initialize=[result(userAgent=f"me/0.171.0 {OS} vscode/1.2.3 (me; {__version__})", codexHome="/h")])
    session = opened(wire, client="me")
    assert session.initialize().version == "0.171.0"
    assert wire.sent[0]["params"]["clientInfo"]["name"] == "me"


def test_every_call_has_an_id_of_its_own_and_params(opened: Any) -> None:
    wire = Wire(
        initialize=[HELLO],
        account__read=[result(account=None, requiresOpenaiAuth=True)],
        **{MCP: [refusal("cursor 1000000 exceeds total MCP servers 0")]},
    )
    session = opened(wire)
    session.initialize()
    session.account()
    session.mcp_servers()
    assert [message["id"] for message in wire.sent] == [1, 2, 3]
    assert [(message["method"], message["params"]) for message in wire.sent[1:]] == [
        ("account/read", {"refreshToken": False}),
        ("mcpServerStatus/list", {"cursor": "1000000"}),
    ]


NOISE = [
    {"method": "configWarning", "params": {"summary": "no bubblewrap", "details": None}, "emittedAtMs": 1},
    {"id": 1, "method": "item/tool/requestUserInput", "params": {}},
    {"id": "1", "result": {"userAgent": f"x/9.9.9 {OS} unknown", "codexHome": "/wrong"}},
    {"id": 7, "result": {"userAgent": f"x/9.9.9 {OS} unknown", "codexHome": "/wrong"}},
    {"id": True, "result": {"userAgent": f"x/9.9.9 {OS} unknown", "codexHome": "/wrong"}},
    {"id": 1.0, "result": {"userAgent": f"x/9.9.9 {OS} unknown", "codexHome": "/wrong"}},
    {"id": None, "error": {"code": -32600, "message": "nobody asked"}},
    {"result": {}},
    {},
]


def test_only_the_answer_with_the_calls_id_counts(opened: Any) -> None:
    assert opened(Wire(initialize=[*NOISE, HELLO])).initialize().home == "/h"


def test_an_answer_that_came_too_early_for_its_call_is_not_taken_for_another(opened: Any) -> None:
    wire = Wire(
        initialize=[HELLO],
        account__read=[
            {"id": 3, "result": {"data": [], "nextCursor": None}},
            result(account={"type": "apiKey"}, requiresOpenaiAuth=True),
        ],
    )
    session = opened(wire)
    session.initialize()
    assert session.account().present


@pytest.mark.parametrize(
    "frame",
    ["", "null", "[]", "3", '"x"', '{"id":', '{"id":1,"id":1,"result":{}}', "\ufeff{}"],
)
def test_a_message_that_is_no_json_object_is_a_wrong_answer(opened: Any, frame: str) -> None:
    with pytest.raises(AnswerError):
        opened(Wire(initialize=[frame])).initialize()


@pytest.mark.parametrize("wrong", [None, [], "x", 1, True])
def test_an_answer_without_a_result_object_is_a_wrong_answer(opened: Any, wrong: Any) -> None:
    with pytest.raises(AnswerError):
        opened(Wire(initialize=[lambda number: {"id": number, "result": wrong}])).initialize()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"userAgent": "x"},
        {"codexHome": "/h"},
        {"userAgent": 1, "codexHome": "/h"},
        {"userAgent": "x", "codexHome": None},
    ],
)
def test_an_identity_without_user_agent_or_home_is_a_wrong_answer(opened: Any, values: dict[str, Any]) -> None:
    with pytest.raises(AnswerError):
        opened(Wire(initialize=[result(**values)])).initialize()


@pytest.mark.parametrize(
    ("values", "present", "required"),
    [
        ({"account": {"type": "apiKey"}, "requiresOpenaiAuth": True}, True, True),
        ({"account": None, "requiresOpenaiAuth": True, "workspaceRouting": None}, False, True),
        ({"account": None, "requiresOpenaiAuth": False}, False, False),
        ({"requiresOpenaiAuth": False}, False, False),
        ({"account": None}, False, None),
        ({"account": "apiKey", "requiresOpenaiAuth": 0}, False, 0),
    ],
)
def test_an_account_is_an_object(opened: Any, values: dict[str, Any], present: bool, required: object) -> None:
    account = opened(Wire(account__read=[result(**values)])).account()
    assert account.present is present
    assert account.required is required


@pytest.mark.parametrize("error", [{"code": -32600, "message": "no"}, {"code": -32600}, {"message": 5}, "no", None])
def test_an_error_is_a_wrong_answer_whatever_its_shape(opened: Any, error: Any) -> None:
    with pytest.raises(CallError, match="account/read"):
        opened(Wire(account__read=[lambda number: {"error": error, "id": number}])).account()


def test_a_long_error_text_is_cut(opened: Any) -> None:
    with pytest.raises(CallError) as caught:
        opened(Wire(account__read=[refusal("x" * 5000)])).account()
    assert len(str(caught.value)) < 400


# MCP servers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 17])
def test_the_number_is_in_the_answer_to_the_far_cursor_and_no_list_is_asked_for(opened: Any, number: int) -> None:
    wire = Wire(**{MCP: [refusal(f"cursor 1000000 exceeds total MCP servers {number}")]})
    assert opened(wire).mcp_servers() == number
    assert len(wire.sent) == 1


@pytest.mark.parametrize(
    "text",
    [
        "invalid cursor: 1000000",
        "cursor 1000000 exceeds total MCP servers",
        "cursor 1000000 exceeds total MCP servers 0 or so",
        "oh: cursor 1000000 exceeds total MCP servers 0",
        "Server overloaded; retry later.",
    ],
)
@pytest.mark.parametrize(("data", "count"), [([], 0), ([{"name": "a"}], 1), ([{}, {}], 2)])
def test_an_unknown_error_text_leads_to_the_plain_list(opened: Any, text: str, data: list[Any], count: int) -> None:
    wire = Wire(**{MCP: [in_turn(refusal(text), result(data=data, nextCursor=None))]})
    assert opened(wire).mcp_servers() == count
    assert [message["params"] for message in wire.sent] == [{"cursor": "1000000"}, {}]


def test_entries_in_the_answer_to_the_far_cursor_count(opened: Any) -> None:
    wire = Wire(**{MCP: [result(data=[{"name": "a"}, {"name": "b"}], nextCursor=None)]})
    assert opened(wire).mcp_servers() == 2
    assert len(wire.sent) == 1


def test_an_empty_page_that_promises_more_counts_as_at_least_one(opened: Any) -> None:
    assert opened(Wire(**{MCP: [result(data=[], nextCursor="5")]})).mcp_servers() >= 1


@pytest.mark.parametrize("values", [{}, {"data": None}, {"data": {}}, {"data": "none"}])
def test_a_list_without_data_is_a_wrong_answer(opened: Any, values: dict[str, Any]) -> None:
    with pytest.raises(AnswerError):
        opened(Wire(**{MCP: [result(**values)]})).mcp_servers()


def test_an_error_of_the_plain_list_too_is_a_wrong_answer(opened: Any) -> None:
    with pytest.raises(AnswerError):
        opened(Wire(**{MCP: [refusal("no")]})).mcp_servers()


def test_no_answer_in_time_says_that_servers_are_being_started(opened: Any) -> None:
    with pytest.raises(TimeoutError):
        opened(Wire()).mcp_servers()
    started = {"method": "mcpServer/startupStatus/updated"}
    with pytest.raises(TimeoutError):
        opened(Wire(**{MCP: [in_turn(refusal("no"), lambda number: started)]})).mcp_servers()


def test_a_connection_that_breaks_is_no_answer_in_time(opened: Any) -> None:
    broken = ReceiveError("the server closed the connection", phase="frame")
    with pytest.raises(ReceiveError):
        opened(Wire(**{MCP: [broken]})).mcp_servers()


def test_the_session_is_closed_whatever_happens(opened: Any) -> None:
    wire = Wire(initialize=["junk"])
    with pytest.raises(AnswerError), opened(wire) as session:
        session.initialize()
    assert wire.closed == 1
