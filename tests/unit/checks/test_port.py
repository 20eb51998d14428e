"""Ports: who listens is named with all that can be seen, and what cannot be seen is never called free."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from precheck_lib.checks import listeners, look
from precheck_lib.checks.listeners import Listener, Listeners
from precheck_lib.checks.look import Seen
from precheck_lib.errors import ConnectError, DeadlineError

SERVER = """\
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""
USER = look.user_name(os.geteuid())


@pytest.fixture
def listening():
    """A socket of this process that listens on a port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free():
    """A port on which nobody listens: it is bound, so that nobody else can get it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def server():
    """Start another process that listens, with these variables in its environment; returns its pid and its port."""
    started = []

    def start(**env):
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **env},
        )
        started.append(process)
        return process.pid, int(process.stdout.readline())

    yield start
    for process in started:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def table(monkeypatch):
    """Replace the table of sockets."""

    def replace(*found, complete=True):
        monkeypatch.setattr(listeners, "listeners_on", lambda _: Listeners(found=list(found), complete=complete))

    return replace


@pytest.fixture
def answers(monkeypatch):
    """Replace what a connection comes to: `None` is taken, else the error."""
    from precheck_lib.bounded import net

    asked = []

    def replace(outcome):
        def connect(host, port, budget):
            asked.append(host)
            if outcome is not None:
                raise outcome
            return SimpleNamespace()

        monkeypatch.setattr(net, "connect", connect)
        monkeypatch.setattr(net, "close_orderly", lambda _: None)
        return asked

    return replace


REFUSED = ConnectError("refused", phase="connect")
LATE = DeadlineError("deadline of 1 s elapsed", phase="connect", seconds=1)


# Real ones ------------------------------------------------------------------------------------------------------------


def test_a_port_that_is_listened_on_passes_and_a_free_one_is_closed(checker, listening, free):
    assert checker.passes("port", {"port": listening}) == []
    assert checker.said("port", {"port": free}) == ("failed", [("port.closed", f"nobody listens on port {free}")])


def test_a_port_that_nobody_listens_on_is_free_also_where_it_is_bound(checker, free):
    assert checker.passes("port", {"port": free, "state": "free"}) == []


def test_who_holds_a_port_is_named_with_all_that_can_be_seen(checker, server):
    pid, port = server(RUNNER_TRACKING_ID="github_0b5e", GITHUB_RUN_ID="4711", API_KEY="hunter2")
    error = checker.error("port", {"port": port, "state": "free"}, env={"RUNNER_TRACKING_ID": "github_1"})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("failed", "port.taken")
    name, executable = psutil.Process(pid).name(), psutil.Process(pid).exe()
    begin = f"port {port} is held by pid {pid} ({name}, user {USER}, {executable}, "
    assert finding.message.startswith(begin)
    assert " UTC, 0 s ago) on 127.0.0.1" in finding.message.replace(" 1 s ago", " 0 s ago")
    assert finding.evidence == "it was started by another job (RUNNER_TRACKING_ID github_0b5e, run 4711)"
    assert "hunter2" not in finding.message + finding.evidence


def test_what_this_job_has_started_itself_is_said_to_be_its_own(checker, server):
    _, port = server(RUNNER_TRACKING_ID="github_1")
    error = checker.error("port", {"port": port, "state": "free"}, env={"RUNNER_TRACKING_ID": "github_1"})
    assert error.findings[0].evidence == "it was started by this job (RUNNER_TRACKING_ID github_1)"


def test_an_id_of_a_job_that_does_not_look_like_one_is_not_shown(checker, server):
    _, port = server(RUNNER_TRACKING_ID="x\n::error::y", GITHUB_RUN_ID="")
    error = checker.error("port", {"port": port, "state": "free"})
    assert error.findings[0].evidence == ""


def test_the_right_listener_passes_by_name_user_and_executable(checker, server):
    pid, port = server()
    process = psutil.Process(pid)
    for executable in (process.exe(), sys.executable, os.path.basename(process.exe())):
        options = {"port": port, "process": process.name(), "user": USER, "executable": executable}
        assert checker.passes("port", options) == []
    assert checker.passes("port", {"port": port, "user": str(os.geteuid())}) == []


