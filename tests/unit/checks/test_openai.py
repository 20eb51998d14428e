"""Models that are listed and tokens that come: what is wrong with a server is told apart, and the key stays hidden."""

from __future__ import annotations

import json

import pytest

from precheck_lib.checks import kind_named
from precheck_lib.simulate import OpenAiStandIn

MODELS = ("qwen3", "text-embed", "gpt-oss")
KEY = "opaque-key-1234"


@pytest.fixture
def serves():
    servers = []

    def start(models=MODELS, **more):
        servers.append(OpenAiStandIn(models, **more))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def ended(checker, serves):
    """How a check ended against a stand-in with a fault: word, curl's code, and its one finding."""

    def ask(fault, flavour="vllm", options=None, seconds=10.0, **fault_options):
        server = serves(fault=fault, flavour=flavour, fault_options=fault_options)
        error = checker.error("openai", {"url": server.url, **(options or {})}, seconds=seconds)
        (finding,) = error.findings
        return error.word, error.curl, finding

    return ask


def steps(server):
    return [(seen.method, server.step(seen)) for seen in server.seen]


def asked_for(server):
    return [json.loads(seen.body)["model"] for seen in server.seen if seen.body]


# Right ones -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_a_server_that_works_passes_with_one_token_of_its_first_model(checker, serves, flavour):
    server = serves(("text-embed", "qwen3"), flavour=flavour)
    assert checker.passes("openai", {"url": f"{server.url}/"}) == []
    assert steps(server) == [("GET", "models"), ("POST", "chat")]
    assert asked_for(server) == ["qwen3"]


def test_each_model_that_is_named_has_to_make_a_token(checker, serves):
    server = serves()
    checker.passes("openai", {"url": server.url, "models": ["gpt-oss", "${M}"]}, env={"M": "qwen3"})
    assert asked_for(server) == ["gpt-oss", "qwen3"]


@pytest.mark.parametrize(
    ("names", "asked"), [("gpt-oss, qwen3", ["gpt-oss", "qwen3"]), ("qwen3,", ["qwen3"]), (" ", ["qwen3"])]
)
def test_a_variable_may_hold_several_names_or_none(checker, serves, names, asked):
    server = serves()
    assert checker.passes("openai", {"url": server.url, "models": ["${M:-}"]}, env={"M": names}) == []
    assert asked_for(server) == asked


def test_a_comma_that_the_spec_itself_has_is_part_of_a_name(checker, serves):
    server = serves(("a,b",))
    assert checker.passes("openai", {"url": server.url, "models": ["a,b"]}) == []
    assert asked_for(server) == ["a,b"]


def test_no_token_is_asked_for_where_none_is_wanted(checker, serves):
    server = serves(fault="engine-dead-500")
    assert checker.passes("openai", {"url": server.url, "models": ["text-embed"], "completion": False}) == []
    assert steps(server) == [("GET", "models")]


@pytest.mark.parametrize("fault", ["no-chat-route", "no-chat-template"])
def test_a_model_that_cannot_chat_completes_a_text(checker, serves, fault):
    server = serves(fault=fault)
    assert checker.passes("openai", {"url": server.url}) == []
    assert steps(server) == [("GET", "models"), ("POST", "chat"), ("POST", "completions")]


@pytest.mark.parametrize("fault", ["reasoning-only", "empty-content"])
def test_a_token_that_is_no_text_is_one(checker, serves, fault):
    assert checker.passes("openai", {"url": serves(fault=fault).url}) == []


def test_a_name_may_be_an_alias(checker, serves):
    server = serves(("/models/qwen3.gguf",), flavour="llama.cpp", aliases=("qwen3",))
    assert checker.passes("openai", {"url": server.url, "models": ["qwen3"]}) == []


