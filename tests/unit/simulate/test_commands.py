from __future__ import annotations

import os
import select
import signal
import subprocess
import time

import pytest

from precheck_lib.simulate import Command, write_commands


@pytest.fixture
def run():
    def call(path, *arguments, **options):
        return subprocess.run([path, *arguments], capture_output=True, timeout=10, check=False, **options)

    return call


def test_each_prints_its_version_and_nothing_else(tmp_path, run):
    commands = write_commands(tmp_path / "new" / "bin", codex="0.171.0", opencode="1.18.33")
    assert sorted(path.name for path in (tmp_path / "new" / "bin").iterdir()) == ["codex", "opencode"]
    for name, said in (("codex", b"codex-cli 0.171.0\n"), ("opencode", b"1.18.33\n")):
        done = run(commands[name], "--version")
        assert (done.returncode, done.stdout, done.stderr) == (0, said, b"")


def test_they_need_nothing_of_the_environment(tmp_path, run):
    commands = write_commands(tmp_path)
    assert run(commands["codex"], "--version", env={}).stdout == b"codex-cli 0.171.0\n"


@pytest.mark.parametrize("arguments", [[], ["serve"], ["--version", "x"]])
def test_anything_but_the_version_is_refused(tmp_path, run, arguments):
    done = run(write_commands(tmp_path)["opencode"], *arguments)
    assert (done.returncode, done.stdout) == (64, b"")


def test_every_text_goes_where_it_belongs_as_it_stands(tmp_path, run):
    strange = Command("1 'two' $HOME %s \\n", before="a\n", after="z", stderr="warning: 'x'\n", exit_code=3, crlf=True)
    done = run(write_commands(tmp_path, codex=strange)["codex"], "--version")
    assert done.stdout == b"a\n1 'two' $HOME %s \\n\r\nz"
    assert (done.stderr, done.returncode) == (b"warning: 'x'\n", 3)


def test_an_empty_line_says_nothing_at_all(tmp_path, run):
    assert run(write_commands(tmp_path, codex=Command(""))["codex"], "--version").stdout == b""


def test_a_sleeping_one_says_its_line_first_and_ends_on_sigterm(tmp_path):
    path = write_commands(tmp_path, codex=Command("x", sleep_seconds=60))["codex"]
    with subprocess.Popen([path, "--version"], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout.readline() == b"x\n"
        os.killpg(child.pid, signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM


def test_one_that_ignores_sigterm_lives_on_until_it_is_killed(tmp_path):
    path = write_commands(tmp_path, codex=Command("x", sleep_seconds=60, ignore_term=True))["codex"]
    with subprocess.Popen([path, "--version"], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout.readline() == b"x\n"
        os.killpg(child.pid, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
        os.killpg(child.pid, signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL


def test_a_grandchild_holds_stdout_open_after_the_command_has_ended(tmp_path):
    path = write_commands(tmp_path, codex=Command("x", grandchild_seconds=60))["codex"]
    with subprocess.Popen([path, "--version"], stdout=subprocess.PIPE, start_new_session=True) as child:
        begun = time.monotonic()
        assert child.stdout.readline() == b"x\n"
        assert child.wait(10) == 0
        assert time.monotonic() - begun < 10
        assert select.select([child.stdout], [], [], 0.1)[0] == []
        os.killpg(child.pid, signal.SIGKILL)
        assert child.stdout.read() == b""
