"""What the HTTP servers have in common: where they are, how long one may ask, and reading one JSON object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.bounded import http
from precheck_lib.bounded.strict_json import parse_object
from precheck_lib.errors import StatusError
from precheck_lib.redact import without_credentials
from precheck_lib.sequences import without_sequences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.http import Answer
    from precheck_lib.bounded.journal import Journal


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much one request may use: seconds to connect and in total, bytes of a body."""

    connect: float = 2.0
    total: float = 10.0
    max_bytes: int = 2 << 20


class HttpServer:
    """A server that speaks JSON over HTTP at `url` (a trailing slash is the same)."""

    def __init__(self, url: str, *, journal: Journal, bounds: Bounds, headers: Mapping[str, str] | None = None) -> None:
        self.url = url.rstrip("/")
        self.journal = journal
        self.bounds = bounds
        self._headers = dict(headers or {})

    def ask(
        self, method: str, path: str, *, budget: Budget, body: bytes | None = None, total: float | None = None
    ) -> Answer:
        """Make one request and return the answer whatever its status; `total` seconds instead of the usual bound."""
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        return http.send(
            method,
            self.url + path,
            budget=budget,
            journal=self.journal,
            connect_seconds=self.bounds.connect,
            total_seconds=self.bounds.total if total is None else total,
            max_body=self.bounds.max_bytes,
            headers=headers,
            body=body,
        )

    def object_of(self, answer: Answer, what: str) -> dict[str, Any]:
        """Return the JSON object of a 200 answer; raises `StatusError` or `AnswerError`."""
        if answer.status != 200:
            raise StatusError(f"status {answer.status} instead of 200", answer.status)
        return parse_object(answer.body, what)


_MOST_TEXT = 4096  # characters of a free text that are looked at: ten megabytes must not cost more


def short(value: object, limit: int = 80) -> str:
    """Quote a short value of a server for a message: one that is no text, or too long, is described instead.

    What looks like a credential in it is hidden: it would be one that only the server knows. Control sequences go
    before it is quoted: their escapes would split what is searched for afterwards.
    """
    if not isinstance(value, str):
        return repr(value) if isinstance(value, (int, float, bool)) or value is None else type(value).__name__
    text = without_credentials(without_sequences(value[:_MOST_TEXT]))
    return repr(text) if len(text) <= limit and len(value) <= _MOST_TEXT else f"{text[:limit]!r}…"


def named(value: str, limit: int = 200) -> str:
    """Return a name that a server gave (of a model, a host, a file) as it is where it looks like one, else quoted."""
    return (
        value if value.isprintable() and len(value) <= limit and without_credentials(value) == value else short(value)
    )


def plain(version: str | None) -> str | None:
    """Return a version as it is where it looks like one; anything else is quoted and cut."""
    if version is None or re.fullmatch(r"[0-9A-Za-z.+_-]{1,64}", version):
        return version
    return short(version)


def points_to(location: str | None, url: str) -> str:
    """Say where a redirect points, by its host alone: paths and queries of redirects carry tickets."""
    from urllib.parse import urljoin, urlsplit

    if not location:
        return "it does not say where to"
    try:
        there, here = urlsplit(urljoin(url, location)), urlsplit(url)
        host, own = there.hostname, here.hostname
    except ValueError:
        return "it points to something that is no URL"
    if not host:
        return "it points to something that is no URL"
    if host == own:
        how = "" if there.scheme == here.scheme else f" over {named(there.scheme, 16)}"
        return f"it points to another place on the same host{how}"
    return f"it points to the host {named(host, 80)}"
