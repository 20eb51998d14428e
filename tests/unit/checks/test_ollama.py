"""`ollama`, `residency` and `opencode` against stand-ins, and the built-in spec for an Ollama server."""

from __future__ import annotations

import hashlib
import json

import pytest

from precheck_lib import engine
from precheck_lib.checks import changes_server, kind_named
from precheck_lib.checks.installed import api_url
from precheck_lib.checks.kind import ollama_models
from precheck_lib.simulate import Model, OllamaStandIn, OpenCodeStandIn
from precheck_lib.spec import load_spec
from precheck_lib.watcher import Watcher

DIGEST = hashlib.sha256(b"a:latest").hexdigest()


@pytest.fixture
def ollama():
    with OllamaStandIn({"a": Model(), "b": Model(capabilities=("completion",))}, version="0.12.3") as server:
        yield server


def asked(server):
    return [server.step(request) for request in server.seen]


# The server and its models --------------------------------------------------------------------------------------------


def test_without_models_and_version_the_server_only_has_to_answer(checker, ollama):
    assert checker.passes("ollama", {"url": ollama.url}) == []
    assert asked(ollama) == ["version"]
    assert checker.planned("ollama", {"url": "U"}) == ["GET U/version"]


def test_the_running_server_has_to_be_of_the_version(checker, ollama):
    assert checker.passes("ollama", {"url": ollama.url, "version": ">=0.12,<0.13"}) == []
    assert checker.passes("ollama", {"url": ollama.url, "version": "0.12.3", "models": ["a"]}) == []
    assert asked(ollama) == ["version", "version", "tags"]
    said = ("ollama.version", "the running Ollama is 0.12.3, needed is >=0.12.4")
    assert checker.said("ollama", {"url": ollama.url, "version": ">=0.12.4"}) == ("failed", [said])


def test_a_version_that_is_no_constraint_is_refused_before_anything_is_asked(checker, ollama):
    (said,) = checker.refused("ollama", {"url": ollama.url, "version": "latest"})
    assert said.startswith("version: 'latest' is no version constraint")
    assert ollama.seen == []


def test_models_may_have_to_have_a_digest_and_capabilities(checker, ollama):
    right = {"a": {"digest": DIGEST[:12], "capabilities": ["tools"]}, "two": {"id": "b"}, "b": None}
    assert checker.passes("ollama", {"url": ollama.url, "models": right}) == []
    assert asked(ollama) == ["tags"]
    wrong = {"a": {"digest": f"sha256:{'0' * 64}"}, "b": {"capabilities": ["completion", "tools", "vision"]}}
    assert checker.said("ollama", {"url": ollama.url, "models": wrong}) == (
        "failed",
        [
            ("ollama.digest", f"a is installed with the digest '{DIGEST[:12]}', pinned is 000000000000"),
            ("ollama.capability", "b lacks the capabilities tools, vision"),
        ],
    )


def test_what_the_list_does_not_tell_is_asked_of_the_model(checker, ollama, monkeypatch):
    from precheck_lib.simulate import ollama as stand_in

    row = stand_in.tags_row
    shown = {"a": {"capabilities": ["tools"]}}
    monkeypatch.setattr(stand_in, "tags_row", lambda *given: {**row(*given), "capabilities": None})
    said = ("ollama.capability-unknown", "Ollama does not say what a can do")
    assert checker.said("ollama", {"url": ollama.url, "models": shown}) == ("error", [said])
    assert asked(ollama) == ["tags", "show"]


def test_a_missing_model_is_named(checker, ollama):
    said = ("ollama.not-pulled", "Ollama has not pulled c")
    assert checker.said("ollama", {"url": ollama.url, "models": "a, c"}) == ("failed", [said])


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"digest": "12345"}, "models: a: digest: 12 to 64 hex digits are needed; in quotes, so that they are text"),
        (
            {"digest": 123456789012},
            "models: a: digest: 12 to 64 hex digits are needed; in quotes, so that they are text",
        ),
        ({"digset": "x"}, "models: a: unknown key 'digset'"),
        ({"capabilities": "tools"}, "models: a: capabilities: a list of text is needed"),
        ("x", "models: a: a mapping with id, digest, capabilities is needed"),
    ],
)
def test_what_a_model_has_to_be_is_refused_where_it_cannot_be_meant(checker, written, problem):
    assert checker.refused("ollama", {"url": "http://127.0.0.1:1/api", "models": {"a": written}}) == [problem]


def test_a_configuration_from_a_variable_is_not_read_for_what_the_models_have_to_be(checker, ollama):
    env = {"CONFIG": '{"a": {"digest": "nonsense", "capabilities": 5}}'}
    assert checker.passes("ollama", {"url": ollama.url, "models": "${CONFIG#}"}, env=env) == []


