"""`python -m precheck_lib.simulate` as a person and a script have it, until told to end."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from precheck_lib import simulate
from precheck_lib.env_file import with_env_file
from precheck_lib.simulate.options import STEPS
from precheck_lib.simulate.program import main

ROOT = Path(simulate.__file__).parents[2]


@pytest.fixture
def launch(tmp_path):
    """Start the program and give it with the environment that it prints."""
    children = []

    def start(*arguments, **options):
        command = [sys.executable, "-m", "precheck_lib.simulate", "--folder", str(tmp_path), *arguments]
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        options = {"env": env, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, **options}
        child = subprocess.Popen(command, cwd=ROOT, **options)
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
            child.terminate()  # it takes its files with it, which one that is killed cannot
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)
            child.kill()
    assert list(tmp_path.glob("precheck-*")) == []


@pytest.fixture
def usage_error(tmp_path, capsys):
    """Give what is said of arguments that cannot be: one line, exit code 2, and nothing is left."""

    def look(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["--folder", str(tmp_path), *arguments])
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, "")
        assert list(tmp_path.iterdir()) == []
        usage, line = said.err.splitlines()
        assert usage.startswith("usage: ")
        return line

    return look


@pytest.fixture
def listed(capsys):
    def look(*arguments):
        assert main(["--list", *arguments]) == 0
        return capsys.readouterr().out

    return look


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_serves_until_a_signal_and_leaves_nothing(launch, tmp_path, ask, refused, number):
    child, printed = launch("--fault", 'opencode=status,at="/config",status=418')
    assert {"PATH", "TEST_CODEX_WS_URL", "OPENCODE_CONFIG_CONTENT"} < set(printed)
    assert ask(printed["TEST_OPENCODE_URL"], "/config").status == 418
    assert len(list(tmp_path.iterdir())) == 1
    child.send_signal(number)
    assert child.wait(10) == 0
    assert list(tmp_path.iterdir()) == []
    assert refused(printed["TEST_OPENCODE_URL"])


def test_it_ends_with_its_stdin(launch, tmp_path, refused):
    child, printed = launch()
    assert not refused(printed["TEST_CUSTOM_OLLAMA_URL"])
    child.stdin.close()
    assert child.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_null_device_as_stdin_does_not_end_it(launch, ask):
    child, printed = launch(stdin=subprocess.DEVNULL)
    assert ask(printed["TEST_OPENCODE_URL"], "/global/health").status == 200
    assert child.poll() is None


def test_it_serves_one_hostile_server(launch):
    child, environment = launch("--hostile", "http-404,after=1")
    assert sorted(environment) == ["HOSTILE_URL", "HOSTILE_WS_URL"]
    port = urlsplit(environment["HOSTILE_URL"]).port
    for status in (b"200", b"404"):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(100).split()[1] == status
    child.send_signal(signal.SIGTERM)
    assert child.wait(5) == 0


def test_a_client_that_trusts_the_authoritys_file_meets_the_fault_itself(launch):
    _, environment = launch("--hostile", "tls-expired")
    context = ssl.create_default_context(cafile=environment["HOSTILE_CA_FILE"])
    port = urlsplit(environment["HOSTILE_URL"]).port
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as sock,
        pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"),
    ):
        context.wrap_socket(sock, server_hostname="127.0.0.1")


def test_a_server_of_openais_api_stands_beside_the_others_where_it_is_asked_for(launch, ask):
    _, environment = launch("--openai", "llama.cpp", "--api-key", "key of mine")
    models = ask(environment["OPENAI_BASE_URL"], "/models")
    assert dict(models.order)["Server"] == "llama.cpp"
    assert models.json["data"][0]["id"] == environment["OPENAI_MODEL"]
    body = {"model": environment["OPENAI_MODEL"], "prompt": "Hi", "max_tokens": 1}
    assert ask(environment["OPENAI_BASE_URL"], "/completions", "POST", body).status == 401
    key = {"Authorization": f"Bearer {environment['OPENAI_API_KEY']}"}
    assert ask(environment["OPENAI_BASE_URL"], "/completions", "POST", body, headers=key).status == 200
    assert ask(environment["TEST_OPENCODE_URL"], "/global/health").status == 200


def test_a_fault_of_openai_serves_it_too(launch, ask):
    _, environment = launch("--fault", "openai=loading-503,at=models")
    assert ask(environment["OPENAI_BASE_URL"], "/models").status == 503


def test_no_server_of_openais_api_is_there_unless_it_is_asked_for(launch):
    _, environment = launch()
    assert not [name for name in environment if name.startswith("OPENAI_")]


def test_the_env_file_is_what_a_run_reads_and_is_gone_at_the_end(launch, tmp_path):
    place = tmp_path / "stage.env"
    child, printed = launch("--env-file", str(place), "--password", " pass # word ")
    assert with_env_file({}, str(place)) == printed
    child.send_signal(signal.SIGTERM)
    assert child.wait(10) == 0
    assert list(tmp_path.iterdir()) == []


def test_only_its_owner_can_read_the_env_file(launch, tmp_path):
    place = tmp_path / "stage.env"
    launch("--env-file", str(place), umask=0)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_what_has_taken_the_env_files_place_is_not_removed(launch, tmp_path):
    place = tmp_path / "stage.env"
    child, _ = launch("--env-file", str(place))
    place.rename(tmp_path / "kept.env")
    place.write_text("of somebody else")
    child.send_signal(signal.SIGTERM)
    assert child.wait(10) == 0
    assert place.read_text() == "of somebody else"


@pytest.mark.parametrize("is_a_link", [False, True])
def test_a_file_that_is_there_is_no_place_for_the_env_file(tmp_path_factory, usage_error, is_a_link):
    place = tmp_path_factory.mktemp("taken") / "stage.env"
    if is_a_link:
        place.symlink_to(place.with_name("elsewhere"))
    else:
        place.write_text("mine")
    assert "File exists" in usage_error("--env-file", str(place))
    assert os.path.lexists(place)
    assert not place.with_name("elsewhere").exists()


def test_a_value_of_two_lines_is_refused_for_an_env_file(tmp_path, usage_error):
    said = usage_error("--env-file", str(tmp_path / "stage.env"), "--password", "two\nlines")
    assert said.endswith("TEST_OPENCODE_PASSWORD is no single line, and no env file can hold it")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "ollama=nope",
            "ollama has no fault 'nope'; `python -m precheck_lib.simulate --list ollama` lists what it has",
        ),
        ("ollama=on-cpy", "ollama has no fault 'on-cpy'; did you mean on-cpu"),
        ("ollama=unhealthy", "ollama has no fault 'unhealthy', but opencode can do it"),
        ("ollama=tcp-rst", "ollama has no fault 'tcp-rst': it is one of HostileServer (--hostile tcp-rst)"),
        ("ollama", "'ollama' is not SERVER=NAME"),
        ("redis=refuse", "there is no server redis; there are codex, opencode, ollama, openai"),
        ("olama=refuse", "did you mean ollama"),
        ("ollama=on-cpu,model", "'model' is not OPTION=VALUE"),
        ("ollama=on-cpu,modle=1", "ollama fault 'on-cpu' has no option modle; it has model; did you mean model?"),
        ("ollama=drip,at=tag", "at='tag' is none of version, tags, ps"),
        ("ollama=drip,at=tag", "did you mean tags"),
        ("codex=ws-silence,at=initialize", "at='initialize' is none of handshake"),
        ("openai=drip,at=modles", "at='modles' is none of models, chat, completions"),
        ("ollama=drip,every=abc", "every='abc' is not a number of seconds from 0 to 86400"),
        ("ollama=ps-invalid,after=lod", "after='lod' is none of unload, load, always; did you mean load"),
    ],
)
def test_a_fault_that_there_is_not_is_a_usage_error(usage_error, fault, said):
    assert said in usage_error("--fault", fault)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nonsense", "no hostile fault 'nonsense'; `python -m precheck_lib.simulate --list` lists all"),
        ("http-drip-boddy", "no hostile fault 'http-drip-boddy'; did you mean http-drip-body"),
        ("http-404,sooner=1", "sooner is no option: there are after, every, secure"),
        ("http-404,evry=1", "evry is no option: there are after, every, secure; did you mean every"),
        ("http-404,every=abc", "every='abc' is not a number of seconds from 0 to 86400"),
        ("http-404,every=-1", "every=-1 is not a number of seconds from 0 to 86400"),
        ("http-404,after=1.5", "after=1.5 is not a whole number of at least 0"),
        ("http-404,secure=yes", "secure='yes' is neither true nor false"),
        ("name-stalls", "acts in the process of the client"),
    ],
)
def test_what_is_wrong_with_a_hostile_server_is_a_usage_error(usage_error, arguments, said):
    assert said in usage_error("--hostile", arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--fault", "ollama=drip"], "--fault ollama=drip"),
        (["--openai"], "--openai"),
        (["--password", ""], "--password"),
        (["--api-key", "x"], "--api-key"),
    ],
)
def test_nothing_is_dropped_in_silence_beside_a_hostile_server(usage_error, arguments, named):
    said = usage_error("--hostile", "http-404", *arguments)
    assert f"{named} would be for them" in said
    assert "--fault SERVER=http-404" in said


def test_two_faults_of_one_server_are_refused(usage_error):
    assert "there are two" in usage_error("--fault", "ollama=drip", "--fault", "ollama=reset")


def test_a_key_without_its_server_is_refused(usage_error):
    assert "add --openai" in usage_error("--api-key", "x")


def test_a_folder_that_is_not_there_is_a_usage_error(usage_error, tmp_path):
    assert "No such file" in usage_error("--folder", str(tmp_path / "none"))


def test_the_list_names_every_fault_once_with_its_options(listed):
    shown = listed()
    names = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    own = {f"{fault.server}={fault.name}" for fault in simulate.FAULTS}
    hostile = {fault.name for fault in simulate.HOSTILE}
    openai = {f"openai={fault.name}" for fault in simulate.OPENAI_FAULTS if fault.name not in hostile}
    assert len(names) == len(set(names))
    assert set(names) == own | openai | hostile
    assert all(fault.description in shown for fault in (*simulate.FAULTS, *simulate.HOSTILE))
    assert 'ps; after="unload",skip=0,times=2' in shown


@pytest.mark.parametrize("layer", dict.fromkeys(fault.layer for fault in simulate.HOSTILE))
def test_the_list_of_a_layer_has_its_faults_only(listed, layer):
    title, *rows = listed(layer).splitlines()
    assert title.startswith(f"{layer} (")
    assert [row.split()[0] for row in rows] == [fault.name for fault in simulate.HOSTILE if fault.layer == layer]


@pytest.mark.parametrize(("layer", "takers"), [("http", "opencode, ollama, openai"), ("frame", "codex")])
def test_the_list_of_a_layer_says_which_stand_ins_can_do_it(listed, layer, takers):
    assert f"--hostile NAME, or --fault SERVER=NAME of {takers}" in listed(layer)


@pytest.mark.parametrize("layer", ["handshake", "frame", "message"])
def test_the_list_says_that_a_plain_get_is_answered_right_by_faults_of_websocket(listed, layer):
    assert "a plain GET is answered right" in listed(layer).splitlines()[0]


def test_the_list_of_a_server_has_its_own_faults_only(listed):
    title, *rows = listed("openai").splitlines()
    assert title == "openai: --fault openai=NAME[,OPTION=VALUE...]"
    assert rows
    assert all(row.startswith("  openai=") for row in rows)


def test_the_list_can_be_searched(listed):
    rows = [line for line in listed("Gzip").splitlines() if line.startswith("  ")]
    assert len(rows) == 3
    assert all("gzip" in row.lower() for row in rows)


def test_a_search_that_finds_nothing_says_what_may_have_been_meant(usage_error):
    assert "no fault has 'htttp' in it; did you mean http" in usage_error("--list", "htttp")


@pytest.mark.parametrize(
    "word", ["HOSTILE_CA_FILE", "--env-file stage.env", "-- precheck run strict", "every=SECONDS", "plain GET"]
)
def test_the_help_tells(capsys, word):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert word in capsys.readouterr().out


@pytest.mark.parametrize("server", STEPS)
def test_the_help_names_every_step(capsys, server):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(step in shown for step in STEPS[server])
