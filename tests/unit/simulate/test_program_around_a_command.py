"""`python -m precheck_lib.simulate ... -- COMMAND`: a command in the foreground, with the servers around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from precheck_lib import simulate

ROOT = Path(simulate.__file__).parents[2]
PYTHON = sys.executable

COUNTS = """\
import signal
seen = 0
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
print("begun", flush=True)
while (number := signal.sigwait([signal.SIGINT, signal.SIGTERM])) == signal.SIGINT:
    seen += 1
    print("interrupted", seen, flush=True)
raise SystemExit(40 + seen)
"""
"""Says each SIGINT, and ends with their number at a SIGTERM."""


OWNS_ITS_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes its stdin the terminal of its session, and becomes the command that follows."""


@pytest.fixture
def program(tmp_path):
    """Give the program with its folder and these arguments."""
    return lambda *arguments: [PYTHON, "-m", "precheck_lib.simulate", "--folder", str(tmp_path), *arguments]


@pytest.fixture
def around(program, tmp_path):
    """Run a command to its end inside; nothing may be left."""

    def run(*arguments, **options):
        ended = subprocess.run(
            program(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=30, check=False, **options
        )
        assert list(tmp_path.iterdir()) == []
        return ended

    return run


@pytest.fixture
def begun(program):
    """Start the program around a command that says `begun`, and give it once that is said."""
    children = []

    def start(*arguments, **options):
        child = subprocess.Popen(program(*arguments), cwd=ROOT, stdout=subprocess.PIPE, text=True, **options)
        children.append(child)
        assert child.stdout.readline().startswith("begun")
        return child

    yield start
    for child in children:
        with child:
            child.kill()


def test_a_command_has_the_variables_and_its_output_alone_is_printed(around):
    ended = around("--", "sh", "-c", "echo $TEST_OLLAMA_MODEL_OPENCODE_DEFAULT")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "qwen3:8b\n", "")


def test_a_command_can_talk_to_the_servers(around):
    talk = "import os, urllib.request as r; print(r.urlopen(os.environ['TEST_OPENCODE_URL'] + '/config').status)"
    assert around("--", PYTHON, "-c", talk).stdout == "200\n"


def test_the_servers_are_gone_when_the_command_is(around, refused):
    url = around("--openai", "--", "sh", "-c", "echo $TEST_OPENCODE_URL; echo $OPENAI_BASE_URL").stdout.split()
    assert [refused(one) for one in url] == [True, True]


def test_the_stand_ins_commands_are_first_on_the_path_that_was_there(around):
    shown = around("--", "sh", "-c", "codex --version; echo $PATH").stdout.splitlines()
    assert shown[0] == "codex-cli 0.171.0"
    assert shown[1].partition(":")[2] == os.environ["PATH"]


def test_a_hostile_server_can_stand_around_a_command(around):
    shown = around("--hostile", "tls-expired", "--", "sh", "-c", "echo $HOSTILE_URL; ls $HOSTILE_CA_FILE").stdout
    assert shown.startswith("https://127.0.0.1:")
    assert shown.endswith("authority.pem\n")


def test_the_env_file_is_there_for_the_command_and_gone_after_it(around, tmp_path):
    place = tmp_path / "stage.env"
    ended = around("--env-file", str(place), "--", "grep", "-c", "^TEST_CODEX_HOME=", str(place))
    assert (ended.returncode, ended.stdout) == (0, "1\n")


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
)
def test_the_exit_code_is_the_commands(around, script, code):
    assert around("--", "sh", "-c", script).returncode == code


def test_a_command_that_there_is_not_is_127(around):
    ended = around("--", "no-such-command")
    assert (ended.returncode, ended.stdout) == (127, "")
    assert ended.stderr == "python -m precheck_lib.simulate: no-such-command: there is no such command\n"


def test_a_command_that_cannot_be_run_is_126(around, tmp_path_factory):
    file = tmp_path_factory.mktemp("plain") / "file"
    file.write_text("no program\n")
    ended = around("--", str(file))
    assert ended.returncode == 126
    assert "Permission denied" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--"], "a command has to follow --"),
        (["--list", "--", "true"], "--list only lists"),
        (["--fault", "ollama=nope", "--", "true"], "ollama has no fault 'nope'"),
    ],
)
def test_a_usage_error_runs_no_command(around, arguments, said):
    ended = around(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_stdin_is_the_commands(around):
    assert around("--", "cat", input="to the command\n").stdout == "to the command\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_is_handed_on_and_the_folder_is_gone_after_it(begun, tmp_path, number):
    answer = f"import signal; print('begun', flush=True); print(signal.sigwait([{int(number)}]).name)"
    block = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}]); "
    child = begun("--", PYTHON, "-c", block + answer)
    child.send_signal(number)
    assert child.communicate(timeout=10) == (f"{number.name}\n", None)
    assert child.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_ends_the_command_is_in_the_exit_code(begun):
    child = begun("--", "sh", "-c", "echo begun; exec sleep 60")
    child.send_signal(signal.SIGTERM)
    assert child.wait(10) == 128 + signal.SIGTERM


@pytest.mark.parametrize("blocked", [[], [signal.SIGUSR2]])
def test_the_command_begins_with_the_signals_that_its_caller_lets_through(program, blocked):
    caller = f"import os, signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, {[int(one) for one in blocked]}); "
    show = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGHUP).name)"
    command = [PYTHON, "-c", caller + "os.execv(sys.argv[1], sys.argv[1:])"]
    command += program("--", PYTHON, "-c", show)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == f"{set(blocked)} SIG_DFL\n"


@pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="who sent a signal cannot be known here")
def test_what_the_terminal_sends_reaches_the_command_once(program):
    screen, own = os.openpty()
    with os.fdopen(screen, "rb+", buffering=0) as screen, os.fdopen(own, "rb+", buffering=0) as terminal:
        command = [PYTHON, "-c", OWNS_ITS_TERMINAL, *program("--", PYTHON, "-c", COUNTS)]
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
        )
        shown = b""

        def until(words):
            nonlocal shown
            while words not in shown:
                shown += screen.read(4096)

        with child:
            until(b"begun")
            screen.write(b"\x03")  # Ctrl-C
            until(b"interrupted 1")
            # Its own signal comes to the program after the terminal's: what was handed on before is there by then.
            child.terminate()
            assert child.wait(10) == 41
