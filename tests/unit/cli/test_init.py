"""`init`: a spec for this machine in a new file, or on stdout, and how many of its checks pass now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precheck_lib.simulate import Model, OllamaStandIn, OpenAiStandIn
from precheck_lib.spec import load_spec
from precheck_lib.survey import Port, around, ports

ROOT = Path(__file__).resolve().parents[3]
NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A machine without GPU on which only these ports are listened on: servers of others are none of ours to ask."""

    def only(*servers):
        numbers = [int(server.url.partition("://")[2].partition("/")[0].rpartition(":")[2]) for server in servers]
        monkeypatch.setattr(ports, "listening", lambda: tuple(Port(port=number, process="it") for number in numbers))

    only()
    monkeypatch.setattr(around, "pci_cards", list)
    return only


def names(folder):
    return sorted(file.name for file in folder.iterdir())


# What is written ------------------------------------------------------------------------------------------------------


def test_it_writes_a_spec_that_is_right_and_says_how_much_of_it_passes(command, tmp_path):
    with OllamaStandIn({"qwen3:8b": Model(context_length=32768)}, preloaded=["qwen3:8b"]) as server:
        ended = command("init", OLLAMA_HOST=server.url)
    assert (ended.code, ended.err) == (0, [])
    assert ended.out == ["wrote precheck.yml: 4 checks, 4 pass now"]
    assert [check.id for check in load_spec(str(tmp_path / "precheck.yml")).checks] == [
        "ollama",
        "ollama-models",
        "ollama-gpu",
        "room",
    ]


def test_what_it_wrote_is_what_run_and_validate_take(command):
    assert command("init", OLLAMA_HOST=NOBODY).code == 0
    assert command("validate", OLLAMA_HOST=NOBODY).out == ["precheck.yml: right, 2 checks"]
    assert command("run", OLLAMA_HOST=NOBODY).code == 3


def test_what_does_not_pass_yet_is_named_with_the_reason_and_it_is_a_success(command):
    with OllamaStandIn({"qwen3:8b": Model(vram=0)}, preloaded=["qwen3:8b"]) as server:
        ended = command("init", OLLAMA_HOST=server.url)
    assert ended.code == 0
    assert ended.out[-1].startswith("wrote precheck.yml: 4 checks, 3 pass now; not yet: ollama-gpu (qwen3:8b is not ")


def test_a_check_that_waits_for_another_says_for_which(command):
    with OllamaStandIn({"a:1": Model()}, fault="status", fault_options={"at": "version"}) as server:
        ended = command("init", OLLAMA_HOST=server.url)
    assert ended.code == 0
    assert "ollama-models (needs ollama)" in ended.out[-1]


def test_no_server_is_changed_or_has_to_compute(command, alone):
    with OllamaStandIn({"a:1": Model()}, preloaded=["a:1"]) as one, OpenAiStandIn() as other:
        alone(other)
        ended = command("init", OLLAMA_HOST=one.url)
        assert {request.method for request in (*one.seen, *other.seen)} == {"GET"}
        assert one.actions == []
    port = other.url.removesuffix("/v1").rpartition(":")[2]
    assert ended.out[-1].endswith(f"; not tried, a server would have to compute: openai-{port}")


def test_a_file_of_another_name_is_written_with_the_usual_mode(command, tmp_path):
    before = os.umask(0o022)
    try:
        ended = command("init", "mine.yml", OLLAMA_HOST=NOBODY)
    finally:
        os.umask(before)
    assert ended.out[-1].startswith("wrote mine.yml: 2 checks, 1 passes now; not yet: ollama (")
    assert names(tmp_path) == ["mine.yml"]
    assert (tmp_path / "mine.yml").stat().st_mode & 0o7777 == 0o644


def test_a_dash_prints_it_and_writes_nothing(command, tmp_path):
    ended = command("init", "-", OLLAMA_HOST=NOBODY)
    assert (ended.code, names(tmp_path)) == (0, [])
    (tmp_path / "it.yml").write_text("\n".join(ended.out) + "\n", encoding="utf-8")
    assert len(load_spec(str(tmp_path / "it.yml")).checks) == 2
    assert ended.err[0].startswith("2 checks, 1 passes now; not yet: ollama (")


def test_no_secret_is_in_the_file_or_in_what_is_said(command, tmp_path):
    secret = "a-secret-of-ours-1"
    with OllamaStandIn({f"{secret}:1": Model(vram=0)}, preloaded=[f"{secret}:1"]) as server:
        ended = command("init", OLLAMA_HOST=server.url, HF_TOKEN=secret)
    assert ended.code == 0
    text = (tmp_path / "precheck.yml").read_text(encoding="utf-8")
    assert secret not in text + "".join((*ended.out, *ended.err))
    assert "  #       HF_TOKEN: {secret: true}\n" in text


