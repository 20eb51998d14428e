"""Keeping secrets out of what is shown. Nothing puts them in; this is the net below."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 8
"""Shorter secrets are not searched for: a key `e` would eat every `e` (CONTRACT B5)."""

SECRET_NAME = re.compile(r"(?:\A|_)(?:KEY|PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?)\Z", re.IGNORECASE)
"""Names of environment variables whose values are secret wherever a spec mentions them."""

_PART = 16
"""A text that was cut short may end in the beginning of a secret: so many characters of one count as the whole."""

# At the end of a key: `apiKey`, `client_secret`, `Proxy-Authorization`, but not `tokenizer` or `keybinds`.
_SECRET_KEY = re.compile(
    r"(?:key|password|passwd|passphrase|secret|token|authorization|credential|cookie)s?\Z|\Aheaders\Z", re.IGNORECASE
)
_NAMES_BELOW = frozenset(("agent", "mcp", "models", "provider"))
"""What stands directly below these keys of a configuration are names that its author chose."""

_CUT = re.compile("['\"]?…")
"""Where a text was cut short: there a few characters of a secret count as the whole."""

_FEW = 4

_PLACEHOLDER = re.compile(r"\{(?:env|file):[^}]*\}")
_SCHEME = re.compile(r"\A(?:Basic|Bearer|Token)\s+", re.IGNORECASE)
_HIDDEN = "***"


class Redactor:
    """Replaces secrets in text by `***`: as they are, JSON-escaped, as Python quotes them, and URL-encoded."""

    def __init__(self, values: Iterable[str]) -> None:
        self._forms: set[str] = set()
        self._cut: set[str] = set()
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Hide these values as well."""
        for value in values:
            inside = _inside(value)
            for secret in {value, value.strip(), *(inside or ())}:
                if len(secret) < SHORTEST:
                    continue
                forms = set(_forms(secret))
                self._forms |= forms
                # How a document begins is no secret.
                if inside is None or secret.strip() != value.strip():
                    self._cut |= forms

    def text(self, text: str) -> str:
        """Return `text` without any of the secrets."""
        spans = [span for form in self._forms for span in _found(form, text)]
        spans += [span for form in self._cut if len(form) > _PART for span in _found_cut(form, text)]
        spans += [
            span for cut in _CUT.finditer(text) for form in self._cut for span in _found_end(form, text, cut.start())
        ]
        shown, done = [], 0
        for start, end in _merged(spans):
            shown += [text[done:start], _HIDDEN]
            done = end
        return "".join([*shown, text[done:]])


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    # Python escapes a quote only where the text has both kinds.
    yield secret.replace("\\", "\\\\").replace("'", "\\'")
    encoded_64 = base64.b64encode(secret.encode("utf-8", "replace")).decode("ascii")
    yield encoded_64.rstrip("=")
    if not secret.isalnum() or not secret.isascii():
        from urllib.parse import quote, quote_plus

        encoded = {
            quote(secret, safe="", errors="replace"),
            quote(secret, errors="replace"),
            quote_plus(secret, errors="replace"),
        }
        yield from encoded
        yield from (re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in encoded)


def _found(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where `form` stands in `text`, also where it overlaps itself."""
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)


def _found_cut(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where the beginning of `form` stands in `text`, as far as it goes."""
    part = form[:_PART]
    start = text.find(part)
    while start >= 0:
        end = start + _PART
        for one, other in zip(form[_PART:], text[end : start + len(form)], strict=False):
            if one != other:
                break
            end += 1
        yield start, end
        # What begins inside of this and does not reach beyond it need not be looked at.
        start = text.find(part, end - _PART + 1)


def _found_end(form: str, text: str, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the beginning of `form` ends at `end`, where the text was cut."""
    for length in range(min(len(form) - 1, end), _FEW - 1, -1):
        if text.startswith(form[:length], end - length):
            yield end - length, end
            return


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _inside(value: str) -> list[str] | None:
    """Return the secret strings inside a JSON document: those whose key sounds like one; `None` where it is none."""
    if value.lstrip()[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return list(_leaves(document, hidden=False))


def _leaves(value: Any, *, hidden: bool, names: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            secret = hidden or (not names and _SECRET_KEY.search(key) is not None)
            yield from _leaves(part, hidden=secret, names=not names and key in _NAMES_BELOW)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, hidden=hidden)
    elif hidden and isinstance(value, str):
        # "{env:NAME}" is the name of a secret, and what stands around it may be one.
        yield from (_SCHEME.sub("", piece) for piece in _PLACEHOLDER.split(value))
