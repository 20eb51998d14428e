"""The Codex App Server (measured on 0.171.0): one WebSocket connection, three calls, matched by id.

Facts that shape this: any `Origin` header is answered with 403; answers come out of order with notifications between
them; malformed input gets silence, so one deadline covers the whole exchange; the first client to initialize names the
server for all later ones, unless it has one of two names; `mcpServerStatus/list` *starts* every configured MCP server,
unless it is asked for a page far beyond the end, which is answered in milliseconds with the number there is.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib import __version__
from precheck_lib.bounded import websocket
from precheck_lib.bounded.strict_json import parse
from precheck_lib.errors import AnswerError, DeadlineError
from precheck_lib.servers.words import short

if TYPE_CHECKING:
    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.journal import Journal

QUIET_CLIENT = "codex_app_server_daemon"
"""A client name that does not become the server's originator (`codex-backend` is the other)."""

FAR_CURSOR = "1000000"
_FAR_ANSWER = re.compile(rf"cursor {FAR_CURSOR} exceeds total MCP servers ([0-9]{{1,9}})\Z")
_VERSION = re.compile(r"/(\d[^\s/()]*) \(")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What `initialize` says; `version` is `None` where the user agent holds none."""

    user_agent: str
    version: str | None
    home: str


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What `account/read` says: whether there is an account, and whether the provider needs one."""

    present: bool
    required: object


class CallError(AnswerError):
    """The server answered a call with an error; `text` is its message."""

    def __init__(self, method: str, text: str) -> None:
        super().__init__(f"{method} was answered with an error: {short(text, 200)}")
        self.text = text


def version_of(user_agent: str, client: str, client_version: str) -> str | None:
    """Return the server's version inside its user agent, `None` where it holds none.

    The format is `ORIGINATOR/VERSION (OS; ARCH) TERMINAL`, and after it ` (CLIENT; CLIENTVERSION)` of this client, or
    for a quiet one of the last client that was not. Originator, terminal and client may hold slashes, versions and
    parentheses of their own (`vscode/1.2.3`): the suffix is cut off first, then the last `/VERSION (` counts.
    """
    own = user_agent.removesuffix(f" ({client}; {client_version})")
    matches = _VERSION.findall(own if own != user_agent else _without_last_group(user_agent))
    return matches[-1] if matches else None


def _without_last_group(text: str) -> str:
    """Cut off a last ` (NAME; VERSION)`, whatever parentheses are in it, unless it is all that tells the version."""
    if not text.endswith(")"):
        return text
    depth = 0
    for place in range(len(text) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0:
            rest = text[:place].rstrip()
            return rest if "; " in text[place:] and _VERSION.search(rest) else text
    return text


class CodexSession:
    """One exchange with a Codex App Server; use as a context manager. All of it ends by `budget`."""

    def __init__(
        self,
        url: str,
        *,
        budget: Budget,
        journal: Journal,
        connect_seconds: float = 2.0,
        client: str = QUIET_CLIENT,
    ) -> None:
        self._client = client
        self._last_id = 0
        self._session = websocket.open_session(
            url, budget=budget, journal=journal, connect_seconds=connect_seconds, peer="the Codex App Server"
        )

    def __enter__(self) -> CodexSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def initialize(self) -> Identity:
        """Introduce the client and learn who the server is."""
        info = {"name": self._client, "title": "precheck", "version": __version__}
        result = self._call("initialize", {"clientInfo": info})
        agent, home = result.get("userAgent"), result.get("codexHome")
        if not isinstance(agent, str) or not isinstance(home, str):
            raise AnswerError("initialize was answered without userAgent or codexHome")
        return Identity(user_agent=agent, version=version_of(agent, self._client, __version__), home=home)

    def account(self) -> Account:
        """Learn whether there is an account. A wrong key counts as one: the server validates nothing."""
        result = self._call("account/read", {"refreshToken": False})
        return Account(present=isinstance(result.get("account"), dict), required=result.get("requiresOpenaiAuth"))

    def mcp_servers(self) -> int:
        """Return how many MCP servers are configured (disabled ones count), starting none where the server lets us.

        A page with entries, or one that promises more, counts as the entries it shows and at least 1. No answer in time
        is `TimeoutError`: the server is then starting what is configured.
        """
        try:
            try:
                return _entries(self._call("mcpServerStatus/list", {"cursor": FAR_CURSOR}))
            except CallError as error:
                told = _FAR_ANSWER.match(error.text)
                if told is not None:
                    return int(told[1])
                return _entries(self._call("mcpServerStatus/list", {}))
        except DeadlineError as error:
            raise TimeoutError(str(error)) from error

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        self._session.send(json.dumps({"id": self._last_id, "method": method, "params": params}))
        while True:
            message = self._next()
            # A message of the server's own (notification or request) has a method; both kinds may come at any time. An
            # id comes back with its type: to Python `true` and `1.0` are 1.
            if "method" in message or type(message.get("id")) is not int or message["id"] != self._last_id:
                continue
            if "error" in message:
                error = message["error"]
                text = error.get("message") if isinstance(error, dict) else None
                raise CallError(method, text if isinstance(text, str) else "no message")
            result = message.get("result")
            if not isinstance(result, dict):
                raise AnswerError(f"{method} was answered without a result")
            return result

    def _next(self) -> dict[str, Any]:
        try:
            message = parse(self._session.receive())
        except ValueError as error:
            raise AnswerError(f"a message cannot be read: {error}") from None
        if not isinstance(message, dict):
            raise AnswerError("a message is not a JSON object")
        return message


def _entries(result: dict[str, Any]) -> int:
    data = result.get("data")
    if not isinstance(data, list):
        raise AnswerError("mcpServerStatus/list was answered without a list of `data`")
    return len(data) if data or result.get("nextCursor") is None else 1
