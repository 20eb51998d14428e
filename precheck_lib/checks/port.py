"""`port`: who listens on a TCP port of this machine, or that nobody does.

What cannot be seen is never "free": the table of sockets is read, and where it shows nobody a connection is tried as
well, because a port of a container or of another network namespace is in no table that is seen from here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import (
    PRIVILEGE,
    TRACKING,
    literal,
    look,
    refuse,
    same_executable,
    shown,
    started_by,
    text_of,
)
from precheck_lib.errors import ConnectError, DeadlineError
from precheck_lib.findings import NotReadyError, make
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem
    from precheck_lib.checks.listeners import IpAddress, Listener, Listeners

_PROXIES = {"docker-proxy": "docker ps --filter publish={}", "rootlessport": "podman ps --filter publish={}"}
_CONNECT_SECONDS = 1.0


class PortOptions(Options, frozen=True, kw_only=True):
    """`port` has to be listened on, by whom the rest says, or has to be free."""

    port: Annotated[int, Meta(description="The TCP port, 1 to 65535.")]
    host: Annotated[
        str | None,
        Meta(description="The address of this machine that counts, or `localhost`; without it all of them do."),
    ] = None
    state: Annotated[
        Literal["listening", "free"], Meta(description="Whether somebody has to listen, or nobody may.")
    ] = "listening"
    process: Annotated[str | None, Meta(description="The name that the listening process has to have.")] = None
    user: Annotated[str | None, Meta(description="The user that it has to run as, by name or number.")] = None
    executable: Annotated[
        str | None, Meta(description="The program that it has to be: a path (links are resolved), or a file's name.")
    ] = None

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        yield from _problems(self, literal(self.host))


def run(options: PortOptions, context: Context) -> list[Finding]:
    """Read the table of sockets, try a connection where it shows nobody, and judge."""
    from precheck_lib.checks.listeners import is_on, listeners_on

    host = text_of(options.host, context)
    wanted = _Wanted(
        process=text_of(options.process, context),
        user=text_of(options.user, context),
        executable=text_of(options.executable, context),
    )
    refuse([text for _, text in _problems(options, host)])
    hosts, port = _addresses(host), options.port
    where = f"port {port}" + (f" of {host}" if host is not None else "")
    table = look(lambda: listeners_on(port), budget=context.budget, subject=where, code="port.deadline")
    if isinstance(table, OSError):
        text = f"who listens on {where} cannot be read: {table.strerror or table}"
        raise NotReadyError([make("port.unknown", text)], word="error")
    # A program that wants all addresses is kept from it by one that has any of them.
    every = hosts is None or (options.state == "free" and any(one.is_unspecified for one in hosts))
    there = [one for one in table.found if every or any(is_on(one, host) for host in hosts or ())]
    if there and options.state == "free":
        raise NotReadyError([_taken(where, port, one, context) for one in there])
    if there:

        def judge() -> list[Finding]:
            return [finding for one in there for finding in wanted.judge(where, one)]

        _end(look(judge, budget=context.budget, subject=where, code="port.deadline"))
        return [_other_job(where, one, context) for one in there if _is_of_other_job(one, context)]
    if hosts is not None and any(one.is_unspecified for one in hosts):
        # That somebody answers at one address does not say that all are listened on; but none is free then.
        hosts = None if options.state == "free" else []
    answers = _answers(hosts, port, context)
    _end(_nobody_seen(where, options, table, answers, wanted))
    return []


def _end(findings: list[Finding]) -> None:
    if findings:
        unknown = [finding for finding in findings if finding.code == "port.unknown"]
        unmet = [finding for finding in findings if finding.code != "port.unknown"]
        raise NotReadyError(unmet + unknown, word="failed" if unmet else "error")


def _problems(options: PortOptions, host: str | None) -> Iterator[OptionProblem]:
    """Say what cannot be meant; a host that is not known yet is `None`."""
    if not 1 <= options.port <= 65535:
        yield ("port",), f"port: {options.port} is not a port (1 to 65535)"
    try:
        _addresses(host)
    except ValueError:
        yield ("host",), f"host: {options.host!r} is not an address; write one of this machine's, or localhost"
    given = [name for name in ("process", "user", "executable") if getattr(options, name) is not None]
    if options.state == "free" and given:
        yield ("state",), f"state: free says that nobody may listen; {given[0]} says who has to"


def _addresses(host: str | None) -> list[IpAddress] | None:
    from precheck_lib.checks.listeners import address_of

    if host is None:
        return None
    names = ["127.0.0.1", "::1"] if host.lower() == "localhost" else [host]
    return [address_of(name.strip("[]")) for name in names]


class _Wanted:
    """Who has to listen; each that is `None` may be anybody."""

    def __init__(self, *, process: str | None, user: str | None, executable: str | None) -> None:
        self.process = process
        self.user = user
        self.executable = executable

    def __bool__(self) -> bool:
        return (self.process, self.user, self.executable) != (None, None, None)

    def judge(self, where: str, listener: Listener) -> list[Finding]:
        """Say what is not as wanted and what cannot be seen. Resolves links: for `look` only."""
        seen = listener.process
        name = seen.name if seen is not None else None
        executable = seen.executable if seen is not None else None
        # The user of a socket is the one that opened it; a process may have changed its own since.
        users = [seen.user, str(seen.uid)] if seen is not None and seen.uid is not None else []
        if not users and listener.uid is not None:
            users = [listener.user, str(listener.uid)]
        wrong, hidden = [], []
        for word, wanted, found, fits in (
            ("process", self.process, name, name == self.process),
            ("user", self.user, users[0] if users else None, self.user in users),
            (
                "executable",
                self.executable,
                executable,
                executable is not None and same_executable(self.executable or "", executable),
            ),
        ):
            if wanted is None or fits:
                continue
            if found is None:
                hidden.append(word)
            else:
                wrong.append(f"{word} {shown(found)}, not {shown(wanted)}")
        if wrong:
            return [
                make("port.owner", f"{where} is listened on by another: {'; '.join(wrong)}", evidence=str(listener))
            ]
        if hidden:
            text = f"{where} is listened on, but its {' and '.join(hidden)} cannot be seen"
            return [make("port.unknown", text, evidence=f"{listener}; {_why_hidden(listener)}")]
        return []


def _why_hidden(listener: Listener) -> str:
    if os.geteuid() == 0 or (listener.uid is not None and listener.uid == os.geteuid()):
        return "it is not hidden for lack of a right: it runs in a container, in another namespace, or in the kernel"
    return f"another user's process is hidden from this one: {PRIVILEGE}"


def _taken(where: str, port: int, listener: Listener, context: Context) -> Finding:
    seen = listener.process
    if seen is None:
        return make("port.taken", f"{where} is held by {listener}", evidence=_why_hidden(listener))
    evidence = started_by(seen, context.env)
    if seen.name in _PROXIES:
        evidence = f"it listens for a container, which `{_PROXIES[seen.name].format(port)}` names"
    return make("port.taken", f"{where} is held by {listener}", evidence=evidence)


def _is_of_other_job(listener: Listener, context: Context) -> bool:
    own = context.env.get(TRACKING)
    job = listener.process.job if listener.process is not None else None
    return bool(own and job and own != job)


def _other_job(where: str, listener: Listener, context: Context) -> Finding:
    assert listener.process is not None  # noqa: S101 - it has a job
    evidence = started_by(listener.process, context.env)
    text = f"{where} is listened on by what another job has started: {listener}"
    return make("port.other-job", text, evidence=evidence, severity="warning")


def _answers(hosts: list[IpAddress] | None, port: int, context: Context) -> list[tuple[str, bool | None]]:
    """Try a connection to each address; whether it was taken, `None` where it was neither taken nor refused."""
    from precheck_lib.bounded import net

    addresses = ["127.0.0.1", "::1"] if hosts is None else [str(host) for host in hosts]
    answers: list[tuple[str, bool | None]] = []
    for address in addresses:
        try:
            sock = net.connect(address, port, context.budget.child(_CONNECT_SECONDS))
        except ConnectError:
            answers.append((address, False))
        except DeadlineError:
            answers.append((address, None))
        else:
            net.close_orderly(sock)
            answers.append((address, True))
    return answers


def _nobody_seen(
    where: str, options: PortOptions, table: Listeners, answers: list[tuple[str, bool | None]], wanted: _Wanted
) -> list[Finding]:
    """Judge a port that nobody is seen to listen on."""
    taken = [address for address, answer in answers if answer]
    silent = [address for address, answer in answers if answer is None]
    hidden = "a container's port, another network namespace, or the host of this virtual machine"
    if taken and options.state == "free":
        text = f"{where} is held by something that cannot be seen from here: {taken[0]} takes connections"
        return [make("port.taken", text, evidence=hidden)]
    if taken:
        text = f"{where} is answered at {taken[0]}, but who listens cannot be seen from here"
        return [make("port.unknown", text, evidence=hidden)] if wanted else []
    if not table.complete:
        text = f"nobody is seen to listen on {where}, but other users' sockets cannot be seen"
        return [
            make("port.unknown", text, remedy="Run this as root: this system shows others' sockets to nobody else.")
        ]
    if silent and options.state == "free":
        text = f"nobody is seen to listen on {where}, but {silent[0]} neither took nor refused a connection"
        return [make("port.unknown", text, evidence="a firewall drops packets, or what listens hangs")]
    if options.state == "free":
        return []
    elsewhere = ", ".join(map(str, table.found))
    return [
        make("port.closed", f"nobody listens on {where}", evidence=f"there listens {elsewhere}" if elsewhere else "")
    ]


def plan(options: PortOptions) -> list[Deed]:
    """Say what would be done."""
    host = f" of {options.host}" if options.host is not None else ""
    given = [
        f"{name} {getattr(options, name)}"
        for name in ("process", "user", "executable")
        if getattr(options, name) is not None
    ]
    by = f" ({', '.join(given)})" if given else ""
    need = "nobody may listen" if options.state == "free" else f"somebody has to listen{by}"
    return [Deed(f"look at who listens on port {options.port}{host}, and connect where nobody is seen: {need}")]


KIND = Kind(name="port", options=PortOptions, run=run, plan=plan, imports=("psutil", "precheck_lib.bounded.net"))
