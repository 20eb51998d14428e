"""The hostile server as a user has it: right until the fault's turn, one fault at a time, and nothing left of it."""

from __future__ import annotations

import contextlib
import json
import math
import re
import socket
import ssl
import threading

import pytest

from precheck_lib.simulate import HOSTILE, HOSTILE_FAULTS, HostileServer, Stage, hostile_named
from precheck_lib.simulate.hostile import Authority

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PLAIN = [fault.name for fault in HOSTILE if fault.layer not in ("tls", "secure")]


def talk(server: HostileServer, data: bytes = GET, *, enough: bytes = b"\r\n\r\n{}") -> bytes:
    """Send the data and read until the end, or until what is enough has come."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
        sock.sendall(data)
        seen = b""
        while enough not in seen and (part := sock.recv(65536)):
            seen += part
        return seen


def test_there_are_at_least_75_faults_each_with_a_name_and_a_sentence():
    names = [fault.name for fault in HOSTILE]
    assert len(names) == len(set(names)) >= 75
    for fault in HOSTILE:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9.]+)+", fault.name)
        assert re.fullmatch(r"[A-Z0-9:].*[.]", fault.description)


def test_a_fault_that_is_none_is_refused_with_what_may_have_been_meant():
    with pytest.raises(ValueError, match="no hostile fault 'http-drip-boddy'; did you mean http-drip-body"):
        HostileServer("http-drip-boddy")
    with pytest.raises(ValueError, match=f"no hostile fault 'nonsense'; .*--list` lists all {len(HOSTILE)}"):
        HostileServer("nonsense")
    assert hostile_named("tcp-fin").layer == "tcp"


@pytest.mark.parametrize(
    ("option", "value", "kind", "right"),
    [
        ("every", "abc", TypeError, "a number of seconds from 0 to 86400"),
        ("every", True, TypeError, "a number of seconds"),
        ("every", -0.1, ValueError, "a number of seconds"),
        ("every", math.nan, ValueError, "a number of seconds"),
        ("every", math.inf, ValueError, "a number of seconds"),
        ("after", "1", TypeError, "a whole number of at least 0"),
        ("after", 1.0, TypeError, "a whole number"),
        ("after", True, TypeError, "a whole number"),
        ("after", -1, ValueError, "a whole number of at least 0"),
        ("secure", "no", TypeError, "neither true nor false"),
        ("secure", 1, TypeError, "neither true nor false"),
        ("answer", b"{}", TypeError, "not a function"),
        ("reply", "{}", TypeError, "not a function"),
    ],
)
def test_an_option_that_cannot_be_is_refused_at_once_with_its_name_its_value_and_what_is_right(
    option, value, kind, right
):
    with pytest.raises(kind, match=f"^{re.escape(f'{option}={value!r}')} is .*{right}"):
        HostileServer("http-drip-body", **{option: value})


def test_an_option_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'evry'"):
        HostileServer("http-drip-body", evry=1)


@pytest.mark.parametrize("value", [0, 0.5, 86400])
def test_a_pause_can_be_any_number_of_seconds(value):
    with HostileServer("http-drip-body", every=value) as server:
        assert talk(server, enough=b"90000").startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("name", [fault.name for fault in HOSTILE if fault.name.startswith("ws-")])
def test_a_fault_of_websocket_answers_a_plain_get_right(name):
    with HostileServer(name) as server:
        assert talk(server).endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize("name", PLAIN)
def test_a_server_that_nobody_calls_goes_without_a_trace(name):
    # Its threads and sockets are counted after every test (tests/conftest.py), beside servers of other fixtures that
    # may begin and end a thread meanwhile.
    before = socket.getaddrinfo
    with HostileServer(name) as server:
        assert server.url.startswith("http://")
        assert server.ws_url.startswith("ws://")
    assert socket.getaddrinfo is before


def test_the_first_answers_are_right():
    with HostileServer("http-404", after=1, answer=lambda request: request.path.encode()) as server:
        assert talk(server, enough=b"\r\n\r\n/").startswith(b"HTTP/1.1 200 OK\r\n")
        assert talk(server, enough=b"\r\n\r\n/").startswith(b"HTTP/1.1 404 Not Found\r\n")


def test_the_right_answer_is_in_the_wrong_one():
    body = json.dumps({"models": [1]}).encode()
    with HostileServer("json-doubled-key", answer=lambda _: body) as server:
        assert talk(server, enough=b"}").endswith(b'{"models":null,"models": [1]}')


def test_a_server_with_tls_makes_its_own_certificates_where_none_are_given():
    with HostileServer("http-404", secure=True) as server:
        assert server.url.startswith("https://")
        assert server.ws_url.startswith("wss://")
        file = server.certificates.certificate
        context = ssl.create_default_context(cafile=str(file))
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock,
            context.wrap_socket(sock, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(GET)
            assert secure.recv(100).startswith(b"HTTP/1.1 404")
    assert not file.parent.exists()


def test_certificates_are_not_made_without_openssl(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="made with the openssl command, and it is not there"):
        Authority(tmp_path / "authority")


def test_what_openssl_says_against_it_is_told(tmp_path, monkeypatch):
    command = tmp_path / "openssl"
    command.write_text("#!/bin/sh\necho no entropy >&2\nexit 1\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(RuntimeError, match=r"openssl req failed: no entropy"):
        Authority(tmp_path / "authority")


def test_several_names_resolve_at_the_same_time_and_no_longer_than_their_servers():
    original = socket.getaddrinfo
    with HostileServer("name-doubled") as one, HostileServer("name-unknown") as other:
        assert len(socket.getaddrinfo(one.name, one.port)) == 100
        with pytest.raises(socket.gaierror):
            socket.getaddrinfo(other.name, other.port)
        assert socket.getaddrinfo("127.0.0.1", 1)[0][4] == ("127.0.0.1", 1)
    assert socket.getaddrinfo is original


def test_a_resolver_that_stalls_is_let_go_when_the_server_closes():
    ended = []

    def ask(server: HostileServer) -> None:
        try:
            socket.getaddrinfo(server.name, server.port)
        except socket.gaierror as error:
            ended.append(error.errno)

    with HostileServer("name-stalls") as server:
        thread = threading.Thread(target=ask, args=(server,))
        thread.start()
    thread.join(5)
    assert ended == [socket.EAI_NONAME]


def test_each_stand_in_can_do_every_fault_of_what_it_speaks():
    by_server = {fault.server for fault in HOSTILE_FAULTS}
    assert by_server == {"codex", "opencode", "ollama"}
    spoken = [fault for fault in HOSTILE if fault.layer not in ("name", "tcp", "tls", "secure")]
    http = [fault for fault in spoken if fault.layer in ("http", "json")]
    assert len(HOSTILE_FAULTS) == len(spoken) + len(http)


def test_a_stand_in_spoils_its_own_right_answer_at_the_step_that_is_named(tmp_path):
    options = {"opencode": {"at": "/config", "times": 1}}
    faults = {"opencode": "json-trailing"}
    with Stage(tmp_path, faults=faults, fault_options=options) as stage:
        seen = []
        for path in (b"/global/health", b"/config", b"/config"):
            with socket.create_connection(("127.0.0.1", stage.opencode.port), timeout=5) as sock:
                sock.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                data = b""
                with contextlib.suppress(TimeoutError):
                    while not data.endswith(b"}") and (part := sock.recv(65536)):
                        data += part
                seen.append(data.partition(b"\r\n\r\n")[2])
    assert [body.endswith(b"{}") for body in seen] == [False, True, False]
    assert seen[1] == seen[2] + b"{}"