def test_another_listener_is_said_with_both_values_of_all_that_differs(checker, server):
    pid, port = server()
    options = {"port": port, "process": "ollama", "user": "nobody-else", "executable": "/opt/ollama"}
    error = checker.error("port", options)
    (finding,) = error.findings
    process = psutil.Process(pid)
    assert (error.word, finding.code) == ("failed", "port.owner")
    assert finding.message == (
        f"port {port} is listened on by another: process {process.name()}, not ollama; user {USER}, not nobody-else; "
        f"executable {process.exe()}, not /opt/ollama"
    )
    assert finding.evidence.startswith(f"pid {pid} (")


def test_a_server_of_another_job_that_answers_is_a_warning(checker, server):
    _, port = server(RUNNER_TRACKING_ID="github_0b5e")
    (finding,) = checker.passes("port", {"port": port}, env={"RUNNER_TRACKING_ID": "github_1"})
    assert (finding.code, finding.severity) == ("port.other-job", "warning")
    assert finding.evidence == "it was started by another job (RUNNER_TRACKING_ID github_0b5e)"
    for env in ({"RUNNER_TRACKING_ID": "github_0b5e"}, {}):
        assert checker.passes("port", {"port": port}, env=env) == []


def test_only_the_address_that_was_asked_for_counts(checker, listening):
    assert checker.passes("port", {"port": listening, "host": "127.0.0.1"}) == []
    assert checker.passes("port", {"port": listening, "host": "localhost"}) == []
    assert checker.passes("port", {"port": listening, "host": "127.0.0.2", "state": "free"}) == []
    error = checker.error("port", {"port": listening, "host": "${HOST}"}, env={"HOST": "127.0.0.2"})
    assert error.findings[0].message == f"nobody listens on port {listening} of 127.0.0.2"
    assert error.findings[0].evidence.startswith("there listens pid ")
    # Who wants all addresses is kept from it by whoever has one.
    assert checker.error("port", {"port": listening, "host": "0.0.0.0", "state": "free"}).word == "failed"
    assert checker.error("port", {"port": listening, "host": "0.0.0.0"}).word == "failed"


def test_a_listener_on_all_addresses_is_on_each_of_them(checker):
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0"):
            assert checker.passes("port", {"port": port, "host": host}) == [], host
            assert checker.error("port", {"port": port, "host": host, "state": "free"}).word == "failed"


@pytest.mark.skipif(sys.platform != "linux", reason="the table of sockets as Linux has it")
def test_the_kernel_tells_everybody_whose_a_socket_is(listening):
    assert listeners._users(listening) == {ipaddress.ip_address("127.0.0.1"): os.geteuid()}
    with socket.socket(socket.AF_INET6) as server:
        server.bind(("::1", 0))
        server.listen()
        assert listeners._users(server.getsockname()[1]) == {ipaddress.ip_address("::1"): os.geteuid()}


# What cannot be seen --------------------------------------------------------------------------------------------------


@pytest.fixture
def hidden(monkeypatch, listening):
    """What Linux shows to others than root of a process that is somebody else's: a row without a pid."""
    real = psutil.net_connections

    def without_pid(kind):
        return [row._replace(pid=None) for row in real(kind)]

    monkeypatch.setattr(psutil, "net_connections", without_pid)
    monkeypatch.setattr(listeners, "_users", lambda _: {ipaddress.ip_address("127.0.0.1"): 4242})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return listening


def test_a_hidden_process_holds_its_port_all_the_same(checker, hidden):
    error = checker.error("port", {"port": hidden, "state": "free"})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("failed", "port.taken")
    assert finding.message == (
        f"port {hidden} is held by a process that cannot be seen (pid unknown, user 4242) on 127.0.0.1"
    )
    assert "CAP_SYS_PTRACE" in finding.evidence


def test_a_hidden_process_is_known_by_its_user_and_by_nothing_else(checker, hidden):
    assert checker.passes("port", {"port": hidden}) == []
    assert checker.passes("port", {"port": hidden, "user": "4242"}) == []
    error = checker.error("port", {"port": hidden, "user": "4242", "process": "ollama", "executable": "/x"})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("error", "port.unknown")
    assert finding.message == f"port {hidden} is listened on, but its process and executable cannot be seen"
    assert "CAP_SYS_PTRACE" in finding.evidence
    # The wrong user is wrong whatever else is hidden.
    word, ((code, message),) = checker.said("port", {"port": hidden, "user": "ollama", "process": "ollama"})
    assert (word, code) == ("failed", "port.owner")
    assert message == f"port {hidden} is listened on by another: user 4242, not ollama"


