from __future__ import annotations

import json
import re

import pytest

from precheck_lib.simulate import CodexStandIn

HOME = "/home/ci/codex-home"


@pytest.fixture
def codex(stack):
    def start(**options):
        return stack.enter_context(CodexStandIn(HOME, **options))

    return start


def plain(frame):
    """A frame without what differs from run to run."""
    frame = re.sub(r'"emittedAtMs":\d+', '"emittedAtMs":0', frame)
    return re.sub(r'"(serverName|installationId)":"[^"]*"', r'"\1":"…"', frame)


SESSIONS = [
    ("apikey", {}),
    ("noauth", {"account": None}),
    ("ollama_provider", {"account": None, "requires_openai_auth": False}),
    ("errors", {"account": None}),
]


@pytest.mark.parametrize(("name", "options"), SESSIONS, ids=[name for name, _ in SESSIONS])
def test_a_session_goes_frame_by_frame_as_the_recorded_one(codex, dial, recorded, name, options):
    talk = dial(codex(**options).url)
    for side, text in recorded("codex.json")[name]:
        if side == "client":
            talk.say(text)
        elif text.endswith("…"):
            assert talk.text().startswith(text[:-1])
        else:
            assert plain(talk.text()) == text


@pytest.mark.parametrize(("name", "servers"), [("far_cursor_0", ()), ("far_cursor_2", ("b", "a"))])
def test_a_cursor_beyond_the_end_tells_how_many_servers_there_are(codex, dial, recorded, name, servers):
    talk = dial(codex(mcp_servers=servers).url)
    talk.initialize()
    talk.text(), talk.text()
    for side, text in recorded("codex.json")[name]:
        if side == "client":
            talk.say(text)
        else:
            assert talk.text() == text


def test_mcp_servers_are_listed_by_name_in_pages_with_the_recorded_fields(codex, dial, recorded):
    talk = dial(codex(mcp_servers=["off", "missing", "alpha"]).url)
    talk.initialize()
    texts = [text for side, text in recorded("codex.json")["mcp"] if side == "server" and '"data"' in text]
    pages = [json.loads(text) for text in texts]
    for page, params in zip(pages, ({"limit": 2}, {"limit": 2, "cursor": "2"}), strict=True):
        mine = talk.call(page["id"], "mcpServerStatus/list", params)["result"]
        assert mine["nextCursor"] == page["result"]["nextCursor"]
        assert [list(entry) for entry in mine["data"]] == [list(entry) for entry in page["result"]["data"]]
        assert [entry["name"] for entry in mine["data"]] == [entry["name"] for entry in page["result"]["data"]]
    failed = next(entry for entry in pages[0]["result"]["data"] if entry["name"] == "missing")
    assert talk.call(9, "mcpServerStatus/list", {"cursor": "1", "limit": 1})["result"]["data"] == [failed]


def test_the_user_agent_names_the_first_client_in_front_and_the_last_one_behind(codex, dial, recorded):
    server = codex()
    for name, version, agent in recorded("codex.json")["user_agents"]:
        assert dial(server.url).initialize(name, version)["result"]["userAgent"] == agent


def test_a_given_originator_is_not_replaced_by_a_client(codex, dial):
    agent = dial(codex(originator="a/b", version="1.2.3").url).initialize("x", "1")["result"]["userAgent"]
    assert agent == "a/b/1.2.3 (Debian 12.0.0; x86_64) unknown (x; 1)"


def test_http_requests_are_answered_as_recorded(codex, ask, recorded):
    server = codex()
    for row in recorded("codex_http.json"):
        method, path, headers = row["request"]
        answer = ask(server.url, path, method, headers=headers)
        assert (answer.status, answer.body.decode()) == (row["status"], row["body"]), row["request"]
        assert [name for name, _ in answer.order] == row["headers"], row["request"]


@pytest.mark.parametrize("path", ["/", "/readyz", "/any?x=1"])
@pytest.mark.parametrize("origin", ["", "null", "http://127.0.0.1"])
def test_an_origin_header_is_refused_on_every_path_even_for_an_upgrade(codex, ask, path, origin):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Origin": origin}
    answer = ask(codex().url, path, headers=upgrade)
    assert (answer.status, answer.body) == (403, b"")


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Connection": "Upgrade"}, "`Upgrade` header did not include 'websocket'"),
        ({"Connection": "Upgrade", "Upgrade": "websocket"}, "`Sec-WebSocket-Key` header missing"),
        (
            {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"},
            "`Sec-WebSocket-Version` header did not include '13'",
        ),
    ],
)
def test_an_upgrade_that_lacks_something_is_told_what(codex, ask, headers, text):
    answer = ask(codex().url, headers=headers)
    assert (answer.status, answer.body.decode()) == (400, text)


