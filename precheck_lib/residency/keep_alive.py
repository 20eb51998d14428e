"""How long a model stays: what Ollama calls `keep_alive` and `expires_at`, in seconds."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone

FOREVER = "-1m"
"""A `keep_alive` that has no end: a bare `-1` is refused as text, for want of a unit."""

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"([+-]?)((?:{_PART.pattern})+)\Z")
_TIME = re.compile(
    r"([0-9]{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.([0-9]{1,18}))?(Z|z|[+-]\d\d:\d\d)\Z", re.ASCII
)
_ENDLESS = 50 * 365 * 86_400.0
"""A row that expires in more than this is meant to stay for ever: Ollama writes that as 292 years from now."""


def keep_alive_seconds(text: str) -> float | None:
    """Return the seconds of a `keep_alive` as Go writes durations, infinity for ever; `None` where it is none."""
    match = _DURATION.match(text)
    if match is None:
        return 0.0 if text in ("0", "+0", "-0") else None
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(match[2]))
    return math.inf if match[1] == "-" and total else total


def moment(text: str | None) -> float | None:
    """Return a time as the server writes it (RFC 3339, up to nine digits of a second) in seconds of the epoch."""
    match = _TIME.match(text) if text is not None else None
    if match is None:
        return None
    zone = "+00:00" if match[8] in "Zz" else match[8]
    try:
        whole = datetime.strptime("".join(match.group(1, 2, 3, 4, 5, 6)) + zone.replace(":", ""), "%Y%m%d%H%M%S%z")
        return whole.timestamp() + float(f"0.{match[7] or 0}")
    except (ValueError, OverflowError):
        return None


def left(expires_at: str | None, now: float | None) -> float | None:
    """Return how long a row stays from `now` on, infinity for ever; `None` where it cannot be known."""
    until = moment(expires_at)
    if until is None or now is None:
        return None
    return math.inf if until - now > _ENDLESS else until - now


def at_least(keep_alive: str, seconds: float | None) -> str:
    """Return the longer of a `keep_alive` and what a model had left, as a `keep_alive`."""
    wanted = keep_alive_seconds(keep_alive)
    if wanted is None or seconds is None or seconds <= wanted:
        return keep_alive
    return FOREVER if math.isinf(seconds) else f"{math.ceil(seconds)}s"


def until_text(expires_at: str | None, now: float) -> str:
    """Say when a row would have gone by itself: Ollama tells that, and not when a model was last used."""
    remaining = left(expires_at, now)
    if remaining is None:
        return "Ollama does not say until when it was to stay"
    if math.isinf(remaining):
        return "it was to stay for ever"
    shown = datetime.fromtimestamp(now + remaining, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    if remaining < 0:
        return f"its time was over at {shown}: it is busy, or leaving"
    return f"unless it is used again it would have left at {shown}, in {_about(remaining)}"


def _about(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
