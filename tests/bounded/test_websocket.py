"""`bounded.websocket` against servers that drip, flood, stall and lie, in the handshake and after it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from websocket import _handshake

from precheck_lib.bounded import websocket
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.bounded.websocket import HandshakeRefused
from precheck_lib.errors import (
    Cancelled,
    ConnectError,
    DeadlineError,
    TalkError,
)
from precheck_lib.simulate.hostile.frames import frame
from tests.bounded.hostile import black_hole, closed_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.websocket import Session
    from tests.bounded.hostile import Hostile, Peer

LIMIT = 0.3

CLOSE, PING, PONG = 8, 9, 10


def session_to(server: Hostile, *, budget: Budget | None = None, **options: Any) -> Session:
    return websocket.open_session(
        server.url("/rpc?a=b", "ws"), budget=budget or Budget(5), journal=Journal(), **options
    )


def answered(*parts: bytes, then: Callable[[Peer], object] = lambda peer: peer.hold()) -> Callable[[Peer], None]:
    """Answer the handshake with the parts."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(*parts)
        then(peer)

    return script


@pytest.mark.parametrize(
    ("status", "curl", "word"),
    [
        (200, 1, "failed"),
        (302, 1, "failed"),
        (401, 22, "failed"),
        (403, 22, "failed"),
        (404, 22, "error"),
        (503, 22, "error"),
    ],
)
def test_a_refusal_is_told_by_its_status_and_its_body_is_not_waited_for(status, curl, word, serve, ends_within):
    head = f"HTTP/1.1 {status} No\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 1000000000000\r\n\r\n".encode()
    server = serve(answered(head, then=lambda peer: peer.flood(b"x")))
    journal = Journal()
    with ends_within(0.1), pytest.raises(HandshakeRefused) as caught:
        websocket.open_session(server.url("/", "ws"), budget=Budget(30), journal=journal)
    assert (caught.value.status, caught.value.curl, caught.value.word) == (status, curl, word)
    assert [record.status for record in journal.records] == [status]


@pytest.mark.parametrize("interim", [b"100 Continue", b"102 Processing", b"103 Early Hints"])
def test_interim_answers_before_the_101_are_passed_over(interim, serve, ends_within):
    def script(peer: Peer) -> None:
        peer.request()
        # Head and first message in one piece: nothing of it may be lost between our reader and the library's.
        peer.send(b"HTTP/1.1 ", interim, b"\r\nX: y\r\n\r\n", peer.agreement(), frame(b"hello"))
        peer.hold()

    server = serve(script)
    with ends_within(0.1), session_to(server) as session:
        assert session.receive() == "hello"


def then(*parts: bytes, after: Callable[[Peer], object] = lambda peer: peer.hold()) -> Callable[[Peer], None]:
    """Agree to the handshake, then send the parts."""

    def script(peer: Peer) -> None:
        peer.upgrade()
        peer.send(*parts)
        after(peer)

    return script


def test_a_flood_of_pings_whose_pongs_are_not_read_ends_in_time(serve, ends_within):
    server = serve(then(after=lambda peer: peer.flood(frame(b"x" * 125, PING))))
    with ends_within(LIMIT), pytest.raises(TalkError) as caught, session_to(server, budget=Budget(LIMIT)) as session:
        session.receive()
    assert caught.value.curl in (28, 63)


def test_a_flood_of_empty_fragments_ends_at_the_deadline_although_all_of_it_has_been_received(serve, ends_within):
    server = serve(then(frame(b"", final=False), after=lambda peer: peer.flood(frame(b"", 0, final=False))))
    with ends_within(LIMIT), pytest.raises(TalkError) as caught, session_to(server, budget=Budget(LIMIT)) as session:
        session.receive()
    assert caught.value.curl in (28, 63)


