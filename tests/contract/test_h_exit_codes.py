"""H4: the strict spec ends with curl's exit codes and says so; a spec that does not ask for them ends with 1 or 3."""

from __future__ import annotations

import contextlib
import re
import socket

import pytest

from tests.contract.harness import (
    BRIEF,
    Family,
    Scripted,
    SelfSigned,
    full_listener,
    open_stage,
    run_precheck,
    write_strict,
)


def _at_opencode(fault, **options):
    return lambda make_stage, stack: (
        make_stage(faults={"opencode": fault}, fault_options={"opencode": options}).environment
    )


def _url(role, url):
    """Give roles that lead elsewhere; `url` makes the URL, and what has to be closed goes to the stack."""

    def prepare(make_stage, stack):
        return {**make_stage().environment, role: url(stack)}

    return prepare


def _self_signed(stack):
    return stack.enter_context(SelfSigned()).url


def _plain_for_tls(stack):
    def talk(connection):
        connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    return stack.enter_context(Scripted(talk)).url.replace("http", "https")


def _closing_in_the_handshake(stack):
    def talk(connection):
        connection.read_exactly(1)

    return stack.enter_context(Scripted(talk)).url.replace("http", "https")


def _cut_in_a_chunk(stack):
    def talk(connection):
        connection.read_until(b"\r\n\r\n", 65536)
        connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{"
        )

    return stack.enter_context(Scripted(talk)).url


def _cut_in_the_head(stack):
    def talk(connection):
        connection.read_until(b"\r\n\r\n", 65536)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-")

    return stack.enter_context(Scripted(talk)).url


def _no_http(stack):
    def talk(connection):
        connection.read_until(b"\r\n\r\n", 65536)
        connection.send(b"SSH-2.0-OpenSSH_9.9\r\n")

    return stack.enter_context(Scripted(talk)).url


def _full(stack):
    return f"http://{stack.enter_context(full_listener())}"


def _deaf(make_stage, stack):
    """A request larger than any buffer, to a server that resets the connection before it has taken all of it."""

    def talk(connection):
        connection.read_exactly(1000)
        connection.reset()

    server = stack.enter_context(Scripted(talk))
    # A small segment size and a small window keep the system from taking the whole request off the sender's hands.
    server._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    server._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    pair = {"TEST_OPENCODE_USERNAME": "u" * 120_000, "TEST_OPENCODE_PASSWORD": "p" * 120_000}
    return {**make_stage().environment, "TEST_OPENCODE_URL": server.url, **pair}


CODES = {
    # what happens: how to bring it about, curl's code, the word
    "6-not-resolved": (_url("TEST_OPENCODE_URL", lambda _: f"http://{'a' * 64}.invalid"), 6, "error"),
    "7-refused": (_at_opencode("refuse"), 7, "error"),
    "18-cut-short": (_at_opencode("cut-short"), 18, "error"),
    "18-cut-in-a-chunk": (_url("TEST_OPENCODE_URL", _cut_in_a_chunk), 18, "error"),
    "22-status-500": (_at_opencode("status", status=500), 22, "error"),
    "22-status-401": (_at_opencode("unauthorized"), 22, "failed"),
    "28-silence": (_at_opencode("silence"), 28, "error"),
    "28-connect": (_url("TEST_OPENCODE_URL", _full), 28, "error"),
    "35-no-tls": (_url("TEST_OPENCODE_URL", _plain_for_tls), 35, "error"),
    "35-closed-in-the-handshake": (_url("TEST_OPENCODE_URL", _closing_in_the_handshake), 35, "error"),
    "52-empty-reply": (_at_opencode("empty-reply"), 52, "error"),
    "55-send": (_deaf, 55, "error"),
    "56-reset": (_at_opencode("reset"), 56, "error"),
    "56-cut-in-the-head": (_url("TEST_OPENCODE_URL", _cut_in_the_head), 56, "error"),
    "60-certificate": (_url("TEST_OPENCODE_URL", _self_signed), 60, "error"),
    "63-too-large": (_at_opencode("huge"), 63, "error"),
    "1-not-json": (_at_opencode("not-json"), 1, "failed"),
    "1-web-page": (_at_opencode("html-200"), 1, "failed"),
    "1-redirect": (_at_opencode("redirect"), 1, "failed"),
    "1-no-http": (_url("TEST_OPENCODE_URL", _no_http), 1, "error"),
}


def _run(prepare, place, spec):
    with contextlib.ExitStack() as stack:
        return run_precheck(prepare(lambda **more: stack.enter_context(open_stage(place, **more)), stack), spec=spec)


