"""Secrets never stay in what is shown, and what is no secret does."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shlex
import time
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precheck_lib import needles, redact
from precheck_lib.redact import (
    SECRET_NAME,
    SHORTEST,
    Redactor,
    basic_token,
    parts,
    secrets_by_name,
    without_credentials,
    without_url_credentials,
)
from precheck_lib.report.text import clean
from precheck_lib.views import unescaped, without_escapes

KEY = "sk-proj-0123456789abcdef/+=."


def shown(text, *secrets):
    return Redactor(secrets).text(text)


def test_a_secret_is_replaced_wherever_it_stands():
    assert shown(f"{KEY} and {KEY}x{KEY}", KEY) == "*** and ***x***"


def test_text_without_a_secret_stays_the_same():
    text = "http://127.0.0.1:11434/api gpt-oss:20b *** \0 \ud800"
    assert shown(text, KEY) == text
    assert Redactor([]).text(text) == text


def test_short_secrets_are_not_searched_for():
    assert shown("the key e is seven77", "e", "", "seven77", "  seven77 ") == "the key e is seven77"
    assert shown("eight888", "eight888") == "***"
    assert SHORTEST == 8


def test_white_space_around_a_secret_does_not_save_it():
    assert shown("a 0123456789 b", " 0123456789\n") == "a *** b"


def test_metacharacters_are_only_characters():
    for secret in ("a.c*d+e?f", "[abcdefg]", "(abcdefg", "a|bcdefgh", "\\d\\d\\d\\d", "^abcdefg$", "$&\\1\\g<0>"):
        assert shown(f"x{secret}x", secret) == "x***x"
        assert shown("abcdefgh0000", secret) == "abcdefgh0000"


@pytest.mark.parametrize(
    "secret",
    [
        'quote"back\\slash',
        "line\nfeed\ttab",
        "schlüssel-ß",
        "schlüsselwort",
        'schlüssel "ß"',
        "a/b+c d=&%",
        "'single' \x1b",
        "<a href=\"?b&c\">'ü'",
    ],
)
def test_every_usual_form_of_a_secret_is_found(secret):
    forms = {
        "as it is": secret,
        "JSON": json.dumps(secret)[1:-1],
        "JSON in Unicode": json.dumps(secret, ensure_ascii=False)[1:-1],
        "Python": repr(secret)[1:-1],
        "part of a URL": quote(secret, safe=""),
        "path of a URL": quote(secret),
        "form": quote_plus(secret),
        "lower-case escapes": re.sub("%..", lambda match: match[0].lower(), quote(secret, safe="")),
        "Go's JSON": json.dumps(secret)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        "PHP's JSON": json.dumps(secret)[1:-1].replace("/", "\\/"),
        "JSON inside of JSON": json.dumps(json.dumps(secret)[1:-1])[1:-1],
        "JSON inside of JSON as Python quotes it": repr(json.dumps(json.dumps(secret)[1:-1])[1:-1])[1:-1],
        "Python's bytes": repr(secret.encode())[2:-1],
        "a shell's argument": shlex.quote(secret).removeprefix("'").removesuffix("'"),
        "a shell's argument with backslashes": secret.replace("'", "'\\''"),
        "XML": escape(secret),
        "an attribute of XML": escape(secret, {'"': "&quot;", "'": "&apos;"}),
        "an attribute of XML with quotes": quoteattr(secret)[1:-1].replace("&#10;", "\n").replace("&#9;", "\t"),
        "HTML": html.escape(secret),
        "HTML as templates write it": html.escape(secret).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        "HTML in ASCII": html.escape(secret).encode("ascii", "xmlcharrefreplace").decode(),
        "hex": secret.encode().hex(),
        "capital hex": secret.encode().hex().upper(),
        "base64": base64.b64encode(secret.encode()).decode().rstrip("="),
        "base64 for URLs": base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    }
    for name, form in forms.items():
        assert shown(f"<{form}>", secret) in ("<***>", "<***=>"), name


@pytest.mark.parametrize(
    "secret", ["0000%00\x1b", "ab%41%42é", '\\\\abcd\\"', "\\n\\t\\r\\n", '&amp;&lt;"', '&#65;"""']
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_one_that_is_short_without_its_escapes_is_found_where_it_is_quoted_twice(secret, ascii_only):
    # Such as %00, which would be one character: what is looked for without escapes has fewer than eight then.
    form = json.dumps(json.dumps(secret, ensure_ascii=ascii_only), ensure_ascii=ascii_only)[3:-3]
    assert shown(f"<{form}>", secret) == "<***>"


