from __future__ import annotations

import gzip
import json

import pytest

from precheck_lib.simulate import OpenCodeStandIn

CONFIG = {
    "model": "ollama/qwen3:8b",
    "provider": {"ollama": {"options": {"apiKey": "sk-very-secret"}, "models": {"qwen3:8b": {"name": "Qwen"}}}},
}


@pytest.fixture
def opencode(stack):
    def start(config=CONFIG, **options):
        return stack.enter_context(OpenCodeStandIn(config, **options))

    return start


def trimmed(body):
    """The provider list without the models that the recording was trimmed by."""
    value = json.loads(body)
    for entry in value["providers"]:
        if entry["id"] == "opencode":
            entry["models"] = {key: model for key, model in entry["models"].items() if key == "big-pickle"}
    return json.dumps(value, separators=(",", ":"))


def test_every_recorded_answer_is_given_again(opencode, ask, basic, recorded):
    rows = recorded("opencode.json")
    assert len(rows) > 25
    for row in rows:
        about = f"{row['method']} {row['path']} {row['auth']}"
        server = opencode(row["config"], environment=row["environment"], password=row["password"])
        wire = basic(*row["auth"]) if row["auth"] else {}
        packed = ["Content-Encoding", "gzip"] in row["headers"]
        answer = ask(
            server.url,
            row["path"],
            row["method"],
            headers={**wire, "Accept-Encoding": "gzip" if packed else "identity"},
        )
        assert answer.status == row["status"], about
        assert [name for name, _ in answer.order] == [name for name, _ in row["headers"]], about
        for name, value in row["headers"]:
            assert not value or answer.headers[name.lower()] == value, about
        body = (gzip.decompress(answer.body) if packed else answer.body).decode()
        if "html" in answer.headers.get("content-type", ""):
            assert body.startswith(row["body"]), about
        elif row["path"] == "/config/providers" and row["status"] == 200:
            assert trimmed(body) == row["body"], about
        else:
            assert body == row["body"], about


def test_keys_that_the_server_does_not_know_are_dropped_at_every_level(opencode, ask):
    config = {
        "zzz": 1,
        "theme": "dark",
        "model": "ollama/m",
        "provider": {
            "ollama": {
                "zzz": 2,
                "name": "Local",
                "options": {"zzz": "kept", "baseURL": "http://a"},
                "models": {"m": {"zzz": 3, "id": "m:q4", "limit": {"zzz": 4, "context": 1, "output": 2}}},
            }
        },
    }
    shown = ask(opencode(config).url, "/config").json
    assert "zzz" not in shown
    assert "theme" not in shown
    assert shown["provider"]["ollama"] == {
        "name": "Local",
        "options": {"baseURL": "http://a", "zzz": "kept"},
        "models": {"m": {"id": "m:q4", "limit": {"context": 1, "output": 2}}},
    }


def test_an_environment_reference_is_replaced_and_an_unset_one_leaves_nothing(opencode, ask):
    options = {"apiKey": "{env:FOO}", "headers": {"x": "a{env:BAR}b"}}
    server = opencode(
        {"provider": {"ollama": {"options": options, "models": {"m": {}}}}}, environment={"FOO": "secret"}
    )
    shown = ask(server.url, "/config").json["provider"]["ollama"]["options"]
    assert shown == {"apiKey": "secret", "headers": {"x": "ab"}}
    assert server.config["provider"]["ollama"]["options"]["apiKey"] == "{env:FOO}"


@pytest.mark.parametrize(
    ("config", "path", "message"),
    [
        ({"model": None}, ["model"], "Expected string | undefined, got null"),
        ({"provider": []}, ["provider"], "Expected object | undefined, got []"),
        ({"provider": {"ollama": 5}}, ["provider", "ollama"], "Expected ProviderConfig, got 5"),
        (
            {"provider": {"ollama": {"options": "sk-secret"}}},
            ["provider", "ollama", "options"],
            'Expected object | undefined, got "sk-secret"',
        ),
        (
            {"provider": {"ollama": {"models": {"m": {"limit": {"context": 5}}}}}},
            ["provider", "ollama", "models", "m", "limit", "output"],
            "Missing key",
        ),
        ([], [], "Expected Config, got []"),
    ],
)
def test_an_invalid_configuration_is_told_with_its_value_but_health_is_fine(opencode, ask, config, path, message):
    server = opencode(json.dumps(config))
    assert ask(server.url, "/global/health").json["healthy"] is True
    for endpoint in ("/experimental/capabilities", "/config", "/config/providers"):
        answer = ask(server.url, endpoint)
        assert answer.status == 400
        assert answer.json["name"] == "ConfigInvalidError"
        assert answer.json["data"]["issues"] == [{"path": path, "message": message}]


