"""The stand-in of servers of OpenAI's API: its manners, and every fault shows on the wire."""

from __future__ import annotations

import http.client
import re

import pytest

from precheck_lib.simulate import HOSTILE, OPENAI_FAULTS, OpenAiStandIn, fault_named

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "stream": False}
PLAIN = {"model": "m", "prompt": "Hi", "max_tokens": 1, "stream": False}
SHORT, LONG = 0.2, 5.0
# Where a fault would take longer to show than a test may.
QUICKLY = {"slow-token": {"seconds": 5}, "drip": {"every": 5, "at": "models"}, "silence": {"at": "models"}}


@pytest.fixture
def openai(stack):
    def start(models=("m", "n"), **options):
        return stack.enter_context(OpenAiStandIn(models, **options))

    return start


def seen_of(ask, server, patience):
    """What a client sees of each step, without what differs from run to run."""
    found = []
    for path, method, body in (
        ("/models", "GET", None),
        ("/chat/completions", "POST", CHAT),
        ("/completions", "POST", PLAIN),
    ):
        try:
            answer = ask(server.url, path, method, body, patience)
        except (OSError, EOFError, http.client.HTTPException) as error:
            found.append(type(error).__name__)
            continue
        said = re.sub(rb'"created":\d+', b"", answer.body[:9000])
        found.append((answer.status, answer.headers.get("content-type"), answer.headers.get("location"), said))
    return found


@pytest.fixture(scope="module")
def healthy():
    return {}


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_without_a_fault_two_runs_look_the_same(openai, ask, flavour):
    assert seen_of(ask, openai(flavour=flavour), LONG) == seen_of(ask, openai(flavour=flavour), LONG)


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
@pytest.mark.parametrize(
    "fault", [one for one in OPENAI_FAULTS if one.name not in {two.name for two in HOSTILE}], ids=lambda one: one.name
)
def test_a_fault_shows_on_the_wire(openai, ask, healthy, fault, flavour):
    if flavour not in healthy:
        healthy[flavour] = seen_of(ask, openai(flavour=flavour), LONG)
    server = openai(flavour=flavour, fault=fault.name, fault_options=QUICKLY.get(fault.name))
    assert seen_of(ask, server, SHORT) != healthy[flavour]


def test_names_are_unique_and_each_is_described_in_a_sentence():
    names = [fault.name for fault in OPENAI_FAULTS]
    assert len(set(names)) == len(names)
    for fault in OPENAI_FAULTS:
        assert fault.server == "openai"
        assert re.fullmatch(r"[A-Z0-9].*[^.]\.", fault.description), fault.name
        assert fault.where
        assert fault_named("openai", fault.name) is fault


def test_it_can_do_every_fault_of_what_it_speaks(openai, ask):
    spoken = {fault.name for fault in HOSTILE if fault.layer in ("http", "json")}
    assert spoken <= {fault.name for fault in OPENAI_FAULTS}
    server = openai(fault="json-list", fault_options={"at": "models", "times": 1})
    assert isinstance(ask(server.url, "/models").json, list)
    assert ask(server.url, "/models").json["object"] == "list"


# Manners --------------------------------------------------------------------------------------------------------------


def test_vllm_lists_its_models_and_answers_with_one_token(openai, ask):
    server = openai()
    answer = ask(server.url, "/models")
    assert (answer.headers["server"], answer.headers["content-type"]) == ("uvicorn", "application/json")
    assert [entry["id"] for entry in answer.json["data"]] == ["m", "n"]
    assert {entry["owned_by"] for entry in answer.json["data"]} == {"vllm"}
    chat, plain = (
        ask(server.url, path, "POST", body).json
        for path, body in (("/chat/completions", CHAT), ("/completions", PLAIN))
    )
    assert (chat["object"], plain["object"]) == ("chat.completion", "text_completion")
    assert chat["choices"][0]["message"]["role"] == "assistant"
    assert plain["choices"][0]["text"] == "Hello"
    assert [one["choices"][0]["finish_reason"] for one in (chat, plain)] == ["length"] * 2
    assert chat["usage"]["completion_tokens"] == 1


