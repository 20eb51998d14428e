"""`net.connect`, `resolve` and `call_bounded`: addresses share a budget, names cannot hold the run, FIN and not RST."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.bounded import net, thread
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.resolve import literal, resolve
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import Cancelled, ConnectError, DeadlineError, ResolveError, TransportError
from tests.bounded.hostile import black_hole, closed_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 0.3


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let every look-up of a name wait until the event is set; it is set after the test."""
    answered = threading.Event()

    def getaddrinfo(*_: object, **__: object) -> list[Any]:
        answered.wait(10)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield answered
    answered.set()


def resolving_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    def getaddrinfo(_: str, port: int, **__: object) -> list[Any]:
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (host, port, 0, 0))
            if ":" in host
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))
            for host in hosts
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def failing(error: BaseException) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> Any:
        raise error

    return call


# Resolving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("127.0.0.1", [(socket.AF_INET, ("127.0.0.1", 80))]),
        ("::1", [(socket.AF_INET6, ("::1", 80, 0, 0))]),
        ("fe80::1%3", [(socket.AF_INET6, ("fe80::1", 80, 0, 3))]),
        ("fe80::1%lo", [(socket.AF_INET6, ("fe80::1", 80, 0, socket.if_nametoindex("lo")))]),
        *[
            (name, [(socket.AF_INET, ("127.0.0.1", 80)), (socket.AF_INET6, ("::1", 80, 0, 0))])
            for name in ("localhost", "LOCALHOST", "localhost.")
        ],
    ],
)
def test_literals_and_localhost_never_reach_the_resolver(host, addresses, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", failing(AssertionError("the resolver was asked")))
    assert resolve(host, 80, Budget(5)) == addresses


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.256", "1.2.3", "::g", "fe80::1%no-such-interface", "a\0b", ""]
)
def test_what_is_no_literal_is_a_name(host):
    assert literal(host, 80) is None


