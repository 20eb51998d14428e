"""`tcp`: a server takes a TCP connection."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.serving import note_process
from precheck_lib.errors import DeadlineError, TransportError
from precheck_lib.findings import not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature

_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}


class TcpOptions(Options, frozen=True, kw_only=True):
    """Where to connect; the check's `budget` covers name resolution too."""

    url: Annotated[
        str,
        Meta(
            description="A URL whose host and port are connected to, such as `ws://127.0.0.1:4500`; without a port "
            "that of its scheme (`http`, `ws`: 80, `https`, `wss`: 443)."
        ),
    ]


def run(options: TcpOptions, context: Context) -> list[Finding]:
    """Connect and close in an orderly way (FIN, not RST)."""
    from urllib.parse import urlsplit

    from precheck_lib.bounded import net

    parts = urlsplit(context.text(options.url))
    host = parts.hostname or ""
    port = parts.port or _PORTS.get(parts.scheme, 0)
    try:
        sock = net.connect(host, port, context.budget)
    except DeadlineError as error:
        raise not_ready(
            "tcp.deadline",
            f"TCP readiness deadline elapsed: {host} port {port} within {error.seconds:g} s",
            evidence="the name was not resolved" if error.phase == "resolve" else "nothing answered the connection",
            word="error",
            curl=error.curl,
        ) from error
    except TransportError as error:
        raise not_ready(
            "tcp.failed", f"TCP readiness connection failed: {error}", word="error", curl=error.curl
        ) from error
    net.close_orderly(sock)
    note_process(context, context.text(options.url))
    return []


def plan(options: TcpOptions) -> list[Deed]:
    """Say what would be done."""
    return [Deed(f"connect to the host and port of {options.url}, and close")]


KIND = Kind(
    name="tcp",
    options=TcpOptions,
    run=run,
    plan=plan,
    seconds=lambda _, __: 2.0,
    imports=("precheck_lib.bounded.net",),
)