@pytest.fixture(scope="module")
def strict_ends(request, tmp_path_factory):
    """The strict run of each fault."""
    place = tmp_path_factory.mktemp("strict")
    small, brief = write_strict(place / "small"), write_strict(place / "brief", BRIEF)

    def run(name):
        return _run(CODES[name][0], place / name, brief if name.startswith("28") else small)

    function = "test_a_fault_of_transport_has_curls_exit_code_and_says_it"
    return Family(request, function, CODES, run)


@pytest.mark.parametrize("name", CODES)
def test_a_fault_of_transport_has_curls_exit_code_and_says_it(name, strict_ends):
    _, code, word = CODES[name]
    ended = strict_ends[name]
    assert ended.code == code, ended
    assert ended.blockers == ["opencode-health"]
    assert ended.words["opencode-health"] == word
    assert re.findall(r"curl: \((\d+)\)", ended.err) == ([str(code)] if code != 1 else [])


PLAIN = {
    "7-refused": 3,
    "28-silence": 3,
    "22-status-500": 3,
    "63-too-large": 3,
    "1-no-http": 3,
    "22-status-401": 1,
    "1-not-json": 1,
}


@pytest.fixture(scope="module")
def plain_ends(request, tmp_path_factory):
    """The run of each fault with a spec that does not ask for curl's exit codes."""
    place = tmp_path_factory.mktemp("plain")
    small, brief = (write_strict(place / f"{len(change)}", change, exit_codes=None) for change in ({}, BRIEF))

    def run(name):
        return _run(CODES[name][0], place / name, brief if name.startswith("28") else small)

    function = "test_a_spec_that_does_not_ask_for_them_ends_with_1_or_3"
    return Family(request, function, PLAIN, run)


@pytest.mark.parametrize("name", PLAIN)
def test_a_spec_that_does_not_ask_for_them_ends_with_1_or_3(name, plain_ends):
    ended = plain_ends[name]
    assert ended.code == PLAIN[name], ended
    assert ended.words["opencode-health"] == CODES[name][2]
    assert "curl" not in ended.err


RESIDENCY = {
    "removal-deadline": ("never-leaves", 28, 1),
    "refused-load": ("load-500", 22, 1),
    "refused-unload": ("unload-500", 22, 1),
    "inventory-500": ("ps-500-with-body", 22, 3),
    "lost-load": ("load-drops-connection", 52, 3),
    "hanging-load": ("load-hangs", 28, 3),
}


@pytest.fixture(scope="module")
def cycle_ends(request, tmp_path_factory):
    """The strict and the plain run of each fault of a cycle."""
    place = tmp_path_factory.mktemp("cycle")
    changes = {"residency": {"removal": "500ms", "load": "500ms"}}
    specs = [write_strict(place / codes, changes, exit_codes=codes) for codes in ("curl", "plain")]

    def run(name):
        ended = []
        for spec in specs:
            with open_stage(place / name, faults={"ollama": RESIDENCY[name][0]}) as stage:
                ended.append(run_precheck(stage, spec=spec))
        return ended

    return Family(request, "test_the_steps_of_a_cycle_have_their_codes_too", RESIDENCY, run)


@pytest.mark.parametrize("name", RESIDENCY)
def test_the_steps_of_a_cycle_have_their_codes_too(name, cycle_ends):
    _, code, plain_code = RESIDENCY[name]
    strict, plain = cycle_ends[name]
    assert (strict.code, plain.code) == (code, plain_code), (strict, plain)
    for ended in (strict, plain):
        assert ended.blockers == ["residency"]
        assert ended.words["residency"] == ("failed" if plain_code == 1 else "error")
    assert f"curl: ({code})" in strict.err
    assert "curl" not in plain.err


WEBSOCKET = {
    "refused": ("refuse", {}, 7),
    "silence": ("accept-and-silence", {}, 28),
    "403": ("handshake-403", {}, 22),
    "reset": ("closes-mid-exchange", {"reset": True}, 56),
    "closed": ("closes-mid-exchange", {"reset": False}, 56),
    "too-large": ("frame-huge", {}, 63),
}


@pytest.fixture(scope="module")
def websocket_ends(request, tmp_path_factory):
    """The run of each fault of the WebSocket exchange."""
    place = tmp_path_factory.mktemp("websocket")
    small, brief = write_strict(place / "small"), write_strict(place / "brief", BRIEF)

    def run(name):
        fault, options, _ = WEBSOCKET[name]
        with open_stage(place / name, faults={"codex": fault}, fault_options={"codex": options}) as stage:
            return run_precheck(stage, spec=brief if name == "silence" else small)

    return Family(request, "test_the_websocket_exchange_has_curls_exit_codes_too", WEBSOCKET, run)


@pytest.mark.parametrize("name", WEBSOCKET)
def test_the_websocket_exchange_has_curls_exit_codes_too(name, websocket_ends):
    code = WEBSOCKET[name][2]
    ended = websocket_ends[name]
    assert ended.code == code, ended
    assert f"curl: ({code})" in ended.err
