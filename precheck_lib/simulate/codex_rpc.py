"""The JSON-RPC dialect of the Codex App Server 0.171.0: which message gets which answer, or none."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from precheck_lib.simulate.web import recorded

# Names under which a client neither becomes the server's originator nor is named in the user agent.
QUIET_CLIENTS = ("codex-backend", "codex_app_server_daemon")
_DEFAULT_ORIGINATOR = "codex_cli_rs"
_PLATFORM = "(Debian 12.0.0; x86_64) unknown"
# The structure that params are decoded into and how many fields it has; a list stands for the fields in
# order.
_STRUCTS = {
    "initialize": ("InitializeParams", 2),
    "account/read": ("GetAccountParams", 0),
    "mcpServerStatus/list": ("ListMcpServerStatusParams", 6),
}
_BUBBLEWRAP = (
    "Codex could not find bubblewrap on PATH. Install bubblewrap with your OS package manager. See the "
    "sandbox prerequisites: https://developers.openai.com/codex/concepts/sandboxing#prerequisites. Codex "
    "will use the bundled bubblewrap in the meantime."
)


class Refused(Exception):  # noqa: N818 - it is an answer of the server
    """The call is answered with an error; the code is -32600 for nearly everything."""


@dataclass
class Session:
    """What the server knows of one connection."""

    initialized: bool = False
    muted: tuple[str, ...] = ()


@dataclass
class Answer:
    """What the server says to one message: the `result` or `error`, and the notifications that follow it."""

    method: str | None = None
    first: list[dict[str, Any]] = field(default_factory=list)
    then: list[dict[str, Any]] = field(default_factory=list)


def parse(text: bytes) -> dict[str, Any] | None:
    """Give the message in a text frame, or `None` for what the server meets with silence.

    That is anything but an object with a string `method`, and an id that is neither a string nor an integer
    of 64 bits. A notification has no id and is given back; nothing answers it.
    """
    try:
        message = json.loads(text.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return None
    number = message.get("id", 0)
    if isinstance(number, int) and not isinstance(number, bool):
        return message if -(1 << 63) <= number < 1 << 63 else None
    return message if isinstance(number, str) else None


class Dialect:
    """The server's side of the conversation: its settings, and the originator that the first client sets."""

    def __init__(
        self,
        *,
        home: str,
        version: str,
        originator: str | None,
        account: dict[str, Any] | None,
        requires_openai_auth: bool,
        mcp_servers: list[str],
    ) -> None:
        self.home = home
        self.version = version
        self.originator = originator
        self.account = account
        self.requires_openai_auth = requires_openai_auth
        self.mcp_servers = sorted(mcp_servers)
        random = os.urandom(16).hex()
        self._installation = "-".join((random[:8], random[8:12], random[12:16], random[16:20], random[20:]))
        # That of the last client that had one: a quiet client is shown the suffix of somebody else.
        self._suffix = ""
        self._lock = threading.Lock()

    def answer(self, session: Session, message: dict[str, Any]) -> Answer:
        """Give what follows a message that `parse` has let through."""
        method = message["method"]
        if "id" not in message:
            return Answer(method)
        try:
            result = self._result(session, method, message)
        except Refused as refused:
            error = {"code": -32600, "message": str(refused)}
            return Answer(method, [{"error": error, "id": message["id"]}])
        then = self._greetings(session) if method == "initialize" else []
        return Answer(method, [{"id": message["id"], "result": result}], then)

    def _result(self, session: Session, method: str, message: dict[str, Any]) -> dict[str, Any]:
        # A message is decoded before anything is asked of the session: an unknown method is told so even
        # before initialize.
        if method not in (known := recorded("codex_methods.txt").decode().split()):
            listed = ", ".join(f"`{name}`" for name in known)
            raise Refused(f"Invalid request: unknown variant `{method}`, expected one of {listed}")
        params = _params(method, message.get("params")) if method in _STRUCTS else {}
        if method == "initialize":
            return self._initialize(session, params)
        if method == "account/read":
            if not isinstance(params.get("refreshToken", False), bool):
                kind = _kind(params["refreshToken"])
                raise Refused(f"Invalid request: invalid type: {kind}, expected a boolean")
            _require(session)
            return self._account()
        if method == "mcpServerStatus/list":
            cursor, limit = _page(params)
            _require(session)
            return self._mcp(cursor, limit)
        _require(session)
        raise Refused(f"`{method}` is not offered by this stand-in")

    def _initialize(self, session: Session, params: dict[str, Any]) -> dict[str, Any]:
        if "clientInfo" not in params:
            raise Refused("Invalid request: missing field `clientInfo`")
        client = params["clientInfo"]
        if not isinstance(client, dict):
            raise Refused(f"Invalid request: invalid type: {_kind(client)}, expected struct ClientInfo")
        for key in ("name", "version"):
            if key not in client:
                raise Refused(f"Invalid request: missing field `{key}`")
            if not isinstance(client[key], str):
                raise Refused(f"Invalid request: invalid type: {_kind(client[key])}, expected a string")
        if session.initialized:
            raise Refused("Already initialized")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", client["name"]):
            raise Refused(f"Invalid clientInfo.name: '{client['name']}'. Must be a valid HTTP header value.")
        session.initialized = True
        capabilities = params.get("capabilities")
        muted = capabilities.get("optOutNotificationMethods") if isinstance(capabilities, dict) else None
        session.muted = tuple(muted or ())
        return {
            "userAgent": self._user_agent(client["name"], client["version"]),
            "codexHome": self.home,
            "platformFamily": "unix",
            "platformOs": "linux",
        }

    def _user_agent(self, name: str, version: str) -> str:
        with self._lock:
            if name not in QUIET_CLIENTS:
                self.originator = name if self.originator is None else self.originator
                named = re.sub(r"[\x00-\x1f\x7f]", "_", f"{name}; {version}").strip()
                self._suffix = f" ({named})"
            originator = self.originator or _DEFAULT_ORIGINATOR
            return f"{originator}/{self.version} {_PLATFORM}{self._suffix}"

    def _greetings(self, session: Session) -> list[dict[str, Any]]:
        status = {
            "status": "disabled",
            "serverName": "stand-in",
            "installationId": self._installation,
            "environmentId": None,
        }
        every = [
            notification("configWarning", {"summary": _BUBBLEWRAP, "details": None}),
            notification("remoteControl/status/changed", status),
        ]
        return [note for note in every if note["method"] not in session.muted]

    def _account(self) -> dict[str, Any]:
        return {
            "account": self.account,
            "userId": None,
            "requiresOpenaiAuth": self.requires_openai_auth,
            "workspaceRouting": None,
        }

    def _mcp(self, cursor: str | None, limit: int | None) -> dict[str, Any]:
        total, start = len(self.mcp_servers), 0
        if cursor is not None:
            if not re.fullmatch(r"\+?[0-9]+", cursor, re.ASCII) or int(cursor) >= 1 << 64:
                raise Refused(f"invalid cursor: {cursor}")
            start = int(cursor)
        if start > total:
            raise Refused(f"cursor {start} exceeds total MCP servers {total}")
        end = total if limit is None else min(total, start + max(1, limit))
        entries = [_mcp_entry(name) for name in self.mcp_servers[start:end]]
        return {"data": entries, "nextCursor": str(end) if end < total else None}


