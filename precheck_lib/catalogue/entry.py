"""What the catalogue says of a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from precheck_lib.outcome import Who


class Entry(msgspec.Struct, frozen=True):
    """One kind of finding: its meaning, its usual causes (likeliest first), the next step, and who can take it."""

    meaning: str
    causes: tuple[str, ...]
    remedy: str
    who: Who = "host"
    retryable: bool = False
