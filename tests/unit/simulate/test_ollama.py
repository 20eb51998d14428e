from __future__ import annotations

import json
import re
import time

import pytest

from precheck_lib.simulate import INVALID_INVENTORIES, Model, OllamaStandIn
from precheck_lib.simulate.ollama_models import FOREVER, canonical, seconds_of

QWEN = "qwen3:8b"
LOAD = {"model": QWEN, "prompt": "", "stream": False, "keep_alive": "10m"}


@pytest.fixture
def ollama(stack):
    def start(models=None, **options):
        models = {QWEN: Model(size=100, context_length=65536)} if models is None else models
        return stack.enter_context(OllamaStandIn(models, **options))

    return start


@pytest.fixture
def rows(ask):
    return lambda server: ask(server.url, "/ps").json["models"]


def post(body):
    """A whole generate request as text, for a connection of one's own."""
    data = json.dumps(body)
    return f"POST /api/generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n{data}"


def test_the_bodies_of_a_cycle_are_the_ones_of_the_source(ollama, ask, generate):
    server = ollama()
    assert ask(server.url, "/ps").body == b'{"models":[]}'
    for keep_alive, reason in ((0, "unload"), ("10m", "load")):
        answer = generate(server.url, "Qwen3:8B", keep_alive)
        pattern = (
            r'\{"model":"Qwen3:8B","created_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",'
            rf'"response":"","done":true,"done_reason":"{reason}"\}}'
        )
        assert re.fullmatch(pattern, answer.body.decode())
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
    (row,) = ask(server.url, "/ps").json["models"]
    assert list(row) == [
        "name",
        "model",
        "size",
        "digest",
        "details",
        "expires_at",
        "size_vram",
        "context_length",
    ]
    assert (row["name"], row["size"], row["size_vram"], row["context_length"]) == (QWEN, 100, 100, 65536)


def test_tags_and_inventory_agree_on_name_and_digest(ollama, ask, generate, rows):
    server = ollama({"Me/Foo": Model(), "registry.ollama.ai/library/Bar": Model(digest="b" * 64)})
    tags = {row["name"]: row["digest"] for row in ask(server.url, "/tags").json["models"]}
    assert list(tags) == ["Me/Foo:latest", "Bar:latest"]
    generate(server.url, "me/foo", "10m")
    generate(server.url, "library/bar:latest", "10m")
    assert {row["name"]: row["digest"] for row in rows(server)} == tags
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in tags.values())


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("llama3.2", "llama3.2:latest"),
        ("registry.ollama.ai/library/llama3.2:1b", "llama3.2:1b"),
        ("REGISTRY.ollama.ai/library/x", "x:latest"),
        ("library/x", "x:latest"),
        ("me/foo", "me/foo:latest"),
        ("hf.co/u/R-GGUF:Q4_K_M", "hf.co/u/R-GGUF:Q4_K_M"),
        ("localhost:5000/u/x", "localhost:5000/u/x:latest"),
    ],
)
def test_a_name_is_shown_in_its_shortest_form(name, shown):
    assert canonical(name) == shown


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, 300),
        (0, 0),
        (1.5, 1.5),
        (-1, FOREVER),
        ("10m", 600),
        ("0", 0),
        ("0s", 0),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("100ms", 0.1),
        ("-1m", FOREVER),
    ],
)
def test_keep_alive_is_read_as_go_does(ollama, ask, generate, given, seconds):
    if given is not None:
        assert seconds_of(given) == pytest.approx(seconds)
    server = ollama()
    server_said = generate(server.url, QWEN, given).json["done_reason"]
    assert server_said == ("unload" if given is not None and seconds == 0 else "load")


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 400, "missing request body"),
        ({**LOAD, "keep_alive": "600"}, 400, 'time: missing unit in duration "600"'),
        ({**LOAD, "keep_alive": "-1"}, 400, 'time: missing unit in duration "-1"'),
        ({**LOAD, "keep_alive": "soon"}, 400, 'time: invalid duration "soon"'),
        ({**LOAD, "keep_alive": True}, 400, "Unsupported type: 'bool'"),
        ({**LOAD, "model": "foo:bar:baz/"}, 400, "invalid model name"),
        ({**LOAD, "model": ""}, 404, "model '' not found"),
        ({**LOAD, "model": "Nope"}, 404, "model 'Nope' not found"),
        ({**LOAD, "model": "Nope", "keep_alive": 0}, 404, "model 'Nope' not found"),
        ({**LOAD, "model": "embed"}, 400, '"embed" does not support generate'),
    ],
)
def test_a_bad_request_is_told_in_the_servers_words(ollama, ask, body, status, text):
    server = ollama({QWEN: Model(), "embed": Model(capabilities=("embedding",))})
    answer = ask(server.url, "/generate", "POST", body)
    assert (answer.status, answer.json) == (status, {"error": text})
    assert server.resident == []


