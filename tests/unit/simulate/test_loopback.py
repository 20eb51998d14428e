from __future__ import annotations

import gc
import http.client
import os
import socket
import struct
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest

from precheck_lib.simulate.loopback import Connection, LoopbackServer
from precheck_lib.simulate.opencode import OpenCodeStandIn


class Holding(LoopbackServer):
    """Says `hello` and then nothing more."""

    def serve(self, connection: Connection) -> None:
        connection.send(b"hello")
        connection.hold()


class Dripping(LoopbackServer):
    def serve(self, connection: Connection) -> None:
        connection.drip(b"abc", 0.05)


class Glacial(LoopbackServer):
    def serve(self, connection: Connection) -> None:
        connection.drip(b"abc", 3600)


class Waiting(LoopbackServer):
    """Waits 0.2 s while the client talks, then says whether it stayed and what it had said."""

    def serve(self, connection: Connection) -> None:
        connection.send(b"stayed " if connection.stays(0.2) else b"gone ")
        connection.send(connection.read_exactly(4))


@pytest.fixture
def started(stack):
    def start(kind, **options):
        server = kind(**options)
        server.start()
        return stack.enter_context(server)

    return start


@pytest.fixture
def server():
    with OpenCodeStandIn({}) as standing:
        yield standing


def test_closing_ends_every_connection_and_thread_and_frees_the_port(line):
    holding = Holding()
    holding.start()
    lines = [line(holding.url) for _ in range(5)]
    assert [each.exactly(5) for each in lines] == [b"hello"] * 5
    begun = time.monotonic()
    holding.close()
    assert time.monotonic() - begun < 2
    assert [each.rest() for each in lines] == [b""] * 5
    assert [each.ended for each in holding.connections] == ["server"] * 5
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((holding.host, holding.port))


def test_closing_twice_or_before_it_was_started_does_no_harm():
    never = Holding()
    never.close()
    never.close()
    assert never.connections == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in /proc")
def test_no_file_descriptor_is_left_after_many_connections(line, ask):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with OpenCodeStandIn({}) as standing:
        for _ in range(20):
            assert ask(standing.url, "/global/health").status == 200
        open_line = line(standing.url)
        assert standing.wait_for(lambda: len(standing.connections) == 21, 5)
    open_line.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_port_that_is_bound_but_does_not_listen_refuses_and_is_nobody_elses(started):
    deaf = started(Holding, listen=False)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((deaf.host, deaf.port), timeout=2)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((deaf.host, deaf.port))


def test_the_asked_port_is_taken_and_a_taken_one_is_an_error(started):
    first = started(Holding)
    with pytest.raises(OSError, match="in use"):
        Holding(port=first.port)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_an_ipv6_address_stands_in_brackets_in_the_url(started):
    try:
        server = started(Holding, host="::1")
    except OSError:
        pytest.skip("no IPv6 loopback")
    assert server.url == f"tcp://[::1]:{server.port}"
    with socket.create_connection(("::1", server.port), timeout=5) as client:
        assert client.recv(5) == b"hello"


def test_a_client_that_closes_in_order_is_told_from_one_that_resets(started, line):
    holding = started(Holding)
    orderly, rude = line(holding.url), line(holding.url)
    assert orderly.exactly(5) + rude.exactly(5) == b"hellohello"
    rude.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    orderly.close()
    rude.close()
    assert holding.wait_for(lambda: all(each.ended for each in holding.connections), 5)
    assert sorted(each.ended for each in holding.connections) == ["fin", "rst"]


def test_a_probe_that_says_nothing_is_seen_as_a_connection_without_a_request(server, line):
    line(server.url).close()
    assert server.wait_for(lambda: [each.ended for each in server.connections] == ["fin"], 5)
    assert server.seen == []


def test_waiting_ends_with_the_event_and_not_with_the_timeout(started, line):
    holding = started(Holding)
    begun = time.monotonic()
    timer = threading.Timer(0.05, line, [holding.url])
    timer.start()
    assert holding.wait_for(lambda: holding.connections, 10)
    assert time.monotonic() - begun < 5
    timer.join()


def test_waiting_in_vain_is_false_after_the_timeout(started):
    holding = started(Holding)
    begun = time.monotonic()
    assert not holding.wait_for(lambda: holding.connections, 0.1)
    assert 0.1 <= time.monotonic() - begun < 2


def test_a_drip_comes_byte_by_byte(started, line):
    client = line(started(Dripping).url)
    begun = time.monotonic()
    assert client.exactly(1) == b"a"
    assert client.rest() == b"bc"
    assert time.monotonic() - begun >= 0.09


def test_a_drip_ends_at_once_when_the_client_goes(started, line):
    glacial = started(Glacial)
    client = line(glacial.url)
    assert client.exactly(1) == b"a"
    client.close()
    assert glacial.wait_for(lambda: glacial.connections[0].ended == "fin", 5)


def test_what_a_client_sends_during_a_wait_is_kept_for_the_next_read(started, line):
    client = line(started(Waiting).url)
    client.send(b"ab")
    client.send(b"cd")
    assert client.rest() == b"stayed abcd"


def test_one_connection_carries_many_requests_until_one_asks_to_close(server):
    parts = urlsplit(server.url)
    client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
    for _ in range(3):
        client.request("GET", "/global/health")
        assert client.getresponse().read().startswith(b'{"healthy":true')
    client.request("GET", "/global/health", headers={"Connection": "close"})
    assert client.getresponse().read() != b""
    assert server.wait_for(lambda: [each.ended for each in server.connections] == ["server"], 5)
    client.close()
    assert [each.path for each in server.seen] == ["/global/health"] * 4


def test_requests_sent_at_once_are_answered_in_turn(server, line):
    client = line(server.url)
    client.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz")
    client.send("GET /global/health HTTP/1.0\r\nHost: x\r\n\r\n")
    assert client.rest().count(b"HTTP/1.1 200 OK") == 3
    assert [(each.method, each.path, each.body) for each in server.seen] == [
        ("GET", "/a", b""),
        ("POST", "/b", b"xyz"),
        ("GET", "/global/health", b""),
    ]


def test_a_body_is_awaited_to_its_end(server, line):
    client = line(server.url)
    client.send("POST /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\nabc")
    client.send("def")
    assert client.rest().startswith(b"HTTP/1.1 200")
    assert server.seen[0].body == b"abcdef"


def test_what_was_seen_carries_lower_case_headers_and_the_time_of_arrival(server, ask):
    before = time.monotonic()
    ask(server.url, "/global/health?x=1", headers={"X-Case": "Kept Here"})
    (seen,) = server.seen
    assert seen.path == "/global/health?x=1"
    assert seen.headers["x-case"] == "Kept Here"
    assert before <= seen.at <= time.monotonic()


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\r\n\r\n",
        "GET / HTTP/2\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nName : x\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        "GET /" + "a" * 70000,
    ],
)
def test_what_is_no_plain_request_is_answered_400_and_dropped(server, line, text):
    client = line(server.url)
    client.send(text)
    assert client.until(b"\r\n").startswith(b"HTTP/1.1 400 ")
    assert server.wait_for(lambda: server.connections[0].ended == "server", 5)
    assert server.seen == []


def test_forty_clients_at_once_are_all_answered(server, line):
    clients = [line(server.url) for _ in range(40)]
    for client in clients:
        client.send("GET /global/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert all(client.rest().endswith(b'"version":"1.18.33"}') for client in clients)
    assert len(server.seen) == 40
