"""Every client path of precheck, every fault that applies to it, and how the client has to end: the one table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from precheck_lib.bounded import net
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import (
    AnswerError,
    CertificateError,
    ConnectError,
    DeadlineError,
    EmptyReplyError,
    GarbledError,
    ReceiveError,
    ResolveError,
    SendError,
    StatusError,
    TalkError,
    TlsError,
    TooLargeError,
    TruncatedError,
)
from precheck_lib.servers.codex import CodexSession
from precheck_lib.servers.http_server import Bounds
from precheck_lib.servers.ollama import NoInventoryError, OllamaServer
from precheck_lib.servers.openai import OpenAiServer
from precheck_lib.servers.opencode import OpenCodeServer
from precheck_lib.simulate.hostile import HOSTILE, HostileServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.simulate import Seen
    from precheck_lib.simulate.hostile import Authority, HostileFault

EVERY = 0.02
"""Seconds between two bytes of what drips: often enough that a timeout for each of them would never come."""

CONFIG = {"model": "ollama/a", "provider": {"ollama": {"models": {"a": {"name": "a"}}}}}
PROVIDERS = {"providers": [{"id": "ollama", "models": {"a": {}}}]}
ROW = {"name": "a:latest", "size": 5, "size_vram": 5, "context_length": 65536}

BODIES: dict[str, Any] = {
    "/global/health": {"healthy": True, "version": "1.18.33"},
    "/experimental/capabilities": {"backgroundSubagents": False},
    "/config": CONFIG,
    "/config/providers": PROVIDERS,
    "/api/tags": {"models": [{"name": "a:latest", "size": 5}]},
    "/api/ps": {"models": [ROW]},
    "/v1/models": {"object": "list", "data": [{"id": "a", "object": "model"}]},
    "/v1/completions": {"choices": [{"text": "Hi", "finish_reason": "length"}]},
    "/v1/chat/completions": {
        "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "length"}]
    },
}

RESULTS = {
    "initialize": {"userAgent": "codex_app_server/0.171.0 (Debian; x86_64) dumb (x; 1)", "codexHome": "/home"},
    "account/read": {"account": {"type": "apiKey"}, "requiresOpenaiAuth": True},
    "mcpServerStatus/list": {"data": [], "nextCursor": None},
}


def answer(request: Seen) -> bytes:
    """Give the right body of any HTTP path."""
    if request.path == "/api/generate":
        unload = json.loads(request.body)["keep_alive"] == 0
        return json.dumps({"model": "a", "done": True, "done_reason": "unload" if unload else "load"}).encode()
    return json.dumps(BODIES[request.path]).encode()


def reply(text: str) -> str | None:
    """Give the right answer to any call over WebSocket."""
    call = json.loads(text)
    return json.dumps({"id": call["id"], "result": RESULTS[call["method"]]})


class Path(NamedTuple):
    """One way that precheck talks to a server: `call` gets its URL and a budget, and returns what it has learned."""

    name: str
    protocol: str
    call: Callable[[str, Budget], Any]
    value: Any
    after: int = 0
    secure: bool = False
    lenient: bool = False
    again: str = ""
    """The fault whose answer makes the client ask once more, on another route."""

    @property
    def label(self) -> str:
        """The name of the path, with how it is reached."""
        return f"{self.name} ({'wss' if self.secure else 'ws'})" if self.protocol == "ws" else self.http_label

    @property
    def http_label(self) -> str:
        return f"{self.name} ({'https' if self.secure else 'http'})" if self.protocol == "http" else self.name


def _tcp(url: str, budget: Budget) -> bool:
    host, _, port = url.partition("://")[2].rpartition(":")
    net.close_orderly(net.connect(host, int(port), budget))
    return True


def _codex(last: str) -> Callable[[str, Budget], Any]:
    def call(url: str, budget: Budget) -> Any:
        made = CodexSession(
            url.replace("http", "ws", 1), budget=budget, journal=Journal(), connect_seconds=budget.seconds
        )
        with made as session:
            value: Any = session.initialize().version
            if last != "initialize":
                value = session.account().present
            if last == "mcp":
                value = session.mcp_servers()
            return value

    return call


def _bounds(budget: Budget) -> Bounds:
    return Bounds(connect=budget.seconds, total=30.0)


def _opencode(ask: Callable[[OpenCodeServer, Budget], Any]) -> Callable[[str, Budget], Any]:
    def call(url: str, budget: Budget) -> Any:
        return ask(OpenCodeServer(url, credentials=("a", "b"), journal=Journal(), bounds=_bounds(budget)), budget)

    return call


def _ollama(ask: Callable[[OllamaServer, Budget], Any]) -> Callable[[str, Budget], Any]:
    def call(url: str, budget: Budget) -> Any:
        return ask(OllamaServer(url + "/api", journal=Journal(), bounds=_bounds(budget)), budget)

    return call


def _openai(ask: Callable[[OpenAiServer, Budget], Any]) -> Callable[[str, Budget], Any]:
    def call(url: str, budget: Budget) -> Any:
        return ask(OpenAiServer(url + "/v1", api_key="k", journal=Journal(), bounds=_bounds(budget)), budget)

    return call


_health = _opencode(lambda server, budget: server.health(budget).healthy)
_load = _ollama(lambda server, budget: server.load("a", "10m", budget, 30.0))
_mcp = _codex("mcp")

PATHS = (
    Path("tcp", "tcp", _tcp, True),
    Path("codex initialize", "ws", _codex("initialize"), "0.171.0"),
    Path("codex account/read", "ws", _codex("account"), True, after=1),
    Path("codex mcpServerStatus/list", "ws", _mcp, 0, after=2),
    Path("codex mcpServerStatus/list", "ws", _mcp, 0, after=2, secure=True),
    Path("opencode health", "http", _health, True),
    Path("opencode health", "http", _health, True, secure=True),
    Path("opencode capabilities", "http", _opencode(lambda server, budget: server.background_subagents(budget)), False),
    Path(
        "opencode config",
        "http",
        _opencode(lambda server, budget: server.compare_config(CONFIG, budget).model_differs),
        False,
    ),
    Path(
        "opencode providers",
        "http",
        _opencode(lambda server, budget: server.connected_models(budget)),
        {"ollama": frozenset("a")},
    ),
    Path(
        "ollama tags",
        "http",
        _ollama(lambda server, budget: [tag.name for tag in server.tags(budget)]),
        ["a:latest"],
        lenient=True,
    ),
    Path(
        "ollama ps",
        "http",
        _ollama(lambda server, budget: [row.size_vram for row in server.inventory(budget)]),
        [5],
        lenient=True,
    ),
    Path("ollama unload", "http", _ollama(lambda server, budget: server.unload("a", budget, 30.0)), None),
    Path("ollama load", "http", _load, None),
    Path("ollama load", "http", _load, None, secure=True),
    Path("openai models", "http", _openai(lambda server, budget: [one.id for one in server.models(budget)]), ["a"]),
    Path(
        "openai completion",
        "http",
        _openai(lambda server, budget: server.complete("a", budget, 30.0)),
        None,
        again="http-404",
    ),
)

APPLIES = {
    "tcp": {"name", "tcp"},
    "ws": {"name", "tcp", "handshake", "frame", "message"},
    "http": {"name", "tcp", "http", "json"},
}


def applies(fault: HostileFault, path: Path) -> bool:
    """Say whether the fault can happen to a client on this path."""
    if fault.layer in ("tls", "secure"):
        return path.secure and (fault.layer == "tls" or path.protocol == "http")
    if path.protocol == "tcp" and fault.layer == "tcp":
        return fault.listening in ("refuses", "full")  # what comes after connecting is not its business
    return fault.layer in APPLIES[path.protocol]


def pairs() -> Iterator[tuple[HostileFault, Path]]:
    """Every fault with every path that it applies to."""
    return ((fault, path) for fault in HOSTILE for path in PATHS if applies(fault, path))


class End(NamedTuple):
    """How a client has to end: the class of its error, the phase in it, curl's exit code; `None`: with the value."""

    error: type[Exception] | None
    phase: str = ""
    curl: int = 0


