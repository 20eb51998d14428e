"""B1 to B5: the roles are looked at before anything is contacted or started; all that is wrong is said at once."""

from __future__ import annotations

import json

import pytest

from tests.contract.harness import (
    Family,
    nothing_was_contacted,
    open_stage,
    run_all,
    run_precheck,
    write_script,
    write_strict,
)

REQUIRED = (
    "TEST_CODEX_WS_URL",
    "TEST_CODEX_HOME",
    "TEST_CODEX_MODEL_DEFAULT",
    "TEST_CODEX_REASONING_EFFORT",
    "TEST_OPENAI_API_KEY",
    "TEST_OPENAI_BASE_URL",
    "TEST_ANTHROPIC_API_KEY",
    "TEST_ANTHROPIC_BASE_URL",
    "TEST_GEMINI_API_KEY",
    "TEST_CUSTOM_OPENAI_MODEL",
    "TEST_CUSTOM_ANTHROPIC_MODEL",
    "TEST_OPENCODE_CLOUD_MODEL",
    "TEST_OPENCODE_URL",
    "TEST_CUSTOM_OLLAMA_URL",
    "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT",
    "OPENCODE_CONFIG_CONTENT",
)
PAIR = ("TEST_OPENCODE_USERNAME", "TEST_OPENCODE_PASSWORD")
URLS = {
    "TEST_CODEX_WS_URL": "ws",
    "TEST_OPENAI_BASE_URL": "https",
    "TEST_ANTHROPIC_BASE_URL": "https",
    "TEST_OPENCODE_URL": "http",
    "TEST_CUSTOM_OLLAMA_URL": "http",
}


class Guarded:
    """A stage that nobody may touch: servers that count connections, commands that leave a mark."""

    def __init__(self, stage, place):
        self.environment = stage.environment
        self._stage = stage
        self._marker = place / "started"
        self._spec = write_strict(place / "spec")
        for path in stage.commands.values():
            write_script(path, f'echo started >> "{self._marker}"')

    def fail(self, changes, spec=None):
        """Run the strict spec with roles that have to fail, before anything is contacted or started."""
        env = {**self.environment, **changes}
        env = {name: value for name, value in env.items() if value is not None}
        ended = run_precheck(env, spec=spec or self._spec)
        assert ended.code == 1, ended
        assert ended.blockers == ["roles"], ended
        assert ended.words["roles"] == "failed"
        assert ended.json["verdict"] == "not-ready"
        assert nothing_was_contacted(self._stage)
        assert not self._marker.exists()
        assert ended.json["requests"] == []
        for finding in ended.check("roles")["findings"]:
            assert finding["message"] in ended.err
        return ended


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    place = tmp_path_factory.mktemp("guarded")
    with open_stage(place / "stage") as stage:
        yield Guarded(stage, place)


@pytest.fixture
def roles_fail(guarded):
    """Run the strict spec with roles that have to fail; nothing may have been contacted or started."""
    return guarded.fail


def only_message(ended) -> str:
    (message,) = ended.messages
    return message


# B1, B4 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", " \t\u3000\u00a0"], ids=["unset", "empty", "blank"])
def test_all_missing_roles_are_named_in_one_message(value, roles_fail):
    ended = roles_fail(dict.fromkeys(REQUIRED, value))
    message = only_message(ended)
    assert [name for name in REQUIRED if name not in message] == []
    (line,) = [line for line in ended.err.splitlines() if "TEST_CODEX_HOME" in line and "missing" in line]
    assert [name for name in REQUIRED if name not in line] == []


def test_each_required_role_alone_is_named_when_it_is_missing(roles_fail):
    ended = run_all([lambda role=role: roles_fail({role: ""}) for role in REQUIRED])
    for role, one in zip(REQUIRED, ended, strict=True):
        message = only_message(one)
        assert [name for name in (*REQUIRED, *PAIR) if name in message] == [role]


