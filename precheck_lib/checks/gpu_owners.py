"""Who holds the memory of a GPU: the processes that the driver names, as far as they can be seen from here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from precheck_lib.checks.look import Seen, process_seen, same_executable, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from precheck_lib.gpu.reading import Card

Held = tuple[Seen, "int | None"]
"""A process and the bytes of a card that it holds, where the driver tells them."""

_HOST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: the name space that every machine begins with
_MOST_NAMED = 4

_USUAL = (
    "ollama",
    "llama-server",
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "gdm-wayland-session",
    "kwin_wayland",
    "plasmashell",
)
"""Model servers and desktops: on a shared machine they are no news, and no warning."""


class Owners(msgspec.Struct, frozen=True, kw_only=True):
    """The processes on the cards by pid, as far as they can be seen; `mine` are this job's own.

    `elsewhere` says why nobody can be seen, where that is so: in a container the driver's pids are the host's.
    """

    seen: dict[int, Seen]
    mine: frozenset[int] = frozenset()
    elsewhere: str = ""

    def foreign(self, card: Card, tolerated: Sequence[str]) -> list[Held]:
        """Return those on a card that are neither this job's nor tolerated."""
        found: list[Held] = []
        for holder in card.holders:
            process = self.seen.get(holder.pid)
            if process is not None and process.pid not in self.mine and not _is_one_of(process, tolerated):
                found.append((process, holder.bytes))
        return found

    def lent(self, card: Card, tolerated: Sequence[str]) -> int:
        """Return the bytes that this job and tolerated programs hold of a card."""
        foreign = {process.pid for process, _ in self.foreign(card, tolerated)}
        known = [holder for holder in card.holders if holder.pid in self.seen and holder.pid not in foreign]
        return sum(holder.bytes or 0 for holder in known)

    def are_usual(self, held: Iterable[Held]) -> bool:
        """Whether all of these are model servers and desktops."""
        return all(_is_one_of(process, _USUAL) for process, _ in held)

    def text(self, held: Sequence[Held]) -> str:
        """Name processes and what each holds, the largest first."""
        named = sorted(held, key=lambda one: -(one[1] or 0))
        parts = [f"{process}{f' holds {size_text(size)}' if size is not None else ''}" for process, size in named]
        more = [f"{len(parts) - _MOST_NAMED} more"] if len(parts) > _MOST_NAMED else []
        return ", ".join([*parts[:_MOST_NAMED], *more])

    def gone(self, card: Card) -> str:
        """Name the pids that the driver still lists and that are no process any more."""
        dead = [holder for holder in card.holders if holder.pid not in self.seen]
        if not dead:
            return "the driver lists no process that holds it"
        named = ", ".join(f"pid {one.pid}{f' ({size_text(one.bytes)})' if one.bytes else ''}" for one in dead)
        return f"the driver lists {named}, which is no process any more"


def find_owners(cards: Sequence[Card]) -> Owners:
    """Look at every process on the cards. May block, as every look at a process may."""
    import psutil

    if not _sees_the_host():
        return Owners(seen={}, elsewhere="this is a container with process numbers of its own (run it with the host's)")
    seen = {}
    for pid in {holder.pid for card in cards for holder in card.holders}:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                seen[pid] = process_seen(process)
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError):
            seen[pid] = Seen(pid=pid)
    return Owners(seen=seen, mine=frozenset(_family()))


def _is_one_of(process: Seen, programs: Sequence[str]) -> bool:
    file = process.executable or process.name or ""
    return any(program and same_executable(program, file) for program in programs)


def _sees_the_host() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == _HOST_PIDS
    except OSError:
        return True  # no name spaces here, so no container either


def _family() -> set[int]:
    """Return this process, its parents but for those of the whole machine, and its children."""
    import psutil

    me = psutil.Process()
    return {
        me.pid,
        *(one.pid for one in me.parents() if one.pid > 1),
        *(one.pid for one in me.children(recursive=True)),
    }


__all__ = ["Held", "Owners", "find_owners"]