def test_two_mebibytes_of_text_are_not_validated_beyond_the_deadline(serve, ends_within, monkeypatch):
    # The library's own validation is written in Python and takes up to a second for it.
    monkeypatch.setattr("websocket._abnf.validate_utf8", lambda _: pytest.fail("the slow one was called"))
    text = "ä" * ((websocket.MAX_BYTES - 4096) // 2)
    server = serve(then(frame(text.encode())))
    with ends_within(LIMIT), session_to(server) as session:
        assert session.receive() == text


def test_what_has_been_received_is_not_worked_off_beyond_the_deadline(serve):
    server = serve(then(frame(b"one"), frame(b"two")))
    budget = Budget(5)
    with session_to(server, budget=budget) as session:
        assert session.receive() == "one"
        budget.cut(0)
        with pytest.raises(DeadlineError):
            session.receive()


def test_a_frame_that_comes_byte_by_byte_is_not_kept_byte_by_byte(serve, ends_within):
    def script(peer: Peer) -> None:
        peer.upgrade()
        for byte in frame(b"x" * 20000):
            peer.send(bytes([byte]))
        peer.hold()

    server = serve(script)
    with session_to(server, budget=Budget(10)) as session:
        sizes: list[int] = []
        receive = session._protocol.frame_buffer.recv
        session._protocol.frame_buffer.recv = lambda size: sizes.append(size) or receive(size)
        assert session.receive() == "x" * 20000
    assert sizes == [2, 2, 16384, 3616]


def test_messages_in_fragments_with_pings_between_are_put_together(serve):
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.upgrade()
        peer.send(frame(b"he", final=False), frame(b"ping", PING), frame(b"ll", 0, final=False), frame(b"o", 0))
        seen.append(peer.sock.recv(100))
        peer.hold()

    server = serve(script)
    with session_to(server) as session:
        assert session.receive() == "hello"
    (pong,) = seen
    mask = pong[2:6]
    assert pong[0] == 0x80 | PONG
    assert bytes(byte ^ mask[index % 4] for index, byte in enumerate(pong[6:10])) == b"ping"


def test_an_answer_that_came_before_the_server_hung_up_on_our_pong_is_read(serve):
    def script(peer: Peer) -> None:
        peer.upgrade()
        peer.send(frame(b"", PING), frame(b"", PING), frame(b"the answer"))
        peer.reset()

    server = serve(script)
    with session_to(server) as session:
        server.wait_for_end()
        assert session.receive() == "the answer"


def test_a_message_that_the_server_does_not_read_ends_in_time(serve, ends_within):
    server = serve(lambda peer: (peer.upgrade(), peer.pause(5)))
    with (
        ends_within(LIMIT),
        pytest.raises(DeadlineError) as caught,
        session_to(server, budget=Budget(LIMIT)) as session,
    ):
        session.send("x" * (8 << 20))
    assert caught.value.phase == "send"


@pytest.mark.parametrize("why", ["a-signal", "the-deadline"])
def test_nothing_is_sent_any_more_after(why, serve, cancel):
    seen: list[bytes] = []
    server = serve(then(after=lambda peer: seen.append(peer.sock.recv(100))))
    budget = Budget(5, cancel=cancel)
    with session_to(server, budget=budget) as session:
        if why == "a-signal":
            cancel.set(2)
        else:
            budget.cut(0)
        with pytest.raises((Cancelled, DeadlineError)):
            session.send("hush")
    server.wait_for_end()
    assert all(data[:1] in (b"", b"\x88") for data in seen), "only a goodbye may come"


def test_goodbye_is_said_with_a_close_frame_and_fin(serve):
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.upgrade()
        peer.send(frame(b"an unread notification"))
        seen.append(peer.sock.recv(100))
        peer.send(frame(struct.pack("!H", 1000), CLOSE))

    server = serve(script)
    with session_to(server):
        pass
    assert server.wait_for_end() == ["server"]
    assert seen[0][0] == 0x80 | CLOSE


def test_unread_messages_do_not_make_the_close_a_reset(serve):
    server = serve(then(frame(b"x" * 1000) * 20, after=lambda peer: peer.watch_close()))
    with session_to(server):
        pass
    assert server.wait_for_end() == ["fin"]


@pytest.mark.parametrize(
    "after",
    [
        lambda peer: peer.pause(5),
        lambda peer: peer.drip_for_ever(frame(b"x"), 0.02),
        lambda peer: peer.flood(frame(b"x")),
    ],
    ids=["never-answers", "drips", "floods"],
)
def test_goodbye_is_not_waited_for_longer_than_a_quarter_of_a_second(after, serve, ends_within):
    server = serve(then(after=after))
    session = session_to(server, budget=Budget(30))
    with ends_within(0.25):
        session.close()
    session.close()


def test_goodbye_is_no_longer_than_the_budget(serve, ends_within):
    server = serve(then(after=lambda peer: peer.pause(5)))
    budget = Budget(30)
    session = session_to(server, budget=budget)
    budget.cut(0.05)
    with ends_within(0.05, overrun=0.15):
        session.close()


def test_a_signal_ends_the_wait_for_a_message_at_once(serve, ends_within, cancel):
    server = serve(then(after=lambda peer: (cancel.set(2), peer.hold())))
    with ends_within(0.0), pytest.raises(Cancelled), session_to(server, budget=Budget(30, cancel=cancel)) as session:
        session.receive()


def test_nobody_there_is_refused_at_once(ends_within):
    with ends_within(0.0), pytest.raises(ConnectError) as caught:
        websocket.open_session(f"ws://127.0.0.1:{closed_port()}/", budget=Budget(5), journal=Journal())
    assert caught.value.curl == 7


def test_a_black_hole_costs_the_connect_bound(ends_within):
    with black_hole() as port, ends_within(LIMIT), pytest.raises(DeadlineError) as caught:
        websocket.open_session(f"ws://127.0.0.1:{port}/", budget=Budget(30), journal=Journal(), connect_seconds=LIMIT)
    assert (caught.value.phase, caught.value.curl) == ("connect", 28)


def test_the_handshake_has_no_origin_and_names_host_and_port(serve):
    server = serve(then())
    with session_to(server, headers={"X-One": "2"}):
        pass
    server.wait_for_end()
    lines = server.requests[0].decode().split("\r\n")
    names = {line.partition(":")[0].lower() for line in lines[1:]}
    assert lines[0] == "GET /rpc?a=b HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}" in lines
    assert "X-One: 2" in lines
    assert names.isdisjoint({"origin", "cookie", "authorization", "sec-websocket-extensions", "sec-websocket-protocol"})


def test_an_ipv6_literal_is_connected_to_and_named_in_brackets(serve):
    server = serve(then(frame(b"hello")), host="::1")
    with session_to(server) as session:
        assert session.receive() == "hello"
    server.wait_for_end()
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0]


def test_cookies_are_neither_kept_nor_sent_to_another_port(serve):
    before = dict(_handshake.CookieJar.jar)
    one = serve(lambda peer: (peer.upgrade("Set-Cookie: a=b; Domain=127.0.0.1"), peer.hold()))
    other = serve(then())
    for server in (one, other):
        with session_to(server):
            pass
        server.wait_for_end()
    assert b"ookie" not in other.requests[0]
    assert before == _handshake.CookieJar.jar


def test_the_journal_has_the_handshake_as_one_request(serve):
    server = serve(then())
    journal = Journal()
    with websocket.open_session(server.url("/", "ws"), budget=Budget(5), journal=journal, connect_seconds=1):
        pass
    (record,) = journal.records
    assert (record.method, record.url, record.status) == ("GET", server.url("/", "ws"), 101)
    assert (record.connect_timeout_s, record.total_timeout_s) == (1, 5)
    assert record.bytes > 100


def test_wss_speaks_inside_tls(serve_tls, trusted):
    server = serve_tls(then(frame(b"hello")))
    with websocket.open_session(server.url("/", "wss"), budget=Budget(5), journal=Journal()) as session:
        session.send("hi")
        assert session.receive() == "hello"
