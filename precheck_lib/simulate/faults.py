"""The catalogue of named faults: what each stand-in can be told to do wrong, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from precheck_lib.simulate.hostile.tables import HOSTILE
from precheck_lib.simulate.openai_faults import OPENAI
from precheck_lib.simulate.options import meant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.simulate.hostile.fault import Layer

Server = Literal["codex", "opencode", "ollama", "openai"]


@dataclass(frozen=True)
class Fault:
    """One named fault of one server: `where` is the step it acts in, `options` its parameters with defaults.

    Options that several have: `at` is the one step it acts in (an OpenCode path, a JSON-RPC method, for Ollama
    `tags`, `ps`, `load`, `unload` or `version`, for OpenAI's API `models`, `chat` or `completions`, all in
    `options.STEPS`; `None` is every step), `skip` lets so many pass first, `times` is how often it then acts (`None`:
    always), `model` is the one model it concerns (`None`: all), `after` is the last thing asked of `/api/generate`
    (`unload`, `load`, or `always`). Times are in seconds.
    """

    name: str
    server: Server
    description: str
    where: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


_COUNTED: dict[str, Any] = {"skip": 0, "times": None}
_STEP: dict[str, Any] = {"at": None, **_COUNTED}
_MODEL: dict[str, Any] = {"model": None}
_READS: dict[str, Any] = {"after": "unload", **_COUNTED}


def _http(server: Server) -> tuple[Fault, ...]:
    """Give the faults of any HTTP server."""
    rows: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("refuse", "The port is bound and nobody listens on it.", "connect", {}),
        ("silence", "The request is read and never answered.", "every answer", _STEP),
        ("drip", "The right answer comes one byte at a time.", "every answer", {**_STEP, "every": 1.0}),
        ("empty-reply", "The connection is closed in order without an answer.", "every answer", _STEP),
        ("reset", "The connection is reset without an answer.", "every answer", _STEP),
        ("cut-short", "The body ends before its Content-Length.", "every answer", _STEP),
        ("huge", "The body is a JSON object of more than 2 MiB.", "every answer", {**_STEP, "size": 3 << 20}),
        (
            "not-json",
            "The body says application/json and is none.",
            "every answer",
            {**_STEP, "body": "{not json"},
        ),
        ("redirect", "A 302 points somewhere else.", "every answer", {**_STEP, "location": "/elsewhere"}),
        (
            "status",
            "The answer is an HTTP error as a proxy or a broken server gives it.",
            "every answer",
            {**_STEP, "status": 503, "type": "text/html", "body": "<p><b>Connection failed.</b></p>"},
        ),
    )
    return tuple(Fault(name, server, text, where, options) for name, text, where, options in rows)


def _of(server: Server, *rows: tuple[str, str, str, dict[str, Any]]) -> tuple[Fault, ...]:
    return tuple(Fault(name, server, text, where, options) for name, text, where, options in rows)


_CODEX = _of(
    "codex",
    ("refuse", "The port is bound and nobody listens on it.", "connect", {}),
    ("accept-and-silence", "Connections are accepted and nothing is ever said.", "connect", {}),
    ("handshake-drip", "The 101 answer comes one byte at a time.", "handshake", {"every": 1.0}),
    ("handshake-403", "The upgrade is refused with 403 whatever its headers.", "handshake", {}),
    ("handshake-bad-accept", "The 101 answer has a wrong Sec-WebSocket-Accept.", "handshake", {}),
    ("handshake-200", "A web page answers in place of the upgrade.", "handshake", {}),
    ("wrong-version", "The user agent names another release.", "initialize", {"version": "0.170.2"}),
    ("foreign-home", "The server works in another home.", "initialize", {"home": "/srv/other/codex-home"}),
    ("no-account", "No account is there though one is required.", "account/read", {}),
    ("mcp-configured", "MCP servers are configured.", "mcpServerStatus/list", {"names": ("alpha", "off")}),
    ("mcp-hangs", "The MCP list is never answered.", "mcpServerStatus/list", {}),
    (
        "frame-drip",
        "An answer's frame comes one byte at a time.",
        "account/read",
        {"every": 1.0, "at": "account/read"},
    ),
    (
        "frame-huge",
        "An answer is a frame of more than 2 MiB.",
        "account/read",
        {"at": "account/read", "size": 3 << 20},
    ),
    ("frame-not-json", "An answer's frame is not JSON.", "account/read", {"at": "account/read"}),
    (
        "ping-flood",
        "The server pings without end and answers nothing.",
        "after the handshake",
        {"every": 0.02},
    ),
    ("notification-flood", "Notifications come without end and no answer.", "account/read", {"every": 0.02}),
    ("never-answers-initialize", "A call of initialize gets no answer.", "initialize", {}),
    ("never-answers-account", "A call of account/read gets no answer.", "account/read", {}),
    (
        "closes-mid-exchange",
        "TCP is dropped without a close frame.",
        "account/read",
        {"at": "account/read", "reset": False},
    ),
    (
        "out-of-order",
        "Answers change places; notifications, a server's request, a stranger's answer come between.",
        "account/read",
        {"pause": 0.05},
    ),
    (
        "error-answer",
        "A call is answered with an error.",
        "account/read",
        {
            "at": "account/read",
            "message": "plan type is required for chatgpt authentication",
            "code": -32600,
            **_COUNTED,
        },
    ),
)

_OPENCODE = (
    *_http("opencode"),
    *_of(
        "opencode",
        ("unhealthy", "The server says that it is not healthy.", "/global/health", {}),
        ("wrong-version", "The server is another release.", "/global/health", {"version": "1.18.20"}),
        ("html-200", "The web page answers for every path.", "every answer", _STEP),
        ("unauthorized", "Every request is 401 whatever its credentials.", "every answer", _STEP),
        ("subagents-on", "Background subagents are on.", "/experimental/capabilities", {}),
        (
            "config-400",
            "The configuration is refused, and the message echoes it with its keys.",
            "capabilities, config and providers",
            {"kind": "ConfigInvalidError"},
        ),
        ("config-other-model", "Another model is configured.", "/config", {"model": "ollama/other:1b"}),
        ("config-missing-model", "A configured model is not there.", "/config, /config/providers", _MODEL),
        (
            "config-leaf-differs",
            "One value under provider.ollama differs.",
            "/config",
            {"path": ("options", "baseURL"), "value": "http://127.0.0.1:9/v1"},
        ),
        ("provider-not-connected", "The provider ollama is not among the connected ones.", "/config/providers", {}),
        (
            "provider-missing-model",
            "The provider ollama does not offer a configured model.",
            "/config/providers",
            _MODEL,
        ),
    ),
)

_OLLAMA = (
    *_http("ollama"),
    *_of(
        "ollama",
        ("not-pulled", "A model is not on the disk.", "tags, unload, load", _MODEL),
        ("cloud-model", "A model is a stub of a remote one.", "tags, unload, load", _MODEL),
        ("unload-500", "An unload fails.", "unload", {**_MODEL, **_COUNTED}),
        ("unload-404", "An unload is told that there is no such model.", "unload", {**_MODEL, **_COUNTED}),
        ("never-leaves", "A resident model stays listed after its unload.", "ps after unload", _MODEL),
        ("leaves-slowly", "A resident model stays a while.", "ps after unload", {**_MODEL, "seconds": 1.0}),
        ("ps-500-empty", "The first reads are 500 without a body.", "ps", {**_READS, "times": 2}),
        ("ps-500-with-body", "Reads are 500 with a body.", "ps", _READS),
        ("ps-hangs-once", "The first read is never answered.", "ps", {**_READS, "times": 1}),
        (
            "ps-invalid",
            "The inventory is none; see `INVALID_INVENTORIES`.",
            "ps",
            {**_READS, "shape": "models-null"},
        ),
        ("too-old", "An unload loads, as it did before release 0.3.11.", "unload", _MODEL),
        ("load-500", "A load fails.", "load", {**_MODEL, **_COUNTED}),
        ("load-error-200", "A load is answered 200 with an error.", "load", {**_MODEL, **_COUNTED}),
        ("load-hangs", "A load is never answered and never ends.", "load", {**_MODEL, **_COUNTED}),
        (
            "load-drops-connection",
            "The connection is dropped during a load, which is aborted.",
            "load",
            {**_MODEL, **_COUNTED, "reset": False},
        ),
        (
            "comes-back-late",
            "A load gets no answer, its unload finds nothing, and the model appears a while after that.",
            "ps after the unload of a failed load",
            {**_MODEL, "seconds": 0.3, "answer": "drop"},
        ),
        (
            "partly-on-cpu",
            "The row has less in VRAM than its size.",
            "ps after load",
            {**_MODEL, "percent": 77},
        ),
        ("on-cpu", "The row has nothing in VRAM.", "ps after load", _MODEL),
        (
            "short-context",
            "The row has a short context.",
            "ps after load",
            {**_MODEL, "context_length": 4096},
        ),
        ("missing-size-vram", "The row has no size_vram.", "ps after load", _MODEL),
        ("missing-size", "The row has no size.", "ps after load", _MODEL),
        ("missing-context", "The row has no context_length.", "ps after load", _MODEL),
        ("bool-context", "The row's context_length is true.", "ps after load", _MODEL),
        ("size-as-string", "The row's sizes are strings.", "ps after load", _MODEL),
        ("size-as-float", "The row's sizes are floats.", "ps after load", _MODEL),
        ("no-row", "A loaded model is not listed.", "ps after load", _MODEL),
        ("two-rows", "A loaded model is listed twice.", "ps after load", _MODEL),
        (
            "alias-row",
            "A loaded model is listed under another tag.",
            "ps after load",
            {**_MODEL, "alias": "alias:latest"},
        ),
        (
            "evicted-after-load",
            "A loaded model is gone after its first reads.",
            "ps after load",
            {**_MODEL, "reads": 1},
        ),
    ),
)

FAULTS: tuple[Fault, ...] = (*_CODEX, *_OPENCODE, *_OLLAMA)
"""Every fault, by server and in the order of a run."""

INVALID_INVENTORIES: dict[str, str] = {
    "models-null": '{"models":null}',
    "models-object": '{"models":{}}',
    "models-string": '{"models":"none"}',
    "no-models": "{}",
    "body-list": "[]",
    "body-null": "null",
    "row-null": '{"models":[null]}',
    "row-string": '{"models":["llama3.2:latest"]}',
    "row-without-name": '{"models":[{"model":"llama3.2:latest","size":1,"size_vram":1}]}',
    "name-null": '{"models":[{"name":null,"size":1}]}',
    "name-number": '{"models":[{"name":5,"size":1}]}',
    "empty-name": '{"models":[{"name":"","size":1}]}',
    "blank-name": '{"models":[{"name":" \\t","size":1}]}',
    "not-json": '{"models":[',
    "empty-body": "",
}
"""Bodies of `/api/ps` that are no inventory, for the option `shape` of `ps-invalid` (any text will do)."""


_LAYERS: dict[Layer, tuple[tuple[Server, ...], str]] = {
    "http": (("opencode", "ollama"), "every answer"),
    "json": (("opencode", "ollama"), "every answer"),
    "handshake": (("codex",), "handshake"),
    "frame": (("codex",), "every answer"),
    "message": (("codex",), "every answer"),
}

HOSTILE_FAULTS: tuple[Fault, ...] = tuple(
    Fault(fault.name, server, fault.description, _LAYERS[fault.layer][1], {**_STEP, "every": 1.0})
    for fault in HOSTILE
    if fault.layer in _LAYERS
    for server in _LAYERS[fault.layer][0]
)
"""What any server can do to its clients, done by a stand-in to its right answers (see `HostileServer`)."""

OPENAI_FAULTS: tuple[Fault, ...] = (
    *_http("openai"),
    *_of("openai", *OPENAI),
    *(
        Fault(fault.name, "openai", fault.description, "every answer", {**_STEP, "every": 1.0})
        for fault in HOSTILE
        if fault.layer in ("http", "json")
    ),
)
"""Every fault of the stand-in of OpenAI's API, which is no part of a strict run; its hostile ones too."""


def fault_named(server: str, name: str) -> Fault:
    """Look a fault up by its server and name; `ValueError` says what may have been meant."""
    every = (*FAULTS, *HOSTILE_FAULTS, *OPENAI_FAULTS)
    known = {fault.name: fault for fault in every if fault.server == server}
    if not known:
        servers = tuple(dict.fromkeys(fault.server for fault in every))
        raise ValueError(f"there is no server {server}; there are {', '.join(servers)}{meant(server, servers)}")
    if name in known:
        return known[name]
    others = " and ".join(dict.fromkeys(fault.server for fault in every if fault.name == name))
    if others:
        raise ValueError(f"{server} has no fault {name!r}, but {others} can do it")
    if any(fault.name == name for fault in HOSTILE):
        raise ValueError(f"{server} has no fault {name!r}: it is one of HostileServer (--hostile {name})")
    raise ValueError(f"{server} has no fault {name!r}{meant(name, known) or _all_of(server)}")


def _all_of(server: str) -> str:
    return f"; `python -m precheck_lib.simulate --list {server}` lists what it has"
