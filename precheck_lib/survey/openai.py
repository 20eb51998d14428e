"""Servers with OpenAI's API among the ports that are listened on: each is asked for its list of models, once.

Only what may be HTTP is asked: some other servers take a request for an attack, or print it. No key is sent to a
server that nobody has named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.bounded.journal import Journal
from precheck_lib.servers.http_server import Bounds
from precheck_lib.survey.machine import OpenAi
from precheck_lib.survey.ollama import ASK_SECONDS
from precheck_lib.survey.together import together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.survey.machine import Port

_MOST_ASKED = 32
_MAX_BYTES = 256 << 10

_OTHERS = frozenset(
    (1433, 1521, 1883, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4222, 4369, 5037, 5353, 5432, 5671, 5672, 5900)
) | frozenset((6000, 6010, 6011, 6012, 6379, 6432, 7000, 9042, 9092, 9100, 10250, 11211, 25672, 26379, 27017, 33060))
"""Ports of databases, queues, displays, printers: what speaks no HTTP, or acts on it."""

_OTHER_PROGRAMS = (
    "beam.smp",
    "containerd",
    "cupsd",
    "dnsmasq",
    "memcached",
    "mongod",
    "mysqld",
    "mariadbd",
    "postgres",
    "redis-server",
    "rpcbind",
    "sshd",
    "systemd-resolve",
    "valkey-server",
)


def may_be_http(port: Port) -> bool:
    """Say whether a port may be one of a model server: no system's port but 80, nor one of a known other program."""
    if (port.port < 1024 and port.port != 80) or port.port in _OTHERS:
        return False
    return port.process is None or not port.process.startswith(_OTHER_PROGRAMS)


def servers(ports: Sequence[Port], budget: Budget) -> list[OpenAi]:
    """Ask the ports that may be HTTP for their models, at one time; returns those that answer as OpenAI's API does."""
    found: list[OpenAi] = []
    asked = [port.port for port in ports if may_be_http(port)][:_MOST_ASKED]
    together([_asking(port, budget, found.append) for port in asked])
    return sorted(found, key=lambda server: server.port)


def _asking(port: int, budget: Budget, found: Callable[[OpenAi], None]) -> Callable[[], None]:
    def ask() -> None:
        from precheck_lib.servers.openai import OpenAiServer, completes_text

        bounds = Bounds(connect=ASK_SECONDS, total=ASK_SECONDS, max_bytes=_MAX_BYTES)
        server = OpenAiServer(f"http://localhost:{port}/v1", api_key="", journal=Journal(), bounds=bounds)
        listed = server.models(budget)
        first = completes_text(listed).id if listed else None
        found(OpenAi(port=port, models=tuple(one.id for one in listed), first=first))

    return ask


__all__ = ["may_be_http", "servers"]
