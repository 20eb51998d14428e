"""Durations and sizes as specs write them: `2s`, `1m30s`, `500ms`; `20GiB`."""

from __future__ import annotations

import re

# Twelve digits are thousands of years and millions of exabytes: more of them are a mistake, and would overflow later.
_WHOLE = r"([0-9]{1,12})"
_DECIMAL = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_DURATION = re.compile(rf"(?:{_WHOLE}h)?(?:{_WHOLE}m(?!s))?(?:{_DECIMAL}s)?(?:{_WHOLE}ms)?\Z")
_SIZE = re.compile(rf"{_DECIMAL} ?(B|KiB|MiB|GiB|TiB)\Z")
DURATION_PATTERN = rf"^(?=.)(?:{_WHOLE}h)?(?:{_WHOLE}m(?!s))?(?:{_DECIMAL}s)?(?:{_WHOLE}ms)?$"
SIZE_PATTERN = rf"^{_DECIMAL} ?(?:B|KiB|MiB|GiB|TiB)$"
"""The same for the JSON Schema, in the regular expressions that JavaScript has too."""

_POWERS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


class Seconds(float):
    """A duration in seconds, written as `2s`, `1m30s` or `500ms`."""

    __slots__ = ()


class Bytes(int):
    """A size in bytes, written as `20GiB`, `256MiB` or `512B`."""

    __slots__ = ()


def parse_duration(text: object) -> Seconds:
    """Turn `1h`, `1m30s`, `2.5s`, `500ms` into seconds; raises `ValueError`, also for a bare number: it has no unit."""
    match = _DURATION.match(text) if isinstance(text, str) else None
    if match is None or not any(match.groups()):
        raise ValueError(f"{_shown(text)} is not a duration such as 2s, 1m30s or 500ms")
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return Seconds(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000)


def parse_size(text: object) -> Bytes:
    """Turn `20GiB` into bytes; raises `ValueError`. A part of a byte is dropped."""
    match = _SIZE.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{_shown(text)} is not a size such as 20GiB or 256MiB")
    unit = 1024 ** _POWERS[match[2]]
    return Bytes(float(match[1]) * unit if "." in match[1] else int(match[1]) * unit)


def duration_text(seconds: float) -> str:
    """Write seconds as a spec would: `1m30s`, `2s`, `500ms`."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    whole, part = divmod(rest, 1000)
    text = f"{minutes}m" if minutes else ""
    text += f"{whole}s" if whole else ""
    text += f"{part}ms" if part else ""
    return text or "0s"


def exact_size_text(size: int) -> str:
    """Write a size as a spec would, without losing a byte: `2MiB`, `1500B`."""
    for unit, power in reversed(_POWERS.items()):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return "0B"


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
