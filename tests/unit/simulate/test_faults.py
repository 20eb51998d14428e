"""Every fault of the catalogue is put to work, and has to show on the wire."""

from __future__ import annotations

import contextlib
import http.client
import json
import re

import pytest

from precheck_lib.simulate import (
    FAULTS,
    HOSTILE_FAULTS,
    OPENAI_FAULTS,
    Model,
    OpenAiStandIn,
    Seen,
    Stage,
    fault_named,
)
from precheck_lib.simulate.codex_rpc import _STRUCTS
from precheck_lib.simulate.options import STEPS, check

GENERATES = ({"model": "m"}, {"model": "m", "keep_alive": 0}, {"model": "m", "prompt": "Hi"})
OPENAI_PATHS = ("/v1/models", "/v1/chat/completions", "/v1/completions", "/health", "/props")
# How long a client waits for a stand-in that has a fault, and for one that has none.
SHORT, LONG = 0.2, 5.0
# Where a fault would take longer to show than a test may, or would hold every step in turn.
QUICKLY = {
    ("opencode", "drip"): {"every": 5, "at": "/config"},
    ("opencode", "silence"): {"at": "/config"},
    ("ollama", "drip"): {"every": 5, "at": "ps", "times": 1},
    ("ollama", "silence"): {"at": "load"},
    ("ollama", "leaves-slowly"): {"seconds": 5},
    ("ollama", "comes-back-late"): {"seconds": 0},
}


def attempt(action):
    """What came of one step: its answer without what differs from run to run, or the kind of its failure."""
    try:
        answer = action()
    except (OSError, EOFError, http.client.HTTPException) as error:
        return type(error).__name__
    body = re.sub(rb'"(created_at|expires_at)":"[^"]*"', b"", answer.body[:9000])
    body = re.sub(rb"127.0.0.1:\d{4,}/v1", b"", body)
    return answer.status, [answer.headers.get(name) for name in ("content-type", "location")], body


def frames(dial, stage, patience):
    """What a client of Codex sees up to the MCP answer."""
    heard = []
    info = {"clientInfo": {"name": "codex_app_server_daemon", "version": "1"}}
    calls = [("initialize", info), ("account/read", {}), ("mcpServerStatus/list", {"cursor": "1000000"})]
    try:
        talk = dial(stage.codex.url, patience)
        heard.append(talk.head.partition("date:")[0])
        for number, (method, params) in enumerate(calls):
            talk.say({"id": number, "method": method, "params": params})
        for _ in range(5):
            opcode, payload = talk.hear()
            payload = re.sub(rb'"(emittedAtMs|installationId)":("[^"]*"|\d+)', b"", payload[:4000])
            heard.append((opcode, payload.replace(stage.codex.home.encode(), b"HOME")))
    except (OSError, EOFError) as error:
        heard.append(type(error).__name__)
    return heard


def pages(ask, stage, patience):
    paths = ("/global/health", "/experimental/capabilities", "/config", "/config/providers")
    return [attempt(lambda at=path: ask(stage.opencode.url, at, timeout=patience)) for path in paths]


def cycle(ask, generate, stage, patience):
    """What a client of Ollama sees in one cycle, and after another unload."""
    url = stage.ollama.url
    steps = ["tags", 0, "ps", "10m", "ps", "ps", 0, "ps"]
    return [
        attempt(
            lambda step=step: (
                ask(url, f"/{step}", timeout=patience)
                if step in ("tags", "ps")
                else generate(url, "m", step, timeout=patience)
            )
        )
        for step in steps
    ]


@pytest.fixture
def observe(tmp_path, dial, ask, generate):
    def look(server, name=None, options=None):
        patience = SHORT if name else LONG
        faults, given = ({server: name}, {server: options or {}}) if name else ({}, {})
        with Stage(tmp_path, models={"m": Model()}, faults=faults, fault_options=given) as stage:
            if server == "codex":
                return frames(dial, stage, patience)
            if server == "opencode":
                return pages(ask, stage, patience)
            return cycle(ask, generate, stage, patience)

    return look


@pytest.fixture(scope="module")
def healthy():
    """What was seen without a fault, by server: looked at once."""
    return {}


@pytest.mark.parametrize("server", ["codex", "opencode", "ollama"])
def test_without_a_fault_two_runs_look_the_same(observe, server):
    assert observe(server) == observe(server)


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.server}={fault.name}" for fault in FAULTS])
def test_a_fault_shows_on_the_wire(observe, healthy, fault):
    if fault.server not in healthy:
        healthy[fault.server] = observe(fault.server)
    options = QUICKLY.get((fault.server, fault.name))
    assert observe(fault.server, fault.name, options) != healthy[fault.server]


def test_names_are_unique_for_each_server_and_each_is_described_in_a_sentence():
    assert len({(fault.server, fault.name) for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fault.name)
        assert re.fullmatch(r"[A-Z].*[^.]\.", fault.description), fault.name
        assert fault.where
        json.dumps(dict(fault.options))


def test_an_unknown_fault_is_an_error_that_says_what_may_have_been_meant():
    with pytest.raises(ValueError, match=r"codex has no fault 'frame-drop'; did you mean frame-drip"):
        fault_named("codex", "frame-drop")
    with pytest.raises(ValueError, match=r"codex has no fault 'nope'; `.* --list codex` lists what it has"):
        fault_named("codex", "nope")


def test_an_unknown_option_is_an_error_that_names_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"ollama fault 'on-cpu' has no option nope; it has model"):
        Stage(tmp_path, faults={"ollama": "on-cpu"}, fault_options={"ollama": {"nope": 1}})


