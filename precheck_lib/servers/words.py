"""How a message shows what a server has said: cut, quoted, and without what looks like a credential."""

from __future__ import annotations

import re

from precheck_lib.redact import without_credentials
from precheck_lib.sequences import without_sequences

_MOST_TEXT = 4096  # characters of a free text that are looked at: ten megabytes must not cost more
_MOST_BITS = 256  # of a number: Python refuses to write the longest ones


def short(value: object, limit: int = 80) -> str:
    """Quote a short value of a server for a message: one that is no text, or too long, is described instead.

    What looks like a credential in it is hidden: it would be one that only the server knows. Control sequences go
    before it is quoted: their escapes would split what is searched for afterwards.
    """
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    if not isinstance(value, str):
        return repr(value) if isinstance(value, (int, float)) or value is None else type(value).__name__
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
