from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from precheck_lib import simulate
from precheck_lib.simulate import Model, Stage, strict_config, strict_environment

PRINTED = {"capture_output": True, "text": True, "timeout": 30}

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


@pytest.fixture
def launch(tmp_path):
    """Start `python -m precheck_lib.simulate` and give it with the environment that it prints."""
    children = []

    def start(*arguments, **options):
        command = [sys.executable, "-m", "precheck_lib.simulate", "--folder", str(tmp_path), *arguments]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, **options}
        child = subprocess.Popen(command, cwd=Path(simulate.__file__).parents[2], **options)
        children.append(child)
        printed = {}
        for line in child.stdout:
            if line == "ready\n":
                break
            export, _, assignment = line.rstrip("\n").partition(" ")
            assert export == "export"
            name, _, value = assignment.partition("=")
            (printed[name],) = shlex.split(value)
        return child, printed

    yield start
    for child in children:
        with child:
            child.kill()


def refused(url):
    parts = urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((parts.hostname, parts.port)) != 0


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


def test_a_closed_stage_refuses_everywhere_and_can_be_closed_again(tmp_path):
    stage = Stage(tmp_path)
    urls = [stage.codex.url, stage.opencode.url, stage.ollama.url]
    assert not any(refused(url) for url in urls)
    stage.close()
    stage.close()
    assert all(refused(url) for url in urls)


def test_a_stage_that_cannot_be_set_up_leaves_no_server_running(tmp_path):
    with pytest.raises(ValueError, match="has no fault"):
        Stage(tmp_path, faults={"opencode": "nope"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_program_serves_until_a_signal_and_leaves_nothing(launch, tmp_path, ask, number):
    child, printed = launch("--fault", 'opencode=status,at="/config",status=418')
    assert set(printed) == ROLES | {"PATH"}
    assert ask(printed["TEST_OPENCODE_URL"], "/config").status == 418
    assert len(list(tmp_path.iterdir())) == 1
    child.send_signal(number)
    assert child.wait(10) == 0
    assert list(tmp_path.iterdir()) == []
    assert refused(printed["TEST_OPENCODE_URL"])


def test_the_program_ends_with_its_stdin(launch, tmp_path):
    child, printed = launch()
    assert not refused(printed["TEST_CUSTOM_OLLAMA_URL"])
    child.stdin.close()
    assert child.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_null_device_as_stdin_does_not_end_the_program(launch, ask):
    child, printed = launch(stdin=subprocess.DEVNULL)
    assert ask(printed["TEST_OPENCODE_URL"], "/global/health").status == 200
    assert child.poll() is None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("ollama=nope", "ollama has no fault 'nope'"),
        ("ollama", "'ollama' is not SERVER=NAME"),
        ("redis=refuse", "there is no server redis"),
        ("ollama=on-cpu,model", "'model' is not OPTION=VALUE"),
        ("ollama=on-cpu,x=1", "has no option x"),
    ],
)
def test_a_fault_that_there_is_not_is_a_usage_error(tmp_path, fault, message):
    command = [sys.executable, "-m", "precheck_lib.simulate", "--folder", str(tmp_path), "--fault", fault]
    done = subprocess.run(
        command,
        cwd=Path(simulate.__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_list_names_every_fault_with_its_options():
    command = [sys.executable, "-m", "precheck_lib.simulate", "--list"]
    done = subprocess.run(
        command, cwd=Path(simulate.__file__).parents[2], capture_output=True, text=True, timeout=20, check=True
    )
    for fault in simulate.FAULTS:
        assert f"{fault.server}={fault.name}" in done.stdout
        assert fault.description in done.stdout
    assert "ollama=ps-500-empty,after=" in done.stdout


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


def test_the_command_serves_one_hostile_server(launch):
    child, environment = launch("--hostile", "http-404,after=1")
    assert sorted(environment) == ["HOSTILE_URL", "HOSTILE_WS_URL"]
    port = urlsplit(environment["HOSTILE_URL"]).port
    for status in (b"200", b"404"):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(100).split()[1] == status
    child.send_signal(signal.SIGTERM)
    assert child.wait(5) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nonsense", "no hostile fault 'nonsense'"),
        ("http-404,sooner=1", "sooner is no option: there are after, every, secure"),
        ("name-stalls", "acts in the process of the client"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_hostile_server(arguments, said, tmp_path):
    command = [sys.executable, "-m", "precheck_lib.simulate", "--folder", str(tmp_path), "--hostile", arguments]
    ended = subprocess.run(command, cwd=Path(simulate.__file__).parents[2], check=False, **PRINTED)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_lists_every_fault(tmp_path):
    command = [sys.executable, "-m", "precheck_lib.simulate", "--list"]
    ended = subprocess.run(command, cwd=Path(simulate.__file__).parents[2], check=False, **PRINTED)
    for fault in simulate.FAULTS + simulate.HOSTILE_FAULTS:
        assert f"{fault.server}={fault.name}" in ended.stdout
    for fault in simulate.HOSTILE:
        assert f"--hostile {fault.name}\n" in ended.stdout
