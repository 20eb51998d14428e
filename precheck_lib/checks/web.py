"""What the kinds share that ask over HTTP: URLs and headers that can be used, and how they are shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|passw|cookie|credential|session|signature", re.IGNORECASE)
_OURS = frozenset(
    ("accept-encoding", "connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade")
)
"""Headers that say how an exchange is framed: the client's own, or it could not keep its bounds."""


def url_problems(url: str, *, query: bool = False) -> Iterator[str]:
    """Say what is wrong with a URL of http or https, without showing it: it may have a secret in it."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        yield "it is not a URL with a usable host and port"
        return
    if parts.scheme not in ("http", "https") or "://" not in url:
        yield "it is not a URL that begins with http:// or https://"
    elif not parts.hostname or port == 0 or re.search(r"[\x00-\x20\x7f\\<>\"^`{|}]", url) or "%" in parts.netloc:
        yield "it is not a URL with a usable host and port"
    if "@" in parts.netloc:
        yield "it has a user name or password in it"
    if "?" in url and not query:
        yield "it has a query (?...) in it"
    if "#" in url:
        yield "it has a fragment (#...) in it"


def without_query(url: str) -> str:
    """Return a URL as messages name it: what stands in its query may be secret."""
    return url.partition("?")[0]


def is_secret_header(name: str) -> bool:
    """Say whether the value of a header is to be hidden, by its name."""
    return _SECRET_HEADER.search(name) is not None


def name_problem(name: str) -> str:
    """Say why a header cannot be sent, empty where it can."""
    if not _NAME.match(name):
        return f"{name!r} is not the name of a header"
    return f"{name} is set by precheck itself" if name.lower() in _OURS else ""


def value_problem(value: str) -> str:
    """Say what keeps the value of a header from being sent, without showing it; empty where nothing does."""
    if re.search(r"[\r\n]", value):
        return "it holds a line end" + ("" if re.search(r"[\r\n]", value.strip()) else " at its start or end")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", value):
        return "it holds control characters"
    if value != value.strip():
        return "it has white space at its start or end"
    return "it holds bytes that are not UTF-8" if re.search("[\ud800-\udfff]", value) else ""


def on_the_wire(value: str) -> str:
    """Return a value so that it goes out as UTF-8: headers are encoded as Latin-1."""
    return value.encode("utf-8").decode("latin-1")


__all__ = ["is_secret_header", "name_problem", "on_the_wire", "url_problems", "value_problem", "without_query"]