def notification(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Give a notification with the time of now, in milliseconds since 1970."""
    return {"method": method, "params": params, "emittedAtMs": int(time.time() * 1000)}


def _require(session: Session) -> None:
    if not session.initialized:
        raise Refused("Not initialized")


def _params(method: str, params: Any) -> dict[str, Any]:
    struct, fields = _STRUCTS[method]
    if params is None:
        raise Refused("Invalid request: missing field `params`")
    if not isinstance(params, (dict, list)):
        raise Refused(f"Invalid request: invalid type: {_kind(params)}, expected struct {struct}")
    if isinstance(params, list) and len(params) < fields:
        wanted = f"expected struct {struct} with {fields} elements"
        raise Refused(f"Invalid request: invalid length {len(params)}, {wanted}")
    return params if isinstance(params, dict) else {}


def _page(params: dict[str, Any]) -> tuple[str | None, int | None]:
    cursor, limit = params.get("cursor"), params.get("limit")
    if cursor is not None and not isinstance(cursor, str):
        raise Refused(f"Invalid request: invalid type: {_kind(cursor)}, expected a string")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
        raise Refused(f"Invalid request: invalid type: {_kind(limit)}, expected u32")
    if limit is not None and not 0 <= limit < 1 << 32:
        raise Refused(f"Invalid request: invalid value: integer `{limit}`, expected u32")
    return cursor, limit


def _kind(value: object) -> str:
    """Name a JSON value as serde does in its messages."""
    if isinstance(value, bool):
        return f"boolean `{json.dumps(value)}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f"string {json.dumps(value, ensure_ascii=False)}"
    return "map" if isinstance(value, dict) else "sequence" if isinstance(value, list) else "null"


def _mcp_entry(name: str) -> dict[str, Any]:
    """Give the entry of a server whose command does not exist: listing starts it, and that fails."""
    return {
        "name": name,
        "environmentId": None,
        "runtimeStatus": None,
        "pluginId": None,
        "httpOrigin": None,
        "serverInfo": None,
        "serverCapabilities": None,
        "toolListMeta": None,
        "tools": {},
        "toolsError": "MCP startup failed: No such file or directory (os error 2)",
        "resources": [],
        "resourceTemplates": [],
        "authStatus": "unsupported",
    }