def test_an_embedding_model_can_be_unloaded_all_the_same(ollama, generate):
    server = ollama({"embed": Model(capabilities=("embedding",))}, preloaded=["embed"])
    assert generate(server.url, "embed", 0).json["done_reason"] == "unload"
    assert server.resident == []


def test_a_cloud_model_is_marked_and_cannot_be_loaded(ollama, ask, generate):
    server = ollama({"gpt": Model(remote_host="https://ollama.com:443")})
    (row,) = ask(server.url, "/tags").json["models"]
    assert (row["remote_host"], row["remote_model"]) == ("https://ollama.com:443", "gpt:latest")
    assert generate(server.url, "gpt", "10m").status == 401


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/version", 200, b'{"version":"0.32.15"}'),
        ("HEAD", "/version", 200, b""),
        ("GET", "/nope", 404, b"404 page not found"),
        ("POST", "/ps", 405, b"405 method not allowed"),
        ("HEAD", "/ps", 405, b""),
        ("GET", "/generate", 405, b"405 method not allowed"),
        ("GET", "/tags/", 301, b""),
        ("POST", "/generate/", 307, b""),
    ],
)
def test_other_routes_and_methods_are_answered_as_gin_does(ollama, ask, method, path, status, body):
    answer = ask(ollama().url, path, method)
    assert (answer.status, answer.body) == (status, body)


def test_the_root_says_that_it_runs(ollama, ask):
    assert ask(ollama().url.removesuffix("/api"), "/").body == b"Ollama is running"


def test_an_unload_of_what_is_not_there_is_answered_as_any_other(ollama, generate):
    server = ollama()
    assert generate(server.url, QWEN, 0).json["done_reason"] == "unload"
    assert server.state() == {}


def test_an_unloaded_row_stays_for_its_time_and_then_goes(ollama, generate, rows):
    server = ollama({QWEN: Model(unload_seconds=0.4)}, preloaded=[QWEN])
    assert generate(server.url, QWEN, 0).status == 200
    assert [row["name"] for row in rows(server)] == [QWEN]
    assert server.state() == {QWEN: "unloading"}
    assert server.wait_for(lambda: server.resident == [], 5)
    assert rows(server) == []


def test_a_load_that_meets_an_unloading_row_is_told_load_and_the_row_still_goes(ollama, generate):
    server = ollama({QWEN: Model(unload_seconds=0.4)}, preloaded=[QWEN])
    generate(server.url, QWEN, 0)
    assert generate(server.url, QWEN, "10m").json["done_reason"] == "load"
    assert server.wait_for(lambda: server.resident == [], 5)


def test_a_loading_model_is_not_listed_and_unloading_it_does_nothing(ollama, generate, rows, line):
    server = ollama({QWEN: Model(load_seconds=0.5)})
    client = line(server.url)
    client.send(post(LOAD))
    assert server.wait_for(lambda: server.state() == {QWEN: "loading"}, 5)
    assert rows(server) == []
    assert generate(server.url, QWEN, 0).json["done_reason"] == "unload"
    assert client.until(b"}").endswith(b'"done_reason":"load"}')
    assert [row["name"] for row in rows(server)] == [QWEN]


def test_a_load_whose_client_goes_is_given_up(ollama, line):
    server = ollama({QWEN: Model(load_seconds=3600)})
    client = line(server.url)
    client.send(post(LOAD))
    assert server.wait_for(lambda: server.state() == {QWEN: "loading"}, 5)
    client.close()
    assert server.wait_for(lambda: server.aborted == [QWEN], 5)
    assert server.state() == {}


