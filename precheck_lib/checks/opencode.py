"""`opencode`: bounded reads of an OpenCode Server, and what their answers have to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import refuse_options
from precheck_lib.checks.serving import note_process, place_of
from precheck_lib.errors import AnswerError, StatusError, TalkError
from precheck_lib.findings import NotReadyError, make, not_ready, not_ready_for
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.redact import basic_token
from precheck_lib.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from precheck_lib.checks.kind import OptionProblem
    from precheck_lib.servers.opencode import OpenCodeServer

SUBJECT = "OpenCode Server"
_READ_SECONDS = 10.0
_PATHS = {
    "health": "/global/health",
    "capabilities": "/experimental/capabilities",
    "config": "/config",
    "providers": "/config/providers",
}


class OpenCodeOptions(Options, frozen=True, kw_only=True):
    """What is asked of the server at `url`, each read on a connection of its own, and what its answers have to say.

    With `read` it is that one read. Without it, it is health, and with `instance: true` all reads in their order, those
    of the configuration and the providers where there is something to compare them with.
    """

    url: Annotated[str, Meta(description="The OpenCode Server's URL.")]
    read: Annotated[
        Literal["health", "capabilities", "config", "providers"] | None,
        Meta(description="One read alone; without it health is read, and with `instance: true` all of them."),
    ] = None
    instance: Annotated[
        bool | None,
        Meta(
            description="Whether reads may be made that have the server make its instance: all but health. It installs "
            "a plugin then, which stalls on a machine without internet."
        ),
    ] = None
    username: Annotated[str, Meta(description="The user of Basic authentication; none where both are empty.")] = ""
    password: Annotated[str, Meta(description="The password of Basic authentication, hidden.")] = ""
    version: Annotated[str | None, Meta(description="The version that the running server has to be, exactly.")] = None
    background_subagents: Annotated[bool, Meta(description="What `backgroundSubagents` has to be.")] = False
    config: Annotated[
        Any, Meta(description="The configuration that the server has to run with: `model` and `provider.ollama` of it.")
    ] = None
    models: Annotated[
        Any,
        Meta(description="The models that the provider `ollama` has to offer: a list of keys, or a mapping of them."),
    ] = None
    connect: Annotated[Seconds, Meta(description="How long connecting may take.")] = Seconds(2)
    max_bytes: Annotated[Bytes, Meta(description="The most bytes that the body of an answer may have.")] = Bytes(
        2 << 20
    )

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        if self.read not in (None, "health") and self.instance is False:
            yield ("read",), f"read: {self.read} has the server make its instance, and `instance` is false"
        if self.read is None and not self.instance:
            for key in ("config", "models"):
                # What is compared only where a read is made must not go by in silence.
                if getattr(self, key) is not None:
                    yield (key,), f"{key}: it is compared only with `instance: true`"


def run(options: OpenCodeOptions, context: Context) -> list[Finding]:
    """Make the reads and judge their answers; the first that is wrong ends the check."""
    from precheck_lib.servers.http_server import Bounds
    from precheck_lib.servers.opencode import OpenCodeServer

    refuse_options(options)
    username, password = context.text(options.username), context.text(options.password)
    if username or password:
        context.hide(basic_token(username, password))
    reads = _reads(options)
    asked = context.budget.asked
    # One that hangs must leave the others their time.
    total = asked if len(reads) == 1 else min(asked, _READ_SECONDS)
    server = OpenCodeServer(
        context.text(options.url),
        credentials=(username, password) if username or password else None,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=total, max_bytes=options.max_bytes),
    )
    warnings: list[Finding] = []
    for read in reads:
        warnings += _read(read, options, context, server)
    return warnings


def _reads(options: OpenCodeOptions) -> list[str]:
    if options.read is not None:
        return [options.read]
    if not options.instance:
        return ["health"]
    given = {"config": options.config, "providers": options.models}
    return [read for read in _PATHS if read not in given or given[read] is not None]


def _read(read: str, options: OpenCodeOptions, context: Context, server: OpenCodeServer) -> list[Finding]:
    subject = f"{SUBJECT} {_PATHS[read]}"
    try:
        return _READS[read](options, context, server)
    except StatusError as error:
        ended = not_ready_for(error, subject, code=_code(error))
        if error.status in (401, 403):
            username = context.text(options.username)
            sent = (
                f"credentials were sent for the user {username!r}"
                if context.text(options.password)
                else "no credentials were sent"
            )
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
    from precheck_lib.servers.words import plain

    health = server.health(context.budget)
    if not health.healthy:
        raise not_ready("opencode.unhealthy", f"{SUBJECT} does not say `healthy: true`")
    pinned = context.text(options.version) if options.version is not None else None
    url = context.text(options.url)
    context.saw(f"{SUBJECT} at {place_of(url)}", "version", plain(health.version), pinned)
    note_process(context, url)
    if pinned is not None and health.version != pinned:
        raise not_ready(
            "opencode.version",
            f"the running {SUBJECT} is {plain(health.version) or 'of no version'}, pinned is {pinned}",
            evidence="it is the running server that is off the pin, not the command on PATH",
        )
    return []


def _capabilities(options: OpenCodeOptions, context: Context, server: OpenCodeServer) -> list[Finding]:
    from precheck_lib.servers.words import short

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
    from precheck_lib.servers.words import short

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
    deeds = []
    for read in _reads(options):
        makes = read != "health" and (options.read is not None or read == "capabilities")
        first = " (the first such read makes the server's instance)" if makes else ""
        deeds.append(Deed(f"GET {options.url}{_PATHS[read]}{first}"))
    return deeds


KIND = Kind(
    name="opencode",
    options=OpenCodeOptions,
    run=run,
    plan=plan,
    seconds=lambda options, _: _READ_SECONDS * len(_reads(options)),
    imports=("precheck_lib.servers.opencode",),
)
