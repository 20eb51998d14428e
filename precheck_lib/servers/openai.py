"""Any server that speaks OpenAI's HTTP API: its list of models, and one token of a completion.

Why a token: `/health` and `/v1/models` are answered by the front of a server while its engine is dead or hangs
(vllm#36960, vllm#39863, vllm#24207).

Facts that shape this, from the sources and the threads of each:
  vLLM (entrypoints/openai: engine/protocol.py, models/serving.py, api_server.py): errors are `{"error": {"message",
    "type", "param", "code"}}`, before 0.10 `{"object": "error", "message", ...}` at the top; a wrong key is 401
    `{"error": "Unauthorized"}`; an unknown model is 404 `NotFoundError` with `param: "model"`; an unknown path is
    FastAPI's 404 `{"detail": "Not Found"}`; a base model without a chat template is 400 on /chat/completions ("default
    chat template is no longer allowed") and fine on /completions; a dead engine is 500. With a reasoning parser one
    token leaves `content: null` and the token in `reasoning` (`reasoning_content`), finish_reason `length`
    (vllm#52640). It does not listen while it loads.
  llama.cpp (tools/server): while it loads, every answer is 503 `{"error": {"code": 503, "message": "Loading model",
    "type": "unavailable_error"}}`, of /v1/models in some builds only; /v1/models needs no key, so that a wrong one
    shows first at the completion (401 `authentication_error`); the `id` is the path of the file unless `--alias` was
    given, further names are in `aliases`; with one model any name is answered.
  LM Studio, LocalAI, Ollama's /v1: models are loaded by the first request for them, which can take minutes; LM Studio
    lists embedding models too and says 404 "No models loaded" where it may not load; LocalAI says 500 "could not load
    model: ..."; Ollama lists `name:latest` and answers to `name`.

Of an error only its message is told, cut short, and none of a 401 or 403: some name the key that was sent.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from precheck_lib.bounded.strict_json import kind_of, parse, parse_object
from precheck_lib.errors import AnswerError, StatusError
from precheck_lib.servers.http_server import Bounds, HttpServer
from precheck_lib.servers.words import points_to, short

if TYPE_CHECKING:
    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.http import Answer
    from precheck_lib.bounded.journal import Journal

Reason = Literal["unauthorized", "loading", "model", "route", "no-chat", "other"]
"""Why a request was refused: `route` is a path that the server does not have, `no-chat` a model that cannot chat."""

_NO_TEXT = re.compile(r"embed|rerank|whisper|tts|clip", re.IGNORECASE)
"""Names of models that complete no text; servers list them beside the others."""

_NO_MODEL = re.compile(r"\bmodels?\b.*(?:not found|not exist|not loaded|unknown)|no models? loaded", re.IGNORECASE)
_NO_CHAT = re.compile(r"chat template|not support chat", re.IGNORECASE)


class Listed(msgspec.Struct, frozen=True):
    """One model that a server lists: its `id`, and the further names that it answers to."""

    id: str
    aliases: tuple[str, ...] = ()

    def is_named(self, name: str) -> bool:
        """Say whether a client may call it so."""
        return name in (self.id, *self.aliases) or self.id == f"{name}:latest"


class RefusedError(StatusError):
    """The server answered with a status other than 200; `reason` is what its body tells of why."""

    def __init__(self, text: str, status: int, reason: Reason) -> None:
        super().__init__(text, status)
        self.reason: Reason = reason


class OpenAiServer:
    """A server at `url`, which is the base that clients are given; `api_key` goes along as a Bearer token."""

    def __init__(self, url: str, *, api_key: str, journal: Journal, bounds: Bounds) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._server = HttpServer(url, journal=journal, bounds=bounds, headers=headers)

    def models(self, budget: Budget) -> list[Listed]:
        """Return the models that the server lists (`GET /models`)."""
        answer = self._server.ask("GET", "/models", budget=budget)
        rows = self._object(answer, "the list of models").get("data")
        if not isinstance(rows, list):
            raise AnswerError(f"the list of models has no list at `data` but {kind_of(rows)}")
        listed = []
        for row in rows:
            name = row.get("id") if isinstance(row, dict) else None
            if not isinstance(name, str) or not name.strip():
                raise AnswerError("an entry of the list of models has no usable `id`")
            more = row.get("aliases")
            aliases = tuple(alias for alias in more if isinstance(alias, str)) if isinstance(more, list) else ()
            listed.append(Listed(name, aliases))
        return listed

    def complete(self, model: str, budget: Budget, seconds: float) -> None:
        """Have one token made: by /chat/completions, or by /completions where that is not there for this model.

        Returns where a completion came, whatever is in it: one token may be empty, or only of a thought.
        """
        both = budget.child(seconds)
        try:
            self._complete("/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}, model, both, seconds)
        except RefusedError as error:
            if error.reason not in ("route", "no-chat"):
                raise
            self._complete("/completions", {"prompt": "Hi"}, model, both, seconds)

    def _complete(self, path: str, prompt: dict[str, Any], model: str, budget: Budget, seconds: float) -> None:
        request = {"model": model, **prompt, "max_tokens": 1, "stream": False}
        body = json.dumps(request, separators=(",", ":")).encode()
        answer = self._server.ask("POST", path, budget=budget, body=body, total=seconds)
        value = self._object(answer, "the completion")
        choices = value.get("choices")
        if not isinstance(choices, list) or not choices:
            if "error" in value:
                raise AnswerError(f"the server answered with an error: {short(_message(value), 80)}")
            told = "an empty list" if choices == [] else kind_of(choices)
            raise AnswerError(f"the completion has no `choices` but {told if 'choices' in value else 'nothing'} there")
        first = choices[0]
        if not isinstance(first, dict) or not (isinstance(first.get("message"), dict) or "text" in first):
            raise AnswerError("the first of `choices` has neither a `message` nor a `text`")
        if first.get("finish_reason") in ("error", "abort"):
            raise AnswerError(f"the completion ended with finish_reason {first['finish_reason']!r}")

    def _object(self, answer: Answer, what: str) -> dict[str, Any]:
        if answer.status != 200:
            raise _refused(answer, self._server.url)
        if answer.content_type == "text/html":
            raise AnswerError(f"{what} is a web page: the base URL of the API has to be given, which ends in /v1")
        return parse_object(answer.body, what)


def completes_text(listed: list[Listed]) -> Listed:
    """Return the first model that is not one for embeddings or speech by its name; the first where all are."""
    return next((one for one in listed if _NO_TEXT.search(one.id) is None), listed[0])


def _refused(answer: Answer, url: str) -> RefusedError:
    status = answer.status
    text = f"status {status} instead of 200"
    if status in (301, 302, 303, 307, 308):
        return RefusedError(f"{text}; {points_to(answer.headers.get('Location'), url)}", status, "other")
    if status in (401, 403):
        return RefusedError(text, status, "unauthorized")
    try:
        body = parse(answer.body) if answer.complete and answer.body else None
    except ValueError:
        body = None
    message = _message(body)
    reason = _reason(status, body, message if isinstance(message, str) else "")
    if isinstance(message, str) and message:
        text += f": {short(message, 80)}"
    return RefusedError(text, status, reason)


def _message(body: Any) -> Any:
    """Return what an error says: nested as OpenAI has it, at the top, or as FastAPI has it."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict):
        return error.get("message")
    return next((body[key] for key in ("error", "message", "detail") if isinstance(body.get(key), str)), None)


def _reason(status: int, body: Any, message: str) -> Reason:
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else body if isinstance(body, dict) else {}
    if status == 503 and ("loading" in message.lower() or error.get("type") == "unavailable_error"):
        return "loading"
    if status in (400, 404):
        if _NO_CHAT.search(message):
            return "no-chat"
        if error.get("param") == "model" or error.get("code") == "model_not_found" or _NO_MODEL.search(message):
            return "model"
    return "route" if status in (404, 405, 501) else "other"
