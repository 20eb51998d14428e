"""What no type can say of the options of a check: refused when the spec is loaded, at the line of the key."""

from __future__ import annotations

import json

import pytest

from precheck_lib.checks import KINDS
from precheck_lib.spec import SpecError, build_spec

# By kind: options in which one thing cannot be meant, where it stands, and how the message goes on behind the check.
CASES = [
    ("command", {}, "", "either `argv` (with what it has to print) or a list of `commands` is needed"),
    ("command", {"argv": []}, "argv", "argv: a program is needed"),
    ("command", {"argv": ["a"], "matches": "("}, "matches", "matches: '(' is not a regular expression"),
    ("command", {"argv": ["a"], "version": ">=x"}, "version", "version: '>=x' is no version constraint"),
    (
        "command",
        {"commands": [{"argv": ["a"], "version": ">=1,,"}]},
        "version",
        "version: '>=1,,' is no version constraint",
    ),
    ("disk", {"path": "/tmp"}, "", "a disk check needs free, inodes or writable"),
    ("disk", {"path": "tmp", "writable": True}, "path", "path: 'tmp' is not an absolute path"),
    ("disk", {"path": "/tmp", "inodes": -1}, "inodes", "inodes: it has to be 0 or more"),
    ("env", {"required": {"A": {"pattern": "["}}}, "pattern", "A: pattern: '[' is not a regular expression"),
    ("env", {"optional": {"A": {"one_of": []}}}, "one_of", "A: one_of: no value is allowed"),
    ("file", {"path": "etc"}, "path", "path: 'etc' is not an absolute path"),
    ("file", {"path": "/etc", "sha256": "abc"}, "sha256", "sha256: it is not 64 lower-case hexadecimal digits"),
    ("file", {"path": "/etc", "mode": "999"}, "mode", "mode: '999' is not a mode in octal"),
    ("file", {"path": "/etc", "exists": False, "type": "folder"}, "exists", "exists: false says that nothing may be"),
    ("gpu", {"count": 1, "min": 1}, "count", "count says exactly how many; it does not go with min"),
    ("gpu", {"driver": ">="}, "driver", "driver: "),
    ("http", {"url": "localhost:8000"}, "url", "url: it is not a URL that begins with http:// or https://"),
    ("http", {"url": "http://h", "status": 99}, "status", "status: a whole number from 200 to 599 is needed"),
    ("memory", {}, "", "a memory check needs available, total or swap_free"),
    ("ollama", {"url": "h", "version": ">="}, "version", "version: "),
    ("ollama", {"url": "h", "models": {"a": 1}}, "a", "models: a: a mapping with id, digest, capabilities is needed"),
    ("ollama", {"url": "h", "models": {"a": {"size": 1}}}, "size", "models: a: unknown key 'size'"),
    ("ollama", {"url": "h", "models": {"a": {"digest": "xyz"}}}, "digest", "models: a: digest: 12 to 64 hex digits"),
    ("openai", {"url": "http://h/v1?key=1"}, "url", "url: it has a query (?...) in it"),
    ("opencode", {"url": "http://h", "read": "config", "instance": False}, "read", "read: config has the server make"),
    ("port", {"port": 0}, "port", "port: 0 is not a port (1 to 65535)"),
    ("port", {"port": 1, "host": "gpu one"}, "host", "host: 'gpu one' is not an address"),
    ("port", {"port": 1, "state": "free", "user": "a"}, "state", "state: free says that nobody may listen"),
    ("process", {}, "", "a process check needs name, executable, command or user"),
    ("process", {"name": "a", "count": 1, "min": 1}, "count", "count says exactly how many"),
    ("process", {"command": "*"}, "command", "command: '*' is not a regular expression"),
]


def value_at(options, key):
    """The value of a key, however deep it lies."""
    if isinstance(options, dict) and key in options:
        return options[key]
    parts = options.values() if isinstance(options, dict) else options if isinstance(options, list) else ()
    return next((found for part in parts if (found := value_at(part, key)) is not None), None)


@pytest.mark.parametrize(("kind", "options", "key", "said"), CASES)
def test_it_is_refused_where_it_stands(kind, options, key, said, desk):
    (told,) = desk.wrong_option(kind, json.dumps(options))  # which is YAML too
    place, _, words = told.partition(" -> ")
    assert words.startswith(said)
    assert json.dumps(value_at(options, key) if key else options).startswith(place)


def test_every_kind_that_can_refuse_options_has_a_case():
    assert {kind for kind, *_ in CASES} == set(KINDS) - {"codex", "residency", "tcp"}  # all of theirs can be meant


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("command", {"argv": ["a"], "matches": "${WANTED}", "version": "${WANTED}"}),
        ("disk", {"path": "${HOME}", "writable": True}),
        ("file", {"path": "${HOME}/x", "sha256": "${DIGEST}"}),
        ("http", {"url": "${URL}"}),
        ("ollama", {"url": "h", "version": "${VERSION}", "models": {"a": {"digest": "${DIGEST}"}}}),
        ("openai", {"url": "${URL}"}),
        ("port", {"port": 1, "host": "${HOST}"}),
    ],
)
def test_what_a_variable_will_say_is_judged_when_the_check_runs(kind, options):
    assert build_spec({"version": 1, "name": "it", "checks": [{"id": "one", kind: options}]}).checks


def test_a_pattern_may_end_with_a_dollar():
    check = {"id": "one", "command": {"argv": ["a"], "matches": "^v1$"}}
    assert build_spec({"version": 1, "name": "it", "checks": [check]}).checks
    check["command"]["matches"] = "($"
    with pytest.raises(SpecError, match="is not a regular expression"):
        build_spec({"version": 1, "name": "it", "checks": [check]})
