"""OpenCode's answers, and the comparison of its configuration (CONTRACT F1 to F5; facts/codex-opencode.md 2)."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import AnswerError, StatusError
from precheck_lib.servers.http_server import Bounds
from precheck_lib.servers.opencode import OpenCodeServer, RefusedError, basic_auth

CANARY = "sk-canary-7Yf3"


def server(credentials: tuple[str, str] | None = None) -> OpenCodeServer:
    return OpenCodeServer("http://h:4096/", credentials=credentials, journal=Journal(), bounds=Bounds())


# Authentication -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("username", "password"),
    [("opencode", "pw"), ("pä:ss", "wörd"), ("", "x"), ("u", "a:b:c"), ("日本", "🔑"), ("u", "x" * 3000)],
)
def test_basic_authentication_is_utf_8_in_one_line(username: str, password: str) -> None:
    header = basic_auth(username, password)["Authorization"]
    scheme, _, token = header.partition(" ")
    assert scheme == "Basic"
    assert base64.b64decode(token, validate=True) == f"{username}:{password}".encode()
    assert header.isascii()
    assert "\n" not in header


def test_credentials_go_with_every_read_and_with_none_where_there_are_none(asked: Any, answer: Any) -> None:
    asked.answers = [
        answer({"healthy": True}),
        answer({}),
        answer({}),
        answer({"providers": []}),
    ]
    one = server(("opencode", "pä"))
    one.health(Budget(5))
    one.background_subagents(Budget(5))
    one.compare_config({}, Budget(5))
    one.connected_models(Budget(5))
    assert [request["url"] for request in asked.requests] == [
        "http://h:4096/global/health",
        "http://h:4096/experimental/capabilities",
        "http://h:4096/config",
        "http://h:4096/config/providers",
    ]
    assert {request["headers"]["Authorization"] for request in asked.requests} == {
        basic_auth("opencode", "pä")["Authorization"]
    }
    asked.answers = [answer({"healthy": True})]
    server().health(Budget(5))
    assert "Authorization" not in asked.requests[-1]["headers"]


# Health and capabilities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "healthy", "version"),
    [
        ({"healthy": True, "version": "1.18.33"}, True, "1.18.33"),
        ({"healthy": True, "version": "1.18.33", "more": None}, True, "1.18.33"),
        ({"healthy": False, "version": "1.18.33"}, False, "1.18.33"),
        ({"healthy": "true", "version": "1.18.33"}, False, "1.18.33"),
        ({"healthy": 1}, False, None),
        ({"version": 1.18}, False, None),
        ({"healthy": True, "version": None}, True, None),
        ({}, False, None),
    ],
)
def test_health_is_true_and_nothing_like_it(
    asked: Any, answer: Any, body: dict[str, Any], healthy: bool, version: str | None
) -> None:
    asked.answers = [answer(body)]
    found = server().health(Budget(5))
    assert (found.healthy, found.version) == (healthy, version)


@pytest.mark.parametrize(
    "content_type", ["text/html", "text/plain", "", "application/jsonp", "application/problem+json"]
)
def test_a_200_of_another_type_is_a_wrong_answer(asked: Any, answer: Any, content_type: str) -> None:
    asked.answers = [answer({"healthy": True, "version": "1.18.33"}, content_type=content_type)]
    with pytest.raises(AnswerError, match="application/json"):
        server().health(Budget(5))


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8", "application/json;x"])
def test_parameters_and_case_of_the_type_do_not_matter(asked: Any, answer: Any, content_type: str) -> None:
    asked.answers = [answer({"healthy": True}, content_type=content_type)]
    assert server().health(Budget(5)).healthy


@pytest.mark.parametrize(
    "body", ["", "[]", "null", "true", '{"healthy":true', '{"healthy":true,"healthy":true}', b"\xff"]
)
def test_a_body_that_is_no_json_object_is_a_wrong_answer(asked: Any, answer: Any, body: Any) -> None:
    asked.answers = [answer(body)]
    with pytest.raises(AnswerError) as caught:
        server().health(Budget(5))
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


@pytest.mark.parametrize("value", [True, False, None, 0, "false", []])
def test_subagents_are_told_as_they_are(asked: Any, answer: Any, value: Any) -> None:
    asked.answers = [answer({"backgroundSubagents": value})]
    found = server().background_subagents(Budget(5))
    assert found == value
    assert type(found) is type(value)


def test_missing_subagents_are_none(asked: Any, answer: Any) -> None:
    asked.answers = [answer({})]
    assert server().background_subagents(Budget(5)) is None


# Refusals -----------------------------------------------------------------------------------------------------------


def refused(asked: Any, answer: Any, body: Any, status: int = 400, **more: Any) -> RefusedError:
    asked.answers = [answer(body, status, **more)]
    with pytest.raises(RefusedError) as caught:
        server().health(Budget(5))
    return caught.value


def test_of_a_refusal_only_status_name_and_paths_are_told(asked: Any, answer: Any) -> None:
    body = {
        "name": "ConfigInvalidError",
        "message": CANARY,
        "data": {
            "path": "OPENCODE_CONFIG_CONTENT",
            "message": CANARY,
            "value": {"apiKey": CANARY},
            "issues": [
                {"path": ["provider", "ollama", "models", 0, "limit"], "message": CANARY, "got": CANARY},
                {"path": ["model"], "message": CANARY},
                {"path": CANARY},
                {"path": [CANARY, {"x": 1}]},
                {"message": CANARY},
                CANARY,
            ],
        },
    }
    error = refused(asked, answer, body)
    assert str(error) == (
        "status 400 instead of 200, ConfigInvalidError in OPENCODE_CONFIG_CONTENT at "
        "provider.ollama.models.0.limit, model"
    )
    assert error.name == "ConfigInvalidError"
    assert CANARY not in repr(vars(error))


@pytest.mark.parametrize(
    "name",
    ["x" * 65, "has space", "has-dash", "", "9lives", f"Error: {CANARY}", "a\nb", "é" * 3, None, 5, ["ConfigError"]],
    ids=lambda value: repr(value)[:24],
)
def test_a_name_that_is_no_identifier_is_not_told(asked: Any, answer: Any, name: Any) -> None:
    error = refused(asked, answer, {"name": name, "data": {}})
    assert str(error) == "status 400 instead of 200"
    assert error.name is None


@pytest.mark.parametrize("name", ["x" * 64, "NotFoundError", "_tag", "ProviderModelNotFoundError"])
def test_a_name_that_is_an_identifier_is_told(asked: Any, answer: Any, name: str) -> None:
    assert str(refused(asked, answer, {"name": name})) == f"status 400 instead of 200, {name}"


@pytest.mark.parametrize(
    "body",
    [b"", b"not json", b"\xff", "null", "[]", f'"{CANARY}"', "{}", '{"data":[]}', '{"data":{"path":5,"issues":{}}}',
     '{"data":{"issues":[null,3,"x",{"path":null},{"path":[null]}]}}', f'{{"error":"{CANARY}","message":"{CANARY}"}}'],
)  # fmt: skip
def test_a_refusal_of_any_shape_tells_its_status_alone(asked: Any, answer: Any, body: Any) -> None:
    assert str(refused(asked, answer, body)) == "status 400 instead of 200"


def test_a_refusal_cut_short_tells_its_status_alone(asked: Any, answer: Any) -> None:
    assert str(refused(asked, answer, {"name": "ConfigInvalidError"}, complete=False)) == "status 400 instead of 200"


def test_a_path_of_an_issue_that_is_cut_says_so(asked: Any, answer: Any) -> None:
    issues = [{"path": ["k" * 99, 1]}, {"path": ["k" * 98, 1]}]
    told = str(refused(asked, answer, {"name": "X", "data": {"issues": issues}}))
    assert told == f"status 400 instead of 200, X at {'k' * 80!r}…, {'k' * 98}.1"


@pytest.mark.parametrize("many", [1, 5, 500])
def test_what_is_told_of_a_refusal_has_a_limit(asked: Any, answer: Any, many: int) -> None:
    issues = [{"path": ["k" * 5000, number]} for number in range(many)]
    assert len(str(refused(asked, answer, {"name": "X", "data": {"path": "p" * 5000, "issues": issues}}))) < 1200


@pytest.mark.parametrize(
    ("status", "word", "curl"),
    [
        (401, "failed", 22),
        (403, "failed", 22),
        (400, "error", 22),
        (404, "error", 22),
        (500, "error", 22),
        (503, "error", 22),
        (302, "failed", 1),
        (204, "failed", 1),
        (201, "failed", 1),
    ],
)
def test_a_status_has_the_word_and_the_code_of_the_table(
    asked: Any, answer: Any, status: int, word: str, curl: int
) -> None:
    error = refused(asked, answer, b"", status)
    assert isinstance(error, StatusError)
    assert (error.word, error.curl) == (word, curl)


# The configuration --------------------------------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "model": "ollama/qwen3:8b",
    "provider": {
        "ollama": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:11434/v1", "apiKey": "{env:KEY}", "timeout": 5, "on": True},
            "models": {
                "qwen3:8b": {"name": "Qwen", "limit": {"context": 65536, "output": 8192}, "tags": ["a", "b"]},
                "gpt-oss:20b": {"name": "GPT", "tool_call": True, "cost": None},
            },
        }
    },
}
OLLAMA = ("provider", "ollama")


def changed(path: tuple[Any, ...], value: Any, config: dict[str, Any] = CONFIG) -> dict[str, Any]:
    """Give a copy with `value` at the path; `...` takes it out."""
    made = copy.deepcopy(config)
    place: Any = made
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


def compare(asked: Any, answer: Any, live: Any, expected: Any = CONFIG) -> Any:
    asked.answers = [answer(live)]
    return server().compare_config(expected, Budget(5))


def is_same(found: Any) -> bool:
    return not (found.model_differs or found.missing_models or found.different or found.dropped)


def test_the_same_configuration_is_the_same(asked: Any, answer: Any) -> None:
    assert is_same(compare(asked, answer, CONFIG))


def test_a_server_may_have_more(asked: Any, answer: Any) -> None:
    live = changed((*OLLAMA, "models", "extra:1b"), {"name": "x"})
    live = changed((*OLLAMA, "models", "qwen3:8b", "limit", "input"), 1, live)
    live = changed((*OLLAMA, "options", "headerTimeout"), 1, live)
    live = changed(("provider", "other"), {"models": {}}, live)
    assert is_same(compare(asked, answer, {"command": {}, "plugin": [], **live}))


@pytest.mark.parametrize("live", [..., "ollama/other", "", None, 5, ["ollama/qwen3:8b"], "OLLAMA/qwen3:8b"])
def test_another_model_differs(asked: Any, answer: Any, live: Any) -> None:
    assert compare(asked, answer, changed(("model",), live)).model_differs


def test_a_role_without_a_model_asks_for_none(asked: Any, answer: Any) -> None:
    assert not compare(asked, answer, CONFIG, changed(("model",), ...)).model_differs


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (("npm",), "other", "npm"),
        (("options", "baseURL"), "http://127.0.0.1:11434/v1/", "options.baseURL"),
        (("options", "timeout"), 6, "options.timeout"),
        (("options", "timeout"), "5", "options.timeout"),
        (("options", "timeout"), True, "options.timeout"),
        (("options", "on"), 1, "options.on"),
        (("options", "on"), False, "options.on"),
        (("options", "on"), "true", "options.on"),
        (("options", "on"), None, "options.on"),
        (("options",), [], "options"),
        (("options",), "x", "options"),
        (("options",), None, "options"),
        (("models", "qwen3:8b", "limit", "context"), 4096, "models.qwen3:8b.limit.context"),
        (("models", "qwen3:8b", "limit"), 65536, "models.qwen3:8b.limit"),
        (("models", "qwen3:8b", "name"), {"a": 1}, "models.qwen3:8b.name"),
        (("models", "qwen3:8b", "tags"), ["a"], "models.qwen3:8b.tags"),
        (("models", "qwen3:8b", "tags"), ["a", "b", "c"], "models.qwen3:8b.tags"),
        (("models", "qwen3:8b", "tags"), ["a", 5], "models.qwen3:8b.tags.1"),
        (("models", "qwen3:8b", "tags"), {"0": "a", "1": "b"}, "models.qwen3:8b.tags"),
        (("models", "gpt-oss:20b", "tool_call"), 1, "models.gpt-oss:20b.tool_call"),
        (("models", "gpt-oss:20b", "cost"), 0, "models.gpt-oss:20b.cost"),
        (("models", "gpt-oss:20b", "cost"), False, "models.gpt-oss:20b.cost"),
        (("models", "gpt-oss:20b", "cost"), "", "models.gpt-oss:20b.cost"),
    ],
)
def test_a_leaf_that_both_have_and_that_differs_is_told_by_its_path(
    asked: Any, answer: Any, path: tuple[str, ...], value: Any, shown: str
) -> None:
    found = compare(asked, answer, changed((*OLLAMA, *path), value))
    assert found.different == (f"provider.ollama.{shown}",)
    assert (found.model_differs, found.missing_models, found.dropped) == (False, (), ())


def test_one_is_one_however_it_is_written(asked: Any, answer: Any) -> None:
    assert is_same(compare(asked, answer, json.dumps(CONFIG).replace('"timeout": 5', '"timeout": 5.0')))


@pytest.mark.parametrize("value", [False, True, 0, 1, None, [], {}, "null"])
def test_a_value_that_is_no_string_has_to_be_the_same_value(asked: Any, answer: Any, value: Any) -> None:
    expected = changed((*OLLAMA, "options", "x"), value)
    assert is_same(compare(asked, answer, expected, expected))


@pytest.mark.parametrize("wild", ["{env:KEY}", "{file:/run/key}", "http://{env:HOST}/v1", "a{file:./b}c", "{env:"])
@pytest.mark.parametrize("live", ["", "anything", CANARY, "{env:OTHER}"])
def test_a_string_with_a_reference_fits_any_string(asked: Any, answer: Any, wild: str, live: str) -> None:
    path = (*OLLAMA, "options", "apiKey")
    assert is_same(compare(asked, answer, changed(path, live), changed(path, wild)))


@pytest.mark.parametrize("live", [5, True, None, [], {"a": 1}])
def test_a_string_with_a_reference_fits_nothing_but_a_string(asked: Any, answer: Any, live: Any) -> None:
    path = (*OLLAMA, "options", "apiKey")
    assert compare(asked, answer, changed(path, live)).different == ("provider.ollama.options.apiKey",)


def test_a_reference_on_the_servers_side_fits_nothing_else(asked: Any, answer: Any) -> None:
    path = (*OLLAMA, "options", "baseURL")
    assert compare(asked, answer, changed(path, "{env:X}")).different == ("provider.ollama.options.baseURL",)


@pytest.mark.parametrize("text", ["{ENV:X}", "{env X}", "$env:X", "env:X", "{ env:X }"])
def test_what_only_looks_like_a_reference_is_compared(asked: Any, answer: Any, text: str) -> None:
    path = (*OLLAMA, "options", "apiKey")
    assert compare(asked, answer, changed(path, "y"), changed(path, text)).different


def test_a_model_with_a_reference_fits_any_model(asked: Any, answer: Any) -> None:
    assert not compare(asked, answer, CONFIG, changed(("model",), "ollama/{env:M}")).model_differs


def test_a_leaf_that_only_the_role_has_is_dropped_and_nothing_worse(asked: Any, answer: Any) -> None:
    live = changed((*OLLAMA, "options", "timeout"), ...)
    live = changed((*OLLAMA, "models", "qwen3:8b", "tags"), ..., live)
    live = changed((*OLLAMA, "models", "qwen3:8b", "limit"), ..., live)
    live = changed((*OLLAMA, "models", "gpt-oss:20b", "cost"), ..., live)
    found = compare(asked, answer, live)
    assert (found.model_differs, found.missing_models, found.different) == (False, (), ())
    assert set(found.dropped) == {
        "provider.ollama.options.timeout",
        "provider.ollama.models.qwen3:8b.tags",
        "provider.ollama.models.qwen3:8b.limit.context",
        "provider.ollama.models.qwen3:8b.limit.output",
        "provider.ollama.models.gpt-oss:20b.cost",
    }


def test_a_missing_model_is_told_once_and_by_its_key(asked: Any, answer: Any) -> None:
    found = compare(asked, answer, changed((*OLLAMA, "models", "qwen3:8b"), ...))
    assert found.missing_models == ("qwen3:8b",)
    assert (found.different, found.dropped) == ((), ())


@pytest.mark.parametrize("path", [("provider",), OLLAMA, (*OLLAMA, "models")], ids=".".join)
@pytest.mark.parametrize("value", [..., None, [], "x", {}], ids=repr)
def test_a_server_without_the_models_lacks_every_one(
    asked: Any, answer: Any, path: tuple[str, ...], value: Any
) -> None:
    found = compare(asked, answer, changed(path, value))
    assert set(found.missing_models) == {"qwen3:8b", "gpt-oss:20b"}


def test_model_keys_are_compared_as_they_are(asked: Any, answer: Any) -> None:
    live = json.loads(json.dumps(CONFIG).replace('"qwen3:8b"', '"Qwen3:8b"'))
    assert compare(asked, answer, live).missing_models == ("qwen3:8b",)


def test_no_value_leaves_the_comparison(asked: Any, answer: Any) -> None:
    live = json.loads(json.dumps(CONFIG).replace("{env:KEY}", CANARY).replace("Qwen", CANARY))
    expected = changed((*OLLAMA, "options", "apiKey"), "sk-another-canary")
    found = compare(asked, answer, live, expected)
    assert found.different == ("provider.ollama.options.apiKey", "provider.ollama.models.qwen3:8b.name")
    assert CANARY not in repr(found)
    assert "another-canary" not in repr(found)


def test_what_stands_outside_of_ollama_is_not_compared(asked: Any, answer: Any) -> None:
    expected = {**CONFIG, "username": "me", "plugin": ["x"]}
    assert is_same(compare(asked, answer, {**CONFIG, "username": "unknown", "plugin": []}, expected))


def test_a_configuration_nested_without_end_is_a_wrong_answer(asked: Any, answer: Any) -> None:
    # Newer Pythons read a document that is nested deeper than a function may call itself.
    for depth in (201, 900, 5000):
        asked.answers = [answer('{"provider":{"ollama":' + '{"a":' * depth + "1" + "}" * depth + "}}")]
        with pytest.raises(AnswerError, match="nested too deeply"):
            server().compare_config(CONFIG, Budget(5))


# Providers ----------------------------------------------------------------------------------------------------------


def test_the_models_of_each_connected_provider_are_its_keys(asked: Any, answer: Any) -> None:
    body = {
        "providers": [
            {"id": "opencode", "models": {"big-pickle": {}}, "key": CANARY},
            {"id": "ollama", "models": {"qwen3:8b": {"id": "other"}, "gpt-oss:20b": {}}},
            {"id": "empty"},
            {"id": "odd", "models": ["x"]},
        ],
        "default": {},
    }
    asked.answers = [answer(body)]
    found = server().connected_models(Budget(5))
    assert found == {
        "opencode": frozenset({"big-pickle"}),
        "ollama": frozenset({"qwen3:8b", "gpt-oss:20b"}),
        "empty": frozenset(),
        "odd": frozenset(),
    }


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"providers": None},
        {"providers": {}},
        {"providers": [None]},
        {"providers": [{}]},
        {"providers": [{"id": 5}]},
    ],
)
def test_providers_of_another_shape_are_a_wrong_answer(asked: Any, answer: Any, body: dict[str, Any]) -> None:
    asked.answers = [answer(body)]
    with pytest.raises(AnswerError):
        server().connected_models(Budget(5))
