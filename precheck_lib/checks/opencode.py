"""`opencode`: one bounded read of an OpenCode Server, and what its answer has to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.errors import AnswerError, StatusError, TalkError
from precheck_lib.findings import NotReadyError, make, not_ready, not_ready_for
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.redact import basic_token
from precheck_lib.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.servers.opencode import OpenCodeServer

SUBJECT = "OpenCode Server"
_PATHS = {
    "health": "/global/health",
    "capabilities": "/experimental/capabilities",
    "config": "/config",
    "providers": "/config/providers",
}


class OpenCodeOptions(Options, frozen=True, kw_only=True):
    """`read` is what is asked of the server at `url`; each read has its own connection.

    `health` wants healthy and the pinned `version`. `capabilities` wants `backgroundSubagents` to be
    `background_subagents`. `config` compares the server's configuration with `config`. `providers` wants the provider
    `ollama` to offer the `models`. All but `health` make the server's instance the first time. `username` and
    `password` are for Basic authentication; both empty is none.
    """

    url: str
    read: Literal["health", "capabilities", "config", "providers"]
    username: str = ""
    password: str = ""
    version: str | None = None
    background_subagents: bool = False
    config: Any = None
    models: Any = None
    connect: Seconds = Seconds(2)
    max_bytes: Bytes = Bytes(2 << 20)


def run(options: OpenCodeOptions, context: Context) -> list[Finding]:
    """Make the read and judge its answer."""
    from precheck_lib.servers.http_server import Bounds
    from precheck_lib.servers.opencode import OpenCodeServer

    username, password = context.text(options.username), context.text(options.password)
    if username or password:
        context.hide(basic_token(username, password))
    server = OpenCodeServer(
        context.text(options.url),
        credentials=(username, password) if username or password else None,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=context.budget.asked, max_bytes=options.max_bytes),
    )
    subject = f"{SUBJECT} {_PATHS[options.read]}"
    try:
        return _READS[options.read](options, context, server)
    except StatusError as error:
        ended = not_ready_for(error, subject, code=_code(error))
        if error.status in (401, 403):
            sent = f"credentials were sent for the user {username!r}" if password else "no credentials were sent"
            first = make("opencode.unauthorized", ended.findings[0].message, evidence=sent)
            ended = NotReadyError([first], word=ended.word, curl=ended.curl)
        raise ended from error
    except TalkError as error:
        raise not_ready_for(error, subject, code=_code(error)) from error


def _code(error: TalkError) -> str | None:
    if isinstance(error, StatusError):
        if error.status in (401, 403):
            return "opencode.unauthorized"
        return "opencode.config-error" if getattr(error, "name", None) is not None else None
    return "opencode.unhealthy" if isinstance(error, AnswerError) else None


def _health(options: OpenCodeOptions, context: Context, server: OpenCodeServer) -> list[Finding]:
    from precheck_lib.servers.http_server import plain

    health = server.health(context.budget)
    if not health.healthy:
        raise not_ready("opencode.unhealthy", f"{SUBJECT} does not say `healthy: true`")
    pinned = context.text(options.version) if options.version is not None else None
    if pinned is not None and health.version != pinned:
        raise not_ready(
            "opencode.version",
            f"the running {SUBJECT} is {plain(health.version) or 'of no version'}, pinned is {pinned}",
            evidence="it is the running server that is off the pin, not the command on PATH",
        )
    return []


def _capabilities(options: OpenCodeOptions, context: Context, server: OpenCodeServer) -> list[Finding]:
    from precheck_lib.servers.http_server import short

    found = server.background_subagents(context.budget)
    if found is not options.background_subagents:
        wanted = str(options.background_subagents).lower()
        shown = str(found).lower() if isinstance(found, bool) else short(found)
        raise not_ready("opencode.subagents", f"{SUBJECT}: backgroundSubagents is {shown}, not {wanted}")
    return []


def _config(options: OpenCodeOptions, context: Context, server: OpenCodeServer) -> list[Finding]:
    expected = context.expand(options.config)
    if not isinstance(expected, dict):
        raise not_ready("roles.malformed", "the configuration to compare with is not a JSON object")
    found = server.compare_config(expected, context.budget)
    wrong: list[Finding] = []
    if found.model_differs:
        wrong.append(make("opencode.config", f"{SUBJECT} runs with another `model` than the configuration's"))
    if found.missing_models:
        names = ", ".join(map(repr, found.missing_models))
        wrong.append(make("opencode.config", f"{SUBJECT} lacks configured Ollama models: {names}"))
    if found.different:
        paths = ", ".join(found.different)
        text = f"{SUBJECT} runs with other values than the configuration's at {paths}"
        wrong.append(make("opencode.config", text, evidence="values are compared and never shown"))
    if wrong:
        raise NotReadyError(wrong)
    if found.dropped:
        text = f"{SUBJECT} does not have these keys of the configuration: {', '.join(found.dropped)}"
        return [make("opencode.config-dropped", text, severity="warning")]
    return []


def _providers(options: OpenCodeOptions, context: Context, server: OpenCodeServer) -> list[Finding]:
    from precheck_lib.servers.http_server import short

    models = context.expand(options.models)
    wanted = list(models) if isinstance(models, (dict, list)) else []
    connected = server.connected_models(context.budget)
    if "ollama" not in connected:
        there = ", ".join(short(name) for name in sorted(connected)[:8]) or "none"
        raise not_ready("opencode.provider", f"{SUBJECT} is not connected to ollama (connected: {there})")
    missing = [key for key in wanted if key not in connected["ollama"]]
    if missing:
        raise not_ready("opencode.provider", f"{SUBJECT} does not offer the Ollama models {', '.join(missing)}")
    return []


_READS: dict[str, Callable[[OpenCodeOptions, Context, OpenCodeServer], list[Finding]]] = {
    "health": _health,
    "capabilities": _capabilities,
    "config": _config,
    "providers": _providers,
}


def plan(options: OpenCodeOptions) -> list[Deed]:
    """Say what would be done."""
    first = "" if options.read == "health" else " (the first such read makes the server's instance)"
    return [Deed(f"GET {options.url}{_PATHS[options.read]}{first}")]


KIND = Kind(name="opencode", options=OpenCodeOptions, run=run, plan=plan, imports=("precheck_lib.servers.opencode",))
