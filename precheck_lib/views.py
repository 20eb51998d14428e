"""A text as a reader or a decoder will see it, with the place in the original of each of its characters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Any number of backslashes: JSON inside of JSON has an escape for each escape. No part can match where another begins,
# and only a run of backslashes is read more than once: no text makes this slow.
_ESCAPE = re.compile(
    r"\\+(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))"
    r"|%([0-9A-Fa-f]{2})"
    r"|&(?:#[xX]([0-9A-Fa-f]{1,6})|#([0-9]{1,7})|(amp|lt|gt|quot|apos));"
    # Half an escape where the text was cut short.
    r"|(?:\\+(?:u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?)|%[0-9A-Fa-f]?|&#?[0-9A-Za-z]{0,7})(?=['\"]?…)"
    r"|\\+"
)
_DECIMAL, _NAMED = 5, 6
_NAMES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}

_WHITE_SPACE = re.compile(r"\s{2,}|[^\S ]")
"""White space that is not one space already, which it becomes where a text is made one line."""


class View(NamedTuple):
    """`places` says where each character of `text` begins in the original, and last where that ends."""

    text: str
    places: Sequence[int]


def unescaped(text: str) -> View:
    r"""Undo escapes once, whichever characters they stand for, and make every run of white space one space.

    `\u002B` and `\x2b`, `%2B`, `&#43;`, `&#x2b;`, `&amp;` and its like; every other backslash goes, as JSON inside of
    JSON, Python and shells put one before what they quote. A byte of UTF-8 becomes a character of its own.
    """
    view = View(text, range(len(text) + 1))
    return _replaced(_replaced(view, _ESCAPE, _decoded), _WHITE_SPACE, lambda _: " ")


def without_escapes(text: str) -> str:
    """Return the text of `unescaped` alone, which costs less."""
    return _WHITE_SPACE.sub(" ", _ESCAPE.sub(_decoded, text))


def _decoded(match: re.Match[str]) -> str:
    kind = match.lastindex
    if kind is None:
        return ""
    if kind == _NAMED:
        return _NAMES[match[kind]]
    code = int(match[kind], 10 if kind == _DECIMAL else 16)
    character = chr(code) if code <= 0x10FFFF else "\ufffd"
    return "" if character == "\\" else character


def _replaced(view: View, pattern: re.Pattern[str], made: Callable[[re.Match[str]], str]) -> View:
    """Put one character or none in place of each match; what became nothing belongs to the character behind it."""
    text, places = view
    shown: list[str] = []
    begins: list[int] = []
    held: int | None = None
    done = 0

    def keep(end: int) -> None:
        nonlocal held
        if done < end:
            shown.append(text[done:end])
            begins.append(places[done] if held is None else held)
            begins.extend(places[done + 1 : end])
            held = None

    for match in pattern.finditer(text):
        start, end = match.span()
        keep(start)
        held = places[start] if held is None else held
        character = made(match)
        if character:
            shown.append(character)
            begins.append(held)
            held = None
        done = end
    if not done:
        return view
    keep(len(text))
    begins.append(places[len(text)] if held is None else held)
    return View("".join(shown), begins)