# The key --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_the_key_is_sent_with_everything_and_hidden(checker, serves, flavour):
    server = serves(flavour=flavour, api_key=KEY)
    context = checker.context({"KEY": KEY})
    hidden = []
    context.hide = hidden.append
    options = checker.options("openai", {"url": server.url, "api_key": "${KEY}"})
    assert kind_named("openai").run(options, context) == []
    assert [seen.headers["authorization"] for seen in server.seen] == [f"Bearer {KEY}"] * 2
    assert KEY in hidden


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
@pytest.mark.parametrize(("sent", "told"), [("", "no api_key was sent"), ("wrong-key-1", "an api_key was sent")])
def test_a_wrong_key_fails_wherever_the_server_looks_at_it_first(checker, serves, flavour, sent, told):
    server = serves(flavour=flavour, api_key=KEY)
    error = checker.error("openai", {"url": server.url, "api_key": sent})
    (finding,) = error.findings
    assert (error.word, error.curl, finding.code) == ("failed", 22, "openai.unauthorized")
    assert finding.evidence == told
    assert "wrong-key" not in repr(finding)
    # llama.cpp lists its models to everybody.
    assert steps(server) == [("GET", "models"), ("POST", "chat")][: 1 if flavour == "vllm" else 2]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("canary12\n", "it holds a line end at its start or end"),
        ("canary\x00", "it holds control characters"),
        (" canary", "it has white space at its start or end"),
        ("canäry", "it holds characters that no key has"),
    ],
)
def test_a_key_that_cannot_be_sent_is_told_in_words_before_anything_is_asked(checker, serves, key, told):
    server = serves()
    error = checker.error("openai", {"url": server.url, "api_key": "${K}"}, env={"K": key})
    assert [(one.code, one.message) for one in error.findings] == [
        ("roles.malformed", f"the api_key cannot be sent: {told}")
    ]
    assert server.seen == []


# Wrong ones -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "word", "curl", "code", "said"),
    [
        ("no-models", "failed", 1, "openai.model-missing", "/v1/models: the server lists no model"),
        ("models-null", "failed", 1, "openai.answer", "has no list at `data` but null"),
        ("model-without-id", "failed", 1, "openai.answer", "no usable `id`"),
        ("html-page", "failed", 1, "openai.answer", "is a web page"),
        ("not-json", "failed", 1, "openai.answer", "cannot be read"),
        ("redirect", "failed", 1, "openai.answer", "another place on the same host"),
        ("unauthorized", "failed", 22, "openai.unauthorized", "status 401 instead of 200"),
        ("loading-503", "error", 22, "openai.loading", "'Loading model'"),
        ("status", "error", 22, "openai.answer", "status 503 instead of 200"),
        ("model-404", "error", 22, "openai.model-missing", "one token of qwen3: status 404"),
        ("not-loaded-404", "error", 22, "openai.model-missing", "No models loaded. Please"),
        ("load-fails-500", "error", 22, "openai.completion", "could not load model"),
        ("engine-dead-500", "error", 22, "openai.completion", "EngineCore encountered an issue"),
        ("no-completions", "error", 22, "openai.no-completions", "status 404 instead of 200"),
        ("empty-choices", "failed", 1, "openai.completion", "an empty list"),
        ("choices-null", "failed", 1, "openai.completion", "null"),
        ("choice-without-message", "failed", 1, "openai.completion", "neither a `message` nor a `text`"),
        ("error-200", "failed", 1, "openai.completion", "the server answered with an error: 'EngineCore"),
        ("aborted", "failed", 1, "openai.completion", "finish_reason 'abort'"),
        ("refuse", "error", 7, "transport.connect", "/v1/models: "),
        ("empty-reply", "error", 52, "transport.empty", "/v1/models: "),
        ("cut-short", "error", 18, "transport.truncated", "/v1/models: "),
    ],
)
@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
def test_each_fault_is_told_apart(ended, fault, word, curl, code, said, flavour):
    found_word, found_curl, finding = ended(fault, flavour)
    assert (found_word, found_curl, finding.code) == (word, curl, code)
    assert said in finding.message


def test_a_dead_engine_is_seen_behind_a_list_that_is_right(ended):
    assert ended("engine-dead-500")[2].evidence == ("it lists its models: its front is there, its engine is not")