def test_a_name_has_its_addresses_in_order_and_once(monkeypatch):
    resolving_to(monkeypatch, "127.0.0.2", "::1", "127.0.0.2")
    assert [address[0] for _, address in resolve("server.test", 80, Budget(5))] == ["127.0.0.2", "::1"]


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        UnicodeError("label too long"),
        ValueError("embedded null byte"),
    ],
)
def test_a_name_that_is_not_known_is_an_error_of_resolving(error, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", failing(error))
    with pytest.raises(ResolveError, match=r"^the name 'server\.test' could not be resolved: ") as caught:
        resolve("server.test", 80, Budget(5))
    assert (caught.value.phase, caught.value.curl) == ("resolve", 6)


def test_a_name_without_addresses_is_an_error_of_resolving(monkeypatch):
    resolving_to(monkeypatch)
    with pytest.raises(ResolveError, match="has no address"):
        resolve("server.test", 80, Budget(5))


def test_a_resolver_that_does_not_answer_is_left_behind_in_time(stalled, ends_within):
    with ends_within(LIMIT), pytest.raises(DeadlineError) as caught:
        net.connect("server.test", 80, Budget(LIMIT))
    assert (caught.value.phase, caught.value.curl) == ("resolve", 28)
    (left,) = [one for one in threading.enumerate() if one.name == "precheck-resolve"]
    assert left.daemon, "it must not hold the interpreter"


# Calls in threads ---------------------------------------------------------------------------------------------------


def test_a_call_returns_its_value_or_raises_its_error():
    assert call_bounded(lambda: 5, budget=Budget(5), phase="folder") == 5
    assert call_bounded(lambda: None, budget=Budget(5), phase="folder") is None
    with pytest.raises(KeyError, match="x"):
        call_bounded(lambda: {}["x"], budget=Budget(5), phase="folder")
    with pytest.raises(SystemExit):
        call_bounded(failing(SystemExit(3)), budget=Budget(5), phase="folder")


def test_a_late_answer_writes_to_no_descriptor_of_others(ends_within):
    may_end = threading.Event()
    with ends_within(0.1), pytest.raises(DeadlineError):
        call_bounded(may_end.wait, budget=Budget(0.1), phase="folder")
    read, write = os.pipe()  # has the numbers that were the call's
    try:
        (late,) = [one for one in threading.enumerate() if one.name == "precheck-folder"]
        may_end.set()
        late.join(5)
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
    finally:
        os.close(read)
        os.close(write)


def test_no_more_than_eight_calls_are_left_without_an_answer(ends_within):
    may_end = threading.Event()
    for _ in range(8):
        with pytest.raises(DeadlineError):
            call_bounded(may_end.wait, budget=Budget(0.01), phase="folder")
    with ends_within(0.0), pytest.raises(DeadlineError):
        call_bounded(lambda: 5, budget=Budget(30), phase="folder")
    may_end.set()
    for left in [one for one in threading.enumerate() if one.name == "precheck-folder"]:
        left.join(5)
    assert call_bounded(lambda: 5, budget=Budget(5), phase="folder") == 5


def test_calls_that_are_still_waited_for_do_not_keep_others_from_being_made():
    may_end = threading.Event()
    began = threading.Semaphore(0)

    def wait():
        began.release()
        return may_end.wait()

    callers = [
        threading.Thread(target=call_bounded, args=[wait], kwargs={"budget": Budget(30), "phase": "folder"})
        for _ in range(20)
    ]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert began.acquire(timeout=10)
    try:
        assert call_bounded(lambda: 5, budget=Budget(5), phase="folder") == 5
    finally:
        may_end.set()
        for caller in callers:
            caller.join(10)


@pytest.mark.parametrize("broken", ["thread", "pipe"])
def test_a_call_that_never_began_does_not_count_as_one_without_an_answer(broken, monkeypatch):
    with monkeypatch.context() as patch:
        if broken == "thread":
            patch.setattr(threading.Thread, "start", failing(RuntimeError("can't start new thread")))
        else:
            patch.setattr(thread.os, "pipe", failing(OSError(errno.EMFILE, "Too many open files")))
        for _ in range(thread.MOST_OUTSTANDING + 1):
            with pytest.raises(TransportError, match=r"^no thread could be started: ") as caught:
                call_bounded(lambda: 5, budget=Budget(5), phase="folder")
            assert not isinstance(caught.value, DeadlineError)
    assert call_bounded(lambda: 5, budget=Budget(5), phase="folder") == 5


def test_a_signal_ends_the_wait_for_a_call_at_once(cancel, ends_within):
    may_end = threading.Event()
    timer = threading.Timer(0.05, cancel.set, [2])
    timer.start()
    with ends_within(0.05, overrun=0.15), pytest.raises(Cancelled):
        call_bounded(may_end.wait, budget=Budget(30, cancel=cancel), phase="folder")
    timer.join()
    may_end.set()


# Connecting ---------------------------------------------------------------------------------------------------------


def test_localhost_is_found_on_either_address(serve):
    for host in ("127.0.0.1", "::1"):
        server = serve(lambda peer: peer.hold(), host=host)
        net.close_orderly(net.connect("localhost", server.port, Budget(5)))
        assert server.wait_for_end() == ["fin"]


def test_an_address_that_refuses_is_passed_over_for_the_next(serve, monkeypatch):
    resolving_to(monkeypatch, "::1", "127.0.0.1")
    server = serve(lambda peer: peer.hold())
    net.close_orderly(net.connect("server.test", server.port, Budget(5)))
    assert server.wait_for_end() == ["fin"]


def test_an_address_that_drops_everything_takes_its_share_and_no_more(serve, monkeypatch, ends_within):
    resolving_to(monkeypatch, "127.0.0.2", "::1")
    with black_hole() as port:
        server = serve(lambda peer: peer.hold(), host="::1", port=port)
        with ends_within(LIMIT / 2):
            net.close_orderly(net.connect("server.test", port, Budget(LIMIT)))
        assert server.wait_for_end() == ["fin"]


def test_five_addresses_that_drop_everything_share_the_budget(monkeypatch, ends_within):
    resolving_to(monkeypatch, *(f"127.0.0.{number}" for number in range(2, 7)))
    with black_hole() as port, ends_within(LIMIT), pytest.raises(DeadlineError) as caught:
        net.connect("server.test", port, Budget(LIMIT))
    assert (caught.value.phase, caught.value.seconds, str(caught.value)) == (
        "connect",
        LIMIT,
        "deadline of 0.3 s elapsed",
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_port_on_which_nobody_listens_refuses_at_once(host, ends_within):
    with ends_within(0.0), pytest.raises(ConnectError, match="Connection refused") as caught:
        net.connect(host, closed_port(), Budget(30))
    assert (caught.value.phase, caught.value.curl) == ("connect", 7)


def test_a_machine_without_a_way_to_the_address_is_an_error_of_connecting():
    with pytest.raises(ConnectError) as caught:
        net.connect("255.255.255.255", 80, Budget(5))
    assert caught.value.curl == 7


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_beyond_all_ports_is_an_error_of_connecting(port):
    with pytest.raises(ConnectError, match="Cannot assign requested address"):
        net.connect("127.0.0.1", port, Budget(5))


def test_a_machine_without_descriptors_is_an_error_of_connecting(monkeypatch):
    monkeypatch.setattr(net, "BudgetSocket", failing(OSError(errno.EMFILE, "Too many open files")))
    with pytest.raises(ConnectError, match="Too many open files"):
        net.connect("127.0.0.1", 80, Budget(5))


def test_a_socket_that_was_connected_with_itself_is_nobody(monkeypatch):
    # The system may give our end the very port that is called. Here it is made to.
    connect_ex = net.BudgetSocket.connect_ex

    def from_there(self: net.BudgetSocket, address: Any) -> int:
        self.bind(address)
        return connect_ex(self, address)

    monkeypatch.setattr(net.BudgetSocket, "connect_ex", from_there)
    for host in ("127.0.0.1", "0:0::1"):
        with pytest.raises(ConnectError, match="Connection refused"):
            net.connect(host, closed_port(), Budget(5))


def test_a_signal_ends_connecting_at_once(cancel, ends_within):
    timer = threading.Timer(0.05, cancel.set, [2])
    with black_hole() as port:
        timer.start()
        with ends_within(0.05, overrun=0.15), pytest.raises(Cancelled):
            net.connect("127.0.0.1", port, Budget(30, cancel=cancel))
    timer.join()


def test_a_signal_between_connecting_and_waiting_closes_the_socket(cancel, monkeypatch):
    made: list[net.BudgetSocket] = []
    connect_ex = net.BudgetSocket.connect_ex

    def interrupted(self: net.BudgetSocket, address: Any) -> int:
        made.append(self)
        number = connect_ex(self, address)
        cancel.set(2)
        return number

    monkeypatch.setattr(net.BudgetSocket, "connect_ex", interrupted)
    with black_hole() as port, pytest.raises(Cancelled):
        net.connect("127.0.0.1", port, Budget(30, cancel=cancel))
    assert [sock.fileno() for sock in made] == [-1]


def test_a_library_cannot_give_the_socket_a_timeout_of_its_own(serve):
    server = serve(lambda peer: peer.hold())
    sock = net.connect("127.0.0.1", server.port, Budget(5))
    sock.settimeout(60)
    sock.setblocking(True)
    assert (sock.gettimeout(), os.get_blocking(sock.fileno())) == (0.0, False)
    sock.close()


# Closing ------------------------------------------------------------------------------------------------------------


def test_a_close_is_fin(serve):
    server = serve(lambda peer: peer.watch_close())
    net.close_orderly(net.connect("127.0.0.1", server.port, Budget(5)))
    assert server.wait_for_end() == ["fin"]


@pytest.mark.parametrize("seconds", [1, 0], ids=["with-time-left", "at-the-very-end"])
def test_a_close_is_fin_although_the_server_has_greeted(seconds, serve):
    greeted = threading.Event()
    server = serve(lambda peer: (peer.send(b"220 hello\r\n" * 1000), greeted.set(), peer.watch_close()))
    sock = net.connect("127.0.0.1", server.port, Budget(5))
    greeted.wait(5)
    time.sleep(0.02)
    sock.budget.cut(seconds)
    net.close_orderly(sock)
    assert server.wait_for_end() == ["fin"]


def test_a_close_waits_for_no_server_that_goes_on_talking(serve, ends_within):
    server = serve(lambda peer: peer.flood(b"x"))
    sock = net.connect("127.0.0.1", server.port, Budget(30))
    with ends_within(0.0, flood=True):
        net.close_orderly(sock)
    assert sock.fileno() == -1


def test_a_close_of_what_the_server_has_reset_already_is_quiet(serve):
    connected = threading.Event()
    server = serve(lambda peer: (connected.wait(5), peer.reset()))
    sock = net.connect("127.0.0.1", server.port, Budget(5))
    connected.set()
    server.wait_for_end()
    net.close_orderly(sock)
    assert sock.fileno() == -1


def test_a_connection_the_server_reset_while_it_was_made_is_closed(serve):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = net.connect("127.0.0.1", listener.getsockname()[1], Budget(5))
        accepted, _ = listener.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with pytest.raises(TransportError):
            sock.recv(1)
        net.close_orderly(sock)
