"""`codex`: a Codex App Server is the pinned one, has an account, the right home and no MCP servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.serving import note_process, place_of
from precheck_lib.errors import AnswerError, StatusError, TalkError
from precheck_lib.findings import not_ready, not_ready_for
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Seconds

if TYPE_CHECKING:
    from precheck_lib.servers.codex import CodexSession

SUBJECT = "Codex App Server"


class CodexOptions(Options, frozen=True, kw_only=True):
    """What a Codex App Server has to be; it is asked in one exchange within the check's budget."""

    url: Annotated[str, Meta(description="Where it listens: a ws or wss URL.")]
    version: Annotated[str | None, Meta(description="The version that the running server has to be, exactly.")] = None
    home: Annotated[str | None, Meta(description="The folder that it has to use as its home (`CODEX_HOME`).")] = None
    account: Annotated[bool, Meta(description="Whether it needs an account, where its provider asks for one.")] = True
    mcp_servers: Annotated[bool, Meta(description="Whether it may have MCP servers configured.")] = False
    client: Annotated[
        str,
        Meta(
            description="The name that precheck gives itself; any other than the default becomes the server's "
            "originator for every later client until it restarts."
        ),
    ] = "codex_app_server_daemon"
    connect: Annotated[Seconds, Meta(description="How long connecting may take.")] = Seconds(2)


def run(options: CodexOptions, context: Context) -> list[Finding]:
    """Ask `initialize`, `account/read` and `mcpServerStatus/list`, each answer judged before the next question."""
    from precheck_lib.servers.codex import CodexSession

    url = context.text(options.url)
    try:
        with CodexSession(
            url,
            budget=context.budget,
            journal=context.journal,
            connect_seconds=options.connect,
            client=context.text(options.client),
        ) as session:
            _judge(options, context, session)
        note_process(context, url)
    except TalkError as error:
        right_kind = isinstance(error, AnswerError) and not isinstance(error, StatusError)
        raise not_ready_for(error, SUBJECT, code="codex.answer" if right_kind else None) from error
    return []


def _judge(options: CodexOptions, context: Context, session: CodexSession) -> None:
    from precheck_lib.servers.words import plain, short

    identity = session.initialize()
    pinned = context.text(options.version) if options.version is not None else None
    context.saw(f"{SUBJECT} at {place_of(context.text(options.url))}", "version", plain(identity.version), pinned)
    if pinned is not None and identity.version != pinned:
        found = plain(identity.version) or f"not told in its user agent {short(identity.user_agent)}"
        raise not_ready(
            "codex.version",
            f"the running {SUBJECT} is {found}, pinned is {pinned}",
            evidence="it is the running server that is off the pin, not the command on PATH",
        )
    home = context.text(options.home) if options.home is not None else None
    if home is not None and not _same_folder(identity.home, home, context):
        raise not_ready("codex.home", f"{SUBJECT} uses the home {short(identity.home, 200)}, not {short(home, 200)}")
    account = session.account()
    if options.account and not account.present and account.required is not False:
        raise not_ready(
            "codex.account",
            f"{SUBJECT} has no account, and requiresOpenaiAuth is {short(account.required).lower()}",
            evidence=_auth_file(home, context) if home is not None else "",
        )
    if options.mcp_servers:
        return
    try:
        count = session.mcp_servers()
    except TimeoutError:
        raise not_ready(
            "codex.mcp",
            f"{SUBJECT} has MCP servers configured: it did not list them in time, so it is starting them",
        ) from None
    if count:
        raise not_ready("codex.mcp", f"{SUBJECT} has {count} MCP server{'s' if count > 1 else ''} configured, not 0")


def _same_folder(one: str, other: str, context: Context) -> bool:
    from precheck_lib.bounded.thread import call_bounded

    if one == other:
        return True

    def same() -> bool:
        try:
            return os.path.realpath(one) == os.path.realpath(other)
        except ValueError:  # a NUL in what the server calls its home
            return False

    # Following links may touch a dead mount.
    return call_bounded(same, budget=context.budget, phase="folder")


def _auth_file(home: str, context: Context) -> str:
    from precheck_lib.bounded.thread import call_bounded

    def look() -> str:
        file = os.path.join(home, "auth.json")
        if not os.path.exists(file):
            return "there is no auth.json in that home (seen from this user)"
        if not os.access(file, os.R_OK):
            return "auth.json in that home is not readable for this user"
        return "auth.json is there: the server reads it only when it starts"

    return call_bounded(look, budget=context.budget, phase="folder")


def plan(options: CodexOptions) -> list[Deed]:
    """Say what would be done."""
    asked = ["initialize"]
    if options.account:
        asked.append("account/read")
    if not options.mcp_servers:
        asked.append("mcpServerStatus/list far beyond its end, which starts none")
    return [Deed(f"WebSocket {options.url}: {', '.join(asked)}")]


KIND = Kind(name="codex", options=CodexOptions, run=run, plan=plan, imports=("precheck_lib.servers.codex",))
