"""What a check may need: one that stands before it and does not run after it. So there are no circles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from precheck_lib.checks import changes_server, kind_named
from precheck_lib.spec.shape import Frame  # noqa: TC001 - the type of a field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from precheck_lib.spec.model import CheckSpec
    from precheck_lib.spec.yaml_text import Path

_MOST_LOOKED_AT = 1000
"""Checks that are looked at for a circle: to show it is a help, and must not take longer than loading does."""

_MOST_SHOWN = 8


class Draft(NamedTuple):
    """A check as far as it could be read: its place in the document, and what is known of it."""

    path: Path
    frame: Frame
    kind: str | None
    check: CheckSpec | None


def no_need(
    draft: Draft,
    need: str,
    seen: Mapping[str, Draft],
    every: Mapping[str, Draft],
    guess: Callable[[str, Iterable[str]], str],
) -> str:
    """Say why a check cannot need another, as the end of a sentence; empty where it can."""
    if need == draft.frame.id:
        return "is itself"
    if need not in every:
        return f"is not a check of this spec{guess(need, every)}"
    if need not in seen:
        way = _way(need, draft.frame.id, every) if len(every) <= _MOST_LOOKED_AT else []
        shown = [draft.frame.id, *way] if len(way) <= _MOST_SHOWN else [draft.frame.id, *way[:3], "…", *way[-3:]]
        turn = f"needs it in turn ({', '.join(shown)})"
        return turn if way else "comes later; a check needs only what stands before it"
    if draft.kind is None or _changes(draft) or not _changes(seen[need]):
        return ""
    return (
        f"changes a server ({seen[need].kind}) and so runs after all that only reads ({draft.kind}): "
        "nothing is changed before everything that can be read is right"
    )


def _changes(draft: Draft) -> bool:
    """Say whether a check changes a server; one whose options cannot be read may."""
    if draft.check is not None:
        return changes_server(draft.check)
    return draft.kind is not None and kind_named(draft.kind).changes


def _way(start: str, goal: str, every: Mapping[str, Draft]) -> list[str]:
    """Return the ids from one check to another along what they need; empty where no way leads there."""
    before: dict[str, str] = {start: ""}
    left = [start]
    for id_ in left:
        for need in every[id_].frame.needs:
            if need in every and need not in before:
                before[need] = id_
                left.append(need)
    way = [goal] if goal in before else []
    while way and before[way[0]]:
        way.insert(0, before[way[0]])
    return way
