"""The OpenCode Server (measured on 1.18.33): four bounded reads, and nothing of their contents but what is compared.

Facts that shape this: 200 proves nothing (unknown paths are 200 text/html); 401 has an empty body; an error's `message`
echoes the configuration with its keys, and `/config` holds keys in clear, so neither ever leaves this module; a request
sent while the server sets up its routes is never answered, so every one has its own connection and its own end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.bounded.strict_json import kind_of, parse
from precheck_lib.errors import AnswerError, StatusError
from precheck_lib.redact import basic_token
from precheck_lib.servers.http_server import Bounds, HttpServer
from precheck_lib.servers.words import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.http import Answer
    from precheck_lib.bounded.journal import Journal

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}\Z")
_MEDIA_TYPES = frozenset(
    (
        "application/json",
        "application/octet-stream",
        "application/problem+json",
        "application/xml",
        "text/event-stream",
        "text/html",
        "text/plain",
        "text/xml",
    )
)
_MISSING = object()


class Health(msgspec.Struct, frozen=True):
    """The answer of `/global/health`."""

    healthy: bool
    version: str | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How `/config` differs from a configuration, by key paths only: values are compared here and never leave."""

    model_differs: bool
    missing_models: tuple[str, ...]
    different: tuple[str, ...]
    dropped: tuple[str, ...]


class RefusedError(StatusError):
    """The server answered with a status other than 200; `name`, `path`, `issues` are all that is told of the body."""

    def __init__(self, status: int, *, name: str | None, path: str | None, issues: tuple[str, ...]) -> None:
        text = f"status {status} instead of 200"
        if name is not None:
            text += f", {name}"
        if path is not None:
            text += f" in {path}"
        if issues:
            text += f" at {', '.join(issues)}"
        super().__init__(text, status)
        self.name = name


def basic_auth(username: str, password: str) -> dict[str, str]:
    """Make the header of Basic authentication; UTF-8, as the server wants it (`requests` would send Latin-1)."""
    return {"Authorization": f"Basic {basic_token(username, password)}"}


class OpenCodeServer:
    """An OpenCode Server at `url`; `credentials` are user name and password where it was started with a password."""

    def __init__(self, url: str, *, credentials: tuple[str, str] | None, journal: Journal, bounds: Bounds) -> None:
        headers = basic_auth(*credentials) if credentials is not None else {}
        self._server = HttpServer(url, journal=journal, bounds=bounds, headers=headers, name="the OpenCode Server")

    def health(self, budget: Budget) -> Health:
        """Ask `/global/health`: cheap, and the only read that makes no instance."""
        answer = self._read("/global/health", budget)
        version = answer.get("version")
        return Health(answer.get("healthy") is True, version if isinstance(version, str) else None)

    def background_subagents(self, budget: Budget) -> object:
        """Return `backgroundSubagents` of `/experimental/capabilities`, `None` where it is missing."""
        return self._read("/experimental/capabilities", budget).get("backgroundSubagents")

    def compare_config(self, expected: Mapping[str, Any], budget: Budget) -> Comparison:
        """Compare `/config` with the configuration the tests have: `model` and all below `provider.ollama`.

        A string of `expected` with `{env:` or `{file:` in it fits any string: the server has put the value in.
        """
        live = self._read("/config", budget)
        wanted = _ollama(expected)
        found = _ollama(live)
        wanted_models, found_models = _object(wanted, "models"), _object(found, "models")
        missing = tuple(key for key in wanted_models if key not in found_models)
        different: list[str] = []
        dropped: list[str] = []
        for path, left, right in _pairs(wanted, found, ("provider", "ollama")):
            if len(path) > 3 and path[2] == "models" and path[3] in missing:
                continue  # said once, by name
            if right is _MISSING:
                dropped.append(".".join(path))
            elif not _same(left, right):
                different.append(".".join(path))
        model = expected.get("model", _MISSING)
        return Comparison(
            model_differs=model is not _MISSING and not _same(model, live.get("model", _MISSING)),
            missing_models=missing,
            different=tuple(different),
            dropped=tuple(dropped),
        )

    def connected_models(self, budget: Budget) -> dict[str, frozenset[str]]:
        """Return the model keys of each connected provider (`/config/providers`; `/provider` is 6.4 MB)."""
        providers = self._read("/config/providers", budget).get("providers")
        if not isinstance(providers, list):
            raise AnswerError(f"`providers` is not a list but {kind_of(providers)}")
        connected = {}
        for entry in providers:
            if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
                raise AnswerError("an entry of `providers` has no `id`")
            models = entry.get("models")
            connected[entry["id"]] = frozenset(models) if isinstance(models, dict) else frozenset()
        return connected

    def _read(self, path: str, budget: Budget) -> dict[str, Any]:
        answer = self._server.ask("GET", path, budget=budget)
        if answer.status != 200:
            raise _refused(answer)
        if answer.content_type != "application/json":
            raise AnswerError(
                f"the answer is {_type_of(answer)!r} instead of application/json "
                "(OpenCode answers every unknown path with its page, status 200)"
            )
        return self._server.object_of(answer, "the answer")


def _type_of(answer: Answer) -> str:
    """Name the media type of an answer, where it is a usual one: a header could hold anything."""
    kind = answer.content_type
    return kind if kind in _MEDIA_TYPES else "of another type" if kind else "of no type"


def _refused(answer: Answer) -> RefusedError:
    name = path = None
    issues: list[str] = []
    try:
        body = parse(answer.body) if answer.complete and answer.body else None
    except ValueError:
        body = None
    if isinstance(body, dict):
        text = body.get("name")
        name = text if isinstance(text, str) and _IDENTIFIER.match(text) else None
        data = body.get("data")
        if isinstance(data, dict):
            path = named(data["path"]) if isinstance(data.get("path"), str) and len(data["path"]) <= 200 else None
            found = data.get("issues")
            for issue in found if isinstance(found, list) else []:
                steps = issue.get("path") if isinstance(issue, dict) else None
                if isinstance(steps, list) and all(isinstance(step, (str, int)) for step in steps):
                    issues.append(named(".".join(map(str, steps)), 100))
    return RefusedError(answer.status, name=name, path=path, issues=tuple(issues[:5]))


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _ollama(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return _object(_object(config, "provider"), "ollama")


def _pairs(left: Any, right: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Walk every leaf of `left` beside what `right` has at the same place."""
    if isinstance(left, dict) and (isinstance(right, dict) or right is _MISSING):
        there: Mapping[str, Any] = right if isinstance(right, dict) else {}
        for key, value in left.items():
            yield from _pairs(value, there.get(key, _MISSING), (*path, key))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _pairs(one, other, (*path, str(index)))
    else:
        yield path, left, right


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, str) and ("{env:" in left or "{file:" in left):
        return isinstance(right, str)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
