"""A command line to carry out in an empty folder."""

from __future__ import annotations

import os

import pytest

from precheck_lib.cli import run_command_line
from precheck_lib.interrupt import Interrupts

PASSING = "version: 1\nname: mine\nchecks: [{id: roles, env: {required: {MY_ROLE: {}}}}]\n"


class Ended:
    """How a command ended: exit code, lines of both streams, and the flags of its signals."""

    def __init__(self, code, captured, interrupts):
        self.code = code
        self.out = captured.out.splitlines()
        self.err = captured.err.splitlines()
        self.interrupts = interrupts


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Carry out a command in an empty folder with an environment of two variables; return how it ended."""
    monkeypatch.chdir(tmp_path)
    made = []

    def carry_out(*arguments, signal=None, **env):
        monkeypatch.setattr(os, "environ", {"PATH": "/nowhere", "MY_ROLE": "x", **env})
        interrupts = Interrupts()
        made.append(interrupts)
        if signal is not None:
            interrupts._handle(signal, None)
        capfd.readouterr()
        code = run_command_line(arguments, interrupts)
        return Ended(code, capfd.readouterr(), interrupts)

    yield carry_out
    for interrupts in made:
        interrupts.restore()


@pytest.fixture
def mine(tmp_path):
    """A spec that passes, as `./precheck.yml`."""
    (tmp_path / "precheck.yml").write_text(PASSING, encoding="utf-8")
    return tmp_path / "precheck.yml"