def test_what_the_file_is_called_is_harmless_in_what_is_said(command):
    ended = command("init", "::error::x", OLLAMA_HOST=NOBODY)
    assert ended.code == 0
    assert ended.out[-1].startswith("wrote ::error::x")
    assert command("init", "##[error]x", OLLAMA_HOST=NOBODY).out[-1].startswith("wrote ## [error]x: ")


# What is refused ------------------------------------------------------------------------------------------------------


def refused(ended, *words):
    """One message on stderr that says all these words, and what to do."""
    assert (ended.code, ended.out) == (2, [])
    assert ended.err[0].startswith("precheck: usage: ")
    assert "`precheck init -`" in ended.err[0]
    for word in words:
        assert word in ended.err[0]


def test_a_file_that_is_there_stays_as_it_is(command, mine):
    before = mine.read_bytes()
    refused(command("init"), "precheck.yml is there already", "name another file")
    assert mine.read_bytes() == before


def test_where_the_file_is_there_nothing_is_looked_at(command, mine):
    with OllamaStandIn({}) as server:
        refused(command("init", OLLAMA_HOST=server.url), "is there already")
        assert server.seen == []


def test_a_link_into_nowhere_is_there_too(command, tmp_path):
    (tmp_path / "precheck.yml").symlink_to("elsewhere")
    with OllamaStandIn({}) as server:
        refused(command("init", OLLAMA_HOST=server.url), "is there already")
        assert server.seen == []
    assert names(tmp_path) == ["precheck.yml"]


def test_a_file_that_comes_while_the_machine_is_looked_at_stays_as_it_is(command, tmp_path, monkeypatch):
    def come():
        (tmp_path / "precheck.yml").write_text("mine\n")
        return ()

    monkeypatch.setattr(ports, "listening", come)
    refused(command("init", OLLAMA_HOST=NOBODY), "is there already")
    assert (tmp_path / "precheck.yml").read_text() == "mine\n"


def test_a_folder_that_is_not_there_is_said_with_what_makes_it(command, tmp_path):
    refused(command("init", "no/such.yml"), "there is no folder no", "mkdir -p")
    assert names(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_in_is_said(command, tmp_path):
    tmp_path.chmod(0o555)
    try:
        refused(command("init"), "may not write in this folder")
    finally:
        tmp_path.chmod(0o755)


def test_a_folder_that_the_system_lets_nobody_write_in_is_said(command, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(command("init", str(tmp_path / "x.yml")), f"may not write in {tmp_path}")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["", "sub/"])
def test_a_name_that_is_none_of_a_file_is_said(command, name):
    refused(command("init", name), "is not the name of a file")


def test_the_name_of_a_built_in_spec_would_never_be_run(command, tmp_path):
    refused(command("init", "strict"), "strict is the name of a built-in spec")
    assert names(tmp_path) == []


def test_what_was_begun_is_removed_where_the_disk_is_full(command, tmp_path, monkeypatch):
    real = os.write

    def full(descriptor, data):
        if bytes(data[:6]) == b"# What":
            real(descriptor, data[:10])
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    refused(command("init", OLLAMA_HOST=NOBODY), "precheck.yml cannot be written: No space left on device")
    assert names(tmp_path) == []


# Signals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_machine_is_looked_at_leaves_no_file(command, tmp_path, number):
    ended = command("init", OLLAMA_HOST=NOBODY, signal=number)
    assert (ended.code, ended.out) == (128 + number, [])
    assert ended.err == [f"precheck: ended by {signal.Signals(number).name}; nothing is written"]
    assert names(tmp_path) == []


def test_a_signal_after_the_file_is_written_leaves_it_whole(command, tmp_path, monkeypatch):
    from precheck_lib import engine

    real = engine.run

    def interrupted(spec, **options):
        options["interrupts"]._handle(signal.SIGTERM, None)
        return real(spec, **options)

    monkeypatch.setattr(engine, "run", interrupted)
    ended = command("init", OLLAMA_HOST=NOBODY)
    assert ended.code == 143
    assert ended.out == ["wrote precheck.yml: 2 checks; SIGTERM came before it was known how many pass"]
    assert len(load_spec(str(tmp_path / "precheck.yml")).checks) == 2


PROCESS = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
from precheck_lib.survey import ports
ports.listening = lambda: ()
from precheck_lib.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_process_ends_by_its_signal_while_a_server_hangs(tmp_path, number):
    with OllamaStandIn({}, fault="silence") as server:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", PROCESS, str(ROOT), "init"],
            cwd=tmp_path,
            env={"PATH": "/nowhere", "OLLAMA_HOST": server.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with server.changed:
            assert server.changed.wait_for(lambda: server._seen, timeout=20)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (128 + number, b"")
    assert err.startswith(b"precheck: ended by SIG")
    assert names(tmp_path) == []