def test_the_upgrade_proves_that_the_key_was_read(codex, dial):
    head = dial(codex().url).head
    assert head.startswith("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n")
    assert "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
    assert "server:" not in head


@pytest.mark.parametrize(
    "text",
    [
        "{not json",
        "",
        "5",
        "[]",
        "null",
        '[{"id":1,"method":"account/read","params":{}}]',
        '{"id":1}',
        '{"id":1,"method":6}',
        '{"id":1,"result":{}}',
        '{"id":1.5,"method":"account/read","params":{}}',
        '{"id":null,"method":"account/read","params":{}}',
        '{"id":true,"method":"account/read","params":{}}',
        '{"id":1180591620717411303424,"method":"account/read","params":{}}',
        '{"method":"account/read","params":{}}',
    ],
)
def test_what_is_no_request_gets_silence_and_the_connection_stays_usable(codex, dial, text):
    talk = dial(codex().url)
    talk.say(text)
    talk.say({"id": "next", "method": "account/read", "params": {}})
    assert talk.text() == '{"error":{"code":-32600,"message":"Not initialized"},"id":"next"}'


def test_notifications_that_a_client_opted_out_of_are_not_sent(codex, dial):
    talk = dial(codex().url)
    muted = {"optOutNotificationMethods": ["configWarning", "remoteControl/status/changed"]}
    talk.say(
        {
            "id": 1,
            "method": "initialize",
            "params": {"clientInfo": {"name": "x", "version": "1"}, "capabilities": muted},
        }
    )
    talk.say({"id": 2, "method": "account/read", "params": {}})
    assert [json.loads(talk.text())["id"] for _ in range(2)] == [1, 2]


def test_a_ping_is_answered_twice_with_its_payload(codex, dial):
    talk = dial(codex().url)
    talk.frame(9, b"hi")
    assert [talk.hear(), talk.hear()] == [(10, b"hi")] * 2


def test_a_binary_frame_is_ignored_and_a_fragmented_text_is_joined(codex, dial):
    talk = dial(codex().url)
    talk.frame(2, b'{"id":1,"method":"account/read","params":{}}')
    talk.frame(1, b'{"id":2,"method":"acc', final=False)
    talk.frame(9, b"between")
    talk.frame(0, b'ount/read","params":{}}')
    heard = [talk.hear() for _ in range(3)]
    assert [opcode for opcode, _ in heard] == [10, 10, 1]
    assert json.loads(heard[2][1])["id"] == 2


def test_a_close_frame_is_met_with_the_end_of_tcp(codex, dial):
    server = codex()
    talk = dial(server.url)
    talk.frame(8, b"\x03\xe8")
    assert talk.rest() == b""
    (record,) = server.connections
    assert (record.upgraded, record.close_frame) == (True, True)


def test_a_client_that_drops_tcp_without_a_close_frame_is_seen(codex, dial):
    server = codex()
    dial(server.url).close()
    assert server.wait_for(lambda: [each.ended for each in server.connections] == ["fin"], 5)
    assert not server.connections[0].close_frame


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\x02hi",
        b"\xc1\x82\0\0\0\0hi",
        b"\x83\x80\0\0\0\0",
        b"\x80\x80\0\0\0\0",
        b"\x81\x82\0\0\0\0\xff\xff",
    ],
    ids=["unmasked", "reserved bit", "unknown opcode", "stray continuation", "no UTF-8"],
)
def test_a_forbidden_frame_ends_the_connection(codex, dial, data):
    talk = dial(codex().url)
    talk.send(data)
    assert talk.rest() == b""


def test_a_frame_beyond_sixteen_mebibytes_is_met_with_a_reset(codex, dial):
    talk = dial(codex().url)
    talk.send(b"\x81\xff" + (17 << 20).to_bytes(8, "big") + b"\0\0\0\0")
    with pytest.raises(ConnectionResetError):
        talk.rest()


def test_calls_and_the_upgrade_are_recorded_in_order(codex, dial):
    server = codex()
    for _ in range(2):
        talk = dial(server.url)
        talk.initialize()
        talk.call(1, "account/read", {"refreshToken": False})
    assert [(call.method, call.connection) for call in server.calls] == [
        ("initialize", 0),
        ("account/read", 0),
        ("initialize", 1),
        ("account/read", 1),
    ]
    assert server.calls[1].params == {"refreshToken": False}
    assert [request.path for request in server.seen] == ["/", "/"]
    assert server.seen[0].at <= server.calls[0].at


def test_a_method_that_the_real_server_knows_is_not_said_to_be_unknown(codex, dial):
    talk = dial(codex().url)
    talk.initialize()
    assert "not offered by this stand-in" in talk.call(1, "thread/list", {})["error"]["message"]