def test_the_real_spec_requires_the_same_roles(roles_fail):
    message = only_message(roles_fail(dict.fromkeys(REQUIRED, ""), spec="strict"))
    assert [name for name in REQUIRED if name not in message] == []


def test_what_is_missing_and_what_is_malformed_is_said_at_the_same_time(roles_fail):
    changes = {
        "TEST_GEMINI_API_KEY": "",
        "TEST_OPENAI_BASE_URL": "api.openai.com",
        "TEST_CODEX_REASONING_EFFORT": "very high",
        "TEST_OPENCODE_USERNAME": "somebody",
    }
    ended = roles_fail(changes)
    for role in (*changes, "TEST_OPENCODE_PASSWORD"):
        assert any(role in message for message in ended.messages), ended


# B2 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"TEST_OPENCODE_USERNAME": "opencode"},
        {"TEST_OPENCODE_USERNAME": " ", "TEST_OPENCODE_PASSWORD": "a-long-password"},
    ],
    ids=["name-only", "name-blank"],
)
def test_half_of_the_optional_pair_is_refused(given, roles_fail):
    message = only_message(roles_fail(given))
    assert [name for name in PAIR if name not in message] == []


def test_both_of_the_optional_pair_are_used(make_stage, small_strict):
    stage = make_stage(username="sömebody", password="with spaces: and ü")
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 0, ended


def test_a_pair_that_is_blank_counts_as_none(stage, small_strict):
    env = {**stage.environment, "TEST_OPENCODE_USERNAME": "", "TEST_OPENCODE_PASSWORD": "  "}
    assert run_precheck(env, spec=small_strict).code == 0
    assert not [request for request in stage.opencode.seen if "authorization" in request.headers]


# B3 --------------------------------------------------------------------------------------------------------------


def test_variables_of_embedded_storage_change_nothing(stage, small_strict):
    nonsense = {
        "TEST_POSTGRES": "\r\n\x1b[31m",
        "TEST_POSTGRES_URL": "postgres://somebody:hunter2-of-postgres@nowhere.invalid:99999/?x#y",
        "TEST_POSTGRES_PASSWORD": "hunter2-of-postgres",
        "TEST_SURREALDB": "",
        "TEST_SURREALDB_URL": "\u200b:::",
        "TEST_SURREALDB_API_KEY": "e",
    }
    ended = run_precheck({**stage.environment, **nonsense}, spec=small_strict)
    assert ended.code == 0, ended
    for text in (ended.out, ended.err, ended.raw.decode()):
        assert "***" not in text
        assert "POSTGRES" not in text
        assert "hunter2" not in text
        assert "SURREAL" not in text


# B5: URLs --------------------------------------------------------------------------------------------------------

PATHS = {"TEST_CUSTOM_OLLAMA_URL": "/api"}
WRONG_URLS = {
    "no-scheme": ("127.0.0.1:4096PATH", "URL"),
    "other-scheme": ("ftp://127.0.0.1:4096PATH", "SCHEME"),
    "scheme-of-the-other-kind": ("OTHER://127.0.0.1:4096PATH", "SCHEME"),
    "no-host": ("SCHEME://PATH", "host"),
    "port-only": ("SCHEME://:4096PATH", "host"),
    "user": ("SCHEME://hunter2-user@127.0.0.1:4096PATH", "user name"),
    "password": ("SCHEME://u:hunter2-password@127.0.0.1:4096PATH", "password"),
    "query": ("SCHEME://127.0.0.1:4096PATH?token=hunter2-query", "query"),
    "fragment": ("SCHEME://127.0.0.1:4096PATH#hunter2-fragment", "fragment"),
    "port-too-large": ("SCHEME://127.0.0.1:99999PATH", "port"),
    "port-no-number": ("SCHEME://127.0.0.1:httpPATH", "port"),
    "bracket": ("SCHEME://[::1PATH", "URL"),
}


def wrong_url(role: str, pattern: str) -> str:
    scheme = URLS[role]
    other = "http" if scheme == "ws" else "ws"
    return pattern.replace("SCHEME", scheme).replace("OTHER", other).replace("PATH", PATHS.get(role, ""))