def _end(error: type[TalkError], phase: str = "", curl: int | None = None) -> End:
    return End(error, phase, error.curl if curl is None else curl)


PASSES = End(None)
SLOW = {phase: _end(DeadlineError, phase) for phase in ("resolve", "connect", "tls", "head", "body", "frame")}
LARGE_HEAD, LARGE_BODY, LARGE_FRAME = (_end(TooLargeError, phase) for phase in ("head", "body", "frame"))
GARBLED_HEAD, GARBLED_FRAME = _end(GarbledError, "head"), _end(GarbledError, "frame")
BROKEN_HEAD, BROKEN_BODY, BROKEN_FRAME = (_end(ReceiveError, phase) for phase in ("head", "body", "frame"))
EMPTY = _end(EmptyReplyError, "head")
CUT = _end(TruncatedError, "body")
WRONG = _end(AnswerError)
FAILED_TLS, UNTRUSTED = _end(TlsError, "tls"), _end(CertificateError, "tls")
UNRESOLVED, UNCONNECTED = _end(ResolveError, "resolve"), _end(ConnectError, "connect")


def _status(curl: int) -> End:
    return _end(StatusError, curl=curl)


def _all(end: End, *names: str) -> dict[str, End]:
    return dict.fromkeys(names, end)


ENDS: dict[str, End] = {
    **_all(SLOW["resolve"], "name-stalls"),
    **_all(UNRESOLVED, "name-unknown", "name-broken", "name-without-address"),
    **_all(SLOW["connect"], "name-all-dead", "tcp-black-hole"),
    **_all(UNCONNECTED, "name-all-refuse", "tcp-refused"),
    **_all(PASSES, "name-dead-ones-first", "name-ipv6-first", "name-doubled"),
    **_all(SLOW["head"], "tcp-never-accepted", "tcp-silence"),
    **_all(EMPTY, "tcp-fin", "tcp-fin-in-request"),
    **_all(BROKEN_HEAD, "tcp-rst", "tcp-rst-in-request"),
    **_all(GARBLED_HEAD, "tcp-other-protocol"),
    # TLS
    **_all(SLOW["tls"], "tls-stalls", "tls-drips", "tls-tiny-records"),
    **_all(FAILED_TLS, "tls-plain-http", "tls-fin", "tls-rst", "tls-alert"),
    **_all(UNTRUSTED, "tls-unknown-authority", "tls-expired", "tls-other-name"),
    **_all(BROKEN_HEAD, "tls-wants-certificate", "tls-noise"),
    **_all(CUT, "tls-end-without-alert", "tls-end-in-body"),
    # HTTP
    **_all(SLOW["head"], "http-silence", "http-drip-status", "http-drip-headers", "http-100-drip", "http-103-drip"),
    **_all(
        SLOW["body"],
        *("http-drip-body", "http-drip-open-body", "http-drip-chunks", "http-drip-chunk-size", "http-drip-trailers"),
        *("http-open-end", "http-vast-chunk"),
    ),
    **_all(LARGE_HEAD, "http-100-flood", "http-103-flood", "http-fat-headers"),
    **_all(GARBLED_HEAD, "http-header-flood", "http-vast-header", "http-vast-status-line"),
    **_all(
        LARGE_BODY,
        *("http-body-flood", "http-vast-length", "http-vast-length-silence", "http-chunk-flood", "http-endless-chunk"),
        *("http-trailer-flood", "http-redirect-flood"),
    ),
    **_all(BROKEN_BODY, "http-chunk-extension-flood", "http-chunk-size-word", "http-chunk-size-negative"),
    **_all(EMPTY, "http-empty-reply"),
    **_all(BROKEN_HEAD, "http-rst", "http-fin-in-status", "http-fin-in-head", "http-rst-in-head", "http-fin-after-103"),
    **_all(CUT, "http-fin-in-body", "http-no-body", "http-fin-in-chunk", "http-fin-between-chunks"),
    **_all(BROKEN_BODY, "http-rst-in-body", "http-rst-in-open-body", "http-rst-in-chunk"),
    **_all(
        GARBLED_HEAD,
        *("http-2-answer", "http-0.9-answer", "http-tls-alert", "http-short-status", "http-bad-header"),
        *(
            "http-length-word",
            "http-length-negative",
            "http-length-digits",
            "http-length-underscore",
            "http-two-lengths",
            "http-gzip-chunks",
        ),
    ),
    **_all(WRONG, "http-gzip-bomb", "http-gzip-twice", "http-unknown-encoding"),
    **_all(_status(1), "http-redirect", "http-redirect-elsewhere", "http-101", "http-204", "http-206"),
    **_all(_status(22), "http-401", "http-404", "http-503", "http-503-drip", "http-503-flood"),
    # JSON
    **{fault.name: WRONG for fault in HOSTILE if fault.layer in ("json", "message")},
    # WebSocket
    **_all(SLOW["head"], "ws-silence", "ws-drip-handshake", "ws-103-drip"),
    **_all(LARGE_HEAD, "ws-103-flood", "ws-header-flood", "ws-vast-header"),
    **_all(EMPTY, "ws-fin"),
    **_all(BROKEN_HEAD, "ws-rst", "ws-fin-in-head", "ws-rst-in-head"),
    **_all(
        GARBLED_HEAD,
        *("ws-other-protocol", "ws-bad-status", "ws-no-accept", "ws-wrong-accept", "ws-accept-other-case"),
        *(
            "ws-two-accepts",
            "ws-compression",
            "ws-subprotocol",
            "ws-no-upgrade-header",
            "ws-bad-header",
            "ws-header-not-utf-8",
        ),
    ),
    **_all(_status(1), "ws-200", "ws-302"),
    **_all(_status(22), "ws-403", "ws-503"),
    **_all(SLOW["frame"], "ws-pings", "ws-no-answer", "ws-drip-frame", "ws-pongs", "ws-fragments"),
    **_all(SLOW["frame"], "ws-vast-frame-silence"),
    **_all(LARGE_FRAME, "ws-vast-frame", "ws-pong-flood", "ws-fragment-flood", "ws-message-flood"),
    **_all(BROKEN_FRAME, "ws-fin-after", "ws-rst-after", "ws-fin-in-frame", "ws-rst-in-frame"),
    **_all(BROKEN_FRAME, "ws-close", "ws-close-no-code", "ws-close-then-rst"),
    **_all(
        GARBLED_FRAME,
        *("ws-close-bad-code", "ws-masked", "ws-reserved-bit", "ws-opcode", "ws-continuation", "ws-long-ping"),
        *("ws-split-ping", "ws-masked-ping", "ws-message-in-message", "ws-not-utf-8", "ws-surrogate"),
    ),
    **_all(WRONG, "ws-binary"),
}

