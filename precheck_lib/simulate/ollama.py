"""A stand-in of the Ollama server: tags, inventory, and the loads and unloads of `/api/generate`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.faults import INVALID_INVENTORIES
from precheck_lib.simulate.loopback import Connection, Gone, Seen
from precheck_lib.simulate.ollama_faults import PRELOADING, faulted_model, faulted_rows
from precheck_lib.simulate.ollama_models import (
    DEFAULT_KEEP_ALIVE,
    Ask,
    Model,
    Refused,
    canonical,
    decode,
    ps_row,
    stamp,
    tags_row,
)
from precheck_lib.simulate.ollama_runners import Runner, Runners, State
from precheck_lib.simulate.web import HttpStandIn, Reply, compact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_ROUTES = {
    **dict.fromkeys(("/", "/api/tags", "/api/ps", "/api/version"), "GET"),
    **dict.fromkeys(("/api/generate", "/api/show"), "POST"),
}
_HEAD_TOO = ("/", "/api/tags", "/api/version")


class OllamaStandIn(HttpStandIn):
    """An Ollama server with these models on its disk; those in `preloaded` are resident from the start.

    `url` ends in `/api`. `aborted` names the loads whose client left before their end, `actions` all that was
    asked of `/api/generate`. Faults that act after an unload preload the models that they concern. `fault` is
    a name of `FAULTS` for `ollama`, `fault_options` its parameters.
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        *,
        version: str = "0.32.15",
        preloaded: Iterable[str] = (),
        fault: str | None = None,
        fault_options: Mapping[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__("ollama", fault=fault, fault_options=fault_options, host=host, port=port)
        options = self.fault.options
        if options.get("model") is not None:
            options["model"] = canonical(options["model"])
        self.version = version
        self.models = {
            canonical(name): faulted_model(self.fault, canonical(name), model) for name, model in models.items()
        }
        self.aborted: list[str] = []
        self._runners = Runners(self._unload_seconds)
        self._last_action: str | None = None
        early = {canonical(name) for name in preloaded}
        named = early if options.get("model") is None else {*early, options["model"]}
        if unknown := sorted(named - self.models.keys()):
            self.close()
            raise ValueError(f"there is no model {', '.join(unknown)}")
        if self.fault.named(*PRELOADING):
            early |= {name for name in self.models if options.get("model") in (None, name)}
        for name in self.models:
            if name in early:
                self._runners.finish(name, self._runners.begin_load(name, 0.0, DEFAULT_KEEP_ALIVE))
        self.start()

    @property
    def url(self) -> str:
        """The base of the API."""
        return f"{super().url}/api"

    @property
    def resident(self) -> list[str]:
        """The canonical names that the inventory lists, those being unloaded too."""
        with self.changed:
            self._runners.advance()
            return self._runners.listed()

    @property
    def actions(self) -> list[tuple[str, str]]:
        """What was asked of `/api/generate`: pairs of `load`, `unload` or `generate` and the name as sent."""
        asked: list[tuple[str, str]] = []
        for request in self.seen:
            try:
                ask = decode(request.body) if request.path == "/api/generate" else None
            except Refused:
                continue
            if ask is not None:
                asked.append((ask.kind, ask.asked))
        return asked

    def state(self) -> dict[str, State]:
        """Give what is in memory or on its way in or out, by canonical name."""
        with self.changed:
            self._runners.advance()
            return {name: runner.state for name, runner in self._runners.table.items()}

    def step(self, request: Seen) -> str:
        """Name the step of a request: `tags`, `ps`, `version`, `load`, `unload`, `generate`, or the path."""
        path = request.path.partition("?")[0]
        if path != "/api/generate":
            return path.removeprefix("/api/") or path
        try:
            return decode(request.body).kind
        except Refused:
            return "generate"

    def answer(self, connection: Connection, request: Seen) -> Reply:
        """Give the answer to one request."""
        path = request.path.partition("?")[0]
        method = _ROUTES.get(path)
        if method is None:
            return self._unrouted(request.method, path.rstrip("/"))
        if request.method != method and not (request.method == "HEAD" and path in _HEAD_TOO):
            return self.reply(405, b"405 method not allowed", _TEXT, Allow=method)
        if path == "/api/ps":
            return self._faulty_inventory(connection) or self._inventory()
        if path not in ("/api/generate", "/api/show"):
            return self._plain(path)
        try:
            ask = decode(request.body)
            return self._show(ask) if path == "/api/show" else self._generate(connection, ask)
        except Refused as refused:
            return self._json(refused.status, {"error": refused.text})

    def _unrouted(self, method: str, shorter: str) -> Reply:
        if shorter not in _ROUTES:
            return self.reply(404, b"404 page not found", _TEXT)
        return self.reply(301 if method == "GET" else 307, b"", "text/html", Location=shorter)

    def _plain(self, path: str) -> Reply:
        if path == "/api/version":
            return self._json(200, {"version": self.version})
        if path == "/api/tags":
            missing = [name for name in self.models if self.fault.concerns("not-pulled", name)]
            rows = [tags_row(name, model) for name, model in self.models.items() if name not in missing]
            return self._json(200, {"models": rows})
        return self.reply(200, b"Ollama is running", _TEXT)

    def reply(self, status: int, body: bytes, kind: str = _JSON, **more: str) -> Reply:
        """Give an answer with the headers of this server."""
        return super().reply(status, body, kind, **more)

    def _json(self, status: int, value: object) -> Reply:
        return self.reply(status, compact(value))

    def _next_change(self) -> float | None:
        self._runners.advance()
        return self._runners.next_change()

    # -- the models

    def _unload_seconds(self, name: str) -> float | None:
        return None if self.fault.concerns("never-leaves", name) else self.models[name].unload_seconds

    # -- the inventory

    def _faulty_inventory(self, connection: Connection) -> Reply | None:
        fault = self.fault
        with self.changed:
            if fault.options.get("after") not in ("always", self._last_action):
                return None
        if fault.acts("ps-500-empty"):
            return self.reply(500, b"")
        if fault.acts("ps-500-with-body"):
            return self._json(500, {"error": "inventory unavailable"})
        if fault.acts("ps-hangs-once"):
            connection.hold()
            raise Gone
        if fault.acts("ps-invalid"):
            shape = fault.options["shape"]
            return self.reply(200, INVALID_INVENTORIES.get(shape, shape).encode())
        return None

    def _inventory(self) -> Reply:
        with self.changed:
            self._runners.advance()
            now, rows = time.monotonic(), []
            for name in self._runners.read():
                left = self._runners.table[name].expires - now
                rows += faulted_rows(self.fault, name, ps_row(name, self.models[name], left))
            self.changed.notify_all()
        # The longest keep-alive comes first.
        return self._json(200, {"models": sorted(rows, key=lambda row: str(row["expires_at"]), reverse=True)})

    # -- loads and unloads, in the order in which the server checks a request

    def _named(self, ask: Ask) -> str:
        folded = canonical(ask.asked).casefold()
        name = next((name for name in self.models if name.casefold() == folded), None)
        if name is None or self.fault.concerns("not-pulled", name):
            raise Refused(404, f"model '{ask.asked}' not found")
        return name

    def _show(self, ask: Ask) -> Reply:
        name = self._named(ask)
        row = tags_row(name, self.models[name])
        return self._json(200, {"details": row["details"], "model_info": {}, "capabilities": row["capabilities"]})

    def _generate(self, connection: Connection, ask: Ask) -> Reply:
        name = self._named(ask)
        model = self.models[name]
        if model.remote_host:
            return self._json(401, {"error": "unauthorized", "signin_url": "https://ollama.com/connect"})
        if ask.kind == "unload" and not self.fault.concerns("too-old", name):
            return self._unload(ask, name)
        if "completion" not in model.capabilities:
            raise Refused(400, f'"{ask.asked}" does not support generate')
        return self._load(connection, ask, name)

    def _done(self, ask: Ask, reason: str) -> Reply:
        answer = {"model": ask.asked, "created_at": stamp(), "response": "ready" if reason == "stop" else ""}
        return self._json(200, {**answer, "done": True, "done_reason": reason})

    def _unload(self, ask: Ask, name: str) -> Reply:
        fault = self.fault
        if fault.concerns("unload-500", name) and fault.acts("unload-500"):
            raise Refused(500, "unload failed")
        if fault.concerns("unload-404", name) and fault.acts("unload-404"):
            raise Refused(404, f"model '{ask.asked}' not found")
        with self.changed:
            self._last_action = "unload"
            self._runners.advance()
            if fault.concerns("comes-back-late", name):
                self._runners.appear_after(name, fault.options["seconds"])
            self._runners.begin_unload(name)
            self.changed.notify_all()
        return self._done(ask, "unload")

    def _load(self, connection: Connection, ask: Ask, name: str) -> Reply:
        fault = self.fault
        if fault.concerns("load-500", name) and fault.acts("load-500"):
            raise Refused(500, "llama-server process has terminated: exit status 2")
        if fault.concerns("load-error-200", name) and fault.acts("load-error-200"):
            return self._json(200, {"error": "unable to load full model on GPU"})
        late = fault.concerns("comes-back-late", name)
        drops = fault.concerns("load-drops-connection", name) and fault.acts("load-drops-connection")
        hangs = fault.concerns("load-hangs", name) and fault.acts("load-hangs")
        seconds = None if late or drops or hangs else self.models[name].load_seconds
        leaves = drops or (late and fault.options["answer"] == "drop")
        while (runner := self._loading(connection, ask, name, seconds)) is not None:
            left = None if runner.until is None else runner.until - time.monotonic()
            stays = not leaves and connection.stays(left)
            if self._end_load(connection, name, runner, stays=stays, kept=late):
                break
            if leaves and fault.options.get("reset"):
                connection.reset()
            if not stays:
                raise Gone
        return self._done(ask, "stop" if ask.kind == "generate" else "load")

    def _loading(self, connection: Connection, ask: Ask, name: str, seconds: float | None) -> Runner | None:
        """Give the load to wait for, begun here if there is none, or `None` for a model that is there."""
        with self.changed:
            self._last_action = "load"
            self._runners.advance()
            runner = self._runners.table.get(name)
            if runner is None:
                kept = DEFAULT_KEEP_ALIVE if ask.keep_alive is None else ask.keep_alive
                runner = self._runners.begin_load(name, seconds, kept, connection.record.number)
                if self.fault.concerns("evicted-after-load", name):
                    runner.reads = self.fault.options["reads"]
            self.changed.notify_all()
            if runner.state == "loading":
                return runner
            # A load that meets a runner on its way out is told "load" all the same, and the row still goes.
            if runner.state == "resident":
                self._runners.touch(runner, ask.keep_alive)
            return None

    def _end_load(self, connection: Connection, name: str, runner: Runner, *, stays: bool, kept: bool) -> bool:
        """End a load and say whether it is done: resident if the client stayed, given up if its owner left.

        Given up is what the server does; a `kept` one goes on without its client.
        """
        with self.changed:
            if self._runners.table.get(name) is runner and runner.state == "loading":
                if stays:
                    self._runners.finish(name, runner)
                elif runner.owner == connection.record.number and not kept:
                    del self._runners.table[name]
                    self.aborted.append(name)
            self.changed.notify_all()
            return stays and runner.state != "loading"