@pytest.mark.parametrize("first", range(0, len(WRONG_URLS), 3))
def test_a_url_of_the_wrong_shape_is_refused_and_what_is_wrong_is_named(first, roles_fail):
    # Every role has another fault, so that a few runs show all of them.
    faults = list(WRONG_URLS.values())
    given = {role: faults[(first + number) % len(faults)] for number, role in enumerate(URLS)}
    ended = roles_fail({role: wrong_url(role, pattern) for role, (pattern, _) in given.items()})
    for role, (pattern, word) in given.items():
        messages = [message for message in ended.messages if message.startswith(f"{role}:")]
        assert messages, f"{role}: {ended}"
        assert any(word.replace("SCHEME", URLS[role]) in message for message in messages), (pattern, messages)
    assert "hunter2" not in ended.out + ended.err + ended.raw.decode()


@pytest.mark.parametrize("path", ["/api/v1", "/apis"])
def test_the_url_of_ollama_ends_in_api(path, roles_fail):
    message = only_message(roles_fail({"TEST_CUSTOM_OLLAMA_URL": f"http://127.0.0.1:11434{path}"}))
    assert "TEST_CUSTOM_OLLAMA_URL" in message
    assert "/api" in message


def test_a_trailing_slash_of_a_url_is_the_same(stage, small_strict):
    env = dict(stage.environment)
    for role in ("TEST_CODEX_WS_URL", "TEST_OPENCODE_URL", "TEST_CUSTOM_OLLAMA_URL"):
        env[role] += "/"
    assert run_precheck(env, spec=small_strict).code == 0
    assert {request.path for request in stage.ollama.seen} == {"/api/tags", "/api/ps", "/api/generate"}


# B5: the others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["very high"])
def test_the_effort_is_one_word(value, roles_fail):
    assert "TEST_CODEX_REASONING_EFFORT" in only_message(roles_fail({"TEST_CODEX_REASONING_EFFORT": value}))


CONFIGS = {
    "broken-behind-a-key": ('{"provider": {"ollama": {"options": {"apiKey": "hunter2" "x"}}}}', "JSON"),
    "same-key-twice": ('{"apiKey": "hunter2", "apiKey": "hunter2"}', ""),
    "no-json": ("{model: 1}", "JSON"),
    "list": ("[1]", "object"),
    "string": ('"text"', "object"),
    "no-provider": ('{"model": "x"}', "provider.ollama.models"),
    "no-models": ('{"provider": {"ollama": {}}}', "provider.ollama.models"),
    "empty-models": ('{"provider": {"ollama": {"models": {}}}}', "provider.ollama.models"),
    "models-list": ('{"provider": {"ollama": {"models": ["qwen3:8b"]}}}', "provider.ollama.models"),
    "two-objects": ('{"a": 1} {"b": 2}', "JSON"),
    "not-a-number": ('{"provider": {"ollama": {"models": {"a": NaN}}}}', "JSON"),
}


MODELS = '"provider": {"ollama": {"models": {"qwen3:8b": {}, "gpt-oss:20b": {}}}}'
JSONC = {
    "comment-on-its-own-line": "{\n  // the models of the tests\n  " + MODELS + "}",
    "comment-behind-a-value": '{"model": "ollama/qwen3:8b", // the default one\n' + MODELS + "}",
    "block-comment": "{/* models */" + MODELS + "}",
    "comment-at-the-end": "{" + MODELS + "} // done",
    "trailing-comma": "{" + MODELS + ",}",
}