UNDER_TLS: dict[str, End] = {
    # The TLS handshake comes first, and meets what is under it.
    **_all(SLOW["tls"], "tcp-never-accepted", "tcp-silence"),
    **_all(FAILED_TLS, "tcp-fin", "tcp-rst", "tcp-fin-in-request", "tcp-rst-in-request", "tcp-other-protocol"),
    # The certificate is not for the name.
    **_all(UNTRUSTED, "name-dead-ones-first", "name-ipv6-first", "name-doubled"),
}

ALSO: dict[str, End] = {
    # `ssl` calls a reset an end of the stream in some versions of Python.
    **_all(EMPTY, "http-rst", "ws-rst"),
    **_all(CUT, "http-rst-in-body", "http-rst-in-open-body", "http-rst-in-chunk"),
    # So many small pieces come that the time may be over before the bytes are.
    **_all(SLOW["body"], "http-chunk-flood", "http-trailer-flood"),
    **_all(SLOW["head"], "http-100-flood", "http-103-flood"),
    **_all(SLOW["frame"], "ws-message-flood", "ws-pong-flood", "ws-fragment-flood"),
    # What is reset before the request was sent may be seen by the sending or by the reading.
    **_all(_end(SendError, "send"), "tcp-rst", "tcp-rst-in-request", "tls-wants-certificate"),
    # Each ping is answered: the end may come while that is being sent.
    **_all(_end(DeadlineError, "send"), "ws-pings"),
}