def test_names_in_a_text_are_separated_by_commas_or_spaces():
    assert list(ollama_models("a, b:1,c  d")) == ["a", "b:1", "c", "d"]


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("127.0.0.1:11434", "http://127.0.0.1:11434/api"),
        ("gpu1", "http://gpu1:11434/api"),
        ("http://gpu1", "http://gpu1/api"),
        ("https://gpu1:8443/", "https://gpu1:8443/api"),
        ("0.0.0.0", "http://127.0.0.1:11434/api"),
        ("0.0.0.0:80", "http://127.0.0.1:80/api"),
        (":8080", "http://127.0.0.1:8080/api"),
        ("[::]:8080", "http://[::1]:8080/api"),
        ("[fe80::1]", "http://[fe80::1]:11434/api"),
        ("http://h:1/api", "http://h:1/api"),
        ("http://h:1/api/", "http://h:1/api/"),
        ("https://proxy/ollama/api", "https://proxy/ollama/api"),
        ("", ""),
    ],
)
def test_a_host_is_read_as_ollamas_own_client_reads_it(given, url):
    assert api_url(given) == url


# Residency ------------------------------------------------------------------------------------------------------------

QUICK = {"settle": "0s", "hold": "0s", "small": "0B"}


def test_the_default_mode_keeps_what_is_right(checker):
    with OllamaStandIn({"a": Model()}, preloaded=["a"]) as server:
        assert checker.passes("residency", {"url": server.url, "models": ["a"], "keep_alive": "1m", **QUICK}) == []
        assert asked(server) == ["tags", "ps", "generate", "ps", "ps"]


def test_a_kept_model_is_given_a_longer_keep_alive_by_a_load_that_changes_nothing_else(checker):
    with OllamaStandIn({"a": Model()}, preloaded=["a"]) as server:
        assert checker.passes("residency", {"url": server.url, "models": ["a"], "keep_alive": "1h", **QUICK}) == []
        assert server.actions == [("generate", "a"), ("load", "a")]


def test_a_model_that_even_a_cycle_does_not_make_right_fails_the_check(checker):
    with OllamaStandIn({"a": Model(context_length=100)}, preloaded=["a"]) as server:
        options = {"url": server.url, "models": ["a"], "context_length": 200, **QUICK}
        assert checker.said("residency", options)[1][0][0] == "residency.context"
        assert [action for action, _ in server.actions] == ["unload", "load"]


def test_verify_is_a_check_that_only_reads(checker):
    with OllamaStandIn({"a": Model(), "b": Model()}, preloaded=["a"]) as server:
        assert checker.passes("residency", {"url": server.url, "models": ["a"], "mode": "verify"}) == []
        said = ("residency.absent", "b is not resident")
        assert checker.said("residency", {"url": server.url, "models": ["a", "b"], "mode": "verify"}) == (
            "failed",
            [said],
        )
        assert server.actions == []


@pytest.mark.parametrize(("mode", "changes"), [("ensure", True), ("cycle", True), ("verify", False)])
def test_only_a_mode_that_changes_a_server_keeps_a_reserve_and_plans_changes(checker, mode, changes):
    of, made = kind_named("residency"), checker.options("residency", {"url": "U", "models": ["a"], "mode": mode})
    assert of.changes_with(made) is changes
    assert (of.reserve(made, 1) > 0) is changes
    assert any(deed.changes for deed in of.plan(made)) is changes


def test_a_model_that_is_not_pulled_is_named_before_anything_is_changed(checker, ollama):
    for mode in ("ensure", "verify"):
        options = {"url": ollama.url, "models": ["a", "c"], "mode": mode}
        assert checker.said("residency", options)[1] == [("ollama.not-pulled", "Ollama has not pulled c")]
    assert ollama.actions == []


# The built-in spec ----------------------------------------------------------------------------------------------------


class Heard(Watcher):
    """Remembers what is shown at once, and what the server had been asked by then."""

    def __init__(self, server):
        self.server = server
        self.notes = []

    def phase(self, check, text, seconds):
        if seconds < 0:
            self.notes.append((check, text, len(self.server.actions)))


def run_ollama(server, models):
    heard = Heard(server)
    env = {"OLLAMA_HOST": server.authority, **({"PRECHECK_MODELS": models} if models else {})}
    return engine.run(load_spec("ollama"), env=env, watcher=heard), heard


def test_the_spec_for_ollama_needs_no_variable_but_where_the_server_is(ollama):
    report, _ = run_ollama(ollama, None)
    assert report.verdict == "ready"
    assert [check.outcome for check in report.checks] == ["passed", "skipped", "skipped"]
    assert asked(ollama) == ["version"]


