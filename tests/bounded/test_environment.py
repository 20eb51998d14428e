"""What proxies, netrc files and certificate variables of the environment do: nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.bounded import http, tls, websocket
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import CertificateError
from precheck_lib.simulate.hostile.frames import frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bounded.hostile import Hostile, Peer

PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WS_PROXY", "WSS_PROXY", "FTP_PROXY"]
AUTHORITIES = ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"]


def either(peer: Peer) -> None:
    """Answer a request as HTTP or as WebSocket, whichever it is."""
    head = peer.request()
    if b"Upgrade: websocket" in head:
        peer.send(peer.agreement(), frame(b"{}"))
        peer.hold()
    else:
        peer.answer(b"{}")


def ask(server: Hostile, scheme: str, **options: Any) -> bytes:
    if scheme in ("http", "https"):
        return http.send("GET", server.url("/", scheme), budget=Budget(5), journal=Journal(), **options).body
    with websocket.open_session(server.url("/", scheme), budget=Budget(5), journal=Journal(), **options) as session:
        return session.receive().encode()


@pytest.fixture
def serve_either(serve: Callable[..., Hostile], serve_tls: Callable[..., Hostile]) -> Callable[[str], Hostile]:
    return lambda scheme: (serve_tls if scheme in ("https", "wss") else serve)(either)


@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss"])
@pytest.mark.parametrize("no_proxy", ["", "example.org"])
def test_a_proxy_is_never_used(scheme, no_proxy, serve, serve_either, trusted, monkeypatch):
    proxy = serve(lambda peer: (peer.request(), peer.answer(b"proxied")))
    for name in PROXIES:
        monkeypatch.setenv(name, proxy.url())
        monkeypatch.setenv(name.lower(), proxy.url())
    monkeypatch.setenv("NO_PROXY", no_proxy)
    monkeypatch.setenv("no_proxy", no_proxy)
    assert ask(serve_either(scheme), scheme) == b"{}"
    assert proxy.connections == 0


@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("named", ["HOME", "NETRC"])
def test_a_netrc_file_adds_no_credentials_and_replaces_none(scheme, named, serve_either, tmp_path, monkeypatch):
    file = tmp_path / ".netrc"
    file.write_text("machine 127.0.0.1 login me password hush\ndefault login me password hush\n")
    file.chmod(0o600)
    monkeypatch.setenv(named, str(tmp_path if named == "HOME" else file))
    server = serve_either(scheme)
    ask(server, scheme)
    ask(server, scheme, headers={"Authorization": "Bearer mine"})
    server.wait_for_end(2)
    without, with_mine = server.requests
    assert b"uthorization" not in without
    assert with_mine.count(b"uthorization") == 1
    assert b"Authorization: Bearer mine" in with_mine


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_a_certificate_variable_makes_no_authority_trusted(scheme, serve_either, certificates, monkeypatch):
    for name in AUTHORITIES:
        monkeypatch.setenv(
            name, str(certificates.certificate.parent if name == "SSL_CERT_DIR" else certificates.certificate)
        )
    monkeypatch.setattr(tls, "context", tls.make_context)  # made anew, with these variables set
    with pytest.raises(CertificateError):
        ask(serve_either(scheme), scheme)


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_a_certificate_variable_that_leads_nowhere_breaks_nothing(scheme, serve_either, certificates, monkeypatch):
    for name in AUTHORITIES:
        monkeypatch.setenv(name, "/nonexistent")
    made = tls.make_context()
    assert len(made.get_ca_certs()) > 50
    made.load_verify_locations(certificates.certificate)
    monkeypatch.setattr(tls, "context", lambda: made)
    assert ask(serve_either(scheme), scheme) == b"{}"


def test_no_keys_are_logged(serve_either, trusted, tmp_path, monkeypatch):
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    ask(serve_either("https"), "https")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss"])
def test_an_empty_environment_is_enough(scheme, serve_either, trusted, monkeypatch):
    server = serve_either(scheme)
    for name in list(os.environ):
        monkeypatch.delenv(name)
    assert ask(server, scheme) == b"{}"
