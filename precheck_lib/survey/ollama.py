"""What an Ollama says of itself: its version, what it has installed, what is in memory. Three reads, at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from precheck_lib.bounded.journal import Journal
from precheck_lib.checks.installed import api_url
from precheck_lib.checks.web import url_problems
from precheck_lib.errors import TalkError
from precheck_lib.servers.http_server import Bounds
from precheck_lib.survey.machine import Ollama, Resident, Tag
from precheck_lib.survey.together import together

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.servers.ollama import OllamaServer

ASK_SECONDS = 1.0
"""The most that one question to a server takes."""

_OWN = ("127.0.0.1", "::1", "localhost")


class Place(NamedTuple):
    """Where an Ollama is to be asked: `port` where that is on this machine, `problem` where it has no usable `url`."""

    url: str
    port: int | None
    given: bool
    problem: str | None


def place(env: Mapping[str, str]) -> Place:
    """Return where the Ollama of this machine is: where OLLAMA_HOST says, else where it is by itself."""
    from urllib.parse import urlsplit

    given = env.get("OLLAMA_HOST", "").strip()
    url = api_url(given or "127.0.0.1:11434")
    problem = next(iter(url_problems(url)), None)
    if problem is not None:
        return Place("", None, given=True, problem=f"OLLAMA_HOST cannot be used: {problem}")
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Place(url, port if parts.hostname in _OWN else None, given=bool(given), problem=None)


def ask(where: Place, budget: Budget) -> Ollama:
    """Ask the server at a place; where it does not answer, `trouble` says why."""
    from precheck_lib.servers.ollama import OllamaServer

    found = Ollama(url=where.url, port=where.port, given=where.given, trouble=where.problem)
    if where.problem is not None:
        return found
    server = OllamaServer(where.url, journal=Journal(), bounds=Bounds(connect=ASK_SECONDS, total=ASK_SECONDS))
    said: dict[str, Any] = {}
    troubles: list[str] = []

    def note_version() -> None:
        try:
            said["version"] = server.version(budget)
        except TalkError as error:
            troubles.append(str(error))

    together(
        [
            note_version,
            lambda: said.update(tags=_tags(server, budget)),
            lambda: said.update(resident=_resident(server, budget)),
        ]
    )
    answered = any(value is not None for value in said.values())
    trouble = None if answered else (troubles or ["it did not say what an Ollama says"])[0]
    return Ollama(url=where.url, port=where.port, given=where.given, trouble=trouble, **said)


def _tags(server: OllamaServer, budget: Budget) -> tuple[Tag, ...]:
    tags = server.tags(budget)
    return tuple(Tag(name=tag.name, digest=tag.digest, remote=tag.remote_host is not None) for tag in tags)


def _resident(server: OllamaServer, budget: Budget) -> tuple[Resident, ...] | None:
    from precheck_lib.servers.ollama import NoInventoryError

    try:
        rows = server.inventory(budget)
    except NoInventoryError:
        return None
    return tuple(
        Resident(name=row.name, size=_count(row.size), on_gpu=_count(row.size_vram), context=_count(row.context_length))
        for row in rows
    )


def _count(value: Any) -> int | None:
    """Return an integer that can be one of bytes or tokens."""
    return value if type(value) is int and 0 <= value < 1 << 60 else None


__all__ = ["ASK_SECONDS", "Place", "ask", "place"]
