"""TLS over the bounded socket: handshakes that stall or fail, ends without an end, noise inside the connection."""

from __future__ import annotations

import functools
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.bounded import http, net, tls, websocket
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.bounded.tls import BudgetTlsSocket
from precheck_lib.errors import (
    Cancelled,
    CertificateError,
    DeadlineError,
    ReceiveError,
    TlsError,
    TransportError,
    TruncatedError,
)
from precheck_lib.simulate.hostile.frames import frame
from tests.bounded.hostile import at_the_same_time, over_tls

if TYPE_CHECKING:
    from tests.bounded.hostile import Hostile, Peer

LIMIT = 0.3


def ask(server: Hostile, *, budget: Budget | None = None, host: str = "", **options: Any) -> http.Answer:
    options.setdefault("connect_seconds", 5)
    options.setdefault("total_seconds", 30)
    url = f"https://{host or server.host}:{server.port}/"
    return http.send(options.pop("method", "GET"), url, budget=budget or Budget(30), journal=Journal(), **options)


def cut(peer: Peer) -> None:
    """Close TCP without the closing alert of TLS."""
    peer.sock.shutdown(socket.SHUT_RDWR)


def end(peer: Peer) -> None:
    """Close TLS as it should be closed."""
    peer.sock.unwrap().close()


FAILED = {
    "wrong version number": lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "unexpected eof while reading": lambda peer: None,
    "Connection reset by peer": lambda peer: peer.reset(),
    "alert handshake failure": lambda peer: peer.send(b"\x15\x03\x03\x00\x02\x02\x28"),
}


@pytest.mark.parametrize("said", FAILED)
def test_a_handshake_that_fails_says_why(said, serve):
    server = serve(lambda peer: (peer.sock.recv(4096), FAILED[said](peer)))
    with pytest.raises(TlsError, match=f"the TLS handshake failed: .*{said}"):
        ask(server)


def test_a_certificate_of_an_unknown_authority_is_refused(serve_tls):
    server = serve_tls(lambda peer: peer.hold())
    with pytest.raises(CertificateError, match="unable to get local issuer certificate") as caught:
        ask(server)
    assert (caught.value.phase, caught.value.curl) == ("tls", 60)


def test_a_certificate_that_has_expired_is_refused(serve, certificates, trusted):
    server = serve(over_tls(certificates.context("expired"), lambda peer: peer.hold()))
    with pytest.raises(CertificateError, match="certificate has expired") as caught:
        ask(server)
    assert caught.value.curl == 60


def test_a_certificate_for_another_name_is_refused(serve_tls, trusted):
    server = serve_tls(lambda peer: peer.hold(), host="127.0.0.2")
    with pytest.raises(CertificateError, match=r"certificate is not valid for '127\.0\.0\.2'") as caught:
        ask(server)
    assert caught.value.curl == 60


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "localhost."])
def test_a_trusted_server_is_answered_by_address_and_by_name(host, serve_tls, trusted):
    address = "::1" if "::" in host else "127.0.0.1"
    server = serve_tls(lambda peer: (peer.request(), peer.answer(b"{}"), end(peer)), host=address)
    assert ask(server, host=host).body == b"{}"


def test_a_name_with_a_dot_at_its_end_is_the_name_in_the_certificate(serve_tls, trusted):
    server = serve_tls(lambda peer: (peer.upgrade(), peer.send(frame(b"hello")), peer.hold()))
    url = f"wss://localhost.:{server.port}/"
    with websocket.open_session(url, budget=Budget(5), journal=Journal()) as session:
        assert session.receive() == "hello"


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"], ids=["silent", "greeting"])
def test_a_server_that_has_gone_before_tls_begins_is_an_error_of_tls(sent, serve, monkeypatch):
    # `ssl` asks such a socket for what the server left behind, before we could give it its budget.
    server = serve(lambda peer: (peer.send(sent), peer.pause(0.02), peer.reset()))
    made: list[socket.socket] = []

    def connect(*arguments: Any) -> net.BudgetSocket:
        sock = net_connect(*arguments)
        server.wait_for_end()
        time.sleep(0.02)
        return sock

    def create(*arguments: Any, **options: Any) -> BudgetTlsSocket:
        sock = socket_new(*arguments, **options)
        made.append(sock)
        return sock

    net_connect, socket_new = net.connect, BudgetTlsSocket.__new__
    monkeypatch.setattr(net, "connect", connect)
    monkeypatch.setattr(BudgetTlsSocket, "__new__", create)
    with pytest.raises(TlsError) as caught:
        ask(server)
    assert (caught.value.phase, caught.value.curl) == ("tls", 35)
    assert [sock.fileno() for sock in made] == [-1]


HEAD = b"HTTP/1.1 200 OK\r\n"


def noise(peer: Peer) -> None:
    """Send bytes in the clear on a connection that is encrypted."""
    with socket.socket(fileno=socket.dup(peer.sock.fileno())) as plain:
        plain.sendall(b"\x17\x03\x03\x00\x20" + b"noise that has not been encrypted")


def test_noise_inside_tls_is_told_in_words_of_tls(serve_tls, trusted):
    server = serve_tls(lambda peer: (peer.request(), peer.send(HEAD), peer.pause(0.02), noise(peer)))
    with pytest.raises(ReceiveError, match="the connection broke: ") as caught:
        ask(server)
    assert "Operation not permitted" not in str(caught.value), "a number of OpenSSL's is none of the system's"


