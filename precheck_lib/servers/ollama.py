"""Ollama: tags, inventory, unload and load, each shape checked (read in its source up to 0.33.0).

Names are compared in one canonical form everywhere, because the server itself answers with another spelling than it was
asked with; requests carry the name as it is configured.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.bounded.strict_json import kind_of, parse, parse_object
from precheck_lib.errors import AnswerError, DeadlineError, StatusError
from precheck_lib.servers.http_server import Bounds, HttpServer
from precheck_lib.servers.words import short

if TYPE_CHECKING:
    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.http import Answer
    from precheck_lib.bounded.journal import Journal


class NoInventoryError(Exception):
    """A read that is no inventory: it ran into its own bound, or the server answered 500 without a body.

    Both happen while a server unloads (its lock is held until the runner has gone; before 0.32.4 a row in the middle of
    unloading crashed the handler). It says neither that a model is there nor that it is gone.
    """


class InvalidInventoryError(AnswerError):
    """The answer is no inventory at all: it can never authorise a load."""


class TooOldError(AnswerError):
    """The server loaded a model when it was told to unload it: it is older than 0.3.11."""


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """One installed model; `size` in bytes where it is given as an integer.

    `capabilities` is `None` where the server's list does not tell them.
    """

    name: str
    size: int | None
    digest: str | None
    remote_host: str | None
    capabilities: tuple[str, ...] | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One resident model as the inventory lists it: three numbers as sent, of any type; `missing` are absent keys."""

    name: str
    size: Any = None
    size_vram: Any = None
    context_length: Any = None
    missing: tuple[str, ...] = ()
    digest: str | None = None
    expires_at: str | None = None


