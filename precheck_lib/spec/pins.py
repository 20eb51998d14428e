"""The pins file of a spec: versions by name, one a line."""

from __future__ import annotations

import re

from precheck_lib.spec.model import Problem, quoted
from precheck_lib.spec.yaml_text import decode, lines_of

_PIN = re.compile(r"- ([^:`]+): `(?:rust-)?v([0-9A-Za-z][0-9A-Za-z.+-]*)`")


def read_pins(data: bytes, file: str, problems: list[Problem]) -> dict[str, str]:
    """Return the pins in a file; one that stands twice is a problem. Raises `SpecError` where it is no text."""
    pins: dict[str, str] = {}
    for number, line in enumerate(lines_of(decode(data, file)), 1):
        match = _PIN.fullmatch(line)
        if match is None:
            continue
        if match[1] in pins:
            problems.append(Problem(file, number, 1, f"the pin {quoted(match[1])} stands here a second time"))
        pins[match[1]] = match[2]
    return pins