def test_a_model_that_is_loading_at_the_completion_is_told_so(ended):
    # llama.cpp lists its models while it loads in some builds.
    word, _, finding = ended("loading-503", "llama.cpp", at="chat")
    assert (word, finding.code, finding.retryable) == ("error", "openai.loading", True)


def test_an_engine_that_hangs_is_given_up_at_the_bound_of_a_token(ended):
    word, curl, finding = ended("engine-hangs", options={"total": "200ms"})
    assert (word, curl, finding.code) == ("error", 28, "openai.completion-deadline")
    assert "one token of qwen3: deadline of 0.2 s elapsed" in finding.message
    assert finding.evidence == "it lists its models: its front is there, and no token came"


def test_a_first_token_may_take_what_its_bound_allows(checker, serves):
    server = serves(fault="slow-token", fault_options={"seconds": 0.3})
    assert checker.passes("openai", {"url": server.url}) == []


def test_a_list_that_never_comes_is_a_deadline_of_its_own(ended):
    word, curl, finding = ended("silence", seconds=0.2)
    assert (word, curl, finding.code) == ("error", 28, "transport.deadline")


def test_a_missing_model_is_named_with_those_that_are_there_and_nothing_is_computed(checker, serves):
    server = serves(tuple(f"m{number}" for number in range(12)))
    error = checker.error("openai", {"url": server.url, "models": ["m3", "other", "M4"]})
    (finding,) = error.findings
    assert (error.word, error.curl, finding.code) == ("failed", 1, "openai.model-missing")
    assert finding.message == f"{server.url}/models: the server does not list other, M4"
    assert finding.evidence == "it lists m0, m1, m2, m3, m4, m5, m6, m7 and 4 more"
    assert steps(server) == [("GET", "models")]


def test_a_url_without_v1_is_told_as_one(checker, serves):
    server = serves()
    error = checker.error("openai", {"url": server.url.removesuffix("/v1")})
    (finding,) = error.findings
    assert (error.word, error.curl, finding.code) == ("error", 22, "openai.answer")
    assert finding.evidence == "the base URL has to be given, which usually ends in /v1"


# Bounds, options, plan ------------------------------------------------------------------------------------------------


def test_each_request_has_its_bound(checker, serves):
    context = checker.context(seconds=75.0)
    options = checker.options("openai", {"url": serves().url, "total": "65s", "connect": "1s"})
    kind_named("openai").run(options, context)
    assert [(one.connect_timeout_s, one.total_timeout_s) for one in context.journal.records] == [(1, 10), (1, 65)]


def test_the_time_of_a_check_has_room_for_every_token(checker):
    seconds = kind_named("openai").seconds
    base = {"url": "http://h/v1"}
    asked = [{}, {"completion": False}, {"models": ["a", "b"]}, {"models": ["a", "b"], "total": "1s"}]
    assert [seconds(checker.options("openai", {**base, **more}), 1) for more in asked] == [70, 10, 130, 12]


@pytest.mark.parametrize("url", ["h:8000/v1", "http://u:canary@h/v1", "http://h/v1?key=canary", "ws://h/v1"])
def test_a_url_that_cannot_be_asked_is_refused_and_not_shown(checker, url):
    (text,) = checker.refused("openai", {"url": url})
    assert text.startswith("url: it ")
    assert "canary" not in text


def test_a_check_computes_and_changes_nothing(checker):
    kind = kind_named("openai")
    assert not kind.changes
    assert not any(deed.changes for deed in kind.plan(checker.options("openai", {"url": "http://h/v1"})))


def test_a_plan_says_what_is_asked_and_no_key(checker):
    options = {"url": "${U}/", "models": ["a", "${M}"], "api_key": "canary"}
    assert checker.planned("openai", options) == [
        "GET ${U}/models; it must list a, ${M}",
        "POST ${U}/chat/completions: one token of a, ${M} (the server computes; nothing is changed)",
    ]
    assert checker.planned("openai", {"url": "http://h/v1", "completion": False}) == [
        "GET http://h/v1/models; it must list a model"
    ]
