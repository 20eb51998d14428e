"""Who listens on a TCP port of this machine, as far as it can be seen from here.

Linux shows every listening socket of this network namespace to everybody, with its user; which process it is, only to
root and to that user. macOS shows nothing to those who are not root but what is their own.
"""

from __future__ import annotations

import contextlib
import ipaddress
import sys
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.checks.look import Seen, process_seen, shown, user_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    _Row = tuple[str, int | None]
    IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_LISTEN = "0A"


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """One listening socket: its address, its process where that could be seen, else its user where that could."""

    address: str
    process: Seen | None = None
    user: str | None = None
    uid: int | None = None

    def __str__(self) -> str:
        if self.process is not None:
            return f"{self.process} on {self.address}"
        user = f", user {shown(self.user)}" if self.user is not None else ""
        return f"a process that cannot be seen (pid unknown{user}) on {self.address}"


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """Those on one port; `complete` says that there can be no others in this network namespace."""

    found: list[Listener]
    complete: bool


class Sockets:
    """All TCP sockets of this machine, read once however many ask: it is a look at every process there is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: list[Any] | None = None

    def read(self) -> list[Any]:
        """Return them as psutil does. May block."""
        import psutil

        with self._lock:
            if self._read is None:
                self._read = psutil.net_connections("tcp")
            return self._read


def listeners_on(port: int, sockets: Sockets | None = None) -> Listeners | OSError:
    """Return who listens on a port, or the error that keeps it from being known. May block: for `look` only."""
    import psutil

    complete = True
    try:
        rows = _rows((sockets or Sockets()).read(), port)
        users = _users(port) if sys.platform == "linux" else {}
    except psutil.AccessDenied:
        rows, users, complete = _of_each_process(port), {}, False
    except (psutil.Error, RuntimeError) as error:
        return OSError(str(error))
    except OSError as error:
        return error
    found = []
    for address, pid in sorted(set(rows), key=str):
        uid = users.get(address_of(address))
        seen = None
        if pid is not None:
            with contextlib.suppress(psutil.Error):
                seen = process_seen(psutil.Process(pid))
        user = user_name(uid) if uid is not None else None
        found.append(Listener(address=address, process=seen, user=user, uid=uid))
    return Listeners(found=found, complete=complete)


def _of_each_process(port: int) -> list[_Row]:
    import psutil

    rows: list[_Row] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            # Its name before psutil 6.0.
            read = process.net_connections if hasattr(process, "net_connections") else process.connections
            rows += [(address, process.pid) for address, _ in _rows(read("tcp"), port)]
    return rows


def _rows(connections: Iterable[Any], port: int) -> list[_Row]:
    import psutil

    return [
        (row.laddr.ip, getattr(row, "pid", None))
        for row in connections
        if row.status == psutil.CONN_LISTEN and row.laddr.port == port
    ]


def _users(port: int, proc: str = "/proc") -> dict[IpAddress, int]:
    """Return the user of each listening socket on a port by its address: the kernel tells everybody that much."""
    users = {}
    for file in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), open(f"{proc}/net/{file}", encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                address, _, number = fields[1].partition(":")
                if fields[3] == _LISTEN and int(number, 16) == port:
                    users[_decoded(address)] = int(fields[7])
    return users


def _decoded(digits: str) -> IpAddress:
    """Turn an address as the kernel writes it, in words of the machine's own byte order, into one."""
    raw = bytes.fromhex(digits)
    if sys.byteorder == "little":
        raw = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    return _plain(ipaddress.ip_address(raw))


def address_of(text: str) -> IpAddress:
    """Return an address from its text; IPv4 written as IPv6 is the same, and the scope of a link does not count."""
    return _plain(ipaddress.ip_address(text.partition("%")[0]))


def _plain(address: IpAddress) -> IpAddress:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped if mapped is not None else address


def is_on(listener: Listener, host: IpAddress) -> bool:
    """Whether a listener takes connections to an address: it has it, or it has all of them."""
    address = address_of(listener.address)
    # A socket on :: takes IPv4 as well, unless its program has forbidden that, which nobody can see.
    everywhere = address.is_unspecified and address.version in (host.version, 6)
    return address == host or everywhere
