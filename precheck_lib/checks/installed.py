"""What the kinds share that look at an Ollama's installed models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.errors import AnswerError, StatusError, TalkError
from precheck_lib.findings import not_ready, not_ready_for
from precheck_lib.servers.names import canonical
from precheck_lib.servers.words import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from precheck_lib.checks.kind import Context
    from precheck_lib.findings import NotReadyError
    from precheck_lib.servers.ollama import OllamaServer, Tag


def api_url(text: str) -> str:
    """Return the URL of Ollama's API for what `OLLAMA_HOST` may hold, as Ollama's own client reads it.

    A bare host has port 11434; one that means every address of the machine is reached at the loopback. A URL with a
    path is as it is.
    """
    scheme, separator, rest = text.strip().rpartition("://")
    authority, slash, path = rest.partition("/")
    if not authority or (slash and path):
        return text
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, port = authority, "" if separator else "11434"
    loopback = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104 - never bound here, only replaced
    host = loopback.get(host, host)
    return f"{scheme or 'http'}://{host}{':' if port else ''}{port}/api"


def read_tags(server: OllamaServer, url: str, context: Context) -> dict[str, Tag]:
    """Read the installed models by their canonical names, and leave them for later checks of the same server."""
    try:
        tags = server.tags(context.budget)
    except TalkError as error:
        raise unusable(error, "Ollama /tags") from error
    installed = {canonical(tag.name): tag for tag in tags}
    context.known[_key(url)] = installed
    return installed


def known_tags(url: str, context: Context) -> dict[str, Tag] | None:
    """Return the installed models as an earlier check of this run has read them."""
    found: dict[str, Tag] | None = context.known.get(_key(url))
    return found


def unusable(error: TalkError, subject: str) -> NotReadyError:
    """Make the error that ends a check because a read of Ollama had no usable answer."""
    wrong = isinstance(error, AnswerError) and not isinstance(error, StatusError)
    return not_ready_for(error, subject, code="ollama.inventory" if wrong else None)


def refuse_missing(names: Iterable[str], installed: Mapping[str, Tag]) -> None:
    """End a check where a model is not installed, or runs somewhere else."""
    names = list(names)
    missing = [name for name in names if canonical(name) not in installed]
    if missing:
        tags = list(installed.values())
        there = ", ".join(named(tag.name, 80) for tag in tags[:8]) or "none"
        raise not_ready(
            "ollama.not-pulled",
            f"Ollama has not pulled {', '.join(missing)}",
            evidence=f"installed are {there}{' and more' if len(tags) > 8 else ''}",
        )
    for name in names:
        remote = installed[canonical(name)].remote_host
        if remote is not None:
            raise not_ready(
                "ollama.cloud-model", f"{name} is a cloud model: it runs on {named(remote, 80)}, not on this GPU"
            )


def _key(url: str) -> str:
    return f"tags of {url.rstrip('/')}"


__all__ = ["api_url", "known_tags", "read_tags", "refuse_missing", "unusable"]