class OllamaServer:
    """An Ollama server; `url` ends in `/api` (a trailing slash is the same)."""

    def __init__(self, url: str, *, journal: Journal, bounds: Bounds) -> None:
        self._server = HttpServer(url, journal=journal, bounds=bounds, name="Ollama")

    def tags(self, budget: Budget) -> list[Tag]:
        """Return the installed models (`GET /tags`)."""
        answer = self._server.ask("GET", "/tags", budget=budget)
        rows = self._models(answer, "the list of installed models")
        return [
            Tag(
                name=row["name"],
                size=row["size"] if type(row.get("size")) is int else None,
                digest=_text(row.get("digest")),
                remote_host=_text(row.get("remote_host")),
                capabilities=_texts(row.get("capabilities")),
            )
            for row in rows
        ]

    def version(self, budget: Budget) -> str | None:
        """Return the version of the running server (`GET /version`), `None` where it says none."""
        answer = self._server.ask("GET", "/version", budget=budget)
        return _text(self._object(answer).get("version"))

    def capabilities(self, model: str, budget: Budget) -> tuple[str, ...] | None:
        """Return what a model can do (`POST /show`, which changes nothing), `None` where the server does not tell."""
        body = json.dumps({"model": model}, separators=(",", ":")).encode()
        answer = self._server.ask("POST", "/show", budget=budget, body=body)
        return _texts(self._object(answer).get("capabilities"))

    def inventory(self, budget: Budget) -> list[Row]:
        """Return the resident models (`GET /ps`).

        Raises `NoInventoryError` for what says nothing, `InvalidInventoryError` for an answer that is no inventory.
        """
        try:
            answer = self._server.ask("GET", "/ps", budget=budget)
        except DeadlineError as error:
            raise NoInventoryError(str(error)) from error
        if answer.status == 500 and answer.complete and not answer.body:
            raise NoInventoryError("status 500 without a body")
        rows = self._models(answer, "the inventory")
        return [
            Row(
                name=row["name"],
                size=row.get("size"),
                size_vram=row.get("size_vram"),
                context_length=row.get("context_length"),
                missing=tuple(key for key in ("size", "size_vram", "context_length") if key not in row),
                digest=_text(row.get("digest")),
                expires_at=_text(row.get("expires_at")),
            )
            for row in rows
        ]

    def unload(self, model: str, budget: Budget, seconds: float) -> None:
        """Ask to unload a model; the server answers before it is gone, and also where it never was loaded."""
        answer = self._generate(model, 0, budget, seconds)
        reason = answer.get("done_reason")
        if answer.get("done") is True and reason == "unload":
            return
        if answer.get("done") is True and reason in (None, "", "load", "stop"):
            raise TooOldError("it loaded the model when it was told to unload it: Ollama before 0.3.11")
        raise AnswerError(_not_done("unload", answer))

    def load(self, model: str, keep_alive: str, budget: Budget, seconds: float) -> None:
        """Ask to load a model and wait for it; closing the connection makes the server give the load up."""
        answer = self._generate(model, keep_alive, budget, seconds)
        if answer.get("done") is not True or answer.get("done_reason") != "load":
            raise AnswerError(_not_done("load", answer))

    def token(self, model: str, budget: Budget, seconds: float) -> str | None:
        """Have a resident model answer one token, and return the server's time of the answer, where it gives one.

        It is a bare request: one without `keep_alive` leaves the runner's own as it is, and `num_predict` is not among
        the options for which the server loads a model anew.
        """
        request = {"model": model, "prompt": "1", "stream": False, "options": {"num_predict": 1}}
        answer = self._post(request, budget, seconds, changes=False)
        if answer.get("done") is not True:
            raise AnswerError(f"the answer has done {short(answer.get('done'))}, not true")
        count = answer.get("eval_count")
        if not (answer.get("response") or answer.get("thinking") or (type(count) is int and count > 0)):
            raise AnswerError(f"it answered without a token (done_reason {short(answer.get('done_reason'))})")
        return _text(answer.get("created_at"))

    def _generate(self, model: str, keep_alive: int | str, budget: Budget, seconds: float) -> dict[str, Any]:
        request = {"model": model, "prompt": "", "stream": False, "keep_alive": keep_alive}
        return self._post(request, budget, seconds)

    def _post(self, request: dict[str, Any], budget: Budget, seconds: float, *, changes: bool = True) -> dict[str, Any]:
        body = json.dumps(request, separators=(",", ":")).encode()
        answer = self._server.ask("POST", "/generate", budget=budget, body=body, total=seconds)
        if answer.status != 200:
            raise _status_error(answer, refused_change=changes)
        value = parse_object(answer.body, "the answer")
        if "error" in value:
            raise AnswerError(f"the server answered with an error: {short(value['error'], 200)}")
        return value

    @staticmethod
    def _object(answer: Answer) -> dict[str, Any]:
        if answer.status != 200:
            raise _status_error(answer, refused_change=False)
        return parse_object(answer.body, "the answer", lenient=True)

    def _models(self, answer: Answer, what: str) -> list[dict[str, Any]]:
        if answer.status != 200:
            raise _status_error(answer, refused_change=False)
        try:
            models = parse_object(answer.body, what, lenient=True).get("models")
        except AnswerError as error:
            raise InvalidInventoryError(str(error)) from None
        if not isinstance(models, list):
            raise InvalidInventoryError(f"{what} has no list of `models` but {kind_of(models)}")
        for row in models:
            if not isinstance(row, dict):
                raise InvalidInventoryError(f"a row of {what} is not an object but {kind_of(row)}")
            name = row.get("name")
            if not isinstance(name, str) or not name.strip():
                raise InvalidInventoryError(f"a row of {what} has no usable `name`")
        return models


def _not_done(what: str, answer: dict[str, Any]) -> str:
    done = answer.get("done")
    if done is not True:
        return f"the {what} was answered with done {short(done)}, not true"
    return f"the {what} was answered with done_reason {short(answer.get('done_reason'))}, not {what!r}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(each for each in value if isinstance(each, str))


def _status_error(answer: Answer, *, refused_change: bool) -> StatusError:
    text = f"status {answer.status} instead of 200"
    try:
        body = parse(answer.body) if answer.body else None
    except ValueError:
        body = None
        text += " (not Ollama's JSON: another program or a proxy answers)"
    if isinstance(body, dict) and isinstance(body.get("error"), str):
        text += f": {short(body['error'], 200)}"
    return StatusError(text, answer.status, refused_change=refused_change)