def test_a_body_that_only_the_end_delimits_needs_the_closing_alert(serve_tls, trusted):
    server = serve_tls(lambda peer: (peer.request(), peer.send(HEAD, b"\r\n{}"), cut(peer)))
    with pytest.raises(TruncatedError, match="without its closing alert"):
        ask(server)


def test_a_reset_inside_tls_is_no_answer(serve_tls, trusted, ends_within):
    head = HEAD + b"Content-Length: 9\r\n\r\n{}"
    server = serve_tls(lambda peer: (peer.request(), peer.send(head), peer.pause(0.05), peer.reset()))
    with ends_within(0.1), pytest.raises(TransportError) as caught:
        ask(server)
    # `ssl` calls it an end of the stream in some versions of Python and a reset in others.
    assert (caught.value.phase, caught.value.curl in (18, 56)) == ("body", True)


@pytest.mark.parametrize(
    "script",
    [
        lambda peer: (peer.send(HEAD, b"Content-Length: 2\r\n\r\n{}"), cut(peer)),
        lambda peer: (peer.send(HEAD, b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), cut(peer)),
        lambda peer: (peer.send(b"HTTP/1.0 200 OK\r\n\r\n{}"), end(peer)),
    ],
    ids=["a-length", "chunks", "the-closing-alert"],
)
def test_what_says_where_it_ends_needs_no_closing_alert(script, serve_tls, trusted):
    server = serve_tls(lambda peer: (peer.request(), script(peer)))
    assert ask(server).body == b"{}"


def test_what_openssl_has_decrypted_already_is_not_waited_for(serve_tls, trusted, ends_within):
    # One record of 16 KiB: `poll` sees nothing more of it once its first bytes have been read.
    body = b"x" * 16000
    server = serve_tls(lambda peer: (peer.request(), peer.answer(body), peer.hold()))
    with ends_within(0.1):
        assert ask(server).body == body


def test_a_server_that_wants_a_certificate_of_ours_says_so_after_the_handshake(serve, certificates, trusted):
    context = certificates.context("wants-ours")

    def refuse(peer: Peer) -> None:
        peer.sock = context.wrap_socket(peer.sock, server_side=True, do_handshake_on_connect=False)
        with pytest.raises(ssl.SSLError):
            peer.sock.do_handshake()
        peer.pause(0.1)

    with pytest.raises(ReceiveError, match="certificate required") as caught:
        ask(serve(refuse))
    assert caught.value.curl == 56


def test_a_request_that_the_server_does_not_read_ends_in_time(serve_tls, trusted, ends_within):
    server = serve_tls(lambda peer: peer.pause(5))
    with ends_within(LIMIT), pytest.raises(DeadlineError) as caught:
        ask(server, method="POST", body=b"x" * (16 << 20), total_seconds=LIMIT)
    assert caught.value.phase == "send"


def test_a_large_request_arrives_whole(serve_tls, trusted):
    seen: list[int] = []
    body = b"0123456789abcdef" * (64 << 10)

    def script(peer: Peer) -> None:
        seen.append(peer.request().count(b"0123456789abcdef"))
        peer.answer(b"{}")

    assert ask(serve_tls(script), method="POST", body=body).body == b"{}"
    assert seen == [64 << 10]


def test_a_session_that_is_cut_is_an_error_of_receiving(serve_tls, trusted):
    server = serve_tls(lambda peer: (peer.upgrade(), cut(peer)))
    session = websocket.open_session(server.url("/", "wss"), budget=Budget(5), journal=Journal())
    with session, pytest.raises(ReceiveError) as caught:
        session.receive()
    assert (caught.value.phase, caught.value.curl) == ("frame", 56)


def test_a_session_inside_tls_says_goodbye_with_fin(serve_tls, trusted):
    server = serve_tls(lambda peer: (peer.upgrade(), peer.send(frame(b"unread") * 100), peer.hold()))
    with websocket.open_session(server.url("/", "wss"), budget=Budget(5), journal=Journal()):
        pass
    assert server.wait_for_end() == ["fin"]


def test_a_signal_ends_the_handshake_at_once(serve, cancel, ends_within):
    server = serve(lambda peer: (cancel.set(2), peer.hold()))
    with ends_within(0.0), pytest.raises(Cancelled):
        ask(server, budget=Budget(30, cancel=cancel), connect_seconds=10)


def test_the_context_is_made_once_and_verifies(monkeypatch):
    monkeypatch.setattr(tls, "_shared", functools.cache(tls.make_context))
    made: list[ssl.SSLContext] = []
    at_the_same_time({str(number): lambda: made.append(tls.context()) for number in range(4)})
    context = tls.context()
    assert made == [context] * 4
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_broken_store_of_the_system_takes_nothing_from_the_other_roots(tmp_path, monkeypatch):
    (tmp_path / "empty.pem").touch()
    paths = ssl.get_default_verify_paths()._replace(openssl_cafile=str(tmp_path / "empty.pem"), openssl_capath="/none")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    assert len(tls.make_context().get_ca_certs()) > 50