def test_vllm_knows_no_other_model_and_llama_cpp_answers_to_any_name(openai, ask):
    other = {**CHAT, "model": "other"}
    refused = ask(openai().url, "/chat/completions", "POST", other)
    assert refused.status == 404
    assert refused.json["error"] == {
        "message": "The model `other` does not exist.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }
    answered = ask(openai(flavour="llama.cpp").url, "/chat/completions", "POST", other)
    assert (answered.status, answered.json["model"]) == (200, "m")


def test_llama_cpp_lists_its_models_without_a_key_and_vllm_does_not(openai, ask):
    told = {}
    for flavour in ("vllm", "llama.cpp"):
        server = openai(flavour=flavour, api_key="k")
        right = {"Authorization": "Bearer k"}
        assert ask(server.url, "/models", headers=right).status == 200
        assert ask(server.url, "/chat/completions", "POST", CHAT, headers=right).status == 200
        told[flavour] = [ask(server.url, "/models"), ask(server.url, "/chat/completions", "POST", CHAT)]
    assert [answer.status for answer in told["vllm"] + told["llama.cpp"]] == [401, 401, 200, 401]
    assert told["vllm"][1].json == {"error": "Unauthorized"}
    assert told["llama.cpp"][1].json["error"] == {
        "code": 401,
        "message": "Invalid API Key",
        "type": "authentication_error",
    }


def test_an_unknown_path_is_said_in_the_manner_of_each(openai, ask):
    assert ask(openai().url, "/nothing").json == {"detail": "Not Found"}
    assert ask(openai().url, "/models", "POST", {}).status == 404
    assert ask(openai(flavour="llama.cpp").url, "/nothing").json["error"]["message"] == "File Not Found"


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_its_health_is_fine_whatever_its_engine_is(openai, ask, flavour):
    server = openai(flavour=flavour, fault="engine-dead-500")
    assert ask(server.url.removesuffix("/v1"), "/health").status == 200
    assert ask(server.url, "/models").status == 200
    assert ask(server.url, "/chat/completions", "POST", CHAT).status == 500


def test_llama_cpp_says_that_it_loads_in_its_health_too_and_that_it_is_well_then(openai, ask):
    server = openai(flavour="llama.cpp", fault="loading-503", fault_options={"at": "/health", "times": 1})
    health = [ask(server.url.removesuffix("/v1"), "/health") for _ in range(2)]
    assert [answer.status for answer in health] == [503, 200]
    assert health[0].json["error"]["message"] == "Loading model"
    assert health[1].json == {"status": "ok"}


def props(ask, server, **headers):
    return ask(server.url.removesuffix("/v1"), "/props", headers=headers)


def test_llama_cpp_tells_the_context_of_a_slot_and_how_many_slots_there_are(openai, ask):
    server = openai(flavour="llama.cpp", context_length=8192, slots=2)
    told = props(ask, server).json
    assert (told["default_generation_settings"]["n_ctx"], told["total_slots"]) == (8192, 2)
    meta = ask(server.url, "/models").json["data"][0]["meta"]
    assert (meta["n_ctx"], meta["n_ctx_train"]) == (8192, 40960)


def test_llama_cpp_tells_its_props_to_those_with_the_key_and_vllm_has_none(openai, ask):
    server = openai(flavour="llama.cpp", api_key="k")
    assert [props(ask, server).status, props(ask, server, Authorization="Bearer k").status] == [401, 200]
    assert props(ask, openai()).json == {"detail": "Not Found"}


def test_llama_cpp_that_sleeps_is_woken_by_a_completion_and_by_nothing_else(openai, ask):
    server = openai(flavour="llama.cpp", sleeping=True)
    ask(server.url, "/models")
    assert [props(ask, server).json["is_sleeping"] for _ in range(2)] == [True, True]
    ask(server.url, "/chat/completions", "POST", CHAT)
    assert props(ask, server).json["is_sleeping"] is False


def test_vllm_tells_the_context_of_a_model(openai, ask):
    assert ask(openai().url, "/models").json["data"][0]["max_model_len"] == 40960
    assert ask(openai(context_length=4096).url, "/models").json["data"][0]["max_model_len"] == 4096


def test_loading_is_said_as_llama_cpp_says_it(openai, ask):
    answer = ask(openai(flavour="llama.cpp", fault="loading-503").url, "/models")
    assert answer.status == 503
    assert answer.json == {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


def test_a_body_that_is_no_request_is_refused(openai, ask):
    for body in (b"{", b"[]", b"{}"):
        assert ask(openai().url, "/completions", "POST", body).status == 400


def test_a_model_that_is_not_served_is_not_listed(openai, ask):
    server = openai(fault="model-missing", fault_options={"model": "n"})
    assert [entry["id"] for entry in ask(server.url, "/models").json["data"]] == ["m"]
    assert [entry["id"] for entry in ask(openai(fault="model-missing").url, "/models").json["data"]] == ["n"]