AT_ONCE = UNCONNECTED
"""How `tcp-rst` may end as well: the reset came before the client had looked at its connection."""

LENIENT = {"json-vast-number", "json-5000-digits", "json-half-surrogate"}
"""What does not make a list of models invalid: a value that decides nothing (CONTRACT G3)."""


def ends_of(fault: HostileFault, path: Path) -> tuple[End, ...]:
    """Say how the client has to end; two ways only where the machine decides between them."""
    at_once = (AT_ONCE,) if fault.name == "tcp-rst" else ()
    if fault.name in ("http-chunk-flood", "http-trailer-flood"):  # on a busy machine the flood alone uses the time up
        at_once = (SLOW["head"],)
    if path.secure and fault.name in UNDER_TLS:
        return (UNDER_TLS[fault.name], *at_once)
    if path.lenient and fault.name in LENIENT:
        return (PASSES,)
    also = (ALSO[fault.name],) if fault.name in ALSO else ()
    return (ENDS[fault.name], *also, *at_once)


def serve(fault: HostileFault, path: Path, authority: Authority | None) -> HostileServer:
    """Start the server of one pair."""
    return HostileServer(
        fault.name,
        answer=answer,
        reply=reply,
        after=path.after,
        every=EVERY,
        secure=path.secure,
        authority=authority if path.secure else None,
    )


def ended(call: Callable[[], Any], path: Path) -> End | Any:
    """Make the call; returns how it ended where that was with an error of ours, else what it gave."""
    try:
        value = call()
    except (NoInventoryError, TimeoutError) as error:  # a deadline by the name that it has for this path
        return _told(error.__cause__)
    except TalkError as error:
        return _told(error)
    return PASSES if value == path.value else value


def _told(error: BaseException | None) -> End:
    if isinstance(error, DeadlineError):
        assert str(error) == f"deadline of {error.seconds:g} s elapsed"
    return End(type(error), getattr(error, "phase", ""), getattr(error, "curl", 0))  # type: ignore[arg-type]


def fits(seen: Any, wanted: tuple[End, ...]) -> bool:
    """Say whether a client ended as it has to; an error may be of a class below the one that is wanted."""
    if not isinstance(seen, End) or seen.error is None:
        return seen in wanted
    return any(end.error and issubclass(seen.error, end.error) and seen[1:] == end[1:] for end in wanted)


def is_slow(fault: HostileFault, path: Path) -> bool:
    """Say whether it is the time that ends it."""
    return ends_of(fault, path)[0].curl == 28 or fault.name in ("http-503-drip", "name-dead-ones-first")
