"""What a deadline knows of its server: who it is and where, and how much had come from it."""

from __future__ import annotations

import pytest

from precheck_lib.bounded import http, websocket
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.bounded.peer import origin
from precheck_lib.errors import DeadlineError
from precheck_lib.simulate.hostile.frames import frame
from tests.bounded.hostile import black_hole

LIMIT = 0.3


def late_of(url, **options):
    """Make a request that is too slow, and give what is told of it."""
    with pytest.raises(DeadlineError) as caught:
        http.send("GET", url, budget=Budget(LIMIT), journal=Journal(), **options)
    return caught.value


def session_to(server, **options):
    return websocket.open_session(server.url("/rpc", "ws"), budget=Budget(LIMIT), journal=Journal(), **options)


def sending(*parts):
    """Read the request, send the parts, and hold the connection."""
    return lambda peer: (peer.request(), peer.send(*parts), peer.hold())


@pytest.mark.parametrize("came", [b"", b"HTTP/1.", b"HTTP/1.1 200 OK\r\nContent-"])
def test_a_head_that_is_not_complete_is_told_with_the_bytes_that_came(serve, came):
    error = late_of(serve(sending(came)).url())
    assert (error.phase, error.received) == ("head", len(came))


def test_a_head_inside_tls_is_told_with_the_bytes_that_came(serve_tls, trusted):
    error = late_of(serve_tls(sending(b"HTTP/1.")).url("/", "https"))
    assert (error.phase, error.received) == ("head", 7)


def test_a_handshake_of_websocket_is_told_with_the_bytes_that_came(serve):
    with pytest.raises(DeadlineError) as caught:
        session_to(serve(sending(b"HTTP/1.")))
    assert (caught.value.phase, caught.value.received) == ("head", 7)


def test_a_request_names_its_server_and_where_it_is(serve):
    server = serve(sending(b""))
    error = late_of(server.url("/api/tags?key=secret"), peer="Ollama")
    assert error.peer == f"Ollama at {server.url('')}"


def test_a_server_that_takes_no_connection_is_named_too():
    with black_hole() as port:
        error = late_of(f"http://127.0.0.1:{port}/", peer="Ollama")
    assert (error.peer, error.received) == (f"Ollama at http://127.0.0.1:{port}", 0)


def test_a_server_of_websocket_that_takes_no_connection_is_named_too():
    with black_hole() as port, pytest.raises(DeadlineError) as caught:
        websocket.open_session(f"ws://127.0.0.1:{port}/", budget=Budget(LIMIT), journal=Journal(), peer="Codex")
    assert (caught.value.peer, caught.value.received) == (f"Codex at ws://127.0.0.1:{port}", 0)


def test_a_handshake_names_its_server(serve):
    server = serve(sending(b""))
    with pytest.raises(DeadlineError) as caught:
        session_to(server, peer="Codex")
    assert caught.value.peer == f"Codex at {server.url('', 'ws')}"


def test_a_message_that_does_not_come_names_its_server(serve):
    server = serve(lambda peer: (peer.upgrade(), peer.send(frame(b"{}")), peer.hold()))
    with session_to(server, peer="Codex") as session:
        session.receive()
        with pytest.raises(DeadlineError) as caught:
            session.receive()
    assert caught.value.peer == f"Codex at {server.url('', 'ws')}"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://h", "http://h"),
        ("https://h:8/a/b?c=d#e", "https://h:8"),
        ("http://h?c=d", "http://h"),
        ("ws://[::1]:4500/", "ws://[::1]:4500"),
        ("http://user:pass@h:8/x@y", "http://h:8"),
        ("http://us@er:p@ss@h", "http://h"),
    ],
)
def test_no_credential_path_or_query_is_told_of_a_url(url, told):
    assert origin(url) == told