@pytest.fixture(scope="module")
def config_fails(request, guarded):
    """The run with each configuration that is none."""
    texts = {**{name: text for name, (text, _) in CONFIGS.items()}, **JSONC}
    functions = (
        "test_the_configuration_is_a_json_object_with_models",
        "test_jsonc_is_refused_and_the_message_says_that_it_is_no_json",
    )
    return Family(request, functions, texts, lambda name: guarded.fail({"OPENCODE_CONFIG_CONTENT": texts[name]}))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_configuration_is_a_json_object_with_models(name, config_fails):
    ended = config_fails[name]
    messages = [message for message in ended.messages if message.startswith("OPENCODE_CONFIG_CONTENT:")]
    assert any(CONFIGS[name][1] in message for message in messages), ended
    assert "hunter2" not in ended.out + ended.err + ended.raw.decode()


@pytest.mark.parametrize("name", JSONC)
def test_jsonc_is_refused_and_the_message_says_that_it_is_no_json(name, config_fails):
    message = only_message(config_fails[name])
    assert "JSONC" in message
    assert "the default one" not in message


def test_the_default_model_is_one_of_the_configured_ones(roles_fail):
    message = only_message(roles_fail({"TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": "qwen3"}))
    assert "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT" in message
    assert "OPENCODE_CONFIG_CONTENT" in message


def test_the_home_of_codex_is_an_absolute_path_of_an_existing_folder(roles_fail, tmp_path):
    file = tmp_path / "a file"
    file.write_text("")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    wrong = {
        "codex-home": "absolute",
        "~/codex-home": "absolute",
        str(tmp_path / "nowhere"): "existing folder",
        str(file): "existing folder",
        str(dangling): "existing folder",
    }
    ended = run_all([lambda value=value: roles_fail({"TEST_CODEX_HOME": value}) for value in wrong])
    for (value, words), one in zip(wrong.items(), ended, strict=True):
        assert only_message(one).startswith("TEST_CODEX_HOME:")
        assert words in only_message(one), value


def test_a_home_without_auth_json_is_no_fault_of_the_roles(stage, small_strict, tmp_path):
    (tmp_path / "stage0" / "codex-home" / "auth.json").unlink()
    link = tmp_path / "link to the home"
    link.symlink_to(stage.environment["TEST_CODEX_HOME"])
    ended = run_precheck({**stage.environment, "TEST_CODEX_HOME": str(link)}, spec=small_strict)
    assert ended.code == 0, ended
    assert "auth.json" not in ended.out + ended.err


# B5: what cannot be seen -----------------------------------------------------------------------------------------

INVISIBLE = {
    "carriage-return": ("{}\r", "carriage return"),
    "line-feed": ("{}\n", "line feed"),
    "tab": ("\t{}", "tab"),
    "escape": ("{}\x1b[0m", "escape"),
    "delete": ("{}\x7f", "delete"),
    "zero-width-space": ("{}\u200b", "zero width space"),
    "zero-width-space-first": ("\u200b{}", "zero width space"),
    "byte-order-mark": ("\ufeff{}", "zero width no-break space"),
    "no-break-space": ("{}\u00a0", "no-break space"),
    "word-joiner": ("{}\u2060", "word joiner"),
    "soft-hyphen": ("{}\u00ad", "soft hyphen"),
    "right-to-left": ("\u202e{}", "right-to-left override"),
    "line-separator": ("{}\u2028", "line separator"),
    "c1-control": ("{}\x85", "control character"),
    "space-at-the-end": ("{} ", "white space"),
    "space-at-the-start": (" {}", "white space"),
    "double-quotes": ('"{}"', "quotes"),
    "single-quotes": ("'{}'", "quotes"),
}
TEXT_ROLES = tuple(role for role in REQUIRED if role != "OPENCODE_CONFIG_CONTENT")


