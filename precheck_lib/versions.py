"""Versions and constraints on them, such as `>=12.4,<13`: compared number by number, a pre-release before its release.

`1.10` is later than `1.9`, `1.2` is `1.2.0`, and `1.2.0-rc1`, `1.2.0rc1` and `1.2.0-alpha.3` all come before `1.2.0`.
What stands behind a `+` says how it was built and counts for nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"[0-9]{1,18}"
_VERSION = re.compile(
    rf"v?(?P<release>{_NUMBER}(?:\.{_NUMBER}){{0,9}})"
    r"(?P<pre>-[0-9A-Za-z.-]{1,64}|[.]?(?:dev|alpha|beta|rc|pre|a|b|c)[.-]?[0-9]{0,18})?"
    r"(?:\+[0-9A-Za-z.-]{1,64})?\Z",
    re.IGNORECASE,
)
# Not in the middle of a word or of another number: the 64 of `x86_64` is none, nor is the date of `2024-05-06`. Only
# what is called one is taken as a pre-release there: the -14 of Debian's 12.2.0-14 is a later build, no earlier one.
_SEEN = re.compile(
    rf"(?<![0-9A-Za-z_.-])v?{_NUMBER}(?:\.{_NUMBER}){{1,9}}"
    r"(?:-(?:dev|alpha|beta|rc|pre|preview|nightly|canary|snapshot)[0-9A-Za-z.-]{0,64}"
    r"|[.]?(?:dev|alpha|beta|rc|pre|a|b|c)[0-9]{1,18})?(?:\+[0-9A-Za-z.-]{1,64})?"
    r"(?![0-9A-Za-z_])",
    re.IGNORECASE,
)
_PART = re.compile(r"(==|!=|>=|<=|>|<)?\s*(\S+)\Z")
_MOST_PARTS = 8
_MOST_TEXT = 200


class Version(NamedTuple):
    """A version in the order of versions; `text` is how it was written."""

    release: tuple[int, ...]
    pre: tuple[tuple[int, int, str], ...]
    text: str

    @property
    def order(self) -> tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]:
        """What is compared: trailing zeros mean nothing, and a release comes after its pre-releases."""
        release = self.release
        while len(release) > 1 and release[-1] == 0:
            release = release[:-1]
        return release, not self.pre, self.pre


class Constraint(NamedTuple):
    """What a version has to be: every one of `parts`, each an operator and a version; `text` is how it was written."""

    parts: tuple[tuple[str, Version], ...]
    text: str

    def holds(self, version: Version) -> bool:
        """Say whether a version is as it has to be."""
        return all(_holds(operator, version, other) for operator, other in self.parts)


def parse_version(text: str) -> Version:
    """Read a version; raises `ValueError` that says what is wrong."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"{_shown(text)} is not a version such as 12.4 or 1.2.0-rc1")
    release = tuple(int(number) for number in match["release"].split("."))
    return Version(release, _pre(match["pre"] or ""), text)


def constraint_problem(text: str) -> str:
    """Say why a text is no version constraint; empty where it is one."""
    try:
        parse_constraint(text)
    except ValueError as error:
        return str(error)
    return ""


def parse_constraint(text: str) -> Constraint:
    """Read a constraint such as `>=12.4,<13`, or `1.2.3` for exactly that; raises `ValueError`."""
    written = text.split(",") if len(text) <= _MOST_TEXT else []
    if not 1 <= len(written) <= _MOST_PARTS:
        raise ValueError(f"{_shown(text)} is too long for a version constraint")
    parts = []
    for part in written:
        match = _PART.match(part.strip())
        try:
            if match is None:
                raise ValueError(f"{_shown(part.strip())} is empty or has a space in it")  # noqa: TRY301
            parts.append((match[1] or "==", parse_version(match[2])))
        except ValueError as error:
            example = "a constraint is written as >=12.4,<13 with ==, !=, >=, <=, > or <"
            raise ValueError(f"{_shown(text)} is no version constraint: {error}; {example}") from None
    return Constraint(tuple(parts), text)


def first_version(text: str) -> str | None:
    """Find the first thing in a text that looks like a version: two numbers with a dot between at least."""
    match = _SEEN.search(text[:65536])
    return match[0] if match is not None else None


def _holds(operator: str, version: Version, other: Version) -> bool:
    mine, its = version.order, other.order
    if operator in ("==", "!="):
        return (mine == its) is (operator == "==")
    if operator in (">=", "<="):
        return mine >= its if operator == ">=" else mine <= its
    if operator == "<" and version.pre and not other.pre and version.release == other.release:
        # 13.0-rc1 is before 13.0, but whoever writes <13.0 means the 12s.
        return False
    return mine > its if operator == ">" else mine < its


def _pre(text: str) -> tuple[tuple[int, int, str], ...]:
    """Turn what is behind the numbers into what can be ordered: numbers before words, `rc2` before `rc10`."""
    pieces = re.findall(r"[0-9]+|[A-Za-z]+", text)
    return tuple((0, int(piece), "") if piece.isdigit() else (1, 0, piece.lower()) for piece in pieces)


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"
