"""What a command has to print and how it has to end: a line, a pattern, a version, an exit status."""

from __future__ import annotations

import pytest


def echo(text):
    return {"argv": ["/bin/echo", text]}


def sh(script):
    return {"argv": ["/bin/sh", "-c", script]}


@pytest.mark.parametrize(
    "options",
    [
        {**echo("x"), "stdout": "x"},
        {**echo("x")},
        {**sh("exit 3"), "exit": 3},
        {**sh("printf 'a\\nb 1\\nc\\n'"), "matches": "^b [0-9]$"},
        {**echo("Cuda compilation tools, release 12.4, V12.4.131"), "version": ">=12.4,<13"},
        {**echo("tool 9.9 (engine 2.0.1)"), "matches": r"engine (?P<version>[0-9.]+)", "version": "2.0.1"},
        {**echo("tool 2.0.1 build 7"), "matches": r"build \d", "version": "==2.0.1"},
        {"commands": [{**echo("x"), "stdout": "x"}, {**echo("1.2"), "version": ">1"}]},
    ],
    ids=["line", "exit 0", "exit 3", "pattern", "version", "group", "both", "several"],
)
def test_a_command_that_is_as_it_has_to_be_passes(checker, options):
    assert checker.passes("command", options) == []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({**echo("y"), "stdout": "x"}, "command.version", "the command `/bin/echo y` printed 'y', pinned is 'x'"),
        (sh("exit 3"), "command.failed", "`/bin/sh -c exit 3` ended with exit status 3"),
        ({**echo("y"), "exit": 3}, "command.failed", "`/bin/echo y` ended with exit status 0, not 3"),
        (
            {**echo("yes"), "matches": "^no$"},
            "command.output",
            "the command `/bin/echo yes` printed 'yes', which does not match '^no$'",
        ),
        (
            {**echo("v 12.3"), "version": ">=12.4,<13"},
            "command.version",
            "the command `/bin/echo v 12.3` is version 12.3, needed is >=12.4,<13",
        ),
        (
            {**echo("tool 9.9 (engine 2.0.1)"), "matches": r"engine (?P<version>[0-9.]+)", "version": "9.9"},
            "command.version",
            "the command `/bin/echo tool 9.9 (engine 2.0.1)` is version 2.0.1, needed is 9.9",
        ),
        (
            {**echo("latest"), "version": ">1"},
            "command.output",
            "the command `/bin/echo latest` printed 'latest', with no version in it",
        ),
        (
            {**echo("v: x"), "matches": "v: (?P<version>.*)", "version": ">1"},
            "command.output",
            "the command `/bin/echo v: x`: 'x' is not a version such as 12.4 or 1.2.0-rc1",
        ),
        (
            {**sh(":"), "version": ">1"},
            "command.silent",
            "the command `/bin/sh -c :` printed nothing, version >1 is needed",
        ),
    ],
    ids=["line", "exit", "other exit", "pattern", "version", "group", "none", "no version", "silent"],
)
def test_a_command_that_is_not_fails_and_says_what_differs(checker, options, code, message):
    assert checker.said("command", options) == ("failed", [(code, message)])


def test_options_may_hold_variables(checker):
    options = {"argv": ["/bin/echo", "${A}"], "version": "${WANTED}", "matches": "${A}$"}
    assert checker.passes("command", options, env={"A": "1.5", "WANTED": ">=1.4"}) == []
    word, said = checker.said("command", options, env={"A": "1.5", "WANTED": ">=1.6"})
    assert (word, said[0][0]) == ("failed", "command.version")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "either `argv` (with what it has to print) or a list of `commands` is needed"),
        ({"commands": []}, "either `argv` (with what it has to print) or a list of `commands` is needed"),
        ({**echo("x"), "commands": [echo("x")]}, "either `argv` (with what it has to print) or a list of"),
        ({"commands": [echo("x")], "version": "1"}, "either `argv` (with what it has to print) or a list of"),
        ({"argv": []}, "argv: a program is needed"),
        ({"argv": [""]}, "argv: a program is needed"),
        ({**echo("x"), "matches": "("}, "matches: '(' is not a regular expression"),
        ({**echo("x"), "version": "~1"}, "version: '~1' is no version constraint"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_runs(checker, options, problem):
    (said,) = checker.refused("command", options)
    assert said.startswith(problem)


def test_the_plan_says_what_each_command_must_do(checker):
    assert checker.planned("command", {**echo("x"), "stdout": "x"}) == ["run `/bin/echo x`; it must print `x`"]
    (all_of_it,) = checker.planned("command", {**echo("x"), "exit": 3, "version": ">1", "matches": "y"})
    assert all_of_it == (
        "run `/bin/echo x`; it must print something that matches `y` and must print a version that is >1 "
        "and must end with exit status 3"
    )
    assert checker.planned("command", echo("x")) == ["run `/bin/echo x`; it must end with exit status 0"]
