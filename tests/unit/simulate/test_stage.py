from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precheck_lib import simulate
from precheck_lib.simulate import Model, Stage, strict_config, strict_environment

ROLES = {
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
}


@pytest.fixture
def stage(tmp_path):
    with Stage(tmp_path) as standing:
        yield standing


def test_the_environment_has_every_required_role_and_a_path_and_no_more(stage):
    assert set(stage.environment) == ROLES | {"PATH"}
    assert all(value.strip() for value in stage.environment.values())


def test_the_optional_pair_is_there_when_a_password_is_asked_for(tmp_path):
    with Stage(tmp_path, username="someone", password="pä ss") as stage:
        assert stage.environment["TEST_OPENCODE_USERNAME"] == "someone"
        assert stage.environment["TEST_OPENCODE_PASSWORD"] == "pä ss"


def test_the_roles_fit_what_the_servers_say(stage, ask, dial):
    roles = stage.environment
    config = json.loads(roles["OPENCODE_CONFIG_CONTENT"])
    shown = ask(roles["TEST_OPENCODE_URL"], "/config").json
    assert shown["provider"]["ollama"] == config["provider"]["ollama"]
    assert shown["model"] == config["model"] == "ollama/" + roles["TEST_OLLAMA_MODEL_OPENCODE_DEFAULT"]
    tags = ask(roles["TEST_CUSTOM_OLLAMA_URL"], "/tags").json["models"]
    assert [row["name"] for row in tags] == list(config["provider"]["ollama"]["models"])
    assert max(row["size"] for row in tags) < 256 * 1024 * 1024
    offered = ask(roles["TEST_OPENCODE_URL"], "/config/providers").json["providers"]
    assert list(next(each["models"] for each in offered if each["id"] == "ollama")) == [row["name"] for row in tags]
    assert dial(roles["TEST_CODEX_WS_URL"]).initialize()["result"]["codexHome"] == roles["TEST_CODEX_HOME"]
    assert Path(roles["TEST_CODEX_HOME"], "auth.json").is_file()


def test_the_commands_are_found_first_on_the_path(stage):
    for name, line in (("codex", "codex-cli 0.171.0\n"), ("opencode", "1.18.33\n")):
        done = subprocess.run(
            [name, "--version"], env=stage.environment, capture_output=True, text=True, timeout=10, check=True
        )
        assert done.stdout == line


def test_a_configuration_of_ones_own_replaces_the_made_one(tmp_path):
    with Stage(tmp_path, models={"a:1": Model()}) as stage:
        config = strict_config(stage.ollama, {"local-a": {"id": "a:1"}, "b": {}})
    assert config["model"] == "ollama/local-a"
    assert config["provider"]["ollama"]["models"] == {"local-a": {"id": "a:1"}, "b": {}}
    with Stage(tmp_path, models={"a:1": Model()}, config=config) as stage:
        assert stage.environment["TEST_OLLAMA_MODEL_OPENCODE_DEFAULT"] == "local-a"


def test_an_unreadable_configuration_still_gives_an_environment(tmp_path):
    with Stage(tmp_path) as stage, simulate.OpenCodeStandIn("{not json") as broken:
        roles = strict_environment(stage.codex, broken, stage.ollama, tmp_path)
    assert roles["OPENCODE_CONFIG_CONTENT"] == "{not json"
    assert roles["TEST_OLLAMA_MODEL_OPENCODE_DEFAULT"] == "qwen3:8b"


def test_a_closed_stage_refuses_everywhere_and_can_be_closed_again(tmp_path, refused):
    stage = Stage(tmp_path)
    urls = [stage.codex.url, stage.opencode.url, stage.ollama.url]
    assert not any(refused(url) for url in urls)
    stage.close()
    stage.close()
    assert all(refused(url) for url in urls)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"at": "tag"}, ValueError, "ollama=drip: at='tag' is none of .*, tags, .*; did you mean tags"),
        ({"every": "abc"}, TypeError, "every='abc' is not a number of seconds"),
        ({"skip": -1}, ValueError, "skip=-1 is not a whole number of at least 0"),
        ({"times": 1.5}, TypeError, "times=1.5 is not a whole number"),
        ({"evry": 1}, ValueError, "has no option evry; it has at, skip, times, every; did you mean every"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_a_server_starts(tmp_path, options, kind, said):
    with pytest.raises(kind, match=said):
        Stage(tmp_path, faults={"ollama": "drip"}, fault_options={"ollama": options})


def test_a_stage_that_cannot_be_set_up_leaves_no_server_running(tmp_path):
    with pytest.raises(ValueError, match="has no fault"):
        Stage(tmp_path, faults={"opencode": "nope"})


def test_the_public_names_are_sorted_and_all_there():
    assert simulate.__all__ == sorted(simulate.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert all(hasattr(simulate, name) for name in simulate.__all__)


def test_nothing_but_the_standard_library_is_imported():
    code = (
        "import sys; import precheck_lib.simulate, precheck_lib.simulate.__main__; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {os.fspath(Path(simulate.__file__).parents[2])!r}); {code}",
        ],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert loaded - {"precheck_lib", "__main__"} <= set(sys.stdlib_module_names)
    assert not loaded & {"asyncio", "http", "email", "ssl"}
