"""Keeping secrets out of what is shown. Nothing puts them in; this is the net below."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from precheck_lib.needles import SHORTEST, Needles
from precheck_lib.sequences import without_sequences
from precheck_lib.spellings import as_bytes, quoted_twice, spellings
from precheck_lib.views import unescaped, without_escapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SECRET_NAME = re.compile(r"(?:\A|_)(?:KEY|PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?)\Z", re.IGNORECASE)
"""Names of environment variables whose values are secret wherever a spec mentions them."""

# At the end of a key: `apiKey`, `client_secret`, `Proxy-Authorization`, but not `tokenizer` or `keybinds`.
_SECRET_KEY = re.compile(
    r"(?:key|password|passwd|passphrase|secret|token|authorization|credential|cookie)s?\Z|\Aheaders\Z", re.IGNORECASE
)
_NAMES_BELOW = frozenset(("agent", "mcp", "models", "provider"))
"""What stands directly below these keys of a configuration are names that its author chose."""

_PLACEHOLDER = re.compile(r"\{(?:env|file):[^}]*\}")
_SCHEME = re.compile(r"\A(?:Basic|Bearer|Token)\s+", re.IGNORECASE)
_HIDDEN = "***"

# Up to the last `@` before the path; and parameters of a query by their names.
_USERINFO = re.compile(r"(?<=://)[^\s/?#]*@")
_PARAMETER = re.compile(
    r"([?&;][\w.~-]*(?:key|token|secret|passw(?:or)?d|passphrase|signature|sig|auth|credential)s?=)[^\s&;#'\"]+",
    re.IGNORECASE,
)
_CARRIED = re.compile(r"\b(Basic|Bearer)(\s+)[A-Za-z0-9+/=._~-]{16,}", re.IGNORECASE)
# A value without any digit is a word of a sentence: "invalid token: unexpected end".
_FIELD = re.compile(
    r"((?:key|token|secret|passw(?:or)?d|passphrase|authorization|cookie)s?[\"'\\]*\s?[:=]\s?[\"'\\]*)"
    r"(?=[^\s\"'\\,;&<>]*[0-9])[^\s\"'\\,;&<>]{8,}",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[opsur]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|AIza[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"
)


class Redactor:
    r"""Replaces secrets in text by `***`, in every one of their spellings; and what stands for one in a URL.

    Also where each of their characters may or may not be escaped (`\u002B`, `%2B`, `&#43;`), and where white space in
    them is another, as it is when a text is made one line. What was encoded twice (a URL in a URL, base64 of base64) or
    in a rarer way (base32, quoted-printable, UTF-16, hex with colons, letters in another case) is not found.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._whole: set[str] = set()
        self._begun: set[str] = set()
        self._needles = Needles((), ())
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Hide these values as well."""
        for value in values:
            inside = _inside(value)
            for secret in parts(value):
                forms = {seen for form in spellings(secret) for seen in _seen(form) if len(seen) >= SHORTEST}
                if len(without_escapes(secret).strip()) < SHORTEST or len(secret.replace("\\", "")) < SHORTEST:
                    forms |= quoted_twice(secret)
                self._whole |= forms
                # How a document begins is no secret.
                if inside is None or secret.strip() != value.strip():
                    self._begun |= forms
        self._needles = Needles(self._whole, self._begun)

    def text(self, text: str) -> str:
        """Return `text` without any of the secrets."""
        text = self._hidden(text)
        # What drops control sequences afterwards would put together again what they split.
        plain = without_sequences(text)
        hidden = self._hidden(plain) if plain != text else plain
        return without_url_credentials(text if hidden == plain else hidden)

    def _hidden(self, text: str) -> str:
        spans = self._needles.spans(text)
        seen, places = unescaped(text)
        if seen != text:
            spans += [(places[start], places[end]) for start, end in self._needles.spans(seen)]
        if not spans:
            return text
        shown, done = [], 0
        for start, end in _merged(spans):
            shown += [text[done:start], _HIDDEN]
            done = end
        return "".join([*shown, text[done:]])


def parts(value: str) -> list[str]:
    """Return what of a secret value has to be hidden: all of it, its lines, and the secrets inside where it is JSON.

    Whatever has fewer than `SHORTEST` characters is left out.
    """
    inside = _inside(value)
    # The lines of a document are its shape; those of anything else (a private key) are the secret in pieces.
    found = [value, value.strip(), *(inside if inside is not None else map(str.strip, value.splitlines()))]
    return [part for part in dict.fromkeys(found) if len(part) >= SHORTEST]


def secrets_by_name(env: Mapping[str, str]) -> list[str]:
    """Return the values of all environment variables whose names say that they are secret."""
    return [value for name, value in env.items() if SECRET_NAME.search(name)]


def basic_token(username: str, password: str) -> str:
    """Return what Basic authentication sends; UTF-8, as RFC 7617 has it (`requests` would send Latin-1)."""
    return base64.b64encode(as_bytes(f"{username}:{password}")).decode("ascii")


def without_url_credentials(text: str) -> str:
    """Hide user name and password of every URL in a text, and what its query says is a secret."""
    if "://" not in text:
        return text
    return _PARAMETER.sub(rf"\1{_HIDDEN}", _USERINFO.sub(f"{_HIDDEN}@", text))


def without_credentials(text: str) -> str:
    """Hide what looks like a credential in the free text of a server: those are secrets that only the server knows."""
    text = _CARRIED.sub(rf"\1\2{_HIDDEN}", without_url_credentials(text))
    return _KNOWN.sub(_HIDDEN, _FIELD.sub(rf"\1{_HIDDEN}", text))


def _seen(form: str) -> set[str]:
    """Return a spelling as it is and without its escapes, also where what looks like an escape in it is none."""
    return {form, without_escapes(form).strip(), " ".join(form.replace("\\", "").split())}


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
    return list(_leaves(document))


def _leaves(document: Any) -> Iterator[str]:
    # Without recursion: from Python 3.12 on, what can be read may be deeper than what can be called.
    left: list[tuple[Any, bool, bool]] = [(document, False, False)]
    while left:
        value, hidden, names = left.pop()
        if isinstance(value, dict):
            for key, part in reversed(value.items()):
                secret = hidden or (not names and _SECRET_KEY.search(key) is not None)
                left.append((part, secret, not names and key in _NAMES_BELOW))
        elif isinstance(value, list):
            left += [(part, hidden, False) for part in reversed(value)]
        elif hidden and isinstance(value, str):
            # "{env:NAME}" is the name of a secret, and what stands around it may be one.
            yield from (_SCHEME.sub("", piece) for piece in _PLACEHOLDER.split(value))
