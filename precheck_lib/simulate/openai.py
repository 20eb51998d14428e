"""A stand-in of servers that speak OpenAI's API, in the manner of vLLM or of llama.cpp.

Shapes are those of their sources (vllm/entrypoints/openai, llama.cpp tools/server) as of the middle of 2026; nothing is
computed. What both do alike: a completion names its model, `max_tokens: 1` gives one token and finish_reason `length`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Literal

from precheck_lib.simulate.loopback import Gone
from precheck_lib.simulate.web import HttpStandIn, Reply, compact, http_date

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from precheck_lib.simulate.loopback import Connection, Seen

Flavour = Literal["vllm", "llama.cpp"]

TRAINED = 40960
"""The context that every model was trained with."""

_STEPS = {"/v1/models": "models", "/v1/chat/completions": "chat", "/v1/completions": "completions"}
_NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the "
    "tokenizer does not define one."
)
_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
_REFUSALS: dict[str, tuple[int, str, str | None]] = {
    "model-404": (404, "The model `it` does not exist.", "model"),
    "not-loaded-404": (
        404,
        "No models loaded. Please load a model in the developer page or use the 'lms load' command.",
        "model",
    ),
    "load-fails-500": (500, "could not load model: rpc error: code = Unknown desc = failed loading model", None),
    "engine-dead-500": (500, _DEAD, None),
}
_PAGE = b"<!doctype html>\n<html><head><title>Models</title></head><body></body></html>\n"
_TYPES = {
    "vllm": {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError", 503: "ServiceUnavailableError"},
    "llama.cpp": {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        500: "server_error",
        503: "unavailable_error",
    },
}


class OpenAiStandIn(HttpStandIn):
    """A server of OpenAI's API with these `models`, at `url`; with an `api_key` it has to be sent.

    llama.cpp answers completions for any name and lists its models without a key; `aliases` are the further names that
    it lists. `context_length` is what one request can use: vLLM's `max_model_len`, and what `/props` of llama.cpp says
    of each of its `slots`; one that is `sleeping` says so there until a completion wakes it. `fault` is a name of
    `OPENAI_FAULTS`, `fault_options` its parameters.
    """

    def __init__(
        self,
        models: Sequence[str] = ("Qwen/Qwen3-8B",),
        *,
        flavour: Flavour = "vllm",
        api_key: str | None = None,
        aliases: Sequence[str] = (),
        context_length: int = TRAINED,
        slots: int = 4,
        sleeping: bool = False,
        fault: str | None = None,
        fault_options: Mapping[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__("openai", fault=fault, fault_options=fault_options, host=host, port=port)
        self.flavour: Flavour = flavour
        missing = self.fault.options.get("model") or models[0] if self.fault.named("model-missing") else None
        self.models = [model for model in models if model != missing]
        self.api_key = api_key
        self.aliases = list(aliases)
        self.context_length = context_length
        self.slots = slots
        self.sleeping = sleeping
        self.start()

    @property
    def url(self) -> str:
        """The base of the API."""
        return f"{super().url}/v1"

    def step(self, request: Seen) -> str:
        """Name the step of a request: `models`, `chat`, `completions`, else its path."""
        path = request.path.partition("?")[0]
        return _STEPS.get(path, path)

    def reply(self, status: int, body: bytes, kind: str = "application/json", **more: str) -> Reply:
        """Give an answer with the headers of this server."""
        further = [(name.replace("_", "-"), value) for name, value in more.items()]
        if self.flavour == "vllm":
            headers = [
                ("date", http_date()),
                ("server", "uvicorn"),
                ("content-length", str(len(body))),
                ("content-type", kind),
            ]
        else:
            headers = [
                ("Server", "llama.cpp"),
                ("Access-Control-Allow-Origin", ""),
                ("Content-Type", f"{kind}; charset=utf-8"),
                ("Keep-Alive", "timeout=5, max=100"),
                ("Content-Length", str(len(body))),
            ]
        return Reply(status, (*headers, *further), body)

    def answer(self, connection: Connection, request: Seen) -> Reply:
        """Give the answer to one request."""
        at, fault = self.step(request), self.fault
        if at == "/health":
            return self._health()
        if fault.acts("unauthorized", at) or not self._authorized(request, at):
            return self._unauthorized()
        if fault.acts("loading-503", at):
            return self._error(503, "Loading model")
        if fault.acts("html-page", at):
            return self.reply(200, _PAGE, "text/html")
        return self._routed(connection, request, at) or self._no_route()

    def _health(self) -> Reply:
        if self.flavour == "vllm":  # it does not listen while it loads
            return self.reply(200, b"")
        if self.fault.acts("loading-503", "/health"):
            return self._error(503, "Loading model")
        return self.reply(200, compact({"status": "ok"}))

    def _routed(self, connection: Connection, request: Seen, at: str) -> Reply | None:
        if at == "models" and request.method == "GET":
            return self.reply(200, compact(self._list()))
        if at == "/props" and request.method == "GET" and self.flavour == "llama.cpp":
            return self.reply(200, compact(self._props()))
        if at in ("chat", "completions") and request.method == "POST":
            self._wait(connection)
            return self._refused(at) or self._complete(at, request)
        return None

    def _authorized(self, request: Seen, at: str) -> bool:
        public = self.flavour == "llama.cpp" and at == "models"
        return not self.api_key or public or request.headers.get("authorization") == f"Bearer {self.api_key}"

    def _unauthorized(self) -> Reply:
        if self.flavour == "vllm":
            return self.reply(401, compact({"error": "Unauthorized"}))
        return self._error(401, "Invalid API Key")

    def _error(self, status: int, message: str, *, param: str | None = None) -> Reply:
        kind = _TYPES[self.flavour].get(status, "")
        if self.flavour == "vllm":
            error = {"message": message, "type": kind, "param": param, "code": status}
        else:
            error = {"code": status, "message": message, "type": kind}
        return self.reply(status, compact({"error": error}))

    def _no_route(self) -> Reply:
        if self.flavour == "vllm":
            return self.reply(404, compact({"detail": "Not Found"}))
        return self._error(404, "File Not Found")

    def _list(self) -> dict[str, Any]:
        if self.fault.named("models-null"):
            return {"object": "list", "data": None}
        models = [] if self.fault.named("no-models") else self.models
        data = [self._entry(model) for model in models]
        if self.fault.named("model-without-id"):
            del data[0]["id"]
        if self.flavour == "vllm":
            return {"object": "list", "data": data}
        shown = [{"name": model, "model": model, "type": "model", "capabilities": ["completion"]} for model in models]
        return {"models": shown, "object": "list", "data": data}

    def _entry(self, model: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"id": model, "object": "model", "created": int(time.time())}
        if self.flavour == "vllm":
            return {
                **entry,
                "owned_by": "vllm",
                "root": model,
                "parent": None,
                "max_model_len": self.context_length,
                "permission": [],
            }
        context = {"n_ctx": self.context_length, "n_ctx_train": TRAINED}
        meta = {"vocab_type": 2, "n_vocab": 151936, **context, "n_embd": 4096}
        return {**entry, "aliases": self.aliases, "tags": [], "owned_by": "llamacpp", "meta": meta}

    def _props(self) -> dict[str, Any]:
        return {
            "default_generation_settings": {"params": {"n_predict": -1}, "n_ctx": self.context_length},
            "total_slots": self.slots,
            "model_alias": self.models[0] if self.models else "",
            "model_path": "/models/model.gguf",
            "modalities": {"vision": False, "audio": False},
            "chat_template": "{{ messages }}",
            "build_info": "b7100-00dc8057",
            "is_sleeping": self.sleeping,
        }

    def _wait(self, connection: Connection) -> None:
        """Let a fault keep a completion from coming, for a while or for ever."""
        fault = self.fault
        if fault.acts("engine-hangs"):
            connection.hold()
            raise Gone
        if fault.acts("slow-token") and not connection.stays(fault.options["seconds"]):
            raise Gone

    def _refused(self, at: str) -> Reply | None:
        """Give what a fault answers in place of a completion, or `None`."""
        fault = self.fault
        if fault.named("no-completions") or (at == "chat" and fault.named("no-chat-route")):
            return self._no_route()
        if at == "chat" and fault.named("no-chat-template"):
            return self._error(400, _NO_TEMPLATE)
        if fault.acts("error-200"):
            return self.reply(200, compact({"error": {"message": _DEAD}}))
        for name, (status, message, param) in _REFUSALS.items():
            if fault.acts(name):
                return self._error(status, message, param=param)
        return None

    def _complete(self, at: str, request: Seen) -> Reply:
        try:
            asked = json.loads(request.body)
            model, tokens = asked["model"], asked["max_tokens"]
        except (ValueError, KeyError, TypeError):
            return self._error(400, "model and max_tokens are needed")
        if self.flavour == "vllm" and model not in self.models:
            return self._error(404, f"The model `{model}` does not exist.", param="model")
        self.sleeping = False
        value: dict[str, Any] = {
            "id": f"{'chatcmpl' if at == 'chat' else 'cmpl'}-0f9a",
            "object": "chat.completion" if at == "chat" else "text_completion",
            "created": int(time.time()),
            "model": model if self.flavour == "vllm" else self.models[0],
            "choices": [self._choice(at)],
            "usage": {"prompt_tokens": 9, "total_tokens": 9 + tokens, "completion_tokens": tokens},
        }
        if self.fault.acts("empty-choices"):
            value["choices"] = []
        elif self.fault.acts("choices-null"):
            value["choices"] = None
        elif self.fault.acts("choice-without-message"):
            value["choices"] = [{"index": 0, "finish_reason": "length"}]
        return self.reply(200, compact(value))

    def _choice(self, at: str) -> dict[str, Any]:
        said = "" if self.fault.named("empty-content") else "Hello"
        reason = "abort" if self.fault.acts("aborted") else "length"
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason}
        if at == "completions":
            return {**choice, "text": said}
        message: dict[str, Any] = {"role": "assistant", "content": said}
        if self.fault.named("reasoning-only"):
            message = {**message, "content": None, "reasoning": "The", "reasoning_content": "The"}
        return {**choice, "message": message}
