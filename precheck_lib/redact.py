"""Keeping secrets out of what is shown. Nothing puts them in; this is the net below."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 8
"""Shorter secrets are not searched for: a key `e` would eat every `e` (CONTRACT B5)."""

SECRET_NAME = re.compile(r"(?:\A|_)(?:API_KEY|PASSWORD|SECRET|TOKEN)\Z")
"""Names of environment variables whose values are secret wherever a spec mentions them."""

_SECRET_KEY = re.compile(r"key|token|secret|passw|authorization|credential|cookie", re.IGNORECASE)
_HIDDEN = "***"


class Redactor:
    """Replaces secrets in text by `***`: as they are, JSON-escaped and URL-encoded."""

    def __init__(self, values: Iterable[str]) -> None:
        forms: set[str] = set()
        for value in values:
            for secret in {value, value.strip(), *_inside(value)}:
                if len(secret) >= SHORTEST:
                    forms |= {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
                    if not secret.isalnum():
                        from urllib.parse import quote, quote_plus

                        forms |= {
                            quote(secret, safe="", errors="replace"),
                            quote_plus(secret, errors="replace"),
                        }
        # The longest first: a secret may hold another.
        ordered = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """Return `text` without any of the secrets."""
        return self._pattern.sub(_HIDDEN, text) if self._pattern is not None else text


def _inside(value: str) -> Iterator[str]:
    """Yield the secret strings inside a JSON document: those whose key sounds like one."""
    if not value.lstrip().startswith("{"):
        return
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        return
    yield from _leaves(document, hidden=False)


def _leaves(value: Any, *, hidden: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, hidden=hidden or bool(_SECRET_KEY.search(key)) or key == "headers")
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, hidden=hidden)
    elif hidden and isinstance(value, str) and "{env:" not in value:
        yield value
