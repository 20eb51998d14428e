"""Every fault of the catalogue is put to work, and has to show on the wire."""

from __future__ import annotations

import contextlib
import json
import re

import pytest

from precheck_lib.simulate import FAULTS, Model, Stage, fault_named

PATIENCE = 0.25
# Where a fault would take longer to show than a test may.
QUICKLY = {
    ("opencode", "drip"): {"every": 5},
    ("ollama", "drip"): {"every": 5},
    ("ollama", "leaves-slowly"): {"seconds": 5},
    ("ollama", "comes-back-late"): {"seconds": 0},
}


def attempt(action):
    """What came of one step: its result, or the kind of its failure."""
    try:
        return action()
    except (OSError, EOFError) as error:
        return type(error).__name__


def frames(dial, url):
    """What a client of Codex sees up to the MCP answer, without what differs from run to run."""
    heard = []
    try:
        talk = dial(url, PATIENCE)
        heard.append(talk.head.partition("date:")[0])
        info = {"clientInfo": {"name": "codex_app_server_daemon", "version": "1"}}
        for number, (method, params) in enumerate(
            [("initialize", info), ("account/read", {}), ("mcpServerStatus/list", {"cursor": "1000000"})]
        ):
            talk.say({"id": number, "method": method, "params": params})
        for _ in range(5):
            opcode, payload = talk.hear()
            text = re.sub(rb'"(emittedAtMs|installationId)":("[^"]*"|\d+)', b"", payload)
            heard.append((opcode, re.sub(rb'"codexHome":"[^"]*codex-home"', b"", text, count=0)[:300]))
    except (OSError, EOFError) as error:
        heard.append(type(error).__name__)
    return heard


def pages(ask, server):
    paths = ("/global/health", "/experimental/capabilities", "/config", "/config/providers")
    return [attempt(lambda at=path: told(ask(server.url, at, timeout=PATIENCE))) for path in paths]


def cycle(ask, generate, server):
    """What a client of Ollama sees in one cycle of unload, load and a failed load's cleanup."""
    url = server.url
    steps = [
        lambda: ask(url, "/tags", timeout=PATIENCE),
        lambda: generate(url, "m", 0, timeout=PATIENCE),
        lambda: ask(url, "/ps", timeout=PATIENCE),
        lambda: generate(url, "m", "10m", timeout=PATIENCE),
        lambda: ask(url, "/ps", timeout=PATIENCE),
        lambda: ask(url, "/ps", timeout=PATIENCE),
        lambda: generate(url, "m", 0, timeout=PATIENCE),
        lambda: ask(url, "/ps", timeout=PATIENCE),
    ]
    return [attempt(lambda step=step: told(step())) for step in steps]


def told(answer):
    body = re.sub(rb'"(created_at|expires_at)":"[^"]*"', b"", answer.body[:4000])
    body = re.sub(rb"127.0.0.1:\d{4,}/v1", b"", body)
    return answer.status, answer.headers.get("content-type"), answer.headers.get("location"), len(answer.body) // 99, body


@pytest.fixture
def observe(tmp_path, dial, ask, generate):
    def look(server, name=None, options=None):
        faults = {server: name} if name else {}
        stage = Stage(
            tmp_path, models={"m": Model()}, faults=faults, fault_options={server: options} if options else {}
        )
        with stage:
            if server == "codex":
                return frames(dial, stage.codex.url)
            return pages(ask, stage.opencode) if server == "opencode" else cycle(ask, generate, stage.ollama)

    return look


@pytest.mark.parametrize("server", ["codex", "opencode", "ollama"])
def test_without_a_fault_two_runs_look_the_same(observe, server):
    assert observe(server) == observe(server)


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.server}={fault.name}" for fault in FAULTS])
def test_a_fault_shows_on_the_wire(observe, fault):
    options = QUICKLY.get((fault.server, fault.name))
    assert observe(fault.server, fault.name, options) != observe(fault.server)


def test_names_are_unique_for_each_server_and_each_is_described_in_a_sentence():
    assert len({(fault.server, fault.name) for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fault.name)
        assert re.fullmatch(r"[A-Z].*[^.]\.", fault.description), fault.name
        assert fault.where
        json.dumps(dict(fault.options))


def test_an_unknown_fault_or_option_is_an_error_that_names_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"codex has no fault 'nope'; it has refuse, accept-and-silence"):
        fault_named("codex", "nope")
    with pytest.raises(ValueError, match=r"ollama fault 'on-cpu' has no option nope; it has model"):
        Stage(tmp_path, faults={"ollama": "on-cpu"}, fault_options={"ollama": {"nope": 1}})
    with pytest.raises(ValueError, match="no server redis"):
        Stage(tmp_path, faults={"redis": "refuse"})


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
