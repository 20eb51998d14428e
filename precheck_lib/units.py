"""Durations and sizes as specs write them: `2s`, `1m30s`, `500ms`; `20GiB`."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(B|KiB|MiB|GiB|TiB)\Z")
_POWERS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4}


class Seconds(float):
    """A duration in seconds, written as `2s`, `1m30s` or `500ms`."""

    __slots__ = ()


class Bytes(int):
    """A size in bytes, written as `20GiB`, `256MiB` or `512B`."""

    __slots__ = ()


def parse_duration(text: object) -> Seconds:
    """Turn `1h`, `1m30s`, `2.5s`, `500ms` into seconds; raises `ValueError`. A bare number has no unit and is refused."""
    match = _DURATION.match(text) if isinstance(text, str) else None
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration such as 2s, 1m30s or 500ms")
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return Seconds(hours * 3600 + minutes * 60 + seconds + milliseconds / 1000)


def parse_size(text: object) -> Bytes:
    """Turn `20GiB` into bytes; raises `ValueError`."""
    match = _SIZE.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 20GiB or 256MiB")
    return Bytes(float(match[1]) * 1024 ** _POWERS[match[2]])


def duration_text(seconds: float) -> str:
    """Write seconds as a spec would: `1m30s`, `2s`, `500ms`."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    whole, part = divmod(rest, 1000)
    text = f"{minutes}m" if minutes else ""
    text += f"{whole}s" if whole else ""
    text += f"{part}ms" if part else ""
    return text or "0s"
