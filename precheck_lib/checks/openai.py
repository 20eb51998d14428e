"""`openai`: a server that speaks OpenAI's API lists the models, and its engine makes a token.

It asks the server to compute and changes nothing; a server that loads models on demand (LM Studio, LocalAI, Ollama)
loads the model for it as for any client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import literal, refuse, refuse_options
from precheck_lib.checks.serving import note_process
from precheck_lib.checks.web import url_problems, value_problem, without_query
from precheck_lib.errors import AnswerError, DeadlineError, StatusError, TalkError
from precheck_lib.findings import NotReadyError, make, not_ready, not_ready_for
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.redact import without_credentials
from precheck_lib.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem
    from precheck_lib.servers.openai import Listed, OpenAiServer

_LIST_SECONDS = 10.0
_MOST_NAMED = 8


class OpenAiOptions(Options, frozen=True, kw_only=True):
    """Where the server is, which models it has to list, and whether it has to make a token."""

    url: Annotated[
        str,
        Meta(
            description="The base URL that clients are given; it usually ends in `/v1` (a slash after it is the same)."
        ),
    ]
    api_key: Annotated[
        str, Meta(description="The key, such as `${OPENAI_API_KEY}`; sent as a Bearer token, hidden.")
    ] = ""
    models: Annotated[
        list[str],
        Meta(
            description="Names of models that have to be listed; each has to make a token, in this order. `${NAME}` "
            "may hold several with commas between them, `${NAME:-}` none."
        ),
    ] = msgspec.field(default_factory=list)
    completion: Annotated[
        bool,
        Meta(
            description="Have one token made by each of `models` (of the first that is listed, where none are named): "
            "a server whose engine is dead still lists its models."
        ),
    ] = True
    total: Annotated[
        Seconds, Meta(description="How long one token may take; where a model is loaded on demand, that too.")
    ] = Seconds(60)
    connect: Annotated[Seconds, Meta(description="How long connecting may take.")] = Seconds(2)
    max_bytes: Annotated[Bytes, Meta(description="The most bytes that the body of an answer may have.")] = Bytes(
        2 << 20
    )

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        if (url := literal(self.url)) is not None:
            for text in url_problems(url.rstrip("/")):
                yield ("url",), f"url: {text}"


def run(options: OpenAiOptions, context: Context) -> list[Finding]:
    """Read the list of models, then have a token made by each that counts."""
    from precheck_lib.servers.http_server import Bounds
    from precheck_lib.servers.openai import OpenAiServer, completes_text

    refuse_options(options)
    url = context.text(options.url).rstrip("/")
    refuse([f"url: {text}" for text in url_problems(url)])
    key = _key(options, context)
    names = [name for written in options.models for name in _named(written, context)]
    total = min(_LIST_SECONDS, context.budget.asked)
    server = OpenAiServer(
        url,
        api_key=key,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=total, max_bytes=options.max_bytes),
    )
    try:
        listed = server.models(context.budget)
    except TalkError as error:
        raise _ended(error, f"{url}/models", key=key, code="openai.answer") from error
    _judge(listed, names, url)
    if options.completion:
        for name in names or [completes_text(listed).id]:
            _complete(server, name, url, options, context, key=key)
    note_process(context, url)
    return []


def _key(options: OpenAiOptions, context: Context) -> str:
    key = context.text(options.api_key)
    context.hide(key)
    text = value_problem(key) or ("" if key.isascii() else "it holds characters that no key has")
    if text:
        raise not_ready("roles.malformed", f"the api_key cannot be sent: {text}")
    return key


def _named(written: str, context: Context) -> list[str]:
    """Return the names that one of `models` stands for: one, or those that a variable holds."""
    name = context.text(written)
    if "${" not in written:
        return [name]
    return [one.strip() for one in name.split(",") if one.strip()]


def _judge(listed: list[Listed], names: list[str], url: str) -> None:
    from precheck_lib.servers.words import named

    if not listed:
        raise not_ready("openai.model-missing", f"{url}/models: the server lists no model")
    missing = [name for name in names if not any(one.is_named(name) for one in listed)]
    if missing:
        there = ", ".join(named(one.id, 80) for one in listed[:_MOST_NAMED])
        more = len(listed) - _MOST_NAMED
        raise not_ready(
            "openai.model-missing",
            f"{url}/models: the server does not list {', '.join(missing)}",
            evidence=f"it lists {there}" + (f" and {more} more" if more > 0 else ""),
        )


def _complete(server: OpenAiServer, name: str, url: str, options: OpenAiOptions, context: Context, *, key: str) -> None:
    from precheck_lib.servers.words import named

    shown = named(name, 80)
    context.phase(f"one token of {shown}", options.total)
    try:
        server.complete(name, context.budget, options.total)
    except TalkError as error:
        raise _ended(error, f"{url}: one token of {shown}", key=key, code="openai.completion") from error


def _ended(error: TalkError, subject: str, *, key: str, code: str) -> NotReadyError:
    """Make the end of a check from what kept a request from its answer; `code` is for an answer that is wrong."""
    from precheck_lib.servers.openai import RefusedError

    ended = not_ready_for(error, subject)
    message, computes = ended.findings[0].message, code == "openai.completion"
    if isinstance(error, RefusedError) and error.reason == "unauthorized":
        sent = "an api_key was sent" if key else "no api_key was sent"
        finding = make("openai.unauthorized", message, evidence=sent)
    elif isinstance(error, RefusedError) and error.reason == "loading":
        finding = make("openai.loading", message)
    elif isinstance(error, RefusedError) and error.reason == "model":
        finding = make("openai.model-missing", message, evidence="it was listed a moment ago" if computes else "")
    elif isinstance(error, RefusedError) and error.reason in ("route", "no-chat"):
        finding = _no_route(message, computes=computes)
    elif isinstance(error, DeadlineError) and computes and error.phase in ("head", "body"):
        listed = "it lists its models: its front is there, and no token came"
        finding = make("openai.completion-deadline", message, evidence=listed)
    elif isinstance(error, AnswerError):
        broken = isinstance(error, StatusError) and computes and error.status >= 500
        evidence = "it lists its models: its front is there, its engine is not" if broken else ""
        finding = make("openai.completion" if computes else "openai.answer", message, evidence=evidence)
    else:
        return ended
    return NotReadyError([finding], word=ended.word, curl=ended.curl)


def _no_route(message: str, *, computes: bool) -> Finding:
    if computes:
        return make(
            "openai.no-completions", message, evidence="neither /chat/completions nor /completions is there for it"
        )
    return make("openai.answer", message, evidence="the base URL has to be given, which usually ends in /v1")


def plan(options: OpenAiOptions) -> list[Deed]:
    """Say what would be done."""
    url = without_query(without_credentials(options.url.rstrip("/")))
    wanted = f"; it must list {', '.join(options.models)}" if options.models else "; it must list a model"
    deeds = [Deed(f"GET {url}/models{wanted}")]
    if options.completion:
        whom = ", ".join(options.models) or "the first model that is listed"
        deeds.append(
            Deed(f"POST {url}/chat/completions: one token of {whom} (the server computes; nothing is changed)")
        )
    return deeds


def _seconds(options: OpenAiOptions, _: int) -> float:
    return _LIST_SECONDS + (options.total * max(1, len(options.models)) if options.completion else 0.0)


KIND = Kind(
    name="openai",
    options=OpenAiOptions,
    run=run,
    plan=plan,
    seconds=_seconds,
    imports=("precheck_lib.servers.openai",),
)
