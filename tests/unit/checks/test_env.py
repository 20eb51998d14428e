"""The roles: what is wrong with a value is said in words, all at once, and never with the value."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.checks.env import EnvOptions, Role, at_pointer, run
from precheck_lib.checks.kind import Context
from precheck_lib.findings import NotReadyError

VALUE = "hunter2-hunter2"


def context_of(env, seconds=5.0):
    return Context(
        env=env,
        budget=Budget(seconds),
        journal=Journal(),
        expand=lambda value: value,
        exit_code=lambda error: error.curl,
    )


def error_of(options, env, seconds=5.0):
    with pytest.raises(NotReadyError) as caught:
        run(options, context_of(env, seconds))
    return caught.value


def wrong(value, **rules):
    """What is said of this value of the role ROLE; empty where nothing is."""
    options = EnvOptions(required={"ROLE": Role(**rules)})
    try:
        return run(options, context_of({"ROLE": value}))
    except NotReadyError as caught:
        error = caught
    assert (error.word, error.curl) == ("failed", 1)
    assert {finding.code for finding in error.findings} == {"roles.malformed"}
    return [finding.message.removeprefix("ROLE: ") for finding in error.findings]


# Missing --------------------------------------------------------------------------------------------------------------


def test_all_missing_roles_are_named_in_one_message():
    options = EnvOptions(required={name: Role() for name in ("A", "B", "C", "D")})
    error = error_of(options, {"A": "", "B": " \t\n", "C": "x"})
    assert [(finding.code, finding.message) for finding in error.findings] == [
        ("roles.missing", "missing or empty: A, B, D")
    ]
    assert (error.word, error.curl) == ("failed", 1)


def missing_on_github(tmp_path, head, roles):
    """What is said of missing roles in a run for a pull request from the repository `head`."""
    refs = {"head": {"repo": {"full_name": head}}, "base": {"sha": "abc", "repo": {"full_name": "us/repo"}}}
    path = tmp_path / "event.json"
    path.write_text(json.dumps({"pull_request": refs}), encoding="utf-8")
    env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(path)}
    (finding,) = error_of(EnvOptions(required=roles), env).findings
    return finding


def test_a_secret_that_github_withholds_is_told_from_one_that_was_forgotten(tmp_path):
    withheld = missing_on_github(tmp_path, "me/fork", {"MY_API_KEY": Role()})
    assert withheld.evidence.startswith("this run is for a pull request from the fork me/fork")
    assert withheld.evidence.endswith("no key was forgotten")
    assert "github.event.pull_request.head.repo.full_name == github.repository" in withheld.remedy
    forgotten = missing_on_github(tmp_path, "us/repo", {"MY_API_KEY": Role()})
    assert "one is not defined there, or not passed to this step" in forgotten.evidence
    assert forgotten.remedy != withheld.remedy


def test_of_what_is_no_secret_github_withholds_nothing(tmp_path):
    assert missing_on_github(tmp_path, "me/fork", {"PLAIN": Role()}).evidence == ""
    assert missing_on_github(tmp_path, "me/fork", {"PLAIN": Role(secret=True)}).evidence != ""


def test_what_is_malformed_is_said_beside_what_is_missing_and_after_it():
    options = EnvOptions(required={"A": Role(word=True), "B": Role()}, optional={"C": Role(word=True)})
    error = error_of(options, {"A": "two words", "C": "two words"})
    assert [finding.code for finding in error.findings] == ["roles.missing", "roles.malformed", "roles.malformed"]


def test_optional_roles_may_be_missing_and_are_looked_at_where_they_are_set():
    options = EnvOptions(optional={"A": Role(word=True)})
    assert run(options, context_of({})) == []
    assert run(options, context_of({"A": " "})) == []
    assert error_of(options, {"A": "two words"}).findings[0].message == "A: it is not one word"


def test_of_what_belongs_together_all_or_none_is_set():
    options = EnvOptions(together=[["USER", "PASSWORD"], ["X", "Y", "Z"]])
    assert run(options, context_of({"USER": "", "X": "1", "Y": "2", "Z": "3"})) == []
    error = error_of(options, {"USER": VALUE, "PASSWORD": "", "Y": VALUE})
    assert [(finding.code, finding.message) for finding in error.findings] == [
        ("roles.pair", "USER is set without PASSWORD"),
        ("roles.pair", "Y is set without X, Z"),
    ]


def test_what_is_not_named_is_never_read():
    class Named(dict):
        def get(self, key, default=None):
            assert key == "A"
            return super().get(key, default)

    options = EnvOptions(required={"A": Role()})
    assert run(options, context_of(Named({"A": "x", "TEST_POSTGRES_URL": "::nonsense::"}))) == []


# What cannot be seen --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("value\r", "it holds a carriage return at its end"),
        ("value\n", "it holds a line feed at its end"),
        ("\tvalue", "it holds a tab at its start"),
        ("val\0ue", "it holds a NUL"),
        ("val\x1b[0m", "it holds an escape character"),
        ("val\x7fue", "it holds a delete character"),
        ("val\x01ue", "it holds a control character 0x01"),
        ("value\u200b", "it holds an invisible character (zero width space, U+200B) at its end"),
        ("\ufeffvalue", "it holds an invisible character (zero width no-break space, U+FEFF) at its start"),
        ("val\xa0ue", "it holds an invisible character (no-break space, U+00A0)"),
        ("val\u202eue", "it holds an invisible character (right-to-left override, U+202E)"),
        ("val\u2028ue", "it holds an invisible character (line separator, U+2028)"),
        ("val\udcffue", "it holds bytes that are not UTF-8"),
        (" value", "it has white space at its start"),
        ("value ", "it has white space at its end"),
        ('"value"', "the whole value is in quotes"),
        ("'value'", "the whole value is in quotes"),
        ("`value`", "the whole value is in quotes"),
        ('""', "the whole value is in quotes"),
    ],
)
def test_what_cannot_be_seen_is_named_in_words(value, said):
    for rules in ({}, {"secret": True}, {"url": ["http"]}, {"word": True}, {"folder": True}):
        assert wrong(value, **rules) == [said], rules


def test_each_odd_character_is_named_once_and_all_of_them_are():
    assert wrong("a\r\u200bb\r\u200b\r") == [
        "it holds a carriage return",
        "it holds an invisible character (zero width space, U+200B)",
    ]


def test_ordinary_values_are_not_odd():
    for value in ("x", "two words", "it's", 'say "x" now', "'", "ünïcödé", "a\\b", "%20", "日本語"):
        assert wrong(value) == [], value


# URLs -----------------------------------------------------------------------------------------------------------------


def test_urls_that_are_fine():
    for value in (
        "http://host",
        "HTTPS://Host:8443/path/",
        "http://127.0.0.1:1",
        "http://[::1]:65535/v1",
        "http://host:/",
        "http://a-b.example.com/%20x",
        "http://müller.example",
    ):
        assert wrong(value, url=["http", "https"]) == [], value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("host", ["it is not a URL that begins with ws:// or wss://"]),
        ("host:80", ["it is not a URL that begins with ws:// or wss://"]),
        ("http://host", ["it is not a URL that begins with ws:// or wss://"]),
        ("ws:host", ["it is not a URL that begins with ws:// or wss://"]),
        ("ws:/host", ["it is not a URL that begins with ws:// or wss://"]),
        ("//host", ["it is not a URL that begins with ws:// or wss://"]),
        ("ws://", ["it is a URL without a usable host and port"]),
        ("ws:///path", ["it is a URL without a usable host and port"]),
        ("ws://:80", ["it is a URL without a usable host and port"]),
        ("ws://host:0", ["it is a URL without a usable host and port"]),
        ("ws://ho st", ["it is a URL without a usable host and port"]),
        ("ws://host\\x", ["it is a URL without a usable host and port"]),
        ("ws://{host}", ["it is a URL without a usable host and port"]),
        ("ws://host:65536", ["it is not a URL: its port is not a number from 1 to 65535"]),
        ("ws://host:abc", ["it is not a URL: its port is not a number from 1 to 65535"]),
        ("ws://host:80:80", ["it is not a URL: its port is not a number from 1 to 65535"]),
        ("ws://[::1", ["it is not a URL"]),
        ("ws://user@host", ["it has a user name or password in it"]),
        ("ws://user:hunter2@host", ["it has a user name or password in it"]),
        ("ws://:@host", ["it has a user name or password in it"]),
        ("ws://host?", ["it has a query (?...) in it"]),
        ("ws://host/?a=b", ["it has a query (?...) in it"]),
        ("ws://host#", ["it has a fragment (#...) in it"]),
        (
            "ws://u:hunter2@h/?a#b",
            ["it has a user name or password in it", "it has a query (?...) in it", "it has a fragment (#...) in it"],
        ),
    ],
)
def test_urls_that_are_not(value, said):
    assert wrong(value, url=["ws", "wss"]) == said


def test_the_path_of_a_url_has_to_end_as_it_has_to():
    for value in ("http://host/api", "http://host/api/", "http://host/x/api"):
        assert wrong(value, url=["http"], path_end="/api") == [], value
    for value in ("http://host", "http://host/", "http://host/api/v1", "http://host/xapi", "http://api"):
        assert wrong(value, url=["http"], path_end="/api") == ["its path does not end in /api"], value


# Words, folders, characters -------------------------------------------------------------------------------------------


def test_a_word_is_one_word():
    for value in ("high", "x-high_2", "HIGH"):
        assert wrong(value, word=True) == []
    for value in ("two words", "high!", "höch", "a/b", "a.b"):
        assert wrong(value, word=True) == ["it is not one word"], value


def test_a_folder_is_an_absolute_path_of_one_that_is_there(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    assert wrong(str(tmp_path), folder=True) == []
    assert wrong(str(tmp_path / "link"), folder=True) == []
    for value in ("relative", "~", "~/x", "./x"):
        assert wrong(value, folder=True) == ["it is not an absolute path"], value
    for value in (tmp_path / "none", tmp_path / "file"):
        assert wrong(str(value), folder=True) == ["it is not an existing folder (seen from this user)"]


def test_characters_that_a_value_must_not_hold_are_named():
    assert wrong("user", without=":@") == []
    assert wrong("a:b@c", without=":@") == ["it must not hold ':'", "it must not hold '@'"]


@pytest.fixture
def dead_mount(monkeypatch):
    """Folders that do not answer before the test is over."""
    over = threading.Event()
    monkeypatch.setattr(os.path, "isdir", lambda _: over.wait(20))
    before = set(threading.enumerate())
    yield
    over.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)


def test_a_folder_that_does_not_answer_is_not_waited_for_and_could_not_be_found_out(dead_mount):
    began = time.monotonic()
    error = error_of(EnvOptions(required={"HOME_OF": Role(folder=True)}), {"HOME_OF": "/dead"}, seconds=0.1)
    assert time.monotonic() - began < 2
    assert [finding.message for finding in error.findings] == [
        "HOME_OF: its folder could not be looked at in time (a dead mount?)"
    ]
    assert (error.word, error.curl) == ("error", 28)


def test_what_is_known_to_be_wrong_decides_over_a_folder_that_does_not_answer(dead_mount):
    options = EnvOptions(required={"HOME_OF": Role(folder=True), "NONE": Role()})
    error = error_of(options, {"HOME_OF": "/dead"}, seconds=0.1)
    assert (error.word, error.curl) == ("failed", 1)


def test_two_folders_that_do_not_answer_could_not_be_found_out_either(dead_mount):
    options = EnvOptions(required={"A": Role(folder=True), "B": Role(folder=True)})
    error = error_of(options, {"A": "/dead", "B": "/dead"}, seconds=0.1)
    assert len(error.findings) == 2
    assert (error.word, error.curl) == ("error", 28)


# JSON -----------------------------------------------------------------------------------------------------------------

MODELS = "/provider/ollama/models"


def wrong_json(value):
    return wrong(value, secret=True, json_object=[MODELS])


def test_a_json_object_with_what_it_needs_is_fine_with_white_space_around_and_anything_inside():
    text = '{"provider": {"ollama": {"models": {"m": {}}}}, "x": "\u200b\u00a0"}'
    for value in (text, f"\n\t {text}\r\n"):
        assert wrong_json(value) == []


def test_what_cannot_be_seen_is_named_at_the_ends_of_json_and_left_to_the_parser_inside():
    assert wrong_json("{}\u200b")[0] == "it holds an invisible character (zero width space, U+200B) at its end"
    for value in ("{\u200b}", '{"a"\u200b: 1, "b": 2}'):
        (said,) = wrong_json(value)
        assert said.startswith("it cannot be read: ")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[]", "it is not a JSON object but a list"),
        ("null", "it is not a JSON object but null"),
        ("5", "it is not a JSON object but a number"),
        ("{}", "it has no non-empty object at provider.ollama.models"),
        ('{"provider": {"ollama": {"models": {}}}}', "it has no non-empty object at provider.ollama.models"),
        ('{"provider": {"ollama": {"models": ["m"]}}}', "it has no non-empty object at provider.ollama.models"),
        ('{"provider": 5}', "it has no non-empty object at provider.ollama.models"),
        ('{"a": 1, "a": 2}', "it cannot be read: an object has the same key twice"),
        ('{"a": NaN}', "it cannot be read: NaN is not JSON"),
        ("hunter2", "it cannot be read: it is not JSON: Expecting value at line 1 column 1"),
    ],
)
def test_what_is_wrong_with_a_json_object_is_said(value, said):
    assert wrong_json(value) == [said]


@pytest.mark.parametrize("value", ['{"a": 1} // x', '// x\n{"a": 1}', '{"a": /* x */ 1}', '{"a": [1,]}', '{"a": 1,\n}'])
def test_json_with_comments_is_told_apart(value):
    (said,) = wrong_json(value)
    assert said.startswith("it cannot be read: ")
    assert said.endswith("; comments and trailing commas (JSONC) are not JSON")


@pytest.mark.parametrize("value", ['{"a": "http://x"', '{"a": "/* x */" 1}', '{"a": ",]"', '{"a": "\\"//"'])
def test_what_is_like_a_comment_inside_of_a_string_is_none(value):
    (said,) = wrong_json(value)
    assert "JSONC" not in said


def test_quotes_and_a_byte_order_mark_around_json_are_named():
    for value in ("'{\"a\": 1}'", '"{\\"a\\": 1}"', "`{}`"):
        assert wrong_json(value)[0] == "the whole value is in quotes"
    assert wrong_json("\ufeff{}")[0] == (
        "it holds an invisible character (zero width no-break space, U+FEFF) at its start"
    )


def test_the_default_model_is_one_of_the_keys():
    options = EnvOptions(
        required={"CONFIG": Role(json_object=[MODELS]), "MODEL": Role(key_of=f"CONFIG#{MODELS}")},
    )
    config = '{"provider": {"ollama": {"models": {"a:1": {"id": "b:1"}}}}}'
    assert run(options, context_of({"CONFIG": config, "MODEL": "a:1"})) == []
    for value in ("b:1", "A:1", "a"):
        error = error_of(options, {"CONFIG": config, "MODEL": value})
        assert [finding.message for finding in error.findings] == [
            "MODEL: it is not one of the keys of provider.ollama.models in CONFIG"
        ]


@pytest.mark.parametrize("config", ["", "{", "[]", '{"provider": {"ollama": {"models": {}}}}'])
def test_a_configuration_that_is_wrong_itself_is_not_said_twice(config):
    options = EnvOptions(
        required={"CONFIG": Role(json_object=[MODELS]), "MODEL": Role(key_of=f"CONFIG#{MODELS}")},
    )
    error = error_of(options, {"CONFIG": config, "MODEL": "m"})
    assert all("MODEL" not in finding.message for finding in error.findings)


def test_pointers_follow_rfc_6901():
    document = {"a/b": {"m~n": [1, {"": 2}]}, "": 3}
    assert at_pointer(document, "") == document
    assert at_pointer(document, "/a~1b/m~0n/0") == 1
    assert at_pointer(document, "/a~1b/m~0n/1/") == 2
    assert at_pointer(document, "/") == 3
    for pointer in ("/none", "/a~1b/m~0n/2", "/a~1b/m~0n/-", "/a~1b/m~0n/0/x", "/a~1b/m~0n/²", "/a~1b/m~0n/00"):
        assert at_pointer(document, pointer) is None, pointer


# Patterns, allowed values, any JSON ----------------------------------------------------------------------------------


def test_a_pattern_has_to_match_all_of_a_value():
    assert wrong("v1.2.3", pattern=r"v\d+\.\d+\.\d+") == []
    for value in ("v1.2.3-rc", "xv1.2.3", "V1.2.3", "v1.2"):
        assert wrong(value, pattern=r"v\d+\.\d+\.\d+") == [r"it does not match the pattern 'v\\d+\\.\\d+\\.\\d+'"], (
            value
        )


def test_a_dollar_in_a_pattern_is_the_patterns_own():
    options = EnvOptions(required={"A": Role(pattern="^a$$")})
    context = context_of({"A": "a"})
    context.expand = lambda value: pytest.fail("a pattern is taken as it is written")
    assert run(options, context) == []


def test_a_value_that_is_too_long_for_a_pattern_is_not_tried():
    assert wrong("a" * 4096, pattern="a+") == []
    assert wrong("a" * 4097, pattern="a+") == ["it is longer than the 4096 characters that a pattern is tried on"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"pattern": "(x"}, "A: pattern: '(x' is not a regular expression: missing ), unterminated subpattern"),
        ({"one_of": []}, "A: one_of: no value is allowed"),
    ],
)
def test_rules_that_cannot_be_are_refused_whatever_the_value_is(rules, said):
    for env in ({}, {"A": "x"}):
        error = error_of(EnvOptions(optional={"A": Role(**rules)}), env)
        assert error.usage
        (finding,) = error.findings
        assert finding.code == "spec.invalid"
        assert finding.message.startswith(said)


def test_a_value_is_one_of_those_that_are_allowed():
    assert wrong("low", one_of=["low", "high"]) == []
    assert wrong("LOW", one_of=["low", "high"]) == ["it is not one of the allowed values 'low', 'high'"]
    assert wrong("x", one_of=["low"], secret=True) == ["it is not one of the 1 allowed values"]
    assert wrong("x", one_of=[str(number) for number in range(30)]) == ["it is not one of the 30 allowed values"]


def test_an_allowed_value_from_a_variable_is_shown_by_its_name():
    context = context_of({"A": "x", "B": "hunter2"})
    context.expand = lambda value: value.replace("${B}", "hunter2")
    with pytest.raises(NotReadyError) as caught:
        run(EnvOptions(required={"A": Role(one_of=["${B}"])}), context)
    assert caught.value.findings[0].message == "A: it is not one of the allowed values '${B}'"
    context.env["A"] = "hunter2"
    assert run(EnvOptions(required={"A": Role(one_of=["${B}"])}), context) == []


@pytest.mark.parametrize("value", ["{}", "[]", " [1]\n", '"x"', "5", "null", "true", '{"a": [1]}'])
def test_json_of_any_type_is_json(value):
    assert wrong(value, json=True) == []


@pytest.mark.parametrize("value", ["{", "hunter2", 'x"hunter2"', "[1,]", '{"a": 1, "a": 2}', "NaN", "{} // x"])
def test_what_is_no_json_is_said_without_the_value(value):
    (said,) = wrong(value, json=True)
    assert said.startswith("it cannot be read: ")
    assert "hunter2" not in said


# Never the value ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"secret": True},
        {"url": ["http"], "path_end": "/api"},
        {"word": True},
        {"folder": True},
        {"json_object": [MODELS]},
        {"key_of": f"CONFIG#{MODELS}"},
        {"without": "h"},
        {"pattern": "x+"},
        {"one_of": ["a", "b"]},
        {"json": True},
    ],
)
def test_no_message_holds_a_value(rules):
    config = '{"provider": {"ollama": {"models": {"hunter2": {"apiKey": "hunter2"}}}}}'
    wrongs = [
        f" {VALUE}\u200b",
        f'"{VALUE}"',
        f"http://user:{VALUE}@{VALUE}/?{VALUE}#{VALUE}",
        f"http://[{VALUE}",
        f"http://host:{VALUE}/",
        f"http://{VALUE}\u2100/",
        f"/{VALUE}",
        f'{{"{VALUE}": {VALUE}}}',
        f'{{"{VALUE}": 1, "{VALUE}": 2}}',
        f'["{VALUE}"]',
        VALUE,
    ]
    for value in wrongs:
        options = EnvOptions(required={"ROLE": Role(**rules)}, together=[["ROLE", "NONE"]])
        error = error_of(options, {"ROLE": value, "CONFIG": config})
        shown = " ".join(f"{finding.message} {finding.evidence} {finding.remedy}" for finding in error.findings)
        assert "hunter2" not in shown, value
        assert "ROLE" in shown