def test_a_second_load_waits_for_the_first_and_does_not_end_it_by_leaving(ollama, line):
    server = ollama({QWEN: Model(load_seconds=0.5)})
    first, second, third = (line(server.url) for _ in range(3))
    for client in (first, second, third):
        client.send(post(LOAD))
        assert server.wait_for(lambda: server.state() == {QWEN: "loading"}, 5)
    assert server.wait_for(lambda: len(server.seen) == 3, 5)
    third.close()
    assert b'"load"' in first.until(b"}")
    assert b'"load"' in second.until(b"}")
    assert server.aborted == []


def test_a_load_takes_its_time(ollama, generate):
    server = ollama({QWEN: Model(load_seconds=0.15)})
    begun = time.monotonic()
    generate(server.url, QWEN, "10m")
    assert time.monotonic() - begun >= 0.15


def test_a_load_of_a_loaded_model_takes_no_time(ollama, generate):
    server = ollama({QWEN: Model(load_seconds=3600)}, preloaded=[QWEN])
    assert generate(server.url, QWEN, "10m").json["done_reason"] == "load"


def test_a_model_goes_by_itself_when_its_keep_alive_is_over(ollama, generate):
    server = ollama()
    generate(server.url, QWEN, "100ms")
    assert server.resident == [QWEN]
    begun = time.monotonic()
    assert server.wait_for(lambda: server.resident == [], 5)
    assert time.monotonic() - begun < 2


def test_a_request_that_names_a_keep_alive_overwrites_the_one_before(ollama, generate):
    server = ollama(preloaded=[QWEN])
    generate(server.url, QWEN, "50ms")
    assert server.wait_for(lambda: server.resident == [], 5)


def test_the_longest_lived_model_is_listed_first(ollama, generate, rows):
    server = ollama({"a": Model(), "b": Model(), "c": Model()})
    for name, keep_alive in (("a", "1m"), ("b", -1), ("c", "1h")):
        generate(server.url, name, keep_alive)
    assert [row["name"] for row in rows(server)] == ["b:latest", "c:latest", "a:latest"]


def test_a_prompt_is_answered_and_loads_the_model(ollama, generate):
    server = ollama()
    answer = generate(server.url, QWEN, None, prompt="Say something").json
    assert (answer["done_reason"], bool(answer["response"])) == ("stop", True)
    assert server.resident == [QWEN]


def test_what_was_asked_is_recorded_with_the_names_as_sent(ollama, generate, ask):
    server = ollama()
    generate(server.url, "Qwen3:8B", 0)
    ask(server.url, "/ps")
    generate(server.url, QWEN, "10m")
    generate(server.url, "other", 0)
    assert server.actions == [("unload", "Qwen3:8B"), ("load", QWEN), ("unload", "other")]
    assert [server.step(request) for request in server.seen] == ["unload", "ps", "load", "unload"]


def test_a_load_can_be_awaited_from_outside(ollama, line):
    server = ollama({QWEN: Model(load_seconds=3600)})
    client = line(server.url)
    client.send(post(LOAD))
    assert server.wait_for(lambda: ("load", QWEN) in server.actions, 5)


def test_a_model_that_is_not_there_cannot_be_preloaded_or_faulted():
    with pytest.raises(ValueError, match="there is no model x:latest"):
        OllamaStandIn({QWEN: Model()}, preloaded=["x"])
    with pytest.raises(ValueError, match="there is no model y:latest"):
        OllamaStandIn({QWEN: Model()}, fault="on-cpu", fault_options={"model": "y"})


# -- faults with a course of their own


def test_a_model_that_never_leaves_is_there_from_the_start_and_stays(ollama, generate, rows):
    server = ollama(fault="never-leaves")
    assert generate(server.url, QWEN, 0).json["done_reason"] == "unload"
    assert not server.wait_for(lambda: server.resident == [], 0.1)
    assert [row["name"] for row in rows(server)] == [QWEN]


