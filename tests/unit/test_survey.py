"""A look around a machine: what it finds, what it leaves alone, and that it is over in time whatever is there."""

from __future__ import annotations

import os
import socket
import time
from types import SimpleNamespace

import psutil
import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.cancel import Cancel
from precheck_lib.errors import Cancelled
from precheck_lib.simulate import Model, OllamaStandIn, OpenAiStandIn
from precheck_lib.survey import Port, Resident, Tag, Tool, ollama, openai, ports, survey, tools


@pytest.fixture
def program(tmp_path):
    """Write a program into a folder of its own, which is all of PATH; returns the environment."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def write(name, script):
        file = folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return {"PATH": str(folder)}

    return write


NOBODY = ollama.Place("http://127.0.0.1:1/api", 1, given=False, problem=None)


def port_of(server):
    return int(server.url.partition("://")[2].partition("/")[0].rpartition(":")[2])


# Programs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "script", "tool"),
    [
        ("git", "echo git version 2.43.0", Tool(name="git", version="2.43.0")),
        ("node", "echo v20.20.2", Tool(name="node", version="20.20.2")),
        ("codex", "echo no idea", Tool(name="codex")),
        ("uv", "exit 3", Tool(name="uv", trouble="it ended with exit status 3")),
        ("docker", "kill -9 $$", Tool(name="docker", trouble="it could not be run to its end")),
        ("ollama", "echo ollama version is 0.12.3", Tool(name="ollama", version="0.12.3")),
        (
            "ollama",
            "echo ollama version is 0.12.3; echo Warning: client version is 0.13.0",
            Tool(name="ollama", version="0.13.0"),
        ),
    ],
)
def test_a_program_on_path_is_told_with_its_version_or_why_there_is_none(program, name, script, tool):
    assert tools.tools(program(name, script), Budget(20)) == [tool]


def test_a_program_that_hangs_is_ended_and_said(program):
    began = time.monotonic()
    found = tools.tools(program("opencode", "while :; do :; done"), Budget(0.3))
    assert found == [Tool(name="opencode", trouble="it did not end in 0.3 s")]
    assert time.monotonic() - began < 10


def test_nvidia_smi_is_found_and_never_run(program, tmp_path):
    env = program("nvidia-smi", f"echo ran > {tmp_path}/ran")
    assert tools.tools(env, Budget(20)) == [Tool(name="nvidia-smi", run=False)]
    assert not (tmp_path / "ran").exists()


def test_no_program_is_given_a_key(program):
    env = program("git", 'echo "1.${#HF_TOKEN}.0"')
    assert tools.tools({**env, "HF_TOKEN": "abc"}, Budget(20)) == [Tool(name="git", version="1.0.0")]


def test_without_a_path_no_program_is_there():
    assert tools.tools({}, Budget(5)) == []


# Ollama ---------------------------------------------------------------------------------------------------------------


def test_an_ollama_tells_version_models_and_what_is_in_memory_and_nothing_is_changed():
    models = {"a:1": Model(size=1000, vram=400, context_length=4096, digest="d" * 64), "b:1": Model(remote_host="h")}
    with OllamaStandIn(models, preloaded=["a:1"], version="0.12.3") as server:
        found = ollama.ask(ollama.place({"OLLAMA_HOST": server.url}), Budget(5))
        asked = sorted((request.method, request.path) for request in server.seen)
    assert (found.trouble, found.version, found.port) == (None, "0.12.3", port_of(server))
    assert found.tags == (Tag(name="a:1", digest="d" * 64), Tag(name="b:1", digest=found.tags[1].digest, remote=True))
    assert found.resident == (Resident(name="a:1", size=1000, on_gpu=400, context=4096),)
    assert asked == [("GET", "/api/ps"), ("GET", "/api/tags"), ("GET", "/api/version")]


@pytest.mark.parametrize("fault", ["size-as-string", "size-as-float", "missing-size"])
def test_a_number_that_is_none_is_not_known(fault):
    with OllamaStandIn({"a:1": Model()}, preloaded=["a:1"], fault=fault) as server:
        found = ollama.ask(ollama.place({"OLLAMA_HOST": server.url}), Budget(5))
    assert found.resident[0].size is None


def test_an_inventory_that_cannot_be_read_leaves_the_rest():
    options = {"after": "always"}
    with OllamaStandIn({"a:1": Model()}, fault="ps-500-with-body", fault_options=options) as server:
        found = ollama.ask(ollama.place({"OLLAMA_HOST": server.url}), Budget(5))
    assert (found.trouble, found.resident, len(found.tags)) == (None, None, 1)


@pytest.mark.parametrize(("fault", "said"), [("refuse", "refused"), ("silence", "deadline of 1 s elapsed")])
def test_an_ollama_that_does_not_answer_says_why_within_its_second(fault, said):
    began = time.monotonic()
    with OllamaStandIn({}, fault=fault) as server:
        found = ollama.ask(ollama.place({"OLLAMA_HOST": server.url}), Budget(5))
    assert said in found.trouble
    assert (found.version, found.tags, found.resident) == (None, None, None)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("host", "url", "port"),
    [
        (None, "http://127.0.0.1:11434/api", 11434),
        (" ", "http://127.0.0.1:11434/api", 11434),
        ("0.0.0.0", "http://127.0.0.1:11434/api", 11434),
        ("localhost:9", "http://localhost:9/api", 9),
        ("gpu-2", "http://gpu-2:11434/api", None),
        ("https://gpu-2", "https://gpu-2/api", None),
    ],
)
def test_an_ollama_is_where_its_own_client_looks_for_it(host, url, port):
    found = ollama.place({} if host is None else {"OLLAMA_HOST": host})
    assert (found.url, found.port, found.problem) == (url, port, None)
    assert found.given is (host is not None and host != " ")


@pytest.mark.parametrize("host", ["http://me:pass@127.0.0.1:1", "http://x:y:z", "a b", "ftp://h"])
def test_a_host_that_cannot_be_used_is_asked_nothing_and_told_nowhere(host):
    found = ollama.ask(ollama.place({"OLLAMA_HOST": host}), Budget(5))
    assert found.url == ""
    assert found.trouble.startswith("OLLAMA_HOST cannot be used: ")
    assert "pass" not in found.trouble.replace("password", "")


# Servers of OpenAI's API ----------------------------------------------------------------------------------------------


def test_a_server_of_openais_api_tells_its_models_and_makes_no_token():
    with OpenAiStandIn(["embed-it", "Qwen/Qwen3-8B"]) as server:
        (found,) = openai.servers([Port(port=port_of(server))], Budget(5))
        assert [(request.method, request.path) for request in server.seen] == [("GET", "/v1/models")]
        assert "authorization" not in server.seen[0].headers
    assert (found.models, found.first) == (("embed-it", "Qwen/Qwen3-8B"), "Qwen/Qwen3-8B")


def test_what_does_not_answer_as_one_is_none_and_all_are_asked_at_one_time():
    began = time.monotonic()
    silent = [OllamaStandIn({}, fault="silence") for _ in range(8)]
    with OpenAiStandIn(api_key="k") as locked, OpenAiStandIn() as right:
        asked = [Port(port=port_of(server)) for server in (*silent, locked, right)]
        found = openai.servers(asked, Budget(20))
    for server in silent:
        server.close()
    assert [server.port for server in found] == [port_of(right)]
    assert time.monotonic() - began < 6  # one after the other they take eight seconds


@pytest.mark.parametrize(
    "port",
    [
        Port(port=22),
        Port(port=443),
        Port(port=6379),
        Port(port=5432),
        Port(port=9100),
        Port(port=40000, process="redis-server"),
        Port(port=40000, process="postgres"),
        Port(port=40000, process="sshd"),
    ],
)
def test_what_is_known_to_speak_no_http_is_never_asked(port):
    assert not openai.may_be_http(port)


def test_a_program_that_speaks_no_http_is_sent_nothing():
    with OpenAiStandIn() as server:
        assert openai.servers([Port(port=port_of(server), process="redis-server")], Budget(5)) == []
        assert server.seen == []


@pytest.mark.parametrize("port", [Port(port=80), Port(port=8000), Port(port=8000, process="docker-proxy")])
def test_what_may_be_a_model_server_is_asked(port):
    assert openai.may_be_http(port)


# Ports ----------------------------------------------------------------------------------------------------------------


def test_a_port_that_we_listen_on_is_told_with_this_process():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        number = sock.getsockname()[1]
        (found,) = [port for port in ports.listening() if port.port == number]
    assert found.process == psutil.Process().name()
    assert found.user == psutil.Process().username()


def rows(monkeypatch, *those):
    made = [
        SimpleNamespace(laddr=SimpleNamespace(ip=ip, port=port), status=status, pid=pid)
        for ip, port, status, pid in those
    ]
    monkeypatch.setattr(psutil, "net_connections", lambda kind: made)


def test_an_owner_that_is_not_seen_is_left_open(monkeypatch):
    rows(monkeypatch, ("127.0.0.1", 1, "LISTEN", None))
    monkeypatch.setattr(ports, "listeners_on", lambda port: OSError("no"))
    assert ports.listening() == (Port(port=1),)


def test_two_owners_of_one_port_are_no_owner(monkeypatch):
    rows(monkeypatch, ("127.0.0.1", 1, "LISTEN", os.getpid()), ("::1", 1, "LISTEN", 2**30))
    monkeypatch.setattr(ports, "listeners_on", lambda port: OSError("no"))
    assert ports.listening() == (Port(port=1),)


def test_only_what_is_listened_on_at_the_loopback_counts(monkeypatch):
    rows(
        monkeypatch,
        ("10.0.0.1", 1, "LISTEN", None),
        ("127.0.0.1", 2, "ESTABLISHED", None),
        ("0.0.0.0", 3, "LISTEN", None),
        ("::1", 4, "LISTEN", None),
        ("::ffff:127.0.0.1", 5, "LISTEN", None),
    )
    assert [port.port for port in ports.listening()] == [3, 4, 5]


def test_a_table_that_cannot_be_read_is_not_known(monkeypatch):
    def denied(kind):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    assert ports.listening() is None


# All of it ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def alone(monkeypatch):
    """A machine on which only these ports are listened on."""

    def only(*numbers):
        monkeypatch.setattr(ports, "listening", lambda: tuple(Port(port=number) for number in numbers))

    only()
    return only


def test_keys_that_are_set_are_told_by_their_names_alone(alone):
    env = {"OLLAMA_HOST": "127.0.0.1:1", "HF_TOKEN": "hf_value", "OPENAI_API_KEY": " ", "OTHER_KEY": "x"}
    found = survey(env, Budget(20))
    assert found.keys == ("HF_TOKEN",)
    assert "hf_value" not in repr(found)


def test_where_nothing_says_that_there_should_be_an_ollama_none_is_missed(alone, monkeypatch):
    monkeypatch.setattr(ollama, "place", lambda env: NOBODY)
    assert survey({}, Budget(20)).ollama is None


def test_where_its_program_is_there_or_it_is_named_an_ollama_is_missed(alone, monkeypatch, program):
    assert survey({"OLLAMA_HOST": "127.0.0.1:1"}, Budget(20)).ollama.trouble is not None
    monkeypatch.setattr(ollama, "place", lambda env: NOBODY)
    assert survey(program("ollama", "echo 0.12.3"), Budget(20)).ollama.trouble is not None


def test_the_ollama_is_not_taken_for_another_server(alone):
    with OllamaStandIn({"a:1": Model()}) as server:
        alone(port_of(server))
        found = survey({"OLLAMA_HOST": server.url}, Budget(20))
        assert "/v1/models" not in [request.path for request in server.seen]
    assert (found.openai, found.ollama.version) == ((), server.version)


def test_jobs_work_where_the_runner_says_else_here(alone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"OLLAMA_HOST": "127.0.0.1:1"}
    assert survey(env, Budget(20)).room.path == str(tmp_path)
    found = survey({**env, "RUNNER_WORKSPACE": "/"}, Budget(20)).room
    assert found.path == "/"
    assert found.free > 0


def test_whatever_hangs_it_is_over_in_its_five_seconds(monkeypatch, program):
    began = time.monotonic()
    with OllamaStandIn({}, fault="silence") as one, OpenAiStandIn(fault="silence") as other:
        monkeypatch.setattr(ports, "listening", lambda: (Port(port=port_of(other)),))
        env = program("codex", "while :; do :; done")
        found = survey({**env, "OLLAMA_HOST": one.url}, Budget(60))
    assert time.monotonic() - began < 8
    assert found.ollama.trouble is not None
    assert found.tools == (Tool(name="codex", trouble="it did not end in 4 s"),)


def test_a_signal_ends_it(alone):
    cancel = Cancel()
    cancel.set(15)
    with pytest.raises(Cancelled):
        survey({"OLLAMA_HOST": "127.0.0.1:1"}, Budget(20, cancel=cancel))
    cancel.close()
