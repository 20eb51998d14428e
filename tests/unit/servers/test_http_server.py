"""What the HTTP servers have in common (CONTRACT A6, G0, H1)."""

from __future__ import annotations

from typing import Any

import pytest

from precheck_lib.bounded import http
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import AnswerError, StatusError
from precheck_lib.servers.http_server import Bounds, HttpServer
from precheck_lib.servers.ollama import OllamaServer
from precheck_lib.servers.openai import OpenAiServer
from precheck_lib.servers.opencode import OpenCodeServer
from precheck_lib.servers.words import short
from tests.unit.residency.fakes import Clock, ClockBudget


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []

    def send(method: str, url: str, **more: Any) -> None:
        seen.append({"method": method, "url": url, **more})

    monkeypatch.setattr(http, "send", send)
    return seen


def test_a_request_has_the_bounds_of_its_server_and_no_type_without_a_body(sent: list[dict[str, Any]]) -> None:
    server = HttpServer(
        "http://h/", journal=Journal(), bounds=Bounds(connect=1.5, total=2.5, max_bytes=77), headers={"A": "b"}
    )
    server.ask("GET", "/x", budget=Budget(5))
    server.ask("POST", "/y", budget=Budget(5), body=b"{}", total=9.0)
    first, second = sent
    assert (first["method"], first["url"], first["headers"], first["body"]) == ("GET", "http://h/x", {"A": "b"}, None)
    assert (first["connect_seconds"], first["total_seconds"], first["max_body"]) == (1.5, 2.5, 77)
    assert second["total_seconds"] == 9.0
    assert second["headers"] == {"A": "b", "Content-Type": "application/json"}


def test_a_request_is_made_under_the_name_of_its_server(sent: list[dict[str, Any]]) -> None:
    more = {"journal": Journal(), "bounds": Bounds()}
    HttpServer("http://h", name="it", **more).ask("GET", "/x", budget=Budget(5))
    for server in (
        OllamaServer("http://h/api", **more),
        OpenCodeServer("http://h", credentials=None, **more),
        OpenAiServer("http://h/v1", api_key="", **more),
    ):
        server._server.ask("GET", "/x", budget=Budget(5))
    assert [one["peer"] for one in sent] == ["it", "Ollama", "the OpenCode Server", "the server"]


def test_only_a_200_has_an_object(answer: Any) -> None:
    server = HttpServer("http://h", journal=Journal(), bounds=Bounds())
    assert server.object_of(answer({"a": 1}), "it") == {"a": 1}
    for status in (201, 204, 302, 404):
        with pytest.raises(StatusError):
            server.object_of(answer({"a": 1}, status), "it")
    with pytest.raises(AnswerError, match="it is not a JSON object but a list"):
        server.object_of(answer([1]), "it")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x", "'x'"),
        ("it's", '"it\'s"'),
        ("a\x1b[31m\n", "'a\\n'"),
        ("a\x1b and \x9b", "'a\\\\x1b and \\\\x9b'"),
        ("at http://ci:hunter2@host/, key=abc12345", "'at http://***@host/, key=***'"),
        ("x" * 10_000_000, repr("x" * 80) + "…"),
        ("x" * 80, repr("x" * 80)),
        ("x" * 81, repr("x" * 80) + "…"),
        (1, "1"),
        (-(10**70), str(-(10**70))),
        pytest.param(10**5000, "a number of 16610 bits", id="one that Python refuses to write"),
        (1.0, "1.0"),
        (True, "True"),
        (None, "None"),
        ([1, 2], "list"),
        ({"key": "value"}, "dict"),
    ],
)
def test_a_value_of_a_server_is_quoted_or_described_and_never_long(value: object, shown: str) -> None:
    assert short(value) == shown


def test_a_bound_is_told_as_it_is_configured_though_a_moment_of_it_has_passed() -> None:
    """CONTRACT H4: `deadline of 10 s elapsed`, and not of 9.998 s because the check began 2 ms before its request."""
    clock = Clock()
    check = ClockBudget(10.0, clock=clock)
    clock.now += 0.002
    assert str(check.child(10.0).over("head")) == "deadline of 10 s elapsed"
    assert str(check.child().over("frame")) == "deadline of 10 s elapsed"
    assert str(check.child(3.0).over("head")) == "deadline of 3 s elapsed"
