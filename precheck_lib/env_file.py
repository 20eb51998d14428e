"""`--env-file`: variables from a file, as `docker run --env-file` reads one. It is no shell.

A line is `NAME=VALUE`; the value is all that follows, quotes and `$` and `#` included. `NAME` alone takes the variable
from the environment, which changes nothing here. Empty lines and lines that begin with `#` are left out. As with docker
compose the environment wins: a variable that is set there, be it to nothing, keeps its value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from precheck_lib.spec.files import UnreadableError, read_file
from precheck_lib.spec.model import Problem, SpecError
from precheck_lib.spec.yaml_text import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_MOST_PROBLEMS = 20


def with_env_file(env: Mapping[str, str], path: str) -> dict[str, str]:
    """Return an environment with the variables of a file; raises `SpecError` with the place of what is wrong.

    No value is ever said: it may be a secret.
    """
    try:
        text = decode(read_file(path), path)
    except UnreadableError as error:
        raise SpecError([Problem(path, 1, 1, f"the env file cannot be read: {error}")]) from None
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removesuffix("\r").lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        wrong = _wrong(name, value)
        if wrong:
            problems.append(Problem(path, number, 1, wrong))
        elif equals:
            found[name] = value
    if problems:
        raise SpecError(problems[:_MOST_PROBLEMS])
    return {**found, **env}


def _wrong(name: str, value: str) -> str:
    if name.split(" ", maxsplit=1)[0] == "export":
        return "`export` is a shell's; write NAME=VALUE"
    if not name:
        return "a name is missing before the `=`"
    if not _NAME.match(name):
        # What stands there may be a piece of a secret that was broken over lines.
        return "this is no NAME=VALUE: a name has letters, digits, `_`, `.` and `-`, and a value is one line"
    return "the value has a NUL in it" if "\0" in value else ""
