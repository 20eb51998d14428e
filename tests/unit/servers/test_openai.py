"""What servers of OpenAI's API answer (vLLM, llama.cpp, LM Studio, Ollama), and what each answer is taken for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.http import Answer
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import AnswerError, DeadlineError
from precheck_lib.servers.http_server import Bounds
from precheck_lib.servers.openai import Listed, OpenAiServer, RefusedError, completes_text

CANARY = "sk-canary-7Yf3"
CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "length"}]}
PLAIN = {"choices": [{"index": 0, "text": "Hi", "finish_reason": "length"}]}
NO_ROUTE = {"detail": "Not Found"}
MODEL = "The model `m` does not exist."


def server(api_key: str = "") -> OpenAiServer:
    return OpenAiServer("http://h:8000/v1/", api_key=api_key, journal=Journal(), bounds=Bounds())


# What is asked --------------------------------------------------------------------------------------------------------


def test_a_completion_is_one_token_in_one_piece(asked: Any, answer: Any) -> None:
    asked.answers = [answer(CHAT)]
    server().complete("m", Budget(5), 3.0)
    (request,) = asked.requests
    assert (request["method"], request["url"]) == ("POST", "http://h:8000/v1/chat/completions")
    assert json.loads(request["body"]) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 1,
        "stream": False,
    }
    assert request["total"] == 3.0
    assert "Authorization" not in request["headers"]


def test_a_key_goes_with_everything(asked: Any, answer: Any) -> None:
    asked.answers = [answer({"data": []}), answer(NO_ROUTE, 404), answer(PLAIN)]
    one = server(CANARY)
    one.models(Budget(5))
    one.complete("m", Budget(5), 3.0)
    assert [request["headers"]["Authorization"] for request in asked.requests] == [f"Bearer {CANARY}"] * 3


@pytest.mark.parametrize(
    "refusal",
    [
        (NO_ROUTE, 404),
        ({"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}, 404),
        (b"404 page not found", 404),
        (b"", 405),
        (b"", 501),
        (
            {"error": {"message": "As of transformers v4.44, default chat template is no longer allowed", "code": 400}},
            400,
        ),
        ({"object": "error", "message": "The model does not support Chat Completions API", "code": 400}, 400),
    ],
)
def test_where_there_is_no_chat_for_a_model_it_completes_a_text(asked: Any, answer: Any, refusal: Any) -> None:
    asked.answers = [answer(*refusal), answer(PLAIN)]
    server().complete("m", Budget(5), 3.0)
    assert [request["url"].rpartition("/v1")[2] for request in asked.requests] == ["/chat/completions", "/completions"]
    assert json.loads(asked.requests[1]["body"]) == {"model": "m", "prompt": "Hi", "max_tokens": 1, "stream": False}


def test_both_ways_of_asking_share_one_bound(asked: Any, answer: Any) -> None:
    asked.answers = [answer(NO_ROUTE, 404), answer(PLAIN)]
    server().complete("m", Budget(5), 3.0)
    first, second = (request["budget"] for request in asked.requests)
    assert first is second
    assert first.asked == 3.0


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"error": "Unauthorized"}, 401, "unauthorized"),
        ({"error": {"message": f"wrong {CANARY}", "type": "authentication_error", "code": 401}}, 401, "unauthorized"),
        (b"", 403, "unauthorized"),
        ({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503, "loading"),
        ({"error": "model is loading"}, 503, "loading"),
        ({"error": {"message": "busy"}}, 503, "other"),
        (b"<html>bad gateway</html>", 502, "other"),
        ({"error": {"message": MODEL, "type": "NotFoundError", "param": "model", "code": 404}}, 404, "model"),
        ({"object": "error", "message": MODEL, "type": "NotFoundError", "param": None, "code": 404}, 404, "model"),
        ({"error": {"message": 'model "m" not found, try pulling it first', "type": "api_error"}}, 404, "model"),
        ({"error": {"message": "No models loaded. Please load a model", "param": "model"}}, 404, "model"),
        ({"error": {"message": "x", "code": "model_not_found"}}, 400, "model"),
        ({"error": {"message": "bad request"}}, 400, "other"),
        ({"error": {"message": "could not load model: rpc error"}}, 500, "other"),
    ],
)
def test_a_refusal_is_not_asked_again_in_another_way(
    asked: Any, answer: Any, body: Any, status: int, reason: str
) -> None:
    asked.answers = [answer(body, status)]
    with pytest.raises(RefusedError) as caught:
        server().complete("m", Budget(5), 3.0)
    assert (caught.value.reason, caught.value.status) == (reason, status)
    assert caught.value.word == ("failed" if status in (401, 403) else "error")
    assert str(caught.value).startswith(f"status {status} instead of 200")
    assert CANARY not in str(caught.value)
    assert len(asked.requests) == 1


def test_of_a_refusal_only_the_message_is_told_cut_short(asked: Any, answer: Any) -> None:
    asked.answers = [answer({"error": {"message": "m" * 500, "trace": CANARY}}, 500)]
    with pytest.raises(RefusedError) as caught:
        server().complete("m", Budget(5), 3.0)
    assert str(caught.value) == f"status 500 instead of 200: '{'m' * 80}'…"
    asked.answers = [answer({"error": {"message": CANARY}}, 500, complete=False)]
    with pytest.raises(RefusedError, match=r"\Astatus 500 instead of 200\Z"):
        server().complete("m", Budget(5), 3.0)


def test_a_redirect_is_not_followed_and_told_by_its_host(asked: Any) -> None:
    asked.answers = [Answer(302, {"Location": f"https://login.example/?t={CANARY}"}, b"", complete=True)]
    with pytest.raises(RefusedError) as caught:
        server().models(Budget(5))
    assert str(caught.value) == "status 302 instead of 200; it points to the host login.example"
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


def test_a_deadline_is_passed_on(asked: Any) -> None:
    asked.answers = [DeadlineError("deadline", phase="head", seconds=1.0)]
    with pytest.raises(DeadlineError):
        server().complete("m", Budget(5), 3.0)


# Completions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choice",
    [
        {"message": {"role": "assistant", "content": ""}, "finish_reason": "length"},
        {"message": {"role": "assistant", "content": None, "reasoning": "The"}, "finish_reason": "length"},
        {"message": {"role": "assistant", "content": None, "reasoning_content": "The", "tool_calls": []}},
        {"message": {}, "finish_reason": None},
        {"message": {"content": "Hi"}, "finish_reason": "stop"},
        {"text": "", "finish_reason": "length"},
    ],
)
def test_one_token_may_be_no_text_at_all(asked: Any, answer: Any, choice: Any) -> None:
    asked.answers = [answer({"choices": [choice]})]
    server().complete("m", Budget(5), 3.0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"choices": []}, "no `choices` but an empty list there"),
        ({"choices": None}, "no `choices` but null there"),
        ({"choices": {}}, "no `choices` but an object there"),
        ({}, "no `choices` but nothing there"),
        ({"error": {"message": "CUDA error"}}, "the server answered with an error: 'CUDA error'"),
        ({"error": "dead"}, "the server answered with an error: 'dead'"),
        ({"choices": [None]}, "neither a `message` nor a `text`"),
        ({"choices": [{"message": "Hi"}]}, "neither a `message` nor a `text`"),
        ({"choices": [{"message": {}, "finish_reason": "abort"}]}, "finish_reason 'abort'"),
        ({"choices": [{"text": "", "finish_reason": "error"}]}, "finish_reason 'error'"),
        ([], "the completion is not a JSON object but a list"),
        (b"", "the completion cannot be read"),
    ],
)
def test_a_200_without_a_completion_is_a_wrong_answer(asked: Any, answer: Any, body: Any, said: str) -> None:
    asked.answers = [answer(body)]
    with pytest.raises(AnswerError) as caught:
        server().complete("m", Budget(5), 3.0)
    assert said in str(caught.value)
    assert (caught.value.word, len(asked.requests)) == ("failed", 1)


# The list of models ---------------------------------------------------------------------------------------------------


def test_models_are_listed_with_the_further_names_that_llama_cpp_gives(asked: Any, answer: Any) -> None:
    asked.answers = [
        answer({"data": [{"id": "a"}, {"id": "b", "aliases": ["c", 5, "d"]}, {"id": "e", "aliases": None}]})
    ]
    assert server().models(Budget(5)) == [Listed("a"), Listed("b", ("c", "d")), Listed("e")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "no list at `data` but null"),
        ({"data": {}}, "no list at `data` but an object"),
        ({"data": [None]}, "no usable `id`"),
        ({"data": [{"id": " "}]}, "no usable `id`"),
        ({"data": [{"id": 5}]}, "no usable `id`"),
        ([], "the list of models is not a JSON object but a list"),
    ],
)
def test_a_list_of_another_shape_is_a_wrong_answer(asked: Any, answer: Any, body: Any, said: str) -> None:
    asked.answers = [answer(body)]
    with pytest.raises(AnswerError, match=said):
        server().models(Budget(5))


def test_a_web_page_is_told_as_one(asked: Any, answer: Any) -> None:
    asked.answers = [answer(b"<html></html>", content_type="text/html; charset=utf-8")]
    with pytest.raises(AnswerError, match="the list of models is a web page: the base URL of the API has to be given"):
        server().models(Budget(5))


@pytest.mark.parametrize(
    ("name", "is_it"),
    [("llama3:latest", True), ("llama3", True), ("meta", True), ("llama", False), ("Llama3", False), ("", False)],
)
def test_a_model_is_named_by_its_id_its_aliases_or_without_latest(name: str, is_it: bool) -> None:
    assert Listed("llama3:latest", ("meta",)).is_named(name) is is_it


def test_the_first_that_completes_text_is_not_one_for_embeddings() -> None:
    embeds, speaks, chats = Listed("text-embedding-nomic"), Listed("Whisper-1"), Listed("qwen3")
    assert completes_text([embeds, speaks, chats]) is chats
    assert completes_text([embeds, speaks]) is embeds