@pytest.mark.parametrize("before", ["", "x", "ab", "opencode:", "öäü"])
def test_a_secret_inside_of_something_that_was_encoded_is_found(before):
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(f"{before}{KEY}ü{before}".encode()).decode()
        left = shown(f"got {encoded}!", KEY)
        assert "***" in left
        # At both ends a character that is partly of what stands there may stay.
        assert not any(encoded[place : place + 4] in left for place in range(len(before) + 4, len(encoded) - 16))


@pytest.mark.parametrize("split", ["\x1b[1m", "\x1b]0;title\x07", "\x1b[\x1b[0m1m", "\ufe0f", "\x9b1m", "\x1b(B"])
def test_control_sequences_do_not_split_a_secret(split):
    assert shown(f"got {KEY[:9]}{split}{KEY[9:]} here", KEY) == "got *** here"
    assert shown(f"got {KEY[:9]}{split}{KEY[9:]} and {KEY}", KEY) == "got *** and ***"
    assert shown(f"{split}no secret{split}", KEY) == f"{split}no secret{split}"


def test_a_secret_that_holds_control_sequences_is_found_with_them_and_without():
    coloured = "\x1b[1mcolour\x1b[0m-is-secret"
    assert shown(f"<{coloured}> <colour-is-secret>", coloured) == "<***> <***>"


def test_a_backslash_before_what_is_no_secret_stays():
    assert shown(r"C:\Users\x and \n", KEY) == r"C:\Users\x and \n"


# Several lines, names, Basic -----------------------------------------------------------------------------------------


def test_each_line_of_a_secret_is_one():
    key = "-----BEGIN-----\r\n  first-line-of-it  \nshort\n-----END-----\n"
    assert parts(key) == [key, key.strip(), "-----BEGIN-----", "first-line-of-it", "-----END-----"]
    assert shown("a first-line-of-it b short", key) == "a *** b short"


def test_the_lines_of_a_document_are_none_but_what_is_secret_in_it_is():
    document = json.dumps({"provider": {"options": {"apiKey": "api-key-of-ollama"}}}, indent=2)
    assert parts(document) == [document, "api-key-of-ollama"]
    assert parts("short") == []


def test_the_values_of_variables_with_secret_names_are_found():
    env = {"MY_TOKEN": "a", "HOME": "/root", "TEST_GEMINI_API_KEY": "b", "EMPTY_SECRET": ""}
    assert secrets_by_name(env) == ["a", "b", ""]


def test_basic_authentication_is_utf_8_and_takes_any_bytes():
    assert basic_token("opencode", "pässword") == base64.b64encode("opencode:pässword".encode()).decode()
    assert basic_token("a", "\udcff") == base64.b64encode(b"a:\xff").decode()


# What looks like a secret --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("at http://ci:hunter2@host:1/x", "at http://***@host:1/x"),
        ("ws://ci@host wss://a:b@c@host/d@e", "ws://***@host wss://***@host/d@e"),
        ("http://host/x?token=abc&n=1&api_key=def#f", "http://host/x?token=***&n=1&api_key=***#f"),
        ("https://registry/@scope/x@1.2", "https://registry/@scope/x@1.2"),
        ("a@b and x?token=1", "a@b and x?token=1"),
        ("http://host/x?page=2&tokens_max=5", "http://host/x?page=2&tokens_max=5"),
    ],
)
def test_a_url_shows_no_credentials(text, left):
    assert without_url_credentials(text) == left
    assert shown(text) == left
    assert without_credentials(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("got Bearer abcdefghijklmnopqrst.", "got Bearer ***"),
        ("Authorization: Basic b3BlbmNvZGU6cGFzc3dvcmQ=", "Authorization: Basic ***"),
        ('{"apiKey": "abc12345"}', '{"apiKey": "***"}'),
        ("api_key=abc12345, n=1", "api_key=***, n=1"),
        ("password: hunter2hunter2", "password: ***"),
        ("bad sk-proj-0123456789abcdef-_x!", "bad ***!"),
        ("ghp_0123456789abcdefABCD is old", "*** is old"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "***"),
        # Words of a sentence stay.
        ("invalid token: unexpected end of key: temperature", "invalid token: unexpected end of key: temperature"),
        ("Basic authentication is needed", "Basic authentication is needed"),
        ("model 'qwen3:8b' not found, sha256:0123456789abcdef", "model 'qwen3:8b' not found, sha256:0123456789abcdef"),
        ("llama-server process has terminated: exit status 2", "llama-server process has terminated: exit status 2"),
    ],
)
def test_what_looks_like_a_credential_is_hidden_in_the_words_of_a_server(text, left):
    assert without_credentials(text) == left


