"""The spellings in which a secret comes back: what quoting, escaping and encoding make of it."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import TYPE_CHECKING

from precheck_lib.sequences import without_sequences

if TYPE_CHECKING:
    from collections.abc import Iterator

_URLSAFE = str.maketrans("+/", "-_")
_GO = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def spellings(secret: str) -> set[str]:
    """Return the secret as it is, quoted (JSON, Python, shells), escaped (URLs, XML, HTML) and encoded (base64, hex).

    Quoted once: who quotes what was quoted only adds backslashes.
    """
    made = {secret, without_sequences(secret)}
    made |= {form for text in tuple(made) for form in _quoted(text)}
    made |= {*_in_url(secret), *_in_markup(secret), *_encoded(secret)}
    made.discard("")
    return made


def quoted_twice(secret: str) -> set[str]:
    """Return JSON inside of JSON, for a secret that is too short to be looked for once its escapes are undone."""
    forms = set()
    for once in (json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        forms |= {json.dumps(once)[3:-3], json.dumps(once, ensure_ascii=False)[3:-3]}
    return forms


def _quoted(text: str) -> Iterator[str]:
    for form in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield form
        yield form.translate(_GO)  # Go's encoder, and so Ollama's
        yield form.replace("/", "\\/")  # PHP's, and that of many proxies
    yield repr(text)[1:-1]
    # Python escapes a quote only where the text has both kinds.
    yield text.replace("\\", "\\\\").replace("'", "\\'")
    yield repr(as_bytes(text))[2:-1]
    yield text.replace("'", "'\"'\"'")
    yield text.replace("'", "'\\''")


def _in_url(text: str) -> Iterator[str]:
    if text.isalnum() and text.isascii():
        return
    from urllib.parse import quote, quote_plus

    encoded = {
        quote(text, safe="", errors="replace"),
        quote(text, errors="replace"),
        quote(text, safe="!$&'()*+,;=:@/", errors="replace"),
        quote_plus(text, errors="replace"),
    }
    yield from encoded
    yield from (_ESCAPE.sub(lambda match: match[0].lower(), form) for form in encoded)


def _in_markup(text: str) -> Iterator[str]:
    if text.isascii() and set(text).isdisjoint("&<>\"'"):
        return
    within = html.escape(text, quote=False)
    for double, single in (('"', "'"), ("&quot;", "'"), ("&quot;", "&apos;"), ("&quot;", "&#x27;"), ("&#34;", "&#39;")):
        form = within.replace('"', double).replace("'", single)
        yield form
        yield form.encode("ascii", "xmlcharrefreplace").decode("ascii")
    yield html.escape(text).replace("&#x27;", "&#39;")


def _encoded(text: str) -> Iterator[str]:
    data = as_bytes(text)
    yield data.hex()
    yield data.hex().upper()
    whole = base64.b64encode(data).decode("ascii").rstrip("=")
    yield whole
    yield whole.translate(_URLSAFE)
    for before in range(3):
        # In the middle of something longer (`user:SECRET`) the characters at both ends depend on what stands there.
        whole = base64.b64encode(bytes(before) + data).decode("ascii")
        core = whole[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        yield core
        yield core.translate(_URLSAFE)


def as_bytes(text: str) -> bytes:
    """Return a text as the bytes that it had in the environment."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")