def test_a_fault_can_be_meant_for_one_model_alone(ollama, generate, rows):
    server = ollama({"a": Model(), "b": Model()}, fault="on-cpu", fault_options={"model": "B:latest".lower()})
    generate(server.url, "a", "10m")
    generate(server.url, "b", "10m")
    assert {row["name"]: row["size_vram"] > 0 for row in rows(server)} == {"a:latest": True, "b:latest": False}


def test_reads_fail_so_often_as_was_asked_and_only_after_an_unload(ollama, ask, generate):
    server = ollama(fault="ps-500-empty", fault_options={"times": 3})
    assert ask(server.url, "/ps").status == 200
    generate(server.url, QWEN, 0)
    answers = [ask(server.url, "/ps") for _ in range(4)]
    assert [(each.status, each.body) for each in answers[:3]] == [(500, b"")] * 3
    assert answers[3].json == {"models": []}


def test_a_read_that_hangs_does_so_once(ollama, ask, generate):
    server = ollama(fault="ps-hangs-once")
    generate(server.url, QWEN, 0)
    with pytest.raises(TimeoutError):
        ask(server.url, "/ps", timeout=0.1)
    assert ask(server.url, "/ps").json == {"models": []}


@pytest.mark.parametrize("shape", INVALID_INVENTORIES)
def test_an_invalid_inventory_has_the_named_shape(ollama, ask, generate, shape):
    server = ollama(fault="ps-invalid", fault_options={"shape": shape, "after": "load"})
    generate(server.url, QWEN, 0)
    assert ask(server.url, "/ps").json == {"models": []}
    generate(server.url, QWEN, "10m")
    assert ask(server.url, "/ps").body.decode() == INVALID_INVENTORIES[shape]


def test_a_server_that_is_too_old_loads_on_an_unload_and_drops_the_model_after(ollama, generate):
    server = ollama({QWEN: Model(load_seconds=0.05)}, fault="too-old")
    assert generate(server.url, QWEN, 0).json["done_reason"] == "load"
    assert server.wait_for(lambda: server.resident == [], 5)


def test_a_model_that_comes_back_late_is_gone_first_and_leaves_at_the_second_unload(ollama, generate, rows):
    server = ollama(fault="comes-back-late", fault_options={"seconds": 0.4})
    generate(server.url, QWEN, 0)
    with pytest.raises(ConnectionError):
        generate(server.url, QWEN, "10m")
    assert generate(server.url, QWEN, 0).json["done_reason"] == "unload"
    assert rows(server) == []
    assert server.wait_for(lambda: server.resident == [QWEN], 5)
    generate(server.url, QWEN, 0)
    assert not server.wait_for(lambda: server.resident, 0.2)


def test_a_load_that_hangs_may_come_back_late_too(ollama, generate):
    server = ollama(fault="comes-back-late", fault_options={"answer": "hang", "seconds": 0})
    with pytest.raises(TimeoutError):
        generate(server.url, QWEN, "10m", timeout=0.1)
    generate(server.url, QWEN, 0)
    assert server.wait_for(lambda: server.resident == [QWEN], 5)


@pytest.mark.parametrize("reset", [False, True])
def test_a_dropped_load_leaves_nothing_behind(ollama, generate, reset):
    server = ollama(fault="load-drops-connection", fault_options={"reset": reset, "times": 1})
    with pytest.raises(ConnectionResetError if reset else ConnectionError):
        generate(server.url, QWEN, "10m")
    assert (server.aborted, server.state()) == ([QWEN], {})
    assert generate(server.url, QWEN, "10m").json["done_reason"] == "load"


def test_an_evicted_model_is_listed_once_and_then_gone(ollama, generate, rows):
    server = ollama(fault="evicted-after-load")
    generate(server.url, QWEN, "10m")
    assert [len(rows(server)) for _ in range(3)] == [1, 0, 0]


def test_a_drip_can_be_put_on_one_step_alone(ollama, ask, generate):
    server = ollama(fault="drip", fault_options={"at": "load", "every": 0.05})
    assert ask(server.url, "/ps", timeout=0.5).status == 200
    with pytest.raises(TimeoutError):
        generate(server.url, QWEN, "10m", timeout=0.04)