def test_the_spec_for_ollama_loads_what_is_not_there_and_says_so_before(ollama):
    report, heard = run_ollama(ollama, "a,b")
    assert report.verdict == "ready", report
    assert sorted(ollama.resident) == ["a:latest", "b:latest"]
    assert [cycle.kept for cycle in report.cycles] == [False, False]
    before = [(text.partition(" at ")[0], actions) for _, text, actions in heard.notes if "about to" in text]
    assert before == [("about to load a", 0), ("about to load b", 2)]
    given = [text for _, text, _ in heard.notes if "context" in text]
    assert given[0] == "a is loaded: 67108864 bytes on the GPU, a context length of 262144"


def test_the_spec_for_ollama_keeps_what_is_right_when_it_is_run_again(ollama):
    run_ollama(ollama, "a,b")
    done = len(ollama.actions)
    report, heard = run_ollama(ollama, "a,b")
    assert report.verdict == "ready", report
    assert [cycle.kept for cycle in report.cycles] == [True, True]
    assert {action for action, _ in ollama.actions[done:]} == {"generate"}
    assert heard.notes[0][1].startswith("a is kept as it was: ")


def test_in_strict_every_model_is_cycled(checker):
    (check,) = (check for check in load_spec("strict").checks if check.kind == "residency")
    assert check.options.mode == "cycle"
    assert changes_server(check)


# OpenCode -------------------------------------------------------------------------------------------------------------

CONFIG = {"model": "ollama/a", "provider": {"ollama": {"models": {"a": {}}}}}


@pytest.fixture
def opencode():
    with OpenCodeStandIn(CONFIG) as server:
        yield server


@pytest.mark.parametrize("options", [{}, {"instance": False}, {"read": "health"}])
def test_without_an_instance_only_health_and_version_are_read(checker, opencode, options):
    options = {"url": opencode.url, "version": opencode.version, **options}
    assert checker.passes("opencode", options) == []
    assert asked(opencode) == ["/global/health"]
    assert checker.said("opencode", {**options, "version": "0.0.1"})[1][0][0] == "opencode.version"


def test_with_an_instance_everything_is_read_in_order(checker, opencode):
    options = {"url": opencode.url, "instance": True, "config": CONFIG, "models": ["a"]}
    assert checker.passes("opencode", options) == []
    reads = ["/global/health", "/experimental/capabilities", "/config", "/config/providers"]
    assert asked(opencode) == reads
    assert [
        line.split(" ")[1].removeprefix("U") for line in checker.planned("opencode", {**options, "url": "U"})
    ] == reads


def test_the_first_read_that_is_wrong_ends_the_check(checker, opencode):
    options = {"url": opencode.url, "instance": True, "background_subagents": True, "models": ["a"]}
    assert checker.said("opencode", options)[1][0][0] == "opencode.subagents"
    assert asked(opencode) == ["/global/health", "/experimental/capabilities"]


def test_what_there_is_nothing_to_compare_with_is_not_read(checker, opencode):
    assert checker.passes("opencode", {"url": opencode.url, "instance": True}) == []
    assert asked(opencode) == ["/global/health", "/experimental/capabilities"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"config": CONFIG}, "config: it is compared only with `instance: true`"),
        ({"models": ["a"], "instance": False}, "models: it is compared only with `instance: true`"),
        (
            {"read": "config", "instance": False},
            "read: config has the server make its instance, and `instance` is false",
        ),
    ],
)
def test_options_that_would_go_by_in_silence_are_refused(checker, opencode, options, problem):
    assert checker.refused("opencode", {"url": opencode.url, **options}) == [problem]
    assert opencode.seen == []


def test_a_check_that_only_verifies_may_wait(tmp_path, ollama):
    path = tmp_path / "mine.yml"
    path.write_text(
        "version: 1\nname: mine\nchecks:\n  - id: there\n    wait: {for: 300ms}\n"
        f"    residency: {{url: {ollama.url}, models: [a], mode: verify}}\n",
        encoding="utf-8",
    )
    report = engine.run(load_spec(str(path)), env={})
    assert report.checks[0].findings[0].code == "residency.absent"
    assert report.checks[0].attempts > 1
    assert ollama.actions == []


def test_a_token_is_asked_for_without_options_that_would_load_the_model_anew(checker):
    with OllamaStandIn({"a": Model()}, preloaded=["a"]) as server:
        checker.passes("residency", {"url": server.url, "models": ["a"], "keep_alive": "1m", **QUICK})
        (sent,) = (json.loads(request.body) for request in server.seen if server.step(request) == "generate")
    assert sent == {"model": "a", "prompt": "1", "stream": False, "options": {"num_predict": 1}}