@pytest.mark.parametrize("unit", ["key:", "-eyJ", "://", "?;", "Basic ", "sk-", "?a", "\\", "\x1b"])
def test_no_text_makes_it_slow(unit):
    text = unit * (4096 // len(unit))
    began = time.process_time()
    without_credentials(text)
    shown(text * 20, KEY, 'with "quotes" \\ ')
    assert time.process_time() - began < 1


def test_secrets_that_overlap_leave_nothing_between_them():
    assert shown("x abcdefgh12345678ijklmnop y", "abcdefgh12345678", "12345678ijklmnop") == "x *** y"
    for count in range(8, 20):
        assert shown(f"x {'a' * count} y", "a" * 8) == "x *** y"


def test_a_secret_inside_of_another_does_not_leave_the_rest_of_it():
    assert shown("x 00password00 y", "password", "00password00") == "x *** y"
    assert shown("x password y", "password", "00password00") == "x *** y"


def test_a_secret_that_was_cut_short_is_not_shown():
    assert shown(f"it says '{KEY[:20]}'…", KEY) == "it says '***'…"
    assert shown(KEY[:16], KEY) == "***"
    assert shown(KEY[:15], KEY) == KEY[:15]


def test_a_few_characters_of_a_secret_count_where_a_text_says_that_it_was_cut():
    for length in range(4, len(KEY)):
        for cut in ("…", "'…", '"…', "…………"):
            assert shown(f"it says {KEY[:length]}{cut} and more", KEY) == f"it says ***{cut} and more"
    assert shown(f"{KEY[:3]}…", KEY) == f"{KEY[:3]}…"
    assert shown(f"a {KEY[:5]}… b {KEY[:6]}… c", KEY) == "a ***… b ***… c"


def test_a_secret_that_holds_the_sign_of_a_cut_is_hidden_as_far_as_it_goes():
    secret = "abcd…efgh…ijkl…mnop"
    assert shown(f"x {secret} y {secret[:14]}… z {secret[:7]}…", secret) == "x *** y ***… z ***…"


def test_a_quote_before_the_sign_of_a_cut_may_be_the_last_of_what_is_left():
    assert shown("x abcd'… y", "abcd'efgh") == "x ***… y"
    assert shown("x 'abcd'… y", "abcd efgh") == "x '***'… y"


def test_half_an_escape_before_a_cut_does_not_save_what_stands_before_it():
    secret = "pass+word&more"
    for half in (
        r"pass\u002Bword\u002",
        r"pass\u002Bword\u",
        "pass%2Bword%2",
        "pass%2Bword%",
        "pass&#43;word&#3",
        r"pass\x2bword\x",
    ):
        left = shown(f"x {half}… y '{half}'…", secret)
        assert "pass" not in left, half
        assert "word" not in left, half


@pytest.mark.parametrize("length", [500, 512, 513, 528, 529, 1008, 1009, 1024, 5000])
def test_a_long_secret_is_hidden_as_a_whole_and_however_it_was_cut(length):
    secret = "".join(f"{number:05}-" for number in range(length))[:length]
    assert shown(f"x {secret} y", secret) == "x *** y"
    for kept in {16, 100, 495, 496, 500, 511, 512, 513, 520, 992, 1000, length - 1}:
        if kept < length:
            assert shown(f"x {secret[:kept]} y", secret) == "x *** y", kept


@given(
    st.lists(st.text("ab", min_size=SHORTEST, max_size=24), min_size=1, max_size=5),
    st.text("ab…", max_size=80),
)
def test_one_search_finds_what_a_search_for_each_secret_finds(secrets, text):
    hidden = set()
    for secret in secrets:
        for start in range(len(text)):
            here = text[start:]
            same = max(n for n in range(len(secret) + 1) if here.startswith(secret[:n]))
            if same == len(secret) or same >= 16:
                hidden |= set(range(start, start + same))
            cuts = [n for n in range(4, same + 1) if here[n : n + 1] == "…" and here[n - 1] != "…"]
            hidden |= set(range(start, start + max(cuts, default=0)))
    expected = "".join("*" if place in hidden else character for place, character in enumerate(text))
    assert shown(text, *secrets) == re.sub(r"\*+", "***", expected)


# White space and escapes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["\t", "\n", "\r\n", "\n\n\n", "\u00a0", "\u2003", "\u2028", "\v", "  \t ", "\x85"])
def test_white_space_of_a_secret_stands_for_any_other(space):
    secret = "correct horse battery"
    for one, other in ((" ", space), (space, " "), (space, "\n")):
        text = f"got {secret.replace(' ', other)} here"
        left = shown(text, secret.replace(" ", one))
        assert left == "got *** here"
        assert clean(left) == "got *** here"
    assert shown("got correct\thorse here", secret) == "got correct\thorse here"


def test_white_space_around_a_secret_stays():
    assert shown("got\n\tcorrect horse \n here", "correct\nhorse") == "got\n\t*** \n here"


ESCAPES = {
    "JSON": lambda character: f"\\u{ord(character):04x}",
    "capital JSON": lambda character: f"\\u{ord(character):04X}",
    "JSON in JSON": lambda character: f"\\\\u{ord(character):04x}",
    "Python": lambda character: f"\\x{ord(character):02x}",
    "a URL": lambda character: f"%{ord(character):02X}",
    "a lower-case URL": lambda character: f"%{ord(character):02x}",
    "XML": lambda character: f"&#{ord(character)};",
    "hexadecimal XML": lambda character: f"&#x{ord(character):X};",
    "lower-case hexadecimal XML": lambda character: f"&#x{ord(character):x};",
}


@pytest.mark.parametrize("escape", ESCAPES)
@given(
    data=st.data(),
    secret=st.text("aZ09+/=&%<>'\"\\. -#;ux", min_size=12, max_size=24).map(lambda text: text.strip("\\ ")),
)
def test_any_of_the_characters_of_a_secret_may_be_escaped(escape, data, secret):
    if len(" ".join(secret.replace("\\", "").split())) < SHORTEST or len(unescaped(secret).text) < SHORTEST:
        return
    which = data.draw(st.lists(st.booleans(), min_size=len(secret), max_size=len(secret)))
    # What begins an escape is escaped itself by whoever escapes anything.
    text = "".join(
        ESCAPES[escape](character) if chosen or character in "\\%&" else character
        for chosen, character in zip(which, secret, strict=True)
    )
    left = shown(f"<{text}>", secret)
    assert left.startswith("<***"), left
    assert re.fullmatch(r"<\*\*\*(\\+u005[cC]|\\x5c|%5[cC]|&#92;|&#x5[cC];)*>", left), left


def test_an_escape_that_stands_for_no_secret_stays():
    text = r"C:\Users\u0041 100%25 &amp; &#65; \x41 %zz &#x110000; &#9999999; \ … \u00… %4…"
    assert shown(text, KEY) == text
    assert shown(f"{text}{KEY}{text}", KEY) == f"{text}***{text}"


def test_a_secret_that_looks_escaped_is_found_as_it_is_and_escaped_again():
    secret = r"C:\new%41&#65;\u0041&amp;key"
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1], quote(secret, safe="")):
        assert shown(f"<{text}>", secret) == "<***>"
    # What stands before it makes an escape of its beginning.
    assert shown("%41abcdefgh", "41abcdefgh") == "%***"


