"""Secrets do not survive, in any spelling that is known, and nothing else is taken for one."""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus

from hypothesis import event, given
from hypothesis import strategies as st

from precheck_lib.redact import SHORTEST, Redactor
from precheck_lib.report.text import clean
from tests.fuzz.values import ANY_CHARACTER, PIECES, TEXT, ordinary_stack

SECRETS = st.one_of(
    st.text(ANY_CHARACTER, min_size=SHORTEST, max_size=30),
    st.text(st.sampled_from("aB3+/=-_.\"'\\<>& é\n%"), min_size=SHORTEST, max_size=24),
    st.lists(st.sampled_from(PIECES), min_size=3, max_size=6).map("".join).filter(lambda text: len(text) >= SHORTEST),
    # As the environment holds bytes that are no UTF-8.
    st.binary(min_size=SHORTEST, max_size=20).map(
        lambda data: data.replace(b"\0", b"0").decode("utf-8", "surrogateescape")
    ),
    st.from_regex(r"sk-[A-Za-z0-9_-]{8,40}", fullmatch=True),
).filter(lambda secret: "*" not in secret and len(secret.strip()) >= SHORTEST)  # of stars one cannot say who wrote them

BETWEEN = st.one_of(st.sampled_from(["", " ", "\n", ": ", "'", '"', "a", "é", "://", "="]), st.text(max_size=6))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


SPELLINGS = {
    "as it is": lambda secret: secret,
    "JSON": json.dumps,
    "JSON with all characters": lambda secret: json.dumps(secret, ensure_ascii=False),
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret)),
    "Python": repr,
    "bytes of Python": lambda secret: repr(_bytes(secret)),
    "base64": lambda secret: base64.b64encode(_bytes(secret)).decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(_bytes(secret)).decode(),
    "Basic": lambda secret: base64.b64encode(b"user:" + _bytes(secret)).decode(),
    "Basic of another": lambda secret: base64.b64encode(b"opencode:" + _bytes(secret)).decode(),
    "hex": lambda secret: _bytes(secret).hex(),
    "URL": lambda secret: quote(secret, safe="", errors="replace"),
    "form": lambda secret: quote_plus(secret, errors="replace"),
    "XML": lambda secret: secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
}


@given(
    st.lists(SECRETS, min_size=1, max_size=3),
    st.lists(st.sampled_from(sorted(SPELLINGS)), min_size=1, max_size=4),
    BETWEEN,
)
def test_a_secret_survives_in_none_of_its_spellings(secrets, spellings, between):
    forms = [SPELLINGS[spelling](secret) for secret in secrets for spelling in spellings]
    text = between.join(["begin", *forms, *forms, "end"])
    left = Redactor(secrets).text(text)
    for secret in secrets:
        assert secret not in left
        assert secret.strip() not in left
        # Nor where it is cleaned afterwards for a terminal.
        assert secret not in clean(left)
        for spelling in spellings:
            form = SPELLINGS[spelling](secret).strip("'\"=")
            event(spelling)
            if len(form) >= 12 and "*" not in form:
                assert form not in left, spelling


@given(SECRETS, BETWEEN, BETWEEN)
def test_what_stands_around_a_secret_stays(secret, before, after):
    if re.search(r"://|\x1b|[\x80-\x9f]|\\|…", before + after):
        return
    left = Redactor([secret]).text(f"<begin>{before} {secret} {after}<end>")
    assert left.startswith("<begin>")
    assert left.endswith("<end>")
    assert "***" in left


# Neither letters, digits nor any other character of a secret is in these texts, nor a URL, nor the sign of a cut.
OTHER = st.text(st.sampled_from("αβγδ ΩΨ,.;!?()\n\t日本語😀"), max_size=60)


@given(st.lists(st.text(st.sampled_from("abcXYZ0123456789-_"), min_size=SHORTEST, max_size=40), max_size=4), OTHER)
def test_a_text_without_secrets_is_unchanged(secrets, text):
    assert Redactor(secrets).text(text) == text


@given(
    st.lists(st.text(ANY_CHARACTER, max_size=SHORTEST - 1), max_size=4),
    st.text(st.sampled_from("abcdefgh:. \n"), max_size=60),
)
def test_what_is_too_short_to_be_searched_for_eats_nothing(secrets, text):
    assert Redactor(secrets).text(text) == text


CONFIGURED = st.recursive(
    st.sampled_from(["apiKey", "token", "x-api-key", "password"]).flatmap(
        lambda key: st.text("abcdefgh0123456789", min_size=10, max_size=20).map(lambda value: {key: f"S{value}"})
    ),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["options", "env", "a", "b"]), inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@given(CONFIGURED.map(lambda value: {"provider": {"ollama": {"options": value}}}), st.booleans())
def test_secrets_inside_a_configuration_are_hidden_on_their_own(document, indented):
    whole = json.dumps(document, indent=2 if indented else None)
    values = re.findall(r"S[a-h0-9]{10,20}", whole)
    left = Redactor([whole]).text(" ".join([*values, whole, *(f"key {value}!" for value in values)]))
    assert [value for value in values if value in left] == []


@given(
    st.one_of(
        TEXT, st.integers(1, 1100).map(lambda depth: '{"apiKey":' + "[" * depth + '"secretsecret"' + "]" * depth + "}")
    ),
    TEXT,
)
def test_no_secret_and_no_text_is_too_odd(secret, text):
    with ordinary_stack():
        left = Redactor([secret]).text(text)
    assert isinstance(left, str)
