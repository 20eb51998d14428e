"""Ollama's answers, each shape (CONTRACT G1, G2, G3; facts/ollama.md 1.1 to 1.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import AnswerError, ConnectError, DeadlineError, ReceiveError, StatusError
from precheck_lib.servers.http_server import Bounds
from precheck_lib.servers.ollama import InvalidInventoryError, NoInventoryError, OllamaServer, TooOldError
from precheck_lib.simulate import INVALID_INVENTORIES

ROW = {
    "name": "qwen3:8b",
    "model": "qwen3:8b",
    "size": 6549825126,
    "digest": "a" * 64,
    "details": {"family": "qwen3", "families": None},
    "expires_at": "2318-12-12T10:00:00.123456789+02:00",
    "size_vram": 6549825126,
    "context_length": 65536,
}


def server(url: str = "http://127.0.0.1:11434/api") -> OllamaServer:
    return OllamaServer(url, journal=Journal(), bounds=Bounds())


def read(asked: Any, *answers: Any) -> Any:
    asked.answers = list(answers)
    return server().inventory(Budget(5))


@pytest.mark.parametrize("url", ["http://h:1/api", "http://h:1/api/", "http://h:1/api//"])
def test_a_trailing_slash_of_the_url_is_the_same(asked: Any, answer: Any, url: str) -> None:
    asked.answers = [answer({"models": []})]
    server(url).inventory(Budget(5))
    assert asked.requests[0]["url"] == "http://h:1/api/ps"


# The inventory ------------------------------------------------------------------------------------------------------


def test_a_row_is_read_as_it_was_sent(asked: Any, answer: Any) -> None:
    (row,) = read(asked, answer({"models": [ROW]}))
    assert (row.name, row.size, row.size_vram, row.context_length) == ("qwen3:8b", 6549825126, 6549825126, 65536)
    assert (row.digest, row.expires_at, row.missing) == ("a" * 64, "2318-12-12T10:00:00.123456789+02:00", ())


def test_an_empty_inventory_is_one(asked: Any, answer: Any) -> None:
    assert read(asked, answer({"models": []})) == []
    assert read(asked, answer({"models": [], "more": [1, None]})) == []


@pytest.mark.parametrize("key", ["size", "size_vram", "context_length"])
@pytest.mark.parametrize(
    "value",
    [1.0, "1", True, None, [], {"a": 1}, -1, 10**40, 0, 1e300, "x" * 10_000],
    ids=lambda value: repr(value)[:20],
)
def test_numbers_of_any_type_make_no_inventory_invalid(asked: Any, answer: Any, key: str, value: Any) -> None:
    (row,) = read(asked, answer({"models": [{**ROW, key: value}]}))
    found = getattr(row, key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("number", ["1e400", "-1e999", "1E+5000"])
def test_a_number_too_large_for_a_double_makes_no_inventory_invalid(asked: Any, answer: Any, number: str) -> None:
    """It is JSON, and sizes are judged in the row of the model just loaded and nowhere else."""
    rows = read(asked, answer(f'{{"models":[{{"name":"theirs:1b","size":{number}}}]}}'))
    assert [row.name for row in rows] == ["theirs:1b"]


@pytest.mark.parametrize(
    "keys", [("size",), ("size_vram",), ("context_length",), ("size", "size_vram", "context_length")]
)
def test_missing_keys_are_noted_and_make_no_inventory_invalid(asked: Any, answer: Any, keys: tuple[str, ...]) -> None:
    (row,) = read(asked, answer({"models": [{key: value for key, value in ROW.items() if key not in keys}]}))
    assert row.missing == keys


def test_a_row_needs_nothing_but_a_name(asked: Any, answer: Any) -> None:
    rows = read(asked, answer({"models": [{"name": "a"}, {"name": " b "}, {"name": "\u200b"}]}))
    assert [row.name for row in rows] == ["a", " b ", "\u200b"]
    assert rows[0].missing == ("size", "size_vram", "context_length")


@pytest.mark.parametrize(
    "odd", [{"digest": 5}, {"digest": ""}, {"expires_at": None}, {"expires_at": 12}, {"model": []}]
)
def test_odd_values_beside_the_numbers_make_no_inventory_invalid(asked: Any, answer: Any, odd: dict[str, Any]) -> None:
    (row,) = read(asked, answer({"models": [{**ROW, **odd}]}))
    for key in odd.keys() - {"model"}:
        assert getattr(row, key) is None


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "text/plain", ""])
def test_the_type_of_the_answer_does_not_matter(asked: Any, answer: Any, content_type: str) -> None:
    assert read(asked, answer({"models": []}, content_type=content_type)) == []


MORE_INVALID = {
    "name-list": '{"models":[{"name":["a"]}]}',
    "name-bool": '{"models":[{"name":true}]}',
    "blank-unicode": '{"models":[{"name":"\\u00a0\\u2003\\n"}]}',
    "second-row": '{"models":[{"name":"a"},{"name":""}]}',
    "row-list": '{"models":[[]]}',
    "row-number": '{"models":[3]}',
    "models-number": '{"models":0}',
    "models-false": '{"models":false}',
    "models-empty-string": '{"models":""}',
    "other-case": '{"Models":[]}',
    "body-number": "0",
    "body-string": '"models"',
    "html": "<html><body>It works!</body></html>",
    "trailing": '{"models":[]}x',
    "two-documents": '{"models":[]}\n{"models":[]}',
    "bom": '\ufeff{"models":[]}',
    "nan": '{"models":[{"name":"a","size":NaN}]}',
    "deep": "[" * 100_000,
}


NO_INVENTORY = {**INVALID_INVENTORIES, **MORE_INVALID, "not-utf-8": b"\xff\xfe", "half-utf-8": b'{"models":["\xff"]}'}


@pytest.mark.parametrize("body", NO_INVENTORY.values(), ids=NO_INVENTORY.keys())
def test_what_is_no_inventory_is_invalid(asked: Any, answer: Any, body: Any) -> None:
    with pytest.raises(InvalidInventoryError) as caught:
        read(asked, answer(body))
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


def test_500_without_a_body_and_a_read_at_its_own_bound_say_nothing(asked: Any, answer: Any) -> None:
    with pytest.raises(NoInventoryError):
        read(asked, answer(b"", 500))
    with pytest.raises(NoInventoryError):
        read(asked, DeadlineError("deadline of 10 s elapsed", phase="head", seconds=10))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b" "),
        (500, b"x"),
        (500, b'{"error":"x"}'),
        (502, b""),
        (503, b""),
        (503, b"<p>x</p>"),
        (404, b""),
        (429, b""),
    ],
)
def test_any_other_status_from_400_is_a_failure(asked: Any, answer: Any, status: int, body: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        read(asked, answer(body, status))
    assert (caught.value.status, caught.value.word, caught.value.curl) == (status, "error", 22)


def test_a_500_whose_body_did_not_come_whole_is_a_failure(asked: Any, answer: Any) -> None:
    with pytest.raises(StatusError):
        read(asked, answer(b"", 500, complete=False))


@pytest.mark.parametrize(("status", "word"), [(401, "failed"), (403, "failed")])
def test_401_and_403_are_requirements_not_met(asked: Any, answer: Any, status: int, word: str) -> None:
    with pytest.raises(StatusError) as caught:
        read(asked, answer(b"", status))
    assert (caught.value.word, caught.value.curl) == (word, 22)


@pytest.mark.parametrize("status", [201, 204, 206, 301, 302, 307])
def test_another_status_below_400_is_no_inventory_whatever_its_body(asked: Any, answer: Any, status: int) -> None:
    with pytest.raises(StatusError) as caught:
        read(asked, answer({"models": []}, status))
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


@pytest.mark.parametrize("error", [ConnectError("no", phase="connect"), ReceiveError("no", phase="body")])
def test_a_broken_connection_is_passed_on(asked: Any, error: Exception) -> None:
    with pytest.raises(type(error)):
        read(asked, error)


def test_t10_a_proxys_page_is_not_shown_as_ollamas_words(asked: Any, answer: Any) -> None:
    page = b"<p><b>Connection to 127.0.0.1 failed.</b></p>"
    with pytest.raises(StatusError) as caught:
        read(asked, answer(page, 503, "text/html"))
    assert "not Ollama's JSON" in str(caught.value)
    assert "127.0.0.1 failed" not in str(caught.value)


def test_ollamas_own_error_text_is_shown_and_cut(asked: Any, answer: Any) -> None:
    with pytest.raises(StatusError, match="out of memory"):
        read(asked, answer({"error": "out of memory"}, 503))
    with pytest.raises(StatusError) as caught:
        read(asked, answer({"error": "x" * 5000}, 503))
    assert len(str(caught.value)) < 300


# Tags ---------------------------------------------------------------------------------------------------------------


def test_the_installed_models_are_read(asked: Any, answer: Any) -> None:
    rows = [
        {"name": "a:1b", "size": 5, "digest": "d", "remote_host": ""},
        {"name": "b:cloud", "remote_host": "https://ollama.com:443", "remote_model": "b"},
    ]
    asked.answers = [answer({"models": rows})]
    first, second = server().tags(Budget(5))
    assert (first.name, first.size, first.digest, first.remote_host) == ("a:1b", 5, "d", None)
    assert (second.size, second.digest, second.remote_host) == (None, None, "https://ollama.com:443")
    assert asked.requests[0]["url"] == "http://127.0.0.1:11434/api/tags"


@pytest.mark.parametrize("size", [None, "5", 5.0, True, [], -0.5])
def test_a_size_that_is_no_integer_is_not_given(asked: Any, answer: Any, size: Any) -> None:
    asked.answers = [answer({"models": [{"name": "a", "size": size}]})]
    assert server().tags(Budget(5))[0].size is None


@pytest.mark.parametrize("body", [*INVALID_INVENTORIES.values()], ids=[*INVALID_INVENTORIES])
def test_tags_that_are_none_are_a_wrong_answer(asked: Any, answer: Any, body: str) -> None:
    asked.answers = [answer(body)]
    with pytest.raises(AnswerError) as caught:
        server().tags(Budget(5))
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


# Unload and load ----------------------------------------------------------------------------------------------------


def sent(asked: Any) -> dict[str, Any]:
    (request,) = asked.requests
    assert (request["method"], request["url"]) == ("POST", "http://127.0.0.1:11434/api/generate")
    return json.loads(request["body"])


def done(reason: Any = ..., value: Any = True) -> dict[str, Any]:
    base = {"model": "m", "created_at": "2026-08-21T10:00:00.1Z", "response": "", "done": value}
    return base if reason is ... else {**base, "done_reason": reason}


def test_an_unload_asks_for_exactly_that(asked: Any, answer: Any) -> None:
    asked.answers = [answer(done("unload"))]
    server().unload("Qwen3:8B", Budget(60), 30.0)
    assert sent(asked) == {"model": "Qwen3:8B", "prompt": "", "stream": False, "keep_alive": 0}
    assert asked.requests[0]["total"] == 30.0


def test_a_load_asks_for_exactly_that_and_names_no_options(asked: Any, answer: Any) -> None:
    asked.answers = [answer(done("load"))]
    server().load("Qwen3:8B", "10m", Budget(600), 360.0)
    assert sent(asked) == {"model": "Qwen3:8B", "prompt": "", "stream": False, "keep_alive": "10m"}
    assert asked.requests[0]["total"] == 360.0


@pytest.mark.parametrize("reason", [..., "", None, "load", "stop"])
def test_a_server_that_loads_when_told_to_unload_is_too_old(asked: Any, answer: Any, reason: Any) -> None:
    asked.answers = [answer(done(reason))]
    with pytest.raises(TooOldError, match=r"0\.3\.11") as caught:
        server().unload("m", Budget(60), 30.0)
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


WRONG_ANSWERS = [
    {},
    {"done": False, "done_reason": "{}"},
    {"done": 1, "done_reason": "{}"},
    {"done": "true", "done_reason": "{}"},
    {"done_reason": "{}"},
    {"done": True, "done_reason": "length"},
    {"done": True, "done_reason": ["{}"]},
    {"done": True, "done_reason": True},
    {"done": True, "done_reason": "{}", "error": "unable to load full model on GPU"},
    {"error": {"code": 5}},
    {"error": None},
]


@pytest.mark.parametrize("wrong", WRONG_ANSWERS, ids=json.dumps)
@pytest.mark.parametrize("kind", ["unload", "load"])
def test_an_answer_that_does_not_say_that_it_is_done_is_wrong(
    asked: Any, answer: Any, kind: str, wrong: dict[str, Any]
) -> None:
    asked.answers = [answer(json.dumps(wrong).replace("{}", kind) if wrong else "{}")]
    with pytest.raises(AnswerError) as caught:
        change(kind)
    assert not isinstance(caught.value, StatusError)
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


@pytest.mark.parametrize("kind", ["unload", "load"])
def test_what_is_said_of_an_answer_that_is_not_done_is_true(asked: Any, answer: Any, kind: str) -> None:
    """'was answered with done_reason 'load', not 'load'' helps nobody."""
    asked.answers = [answer(done(kind, value=False))]
    with pytest.raises(AnswerError) as caught:
        change(kind)
    assert f"{kind!r}, not {kind!r}" not in str(caught.value)
    assert "done" in str(caught.value)


@pytest.mark.parametrize("reason", ["unload", "stop", "", None, ...])
def test_a_load_that_ends_for_another_reason_is_wrong(asked: Any, answer: Any, reason: Any) -> None:
    asked.answers = [answer(done(reason))]
    with pytest.raises(AnswerError):
        server().load("m", "10m", Budget(60), 30.0)


@pytest.mark.parametrize("body", ["", "null", "[]", '{"done":true', "<html>", '{"done":true}\n{"done":true}'])
@pytest.mark.parametrize("kind", ["unload", "load"])
def test_a_200_that_is_no_json_object_is_wrong(asked: Any, answer: Any, kind: str, body: str) -> None:
    asked.answers = [answer(body)]
    with pytest.raises(AnswerError) as caught:
        change(kind)
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 499, 500, 502, 503])
@pytest.mark.parametrize("kind", ["unload", "load"])
def test_a_status_from_400_refuses_the_change(asked: Any, answer: Any, kind: str, status: int) -> None:
    asked.answers = [answer({"error": "model 'm' not found"}, status)]
    with pytest.raises(StatusError, match="model 'm' not found") as caught:
        change(kind)
    assert (caught.value.status, caught.value.word, caught.value.curl) == (status, "failed", 22)


@pytest.mark.parametrize("kind", ["unload", "load"])
def test_a_redirect_is_no_answer(asked: Any, answer: Any, kind: str) -> None:
    asked.answers = [answer(done(kind), 307)]
    with pytest.raises(StatusError) as caught:
        change(kind)
    assert (caught.value.word, caught.value.curl) == ("failed", 1)


def change(kind: str) -> None:
    if kind == "unload":
        server().unload("m", Budget(60), 30.0)
    else:
        server().load("m", "10m", Budget(60), 30.0)
