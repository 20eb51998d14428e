"""A stand-in of the OpenCode server: the endpoints that a precheck reads, as release 1.18.33 has them."""

from __future__ import annotations

import base64
import binascii
import copy
import json
import re
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.opencode_config import Refused, json_error, providers, resolve, value_error
from precheck_lib.simulate.web import HttpStandIn, Reply, compact, http_date

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.simulate.loopback import Connection, Seen

_POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src "
    "'self' data: https: blob:; font-src 'self' data:; media-src 'self' data:; connect-src * data: blob:"
)
_PAGE = b"""<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>OpenCode</title>
  </head>
  <body>
    <noscript>You need to enable JavaScript to run this app.</noscript>
    <div id="root"></div>
  </body>
</html>
"""
# These make an instance, for which the configuration has to be usable.
_INSTANCE = ("/experimental/capabilities", "/config", "/config/providers", "/provider")
# Bodies of 978 bytes came plain and of 7339 compressed, whatever the client accepts.
_GZIP_FROM = 1024


class OpenCodeStandIn(HttpStandIn):
    """OpenCode's HTTP server with a configuration (`OPENCODE_CONFIG_CONTENT` as an object or as its text).

    `environment` is what `{env:X}` in it refers to. With a `password` every request needs Basic auth. `fault`
    is a name of `FAULTS` for `opencode`, `fault_options` its parameters.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str,
        *,
        version: str = "1.18.33",
        username: str = "opencode",
        password: str | None = None,
        background_subagents: bool = False,
        environment: Mapping[str, str] | None = None,
        fault: str | None = None,
        fault_options: Mapping[str, Any] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__("opencode", fault=fault, fault_options=fault_options, host=host, port=port)
        self.config = config if isinstance(config, str) else copy.deepcopy(dict(config))
        self.version = self.fault.options["version"] if self.fault.named("wrong-version") else version
        self.username = username
        self.password = password
        self.background_subagents = background_subagents or self.fault.named("subagents-on")
        self._environment = dict(environment or {})
        self.start()

    def step(self, request: Seen) -> str:
        """Name the endpoint: routes ignore case, doubled slashes and a trailing one."""
        return "/" + re.sub("/+", "/", request.path.partition("?")[0]).strip("/").lower()

    def answer(self, connection: Connection, request: Seen) -> Reply:
        """Give the answer to one request."""
        del connection
        at = self.step(request)
        if self.fault.acts("unauthorized", at) or not self._authorized(request):
            return self._unauthorized(at)
        if self.fault.acts("html-200", at) or request.method != "GET":
            return self._page(request)
        try:
            body = self._body(at)
        except Refused as refused:
            return self.reply(400, compact(refused.body), Vary="Origin")
        if body is None:
            return self._page(request)
        return self._compressed(request, compact(body))

    def reply(self, status: int, body: bytes, kind: str = "application/json", **more: str) -> Reply:
        """Give an answer with the headers of this server."""
        return super().reply(status, body, kind, **{"Vary": "Origin", **more})

    def _body(self, at: str) -> dict[str, Any] | None:
        """Give what a route answers with, or `None` where there is no route."""
        if at in _INSTANCE:
            return self._instance_body(at)
        plain: dict[str, dict[str, Any]] = {
            "/global/health": {"healthy": not self.fault.named("unhealthy"), "version": self.version},
            "/api/health": {"healthy": True},
            "/global/config": {},
        }
        return plain.get(at)

    def _instance_body(self, at: str) -> dict[str, Any]:
        config = self._resolved()
        if at == "/experimental/capabilities":
            return {"backgroundSubagents": self.background_subagents}
        self._spoil(config, at)
        if at == "/config":
            return config
        answer = self._providers(config)
        if at == "/config/providers":
            return answer
        # The real one lists its whole catalogue here (6.4 MB); what is connected is the same.
        listed = answer["providers"]
        return {"all": listed, "default": answer["default"], "connected": [entry["id"] for entry in listed]}

    def _resolved(self) -> dict[str, Any]:
        if self.fault.named("config-400"):
            raise Refused(self._echo(self.fault.options["kind"]))
        return resolve(self.config, self._environment)

    def _echo(self, kind: str) -> dict[str, Any]:
        """Give a refusal whose message holds the whole configuration, keys and all, as the real one can."""
        if kind == "ConfigJsonError":
            return json_error(self.config if isinstance(self.config, str) else json.dumps(self.config))
        issue = value_error(["provider", "ollama"], "ProviderConfig", self.config)
        data = {"path": "OPENCODE_CONFIG_CONTENT", "message": issue["message"], "issues": [issue]}
        return {"name": kind, "data": data}

    def _spoil(self, config: dict[str, Any], at: str) -> None:
        fault, ollama = self.fault, config.get("provider", {}).get("ollama", {})
        if fault.named("config-other-model"):
            config["model"] = fault.options["model"]
        if fault.named("config-missing-model") and ollama.get("models"):
            del ollama["models"][fault.options["model"] or next(iter(ollama["models"]))]
        if fault.named("config-leaf-differs") and at == "/config":
            *parents, last = fault.options["path"]
            for key in parents:
                ollama = ollama.setdefault(key, {})
            ollama[last] = fault.options["value"]

    def _providers(self, config: dict[str, Any]) -> dict[str, Any]:
        answer = providers(config)
        if self.fault.named("provider-not-connected"):
            answer["providers"] = [entry for entry in answer["providers"] if entry["id"] != "ollama"]
            answer["default"].pop("ollama", None)
        for entry in answer["providers"]:
            if entry["id"] == "ollama" and self.fault.named("provider-missing-model"):
                del entry["models"][self.fault.options["model"] or next(iter(entry["models"]))]
        return answer

    def _authorized(self, request: Seen) -> bool:
        if not self.password:
            return True
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            given = base64.b64decode(token.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        return scheme.lower() == "basic" and given == f"{self.username}:{self.password}".encode()

    def _unauthorized(self, at: str) -> Reply:
        challenge = ("www-authenticate", 'Basic realm="Secure Area"')
        if at == "/api/health":
            body = compact({"_tag": "UnauthorizedError", "message": "Authentication required"})
            return Reply(401, (*self.reply(401, body).headers, challenge), body)
        return Reply(401, (("Vary", "Origin"), challenge, ("Date", http_date()), ("Content-Length", "0")))

    def _page(self, request: Seen) -> Reply:
        """Give the web page that answers where there is no route, and HEAD and POST where there is one."""
        body = b"" if request.method == "HEAD" else _PAGE
        headers = (
            ("Content-Security-Policy", _POLICY),
            ("Content-Type", "text/html"),
            ("Vary", "Origin"),
            ("Date", http_date()),
            ("Content-Length", str(len(body))),
        )
        return Reply(200, headers, body)

    def _compressed(self, request: Seen, body: bytes) -> Reply:
        accepted = request.headers.get("accept-encoding", "").lower().split(",")
        # Even `gzip;q=0` is taken for yes.
        gzipped = any(part.split(";")[0].strip() == "gzip" for part in accepted)
        if len(body) < _GZIP_FROM or not gzipped:
            return self.reply(200, body)
        import gzip

        packed = gzip.compress(body)
        answer = self.reply(200, packed)
        # Content-Encoding comes before Vary.
        headers = (*answer.headers[:-1], ("Content-Encoding", "gzip"), answer.headers[-1])
        return Reply(200, headers, packed)
