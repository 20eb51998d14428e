"""Data of Python as that of a YAML document: mappings, lists, text, numbers, truth and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from precheck_lib.spec.model import Problem, SpecError

_DEEPEST = 50
"""Far more than any spec has, and far less than Python's own limit."""


def plain_data(document: Any) -> Any:
    """Return a copy of the data that shares nothing with it; raises `SpecError` where YAML has no such value."""
    return _plain(document, "it", 0)


def _plain(value: Any, where: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise _refused(f"{where} is nested too deeply (or holds itself)")
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise _refused(f"{where} has the key {key!r}, and a key is text")
        return {key: _plain(part, f"{where}[{key!r}]", depth + 1) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, f"{where}[{index}]", depth + 1) for index, part in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise _refused(f"{where} is {value}, which is no number of a spec")
    if value is None or type(value) in (str, bool, int, float):
        return value
    raise _refused(f"{where} is a {type(value).__name__}; a spec is made of dict, list, str, bool, int, float and None")


def _refused(text: str) -> SpecError:
    return SpecError([Problem("spec", 1, 1, text)])