def test_what_is_hidden_from_root_is_not_hidden_for_lack_of_a_right(checker, hidden, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    error = checker.error("port", {"port": hidden, "process": "ollama"})
    assert "it runs in a container, in another namespace, or in the kernel" in error.findings[0].evidence


@pytest.fixture
def denied(monkeypatch):
    """What macOS says to others than root: nothing of the whole, and of each process only what is its own."""

    def refuse(kind):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    monkeypatch.setattr(psutil, "process_iter", lambda: [psutil.Process()])


def test_where_the_whole_is_denied_ones_own_listeners_are_found(checker, denied, listening):
    assert checker.passes("port", {"port": listening, "user": USER}) == []
    assert checker.error("port", {"port": listening, "state": "free"}).word == "failed"


def test_where_the_whole_is_denied_nothing_is_called_free(checker, denied, free, answers):
    answers(REFUSED)
    for state in ("free", "listening"):
        error = checker.error("port", {"port": free, "state": state})
        (finding,) = error.findings
        assert (error.word, finding.code) == ("error", "port.unknown")
        assert "other users' sockets cannot be seen" in finding.message
        assert "root" in finding.remedy


def test_a_port_that_takes_connections_is_not_free_whatever_the_table_says(checker, table, answers):
    table()
    asked = answers(None)
    error = checker.error("port", {"port": 8000, "state": "free"})
    (finding,) = error.findings
    assert (error.word, finding.code) == ("failed", "port.taken")
    assert finding.message == (
        "port 8000 is held by something that cannot be seen from here: 127.0.0.1 takes connections"
    )
    assert "container" in finding.evidence
    assert asked == ["127.0.0.1", "::1"]


def test_a_port_that_only_answers_is_listened_on_by_nobody_knows_whom(checker, table, answers):
    table()
    answers(None)
    assert checker.passes("port", {"port": 8000}) == []
    error = checker.error("port", {"port": 8000, "process": "docker-proxy"})
    assert (error.word, error.findings[0].code) == ("error", "port.unknown")
    assert error.findings[0].message == ("port 8000 is answered at 127.0.0.1, but who listens cannot be seen from here")


def test_a_port_that_neither_takes_nor_refuses_is_not_called_free(checker, table, answers):
    table()
    answers(LATE)
    error = checker.error("port", {"port": 8000, "state": "free"})
    assert (error.word, error.findings[0].code) == ("error", "port.unknown")
    assert checker.said("port", {"port": 8000})[0] == "failed"


def test_no_connection_is_made_where_the_table_shows_who_listens(checker, table, answers):
    asked = answers(REFUSED)
    table(Listener(address="0.0.0.0", process=Seen(pid=1, name="ollama")))
    assert checker.passes("port", {"port": 8000, "process": "ollama"}) == []
    assert checker.error("port", {"port": 8000, "state": "free"}).word == "failed"
    assert asked == []


def test_the_address_that_was_asked_for_is_called(checker, table, answers):
    table()
    asked = answers(REFUSED)
    checker.passes("port", {"port": 8000, "host": "[::1]", "state": "free"})
    checker.passes("port", {"port": 8000, "host": "::", "state": "free"})
    assert asked == ["::1", "127.0.0.1", "::1"]


def test_every_listener_has_to_be_the_right_one(checker, table):
    right = Listener(address="127.0.0.1", process=Seen(pid=1, name="ollama"))
    wrong = Listener(address="::1", process=Seen(pid=2, name="other"))
    unseen = Listener(address="10.0.0.1")
    table(right, wrong, unseen)
    error = checker.error("port", {"port": 8000, "process": "ollama"})
    assert (error.word, [finding.code for finding in error.findings]) == ("failed", ["port.owner", "port.unknown"])
    assert len(checker.error("port", {"port": 8000, "state": "free"}).findings) == 3
    table(right, unseen)
    assert checker.error("port", {"port": 8000, "process": "ollama"}).word == "error"


def test_a_proxy_of_containers_says_how_to_find_the_container(checker, table):
    table(Listener(address="0.0.0.0", process=Seen(pid=1, name="docker-proxy", user="root", uid=0)))
    (finding,) = checker.error("port", {"port": 8000, "state": "free"}).findings
    assert finding.evidence == "it listens for a container, which `docker ps --filter publish=8000` names"


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file", "/proc/net/tcp"), RuntimeError("odd")])
def test_a_table_that_cannot_be_read_is_no_verdict(checker, monkeypatch, error):
    def fail(kind):
        raise error

    monkeypatch.setattr(psutil, "net_connections", fail)
    for state in ("free", "listening"):
        ended = checker.error("port", {"port": 8000, "state": state})
        assert (ended.word, ended.findings[0].code) == ("error", "port.unknown")


def test_a_table_that_does_not_come_back_is_given_up(checker, monkeypatch, hangs):
    monkeypatch.setattr(psutil, "net_connections", hangs)
    began = time.monotonic()
    error = checker.error("port", {"port": 8000, "state": "free"}, seconds=0.1)
    assert time.monotonic() - began < 2
    assert (error.word, error.curl, error.findings[0].code) == ("error", 28, "port.deadline")


def test_a_process_that_has_ended_by_then_is_one_that_cannot_be_seen(monkeypatch, listening):
    def gone(pid):
        raise psutil.NoSuchProcess(pid)

    monkeypatch.setattr(psutil, "Process", gone)
    found = listeners.listeners_on(listening)
    assert [one.process for one in found.found] == [None]


# Addresses and names --------------------------------------------------------------------------------------------------


def test_addresses_are_the_same_however_they_are_written():
    assert listeners._decoded("0100007F") == ipaddress.ip_address("127.0.0.1")
    assert listeners._decoded("00000000000000000000000001000000") == ipaddress.ip_address("::1")
    assert listeners._decoded("0000000000000000FFFF00000100007F") == ipaddress.ip_address("127.0.0.1")
    assert listeners.address_of("fe80::1%eth0") == ipaddress.ip_address("fe80::1")


def test_a_listener_on_all_addresses_of_a_family_is_on_those_and_one_on_all_of_ipv6_on_ipv4_too():
    one, other = ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")
    found = {
        address: [listeners.is_on(Listener(address=address), host) for host in (one, other)]
        for address in ("0.0.0.0", "::", "127.0.0.1", "::1", "10.0.0.1")
    }
    assert found == {
        "0.0.0.0": [True, False],
        "::": [True, True],
        "127.0.0.1": [True, False],
        "::1": [False, True],
        "10.0.0.1": [False, False],
    }


def test_a_stranger_cannot_write_into_a_message():
    seen = Seen(pid=7, name="a\n::error::b", executable="/x\x1b[31m", user="u", container="container 0123 (docker)")
    assert str(seen) == "pid 7 ('a\\n::error::b', user u, '/x', in container 0123 (docker))"
    assert str(Seen(pid=7)) == "pid 7 (name not visible)"


def test_a_container_is_seen_by_the_control_group_of_its_process():
    digest = "0123456789ab" + "0" * 52
    for line in (f"0::/system.slice/docker-{digest}.scope", f"4:memory:/docker/{digest}"):
        assert look._CONTAINER.search(line).groups() == ("docker", "0123456789ab")
    assert look._CONTAINER.search("0::/user.slice/user-1000.slice") is None


def test_ages_are_said_as_people_say_them():
    ages = [look.age(seconds) for seconds in (-5, 0, 119, 120, 7199, 7200, 172799, 172800)]
    assert ages == ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]
    assert look.since(0.0, 10800.0) == "since 1970-01-01 00:00:00 UTC, 3 h ago"


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": 0}, "port: 0 is not a port (1 to 65535)"),
        ({"port": 65536}, "port: 65536 is not a port (1 to 65535)"),
        (
            {"port": 1, "host": "gpu.example"},
            "host: 'gpu.example' is not an address; write one of this machine's, or localhost",
        ),
        (
            {"port": 1, "state": "free", "user": "root"},
            "state: free says that nobody may listen; user says who has to",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(checker, options, said):
    assert checker.refused("port", options) == [said]


def test_a_plan_says_what_has_to_be(checker):
    assert checker.planned("port", {"port": 80, "host": "::1", "process": "ollama", "user": "o"}) == [
        (
            "look at who listens on port 80 of ::1, and connect where nobody is seen: "
            "somebody has to listen (process ollama, user o)"
        )
    ]
    assert checker.planned("port", {"port": 80, "state": "free"}) == [
        "look at who listens on port 80, and connect where nobody is seen: nobody may listen"
    ]