@given(st.text(st.sampled_from("a\\u0x41%&#;…' \n\t"), max_size=60))
def test_every_character_of_an_unescaped_text_has_its_place_in_the_original(text):
    seen, places = unescaped(text)
    assert seen == without_escapes(text)
    assert len(places) == len(seen) + 1
    assert list(places) == sorted(places)
    assert places[-1] <= len(text)
    for place, character in enumerate(seen):
        original = text[places[place] : places[place + 1]]
        assert original
        assert (
            character == " "
            or original.lstrip("\\")[:1] in (character, "u", "x", "%", "&")
            or original[-1] == character
        )


# What it costs -------------------------------------------------------------------------------------------------------

MANY = [f"sk-proj-{hashlib.sha512(str(number).encode()).hexdigest()}+/=\\{number}" * 2 for number in range(100)]
SIZE = 1 << 16


@pytest.mark.parametrize(
    "unit",
    [
        "…",
        "x…",
        MANY[0],
        MANY[0][:30],
        MANY[0][:16],
        MANY[0][:8],
        f"{MANY[0][:8]}…",
        f"{MANY[0][:4]}…",
        f"{MANY[0][:9]}…\\\t",
        *["\\", "\\u", "\\u0041", "%4", "&#", "&#65;", "\t ", "a\t", "\x1b["],
    ],
)
def test_a_search_looks_at_each_place_a_few_times_whatever_stands_there(unit, monkeypatch):
    looks = 0

    def counted(search):
        def look(*arguments):
            nonlocal looks
            looks += 1
            return search(*arguments)

        return look

    redactor = Redactor(MANY)
    for search in ("bisect_left", "bisect_right"):
        monkeypatch.setattr(needles, search, counted(getattr(needles, search)))
    monkeypatch.setattr(needles, "_common", counted(needles._common))
    text = (unit * SIZE)[:SIZE]
    began = time.process_time()
    redactor.text(text)
    assert time.process_time() - began < 2
    # Four for each of the two views of it, and again without control sequences.
    assert looks <= 16 * SIZE
    longest = looks
    looks = 0
    redactor.text(text[: SIZE // 4])
    assert longest <= 4 * looks + 400, "it grows with the text alone"


@pytest.mark.parametrize("secret", ["Z" * 130_000, "ab" * 100, "a" * 31])
def test_a_secret_that_repeats_itself_costs_little_too(secret):
    redactor = Redactor([secret])
    for text in (secret[:2] * (SIZE // 2), f"{secret[:4]}…" * (SIZE // 5)):
        began = time.process_time()
        assert set(redactor.text(text)) <= set("*…")
        assert time.process_time() - began < 2


def test_a_half_of_one_secret_before_the_whole_of_another_leaves_nothing():
    assert shown(f"{KEY[:20]}{KEY}", KEY) == "***"
    assert shown(f"{KEY[:20]}{KEY[:18]}{KEY[:22]}", KEY) == "***"


def test_a_secret_url_does_not_hide_every_url():
    hook = "https://hooks.example.com/services/T000/B000"
    assert shown(f"https://example.com {hook}", hook) == "https://example.com ***"


# Inside of a JSON document -------------------------------------------------------------------------------------------

CONFIG = {
    "model": "ollama/gpt-oss:20b",
    "keybinds": {"leader": "ctrl+shift+x"},
    "provider": {
        "ollama": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Ollama of the house",
            "options": {"baseURL": "http://127.0.0.1:11434/v1", "apiKey": "api-key-of-ollama"},
            "models": {
                "gpt-oss:20b": {"name": "gpt-oss 20B", "limit": {"context": 65536}},
                "tokenizer:key": {
                    "name": "A model named key",
                    "id": "library/tokenizer:key",
                    "maxTokens": "1000000000",
                },
            },
        },
        "token": {
            "options": {
                "baseURL": "https://token.example.com/v1",
                "headers": {"Authorization": "Bearer bearer-token-1", "X-Custom": "custom-header-1"},
                "nested": {"client_secret": ["first-of-secrets", {"deep": "second-of-secrets"}]},
            }
        },
    },
    "mcp": {"key": {"url": "https://mcp.example.com", "environment": {"GITHUB_TOKEN": "ghp_0123456789"}}},
    "password": "{env:SERVER_PASSWORD}",
    "other_token": "prefix-of-token{env:REST}",
}
SECRETS = [
    "api-key-of-ollama",
    "bearer-token-1",
    "custom-header-1",
    "first-of-secrets",
    "second-of-secrets",
    "ghp_0123456789",
    "prefix-of-token",
]
NO_SECRETS = [
    "ollama/gpt-oss:20b",
    "ctrl+shift+x",
    "@ai-sdk/openai-compatible",
    "Ollama of the house",
    "http://127.0.0.1:11434/v1",
    "gpt-oss 20B",
    "tokenizer:key",
    "A model named key",
    "library/tokenizer:key",
    "https://token.example.com/v1",
    "https://mcp.example.com",
    "{env:SERVER_PASSWORD}",
    "SERVER_PASSWORD",
]


def test_secrets_inside_of_a_configuration_are_found_by_their_keys():
    redactor = Redactor([json.dumps(CONFIG)])
    assert [redactor.text(f"<{secret}>") for secret in SECRETS] == ["<***>"] * len(SECRETS)


def test_model_names_and_addresses_inside_of_a_configuration_are_not_eaten():
    redactor = Redactor([json.dumps(CONFIG)])
    assert [redactor.text(text) for text in NO_SECRETS] == NO_SECRETS


def test_a_configuration_as_a_whole_is_a_secret_and_its_beginning_is_not():
    text = json.dumps(CONFIG)
    assert Redactor([text]).text(f"got {text}") == "got ***"
    assert Redactor([f" {text}\n"]).text(f"got {text}") == "got ***"
    assert Redactor([text]).text('{"model": "ollama/gpt-oss:20b", "x": 1}') == '{"model": "ollama/gpt-oss:20b", "x": 1}'


def test_what_is_no_json_is_a_secret_as_a_whole():
    for text in ('{"apiKey": "not-closed-key"', '{"a": 1} // {"apiKey": 1}', "[" * 100_000, "{" + "9" * 5000 + "}"):
        assert Redactor([text]).text(f"<{text}>") == "<***>"


def test_a_list_of_secrets_is_looked_into_too():
    assert shown("<secret-in-list>", '[{"token": "secret-in-list"}]') == "<***>"


def test_many_secrets_in_a_long_text_cost_little():
    redactor = Redactor([f"{number:04}-secret-of-many" * 3 for number in range(50)])
    began = time.process_time()
    assert redactor.text("x" * 1_000_000).count("*") == 0
    assert time.process_time() - began < 3


# Which variables are secret ------------------------------------------------------------------------------------------


def test_variables_are_secret_by_their_names():
    secret = (
        "TEST_OPENAI_API_KEY API_KEY MY_PASSWORD PASSWORD GITHUB_TOKEN HF_TOKEN CLIENT_SECRET AWS_SECRET_ACCESS_KEY "
    )
    secret += "api_key DB_PASSWD SSH_PASSPHRASE CREDENTIALS GOOGLE_CREDENTIAL"
    plain = "TEST_CODEX_HOME KEYBOARD MONKEY TOKENS_MAX TEST_OPENCODE_URL PASSWORD_FILE API_KEY_ID NAME"
    assert [name for name in secret.split() if not SECRET_NAME.search(name)] == []
    assert [name for name in plain.split() if SECRET_NAME.search(name)] == []


@given(st.lists(st.text(min_size=SHORTEST, max_size=30), min_size=1, max_size=4), st.text(max_size=20))
def test_no_secret_stays_whatever_it_is(secrets, between):
    text = between.join([*secrets, json.dumps(secrets), *secrets, ""])
    left = Redactor(secrets).text(text)
    assert [secret for secret in secrets if len(secret.strip("*")) >= SHORTEST and secret in left] == []


@pytest.mark.parametrize("text", ["a…" * 4000, ("a" + "…" * 79) * 50, "sk-p" * 1000 + ".…", "\\" * 8000])
def test_no_text_of_a_server_makes_the_search_long(text):
    redactor = Redactor(f"sk-p{number:03}{'x' * 200}" for number in range(100))
    began = time.monotonic()
    assert redactor.text(text) == text
    assert time.monotonic() - began < 1.0


def test_what_stands_before_a_cut_is_hidden_from_its_fourth_character_on():
    redactor = Redactor(["hunter2-password-of-mine"])
    assert redactor.text("it was hunt…") == "it was ***…"
    assert redactor.text("it was 'hunter2-pass'…") == "it was '***'…"
    assert redactor.text("it was hun…") == "it was hun…"
    assert redactor.text("it was hunts…") == "it was hunts…"


def test_secrets_deep_inside_a_document_are_hidden_however_deep_it_can_be_read():
    # From Python 3.12 on, json reads documents that are deeper than what functions may call each other.
    document: object = {"apiKey": "secret-0123456789"}
    for _ in range(50_000):
        document = [document]
    assert list(redact._leaves(document)) == ["secret-0123456789"]
    while isinstance(document, list):  # or it would be taken apart by recursion
        document = document.pop()