@pytest.mark.parametrize("shift", [0, 6, 12])
def test_what_cannot_be_seen_is_named_in_words(shift, roles_fail, guarded):
    # Every role has another fault, so that a few runs show all of them.
    faults = list(INVISIBLE.values())
    given = {role: faults[(shift + number) % len(faults)] for number, role in enumerate(TEXT_ROLES)}
    ended = roles_fail({role: fault.replace("{}", guarded.environment[role]) for role, (fault, _) in given.items()})
    for role, (fault, words) in given.items():
        messages = [message for message in ended.messages if message.startswith(f"{role}:")]
        assert any(words in message for message in messages), (role, fault, messages)
        if role.endswith("_API_KEY"):
            assert guarded.environment[role] not in ended.out + ended.err + ended.raw.decode()


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ('"{}"', "quotes"),
        ("'{}'", "quotes"),
        ("\ufeff{}", "U+FEFF"),
        ("{}\u200b", "U+200B"),
        ("{}\x1b", "escape"),
    ],
    ids=["double-quotes", "single-quotes", "byte-order-mark", "zero-width-space", "escape"],
)
def test_what_cannot_be_seen_around_the_configuration_is_named_in_words(pattern, words, roles_fail, guarded):
    text = pattern.replace("{}", guarded.environment["OPENCODE_CONFIG_CONTENT"])
    ended = roles_fail({"OPENCODE_CONFIG_CONTENT": text})
    assert any(words in message for message in ended.messages), ended


def test_white_space_around_the_configuration_is_json(stage, small_strict):
    text = f"\r\n\t {stage.environment['OPENCODE_CONFIG_CONTENT']} \r\n"
    assert run_precheck({**stage.environment, "OPENCODE_CONFIG_CONTENT": text}, spec=small_strict).code == 0


def test_a_value_that_is_no_utf_8_is_named_in_words(roles_fail):
    ended = roles_fail({"TEST_OPENAI_API_KEY": b"sk-\xff\xfe-canary"})
    for message in ended.messages:
        assert message.startswith("TEST_OPENAI_API_KEY:")
        assert "UTF-8" in message
    assert b"canary" not in ended.raw + (ended.out + ended.err).encode()


# B5: secrets -----------------------------------------------------------------------------------------------------


def test_a_secret_that_a_server_repeats_is_not_shown(make_stage, small_strict):
    # An error in Ollama's own form, whose text is shown: with every secret in it.
    secrets = {
        "TEST_OPENAI_API_KEY": "sk-canary-1",
        "TEST_ANTHROPIC_API_KEY": 'a"canary"<&>\\2',
        "TEST_GEMINI_API_KEY": "AIza-cänary-3",
        "TEST_OPENCODE_USERNAME": "opencode",
        "TEST_OPENCODE_PASSWORD": "päss/canary+4",
    }
    said = "; ".join(secret for name, secret in secrets.items() if name != "TEST_OPENCODE_USERNAME")
    body = json.dumps({"error": f"bad keys {said} here"})
    stage = make_stage(
        password=secrets["TEST_OPENCODE_PASSWORD"],
        faults={"ollama": "status"},
        fault_options={"ollama": {"type": "application/json", "body": body}},
    )
    ended = run_precheck({**stage.environment, **secrets}, spec=small_strict)
    assert ended.code == 22, ended
    assert "bad keys" in ended.err
    assert "here" in ended.err
    for text in (ended.out, ended.err, ended.raw.decode()):
        assert "canary" not in text
        assert "cänary" not in text


def test_a_key_inside_the_configuration_is_a_secret_too(make_stage, small_strict):
    body = json.dumps({"error": "the key stand-in-ollama-key is not known"})
    stage = make_stage(
        faults={"ollama": "status"}, fault_options={"ollama": {"type": "application/json", "body": body}}
    )
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 22
    assert "is not known" in ended.err
    assert "stand-in-ollama-key" not in ended.out + ended.err + ended.raw.decode()


def test_a_short_secret_does_not_eat_the_text(make_stage, small_strict):
    stage = make_stage(faults={"opencode": "unhealthy"})
    plain = run_precheck(stage, spec=small_strict)
    short = {"TEST_OPENAI_API_KEY": "e", "TEST_ANTHROPIC_API_KEY": "health", "TEST_GEMINI_API_KEY": "Server"}
    ended = run_precheck({**stage.environment, **short}, spec=small_strict)
    assert ended.messages == plain.messages
    assert ended.err == plain.err
    assert "***" not in ended.out + ended.err + ended.raw.decode()
