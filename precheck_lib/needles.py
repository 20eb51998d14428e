"""A search for many secrets at once, whose cost grows with the text and not with what stands in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHORTEST = 8
"""Shorter secrets are not searched for: a key `e` would eat every `e` (CONTRACT B5)."""

PART = 16
"""A text that was cut short may end in the beginning of a secret: so many characters of one count as the whole."""

FEW = 4
"""So many count as the whole where a text says itself that it was cut short."""

LONGEST = 512
"""A longer secret is searched for in pieces of this length, so that one look costs no more."""

_CUT = re.compile("['\"]?…+")
"""Where a text was cut short: there a few characters of a secret count as the whole."""


class Needles:
    """Finds `whole` texts, and beginnings of those in `begun`, in one pass over a text.

    At each place of the text that begins as some of them do, the nearest in the order of the alphabet are looked at: no
    other has more in common with what stands there. So a place costs at most a few looks of `LONGEST` characters,
    however many secrets there are and whatever a server answers.
    """

    def __init__(self, whole: Iterable[str], begun: Iterable[str]) -> None:
        begun = list(begun)
        self._whole = sorted({piece for text in (*whole, *begun) for piece in _pieces(text)})
        self._begun = sorted({piece for text in begun for piece in _pieces(text)})
        self._inside = dict(_begin_with(self._whole))
        # Where those that begin alike stand in their list.
        self._first = _ranges(self._whole, SHORTEST)
        self._parts = _ranges(self._begun, PART)
        # Behind its first piece a secret is long enough to be found by a part of it.
        beginnings = {text[:FEW] for text in begun}
        self._few = {part: at for part, at in _ranges(self._begun, FEW).items() if part in beginnings}

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where something of a secret stands, in no order; spans may overlap."""
        found: list[tuple[int, int]] = []
        if self._first:
            first, parts = self._first, self._parts
            for start in range(len(text) - SHORTEST + 1):
                if text[start : start + SHORTEST] in first:
                    here = text[start : start + LONGEST]
                    length = self._whole_length(here)
                    if here[:PART] in parts:
                        length = max(length, self._part_length(here))
                    if length:
                        found.append((start, start + length))
        if self._few and "…" in text:
            found += self._before_cuts(text)
        return found

    def _whole_length(self, here: str) -> int:
        """Return the length of the longest needle that a text begins with, 0 where there is none."""
        place = bisect_right(self._whole, here, *self._first[here[:SHORTEST]])
        # It is the one before, or one that this begins with.
        nearest = self._whole[place - 1] if place else None
        while nearest is not None and not here.startswith(nearest):
            nearest = self._inside.get(nearest)
        return 0 if nearest is None else len(nearest)

    def _part_length(self, here: str) -> int:
        """Return how much of the beginning of a text is the beginning of a needle."""
        least, most = self._parts[here[:PART]]
        place = bisect_right(self._begun, here, least, most)
        return max(_common(near, here) for near in self._begun[max(least, place - 1) : min(most, place + 1)])

    def _before_cuts(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the text up to a cut is the beginning of a needle."""
        # A quote before the sign is that of who cut, or the last character of what is left.
        cuts = [
            place for match in _CUT.finditer(text) for place in range(match.start(), text.index("…", *match.span()) + 1)
        ]
        few = self._few
        place = 0
        for start in range(cuts[-1] - FEW + 1):
            if text[start : start + FEW] in few:
                while cuts[place] < start + FEW:
                    place += 1
                end = place
                # The sign of a cut may be one of a secret's own: then what follows is of it too.
                while end < len(cuts) and cuts[end] <= start + LONGEST and self._begins(text[start : cuts[end]]):
                    end += 1
                if end > place:
                    yield start, cuts[end - 1]

    def _begins(self, part: str) -> bool:
        """Say whether a needle begins with this."""
        least, most = self._few[part[:FEW]]
        place = bisect_left(self._begun, part, least, most)
        return place < most and self._begun[place].startswith(part)


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text in pieces that lie over one another by as much as is found of a piece that was cut short."""
    if len(text) <= LONGEST:
        yield text
        return
    text = text.strip()
    for start in range(0, len(text) - LONGEST, LONGEST - PART):
        yield text[start : start + LONGEST]
    yield text[-LONGEST:]


def _begin_with(texts: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each text of a sorted list that begins with another, and the longest such."""
    above: list[str] = []
    for text in texts:
        while above and not text.startswith(above[-1]):
            above.pop()
        if above:
            yield text, above[-1]
        above.append(text)


def _ranges(texts: list[str], length: int) -> dict[str, tuple[int, int]]:
    """Return where those are in a sorted list that begin alike, by that beginning of this length."""
    ranges: dict[str, tuple[int, int]] = {}
    for place, text in enumerate(texts):
        if len(text) >= length:
            part = text[:length]
            ranges[part] = ranges.get(part, (place, place))[0], place + 1
    return ranges


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    if other.startswith(one):
        return len(one)
    least, most = 0, min(len(one), len(other))
    while least < most:
        half = (least + most + 1) // 2
        if one.startswith(other[least:half], least):
            least = half
        else:
            most = half - 1
    return least
