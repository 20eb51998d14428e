"""The exchange with a Codex App Server: among whatever comes the right answers are found, and nothing else is taken."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from precheck_lib import __version__
from precheck_lib.checks.codex import KIND, CodexOptions
from precheck_lib.checks.kind import Context
from precheck_lib.errors import AnswerError, TalkError
from precheck_lib.findings import NotReadyError
from precheck_lib.servers.codex import QUIET_CLIENT, Account, CodexSession, Identity, version_of
from tests.fuzz.values import JSON, TEXT, Frames, budget

AGENT = "codex_cli_rs/0.171.0 (Debian 12.0.0; x86_64) unknown"
IDENTITY = {"userAgent": AGENT, "codexHome": "/", "platformFamily": "unix", "platformOs": "linux"}
ACCOUNT = {"account": None, "userId": None, "requiresOpenaiAuth": False, "workspaceRouting": None}
FAR = {"code": -32600, "message": "cursor 1000000 exceeds total MCP servers 0"}

IDS = st.one_of(
    st.integers(-2, 5), st.booleans(), st.none(), st.sampled_from(["1", "2", "3", "", "a", 1.0, 2.0, 3.0, 1.5]), JSON
)
METHODS = st.sampled_from(["configWarning", "remoteControl/status/changed", "initialize", "execCommandApproval", ""])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "method": st.one_of(METHODS, JSON),
        "params": JSON,
        "result": st.one_of(JSON, st.sampled_from([IDENTITY, ACCOUNT, {"data": [], "nextCursor": None}])),
        "error": st.one_of(JSON, st.just(FAR), st.builds(lambda text: {"message": text}, TEXT)),
        "emittedAtMs": JSON,
    },
)


def is_answer_to(message: Any, number: int) -> bool:
    """Matched on id, without a `method`; ids are echoed with their type, so `1.0`, `"1"` and `true` are not 1."""
    return "method" not in message and message.get("id").__class__ is int and message["id"] == number


def noise(number: int) -> st.SearchStrategy[list[Any]]:
    """Messages that are no answer to the call of this number."""
    near = st.builds(
        lambda id_, rest: {"id": id_, **rest},
        st.sampled_from([float(number), str(number), number - 1, number + 1, number == 1, None, [number]]),
        st.sampled_from([{"result": IDENTITY}, {"result": {}}, {"result": None}, {"error": {"message": "no"}}]),
    )
    request = st.builds(
        lambda rest: {"id": number, "method": "x", **rest}, MESSAGES.filter(lambda m: "method" not in m)
    )
    # Half of a surrogate pair makes a message unreadable, whoever sends it: that ends an exchange, and is no noise.
    return st.lists(
        st.one_of(MESSAGES, near, request).filter(
            lambda message: not is_answer_to(message, number) and _is_text(message)
        ),
        max_size=3,
    )


def _is_text(message: Any) -> bool:
    return not re.search("[\ud800-\udfff]", json.dumps(message, ensure_ascii=False))


def frames(messages: list[Any]) -> Frames:
    return Frames([json.dumps(message) for message in messages])


def opened(server: Frames, client: str = QUIET_CLIENT) -> CodexSession:
    with server.opened():
        return CodexSession("ws://127.0.0.1:1", budget=budget(), journal=None, client=client)  # type: ignore[arg-type]


COUNTS = st.integers(0, 999_999_999)


@given(noise(1), noise(2), noise(3), st.booleans(), COUNTS)
def test_the_right_answers_are_found_among_whatever_else_comes(first, second, third, present, count):
    account = {**ACCOUNT, "account": {"type": "apiKey"} if present else None, "requiresOpenaiAuth": present}
    far = {"code": -32600, "message": f"cursor 1000000 exceeds total MCP servers {count}"}
    server = frames(
        [
            *first,
            {"id": 1, "result": IDENTITY},
            *second,
            {"id": 2, "result": account},
            *third,
            {"error": far, "id": 3},
        ]
    )
    with opened(server) as session:
        assert session.initialize() == Identity(user_agent=AGENT, version="0.171.0", home="/")
        assert session.account() == Account(present=present, required=present)
        assert session.mcp_servers() == count
    assert server.closed
    assert [(message["id"], message["method"]) for message in server.sent] == [
        (1, "initialize"),
        (2, "account/read"),
        (3, "mcpServerStatus/list"),
    ]


ANY_FRAMES = st.lists(
    st.one_of(
        MESSAGES.map(json.dumps),
        st.builds(lambda number, more: json.dumps({"id": number, **more}), st.integers(1, 4), MESSAGES),
        JSON.map(json.dumps),
        TEXT,
        st.sampled_from(["[" * 3000, '{"id":1,"id":1}', '{"id":NaN}', '{"id":1e999}', '"\\ud800"', ""]),
    ),
    max_size=8,
)


@given(ANY_FRAMES)
def test_an_exchange_of_anything_ends_with_a_value_or_an_error_of_a_talk(sent):
    server = Frames(sent)
    with opened(server) as session:
        for call, kinds in ((session.initialize, Identity), (session.account, Account), (session.mcp_servers, int)):
            try:
                value = call()  # type: ignore[operator]
            except TalkError as error:
                event(type(error).__name__)
                assert len(str(error)) < 1000
            except TimeoutError:
                assert call == session.mcp_servers
            else:
                event(f"a value of {kinds.__name__}")
                assert type(value) is kinds
    assert len(server.sent) <= 4
    assert server.closed


RESULTS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {},
        optional={
            "userAgent": st.one_of(JSON, TEXT, st.just(AGENT)),
            "codexHome": st.one_of(JSON, TEXT, st.just("/")),
            "account": JSON,
            "requiresOpenaiAuth": JSON,
            "data": JSON,
            "nextCursor": JSON,
        },
    ),
)


@given(
    st.one_of(RESULTS, st.just(IDENTITY)),
    st.one_of(RESULTS, st.just(ACCOUNT)),
    st.one_of(RESULTS, st.just({"data": [], "nextCursor": None})),
)
def test_a_check_of_anything_passes_only_with_version_home_account_and_no_mcp_server(identity, account, servers):
    server = frames([{"id": number, "result": result} for number, result in enumerate((identity, account, servers), 1)])
    context = Context(env={}, budget=budget(), journal=None, expand=lambda value: value, exit_code=lambda _: 1)  # type: ignore[arg-type]
    options = CodexOptions(url="ws://127.0.0.1:1", version="0.171.0", home="/")
    right = (
        isinstance(identity, dict)
        and isinstance(identity.get("userAgent"), str)
        and "/0.171.0 (" in identity["userAgent"]
        and isinstance(identity.get("codexHome"), str)
        and isinstance(account, dict)
        and (isinstance(account.get("account"), dict) or account.get("requiresOpenaiAuth") is False)
        and isinstance(servers, dict)
        and servers.get("data") == []
        and servers.get("nextCursor") is None
    )
    with server.opened():
        try:
            assert KIND.run(options, context) == []
        except NotReadyError as error:
            assert error.findings
            assert not right or identity["codexHome"] != "/"
        else:
            event("passed")
            assert right
    assert server.closed


ALIKE = st.tuples(
    st.sampled_from(["", " ", "cursor 1000000 ", "x\n"]),
    st.just("cursor 1000000 exceeds total MCP servers "),
    st.sampled_from(["0", "7", "12", "1234567890", "-1", "٣", ""]),
    st.sampled_from(["", " ", "\n", ".", "0", " x"]),
).map("".join)


@given(st.one_of(TEXT, ALIKE))
def test_no_text_but_the_servers_own_tells_how_many_mcp_servers_there_are(text):
    server = frames([{"id": 1, "error": {"message": text}}])
    with opened(server) as session:
        try:
            count = session.mcp_servers()
            number = text.removeprefix("cursor 1000000 exceeds total MCP servers ")
            assert re.fullmatch("[0-9]+", number)
            assert int(number) == count
        except (AnswerError, TimeoutError):
            # It has asked for the plain list, and this server did not answer that.
            assert len(server.sent) == (2 if _is_text(text) else 1)


# The version in the user agent ----------------------------------------------------------------------------------------

_HEADER = st.characters(exclude_categories=["Cc", "Cs"])  # a client's name has to be a valid HTTP header value
NAMES = st.one_of(
    st.text(_HEADER, max_size=12),
    st.lists(
        st.sampled_from(
            ["a", "/", "9.9.9", " ", "(", ")", "; ", "evil/9.9.9 (x; y) z", "codex", "/1 (", "é", "vscode/1.2.3"]
        ),
        max_size=5,
    ).map("".join),
)
VERSIONS = st.builds(
    lambda numbers, tail: ".".join(map(str, numbers)) + tail,
    st.lists(st.integers(0, 999), min_size=1, max_size=4),
    st.sampled_from(["", "-alpha.3", "-rc1", "+build.5", "a"]),
)
SYSTEMS = st.sampled_from(
    ["Debian 12.0.0; x86_64", "Mac OS 26.0.1; arm64", "Ubuntu 24.4.0; aarch64", "Arch Linux Rolling; x86_64"]
)
TERMINALS = st.one_of(
    st.sampled_from(
        ["unknown", "dumb", "xterm-256color", "vscode/1.2.3", "iTerm.app/3.6.0", "WezTerm/20240203-1", "kitty"]
    ),
    st.from_regex(r"[A-Za-z0-9._+-]{1,8}(/[0-9][A-Za-z0-9._-]{0,8})?", fullmatch=True),
)


def agent(originator: str, version: str, system: str, terminal: str, suffix: str = "") -> str:
    return f"{originator}/{version} ({system}) {terminal}{suffix}"


@given(NAMES, VERSIONS, SYSTEMS, TERMINALS, NAMES, st.one_of(VERSIONS, NAMES))
@example("evil/9.9.9 (x; y) z", "0.171.0", "Debian 12.0.0; x86_64", "vscode/1.2.3", "a/1 (b", "1/2 (3")
def test_the_version_comes_back_behind_any_originator_and_before_ones_own_name(
    originator, version, system, terminal, client, client_version
):
    text = agent(originator, version, system, terminal, f" ({client}; {client_version})")
    assert version_of(text, client, client_version) == version


@given(NAMES, VERSIONS, SYSTEMS, TERMINALS)
def test_the_version_comes_back_where_a_quiet_client_gets_no_suffix(originator, version, system, terminal):
    assert version_of(agent(originator, version, system, terminal), QUIET_CLIENT, __version__) == version


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


@given(NAMES, VERSIONS, SYSTEMS, TERMINALS, NAMES, VERSIONS)
def test_the_version_comes_back_before_the_name_of_another_client(
    originator, version, system, terminal, client, client_version
):
    # A parenthesis that another client's name opens and does not close cannot be told from the server's own.
    assume(_balanced(client))
    text = agent(originator, version, system, terminal, f" ({client}; {client_version})")
    assert version_of(text, QUIET_CLIENT, __version__) == version


@given(TEXT, TEXT, TEXT)
def test_no_user_agent_is_too_odd_to_be_looked_at(text, client, client_version):
    for found in (
        version_of(text, client, client_version),
        version_of(f"{text} ({client}; {client_version})", client, ""),
    ):
        assert found is None or (found[0].isdigit() and not set(found) & set(" /()"))