def test_an_unknown_server_is_an_error_that_names_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="no server olama in it; it has codex, opencode, ollama; did you mean ollama"):
        Stage(tmp_path, faults={"olama": "refuse"})


def test_the_defaults_of_every_fault_are_options_that_it_takes():
    for fault in FAULTS + HOSTILE_FAULTS + OPENAI_FAULTS:
        check(fault, fault.options)


@pytest.mark.parametrize("server", ["codex", "opencode", "ollama", "openai"])
def test_every_step_that_can_be_named_is_one_that_the_server_tells_of_a_request(tmp_path, server):
    with Stage(tmp_path) as stage, OpenAiStandIn() as openai:
        asked = {
            "codex": [],
            "opencode": [("GET", step, b"") for step in STEPS["opencode"]],
            "ollama": [
                *(("GET", f"/api/{step}", b"") for step in ("version", "tags", "ps", "show")),
                *(("POST", "/api/generate", json.dumps(body).encode()) for body in GENERATES),
                ("GET", "/", b""),
            ],
            "openai": [("GET", path, b"") for path in OPENAI_PATHS],
        }[server]
        stand_in = {"codex": stage.codex, "opencode": stage.opencode, "ollama": stage.ollama, "openai": openai}[server]
        told = {stand_in.step(Seen(method, path, {}, body, 0.0)) for method, path, body in asked}
        told |= set(_STRUCTS) if server == "codex" else set()
    assert told == set(STEPS[server])


def test_options_of_the_catalogue_are_not_changed_by_a_stand_in(tmp_path):
    before = json.dumps([dict(fault.options) for fault in FAULTS])
    with Stage(tmp_path, faults={"ollama": "on-cpu"}, fault_options={"ollama": {"model": "qwen3:8b"}}):
        pass
    assert json.dumps([dict(fault.options) for fault in FAULTS]) == before


def test_a_fault_can_let_some_pass_and_act_a_number_of_times(stack, ask, tmp_path):
    options = {"opencode": {"at": "/config", "skip": 1, "times": 2, "status": 502, "body": ""}}
    stage = stack.enter_context(Stage(tmp_path, faults={"opencode": "status"}, fault_options=options))
    assert ask(stage.opencode.url, "/global/health").status == 200
    assert [ask(stage.opencode.url, "/config").status for _ in range(4)] == [200, 502, 502, 200]


def test_answers_that_change_places_are_still_right(stack, dial, tmp_path):
    stage = stack.enter_context(Stage(tmp_path, faults={"codex": "out-of-order"}))
    talk = dial(stage.codex.url)
    talk.initialize()
    talk.say({"id": 1, "method": "account/read", "params": {}})
    talk.say({"id": 2, "method": "mcpServerStatus/list", "params": {"cursor": "1000000"}})
    messages = [json.loads(talk.text()) for _ in range(8)]
    answers = [message["id"] for message in messages if message.get("id") in (1, 2) and "method" not in message]
    assert answers == [2, 1]
    assert {"id": 1, "method": "item/tool/requestUserInput", "params": {}} in messages
    assert talk.call(3, "account/read", {})["result"]["account"] == {"type": "apiKey"}


def test_an_error_answer_can_be_put_on_another_call_and_be_given_once(stack, dial, tmp_path):
    options = {"codex": {"at": "mcpServerStatus/list", "message": "no idea", "times": 1}}
    stage = stack.enter_context(Stage(tmp_path, faults={"codex": "error-answer"}, fault_options=options))
    talk = dial(stage.codex.url)
    talk.initialize()
    assert "result" in talk.call(1, "account/read", {})
    error = talk.call(2, "mcpServerStatus/list", {"cursor": "1000000"})
    assert error == {"error": {"code": -32600, "message": "no idea"}, "id": 2}
    assert talk.call(3, "mcpServerStatus/list", {})["result"] == {"data": [], "nextCursor": None}


def test_a_connection_is_dropped_in_the_midst_with_or_without_a_reset(stack, dial, tmp_path):
    for reset, ends in ((False, EOFError), (True, ConnectionResetError)):
        options = {"codex": {"reset": reset}}
        stage = Stage(tmp_path, faults={"codex": "closes-mid-exchange"}, fault_options=options)
        with stage:
            talk = dial(stage.codex.url)
            talk.initialize()
            with pytest.raises(ends):
                talk.call(1, "account/read", {})


def test_a_hanging_stand_in_can_be_closed_at_once(tmp_path, line):
    with contextlib.ExitStack() as opened:
        for server, name in (("codex", "accept-and-silence"), ("opencode", "silence"), ("ollama", "silence")):
            stage = opened.enter_context(Stage(tmp_path, faults={server: name}))
            target = {"codex": stage.codex, "opencode": stage.opencode, "ollama": stage.ollama}[server]
            line(target.url).send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert target.wait_for(lambda target=target: target.connections, 5)
            stage.close()
            assert [each.ended for each in target.connections] == ["server"]
