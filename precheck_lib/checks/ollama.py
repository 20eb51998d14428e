"""`ollama`: the models that the tests use are installed, and run on this machine."""

from __future__ import annotations

from typing import Any

from precheck_lib.checks.kind import Context, Deed, Kind, Options, ollama_models
from precheck_lib.errors import AnswerError, StatusError, TalkError
from precheck_lib.findings import not_ready, not_ready_for
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes, Seconds


class OllamaOptions(Options, frozen=True, kw_only=True):
    """`url` ends in `/api`; `models` is a list of names or the `models` object of an OpenCode configuration."""

    url: str
    models: Any
    connect: Seconds = Seconds(2)
    max_bytes: Bytes = Bytes(2 << 20)


def run(options: OllamaOptions, context: Context) -> list[Finding]:
    """Read `/tags`, and leave it for the residency check of the same server."""
    from precheck_lib.servers.http_server import Bounds, named
    from precheck_lib.servers.names import canonical
    from precheck_lib.servers.ollama import OllamaServer

    url = context.text(options.url)
    names = ollama_models(context.expand(options.models))
    server = OllamaServer(
        url,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=context.budget.asked, max_bytes=options.max_bytes),
    )
    try:
        tags = server.tags(context.budget)
    except TalkError as error:
        wrong = isinstance(error, AnswerError) and not isinstance(error, StatusError)
        raise not_ready_for(error, "Ollama /tags", code="ollama.inventory" if wrong else None) from error
    installed = {canonical(tag.name): tag for tag in tags}
    context.known[f"tags of {url.rstrip('/')}"] = installed
    missing = [name for name in names.values() if canonical(name) not in installed]
    if missing:
        there = ", ".join(named(tag.name, 80) for tag in tags[:8]) or "none"
        raise not_ready(
            "ollama.not-pulled",
            f"Ollama has not pulled {', '.join(missing)}",
            evidence=f"installed are {there}{' and more' if len(tags) > 8 else ''}",
        )
    for name in names.values():
        remote = installed[canonical(name)].remote_host
        if remote is not None:
            raise not_ready(
                "ollama.cloud-model", f"{name} is a cloud model: it runs on {named(remote, 80)}, not on this GPU"
            )
    return []


def plan(options: OllamaOptions) -> list[Deed]:
    """Say what would be done."""
    return [Deed(f"GET {options.url}/tags; it must list each model of {options.models}")]


KIND = Kind(name="ollama", options=OllamaOptions, run=run, plan=plan, imports=("precheck_lib.servers.ollama",))