def test_a_configuration_that_is_no_json_is_echoed_whole(opencode, ask):
    answer = ask(opencode("{not json sk-secret").url, "/config")
    assert (answer.status, answer.json["name"]) == (400, "ConfigJsonError")
    assert "{not json sk-secret" in answer.json["data"]["message"]


def test_only_enabled_providers_with_models_are_connected(opencode, ask):
    def listed(config):
        return [entry["id"] for entry in ask(opencode(config).url, "/config/providers").json["providers"]]

    models = {"provider": {"ollama": {"models": {"m": {}}}, "empty": {}}}
    assert listed(models) == ["opencode", "ollama"]
    assert listed({**models, "enabled_providers": ["ollama"]}) == ["ollama"]
    assert listed({**models, "disabled_providers": ["ollama", "opencode"]}) == []


def test_a_large_answer_is_packed_only_for_those_who_accept_it(opencode, ask):
    server = opencode()
    plain = ask(server.url, "/config/providers")
    packed = ask(server.url, "/config/providers", headers={"Accept-Encoding": "br, gzip;q=0.5"})
    small = ask(server.url, "/config", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers | small.headers
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 3


@pytest.mark.parametrize("path", ["/global/health/", "//global//health", "/GLOBAL/Health", "/global/health?x=1"])
def test_a_route_is_found_however_its_path_is_written(opencode, ask, path):
    assert ask(opencode().url, path).json == {"healthy": True, "version": "1.18.33"}


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT"])
def test_another_method_gets_the_page_with_200(opencode, ask, method):
    answer = ask(opencode().url, "/global/health", method)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html")
    assert (answer.body == b"") == (method == "HEAD")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Bearer x", 401),
        ("Basic", 401),
        ("Basic !!!", 401),
        ("Basic OnDDpCBzcw==", 401),  # no user
        ("Basic b3BlbmNvZGU6cMOkIHNz", 200),
        ("basic b3BlbmNvZGU6cMOkIHNz", 200),
        ("Basic b3BlbmNvZGU6cOQgc3M=", 401),  # Latin-1
    ],
)
def test_credentials_are_compared_as_utf8(opencode, ask, header, status):
    server = opencode(password="pä ss")
    assert ask(server.url, "/config", headers={"Authorization": header} if header else {}).status == status


def test_an_empty_password_is_none(opencode, ask):
    assert ask(opencode(password="").url, "/config").status == 200


def test_background_subagents_are_told(opencode, ask):
    server = opencode(background_subagents=True)
    assert ask(server.url, "/experimental/capabilities").json == {"backgroundSubagents": True}


@pytest.mark.parametrize("kind", ["ConfigInvalidError", "ConfigJsonError"])
def test_the_refused_configuration_of_the_fault_is_echoed_with_its_key(opencode, ask, kind):
    server = opencode(fault="config-400", fault_options={"kind": kind})
    answer = ask(server.url, "/config")
    assert (answer.status, answer.json["name"]) == (400, kind)
    assert "sk-very-secret" in json.dumps(answer.json)
    assert ask(server.url, "/global/health").status == 200


def test_a_differing_leaf_is_the_one_that_was_named(opencode, ask):
    server = opencode(
        fault="config-leaf-differs", fault_options={"path": ["models", "qwen3:8b", "name"], "value": "Other"}
    )
    shown = ask(server.url, "/config").json["provider"]["ollama"]
    assert shown["models"] == {"qwen3:8b": {"name": "Other"}}
    assert shown["options"] == CONFIG["provider"]["ollama"]["options"]
