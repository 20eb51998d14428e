"""HTTP with `requests` over the bounded socket.

`requests`' own timeout bounds nothing (it restarts with every byte), so none is used: the connection classes below make
their sockets with `net.connect`, and the budget inside the socket ends every phase. One connection for one request, no
proxy, no redirect, no retry, no cookie, no netrc, identity encoding only (CONTRACT A2, H1).
"""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, IncompleteRead, InvalidHeader, ProtocolError

from precheck_lib import __version__
from precheck_lib.bounded import net
from precheck_lib.errors import (
    AnswerError,
    DeadlineError,
    GarbledError,
    ReceiveError,
    TooLargeError,
    TransportError,
    TruncatedError,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.journal import Journal

MAX_BODY = 2 << 20
"""The most bytes of a body (CONTRACT H1)."""

_HEAD_ALLOWANCE = 64 << 10  # what a head, chunk lines and trailers may add on the wire
_ERROR_BODY_SECONDS = 2.0  # the body of an answer ≥ 400 only explains: it must not hold the run


class Answer:
    """What a server answered: `status`, `headers` (any case), `body` (bytes as sent, no encoding undone).

    `complete` is false where the body of an answer ≥ 400 broke off or was too slow: the status counts all the same.
    """

    __slots__ = ("body", "complete", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, *, complete: bool) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.complete = complete

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case; empty where there is none."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class _Line:
    """What one request's connection is made from, and the socket it has got."""

    def __init__(self, budget: Budget, connect_seconds: float) -> None:
        self.budget = budget
        self.connect_seconds = connect_seconds
        self.sock: Any = None

    def open(self, host: str, port: int, *, secure: bool) -> socket.socket:
        dialing = self.budget.child(self.connect_seconds)
        self.sock = net.connect(host, port, dialing)
        if secure:
            from precheck_lib.bounded import tls

            self.sock = tls.wrap(self.sock, host, dialing)
        # From here on the whole exchange has the request's budget; connecting had its own.
        self.sock.budget = self.budget
        self.sock.phase = "send"
        made: socket.socket = self.sock
        return made


class _FinalResponse(http.client.HTTPResponse):
    """A response that goes past every interim answer; `http.client` itself skips only 100 and takes 103 for the end."""

    def begin(self) -> None:
        sock = getattr(self, "bounded", None)
        if sock is not None:
            sock.phase = "head"
        super().begin()
        if sock is not None:
            sock.phase = "body"

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]  # not in the stubs
            if not 100 < status < 200 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return version, status, reason
            http.client.parse_headers(self.fp)


class _Connection(HTTPConnection):
    line: _Line

    def _new_conn(self) -> socket.socket:
        return self.line.open(self.host.strip("[]"), self.port or 80, secure=False)

    def response_class(self, sock: Any, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        response = _FinalResponse(sock, *args, **kwargs)
        response.bounded = sock  # type: ignore[attr-defined]
        return response


class _SecureConnection(HTTPSConnection):
    line: _Line

    def connect(self) -> None:
        # urllib3's own connect would load certificates for each connection and hand the timeouts over to a plain socket.
        self.sock = self.line.open(self.host.strip("[]"), self.port or 443, secure=True)
        self.is_verified = True

    response_class = _Connection.response_class  # type: ignore[assignment]


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection
    line: _Line

    def _new_conn(self) -> Any:
        made = super()._new_conn()
        made.line = self.line  # type: ignore[attr-defined]
        return made


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection
    line: _Line

    def _new_conn(self) -> Any:
        made = super()._new_conn()
        made.line = self.line  # type: ignore[attr-defined]
        return made


class _Pools(PoolManager):
    def __init__(self, line: _Line, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.line = line
        self.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def _new_pool(self, *args: Any, **kwargs: Any) -> Any:
        # Attributes, not keywords: urllib3's pool key refuses keywords it does not know.
        pool = super()._new_pool(*args, **kwargs)
        pool.line = self.line  # type: ignore[attr-defined]
        return pool


class _Adapter(HTTPAdapter):
    """`requests`' adapter over pools that make bounded sockets."""

    def __init__(self, line: _Line) -> None:
        self.line = line
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        self.poolmanager = _Pools(self.line, num_pools=connections, maxsize=maxsize, block=block, **kwargs)

    def cert_verify(self, *_: Any, **__: Any) -> None:
        # The shared context has verified already; this would load certifi's file again (+20 ms).
        return


def send(
    method: str,
    url: str,
    *,
    budget: Budget,
    journal: Journal,
    connect_seconds: float = 2.0,
    total_seconds: float = 10.0,
    max_body: int = MAX_BODY,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """Make one request and return its answer, whatever its status.

    The end is absolute: `total_seconds` from now, cut by `budget`, covering name resolution, connecting (itself at most
    `connect_seconds`, TLS included), sending, interim answers, head, body and trailers. Raises `TransportError` of the
    phase that failed, `AnswerError` for a content encoding that was not asked for, and `Cancelled`.
    """
    allowed = budget.child(total_seconds, max_bytes=max_body + _HEAD_ALLOWANCE)
    record = journal.open(
        method,
        url,
        connect_seconds=connect_seconds,
        total_seconds=total_seconds,
        allowed_seconds=allowed.left(),
    )
    line = _Line(allowed, connect_seconds)
    adapter = _Adapter(line)
    try:
        prepared = requests.Request(
            method,
            url,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "Connection": "close",
                "User-Agent": f"precheck/{__version__}",
                **(headers or {}),
            },
            data=body,
        ).prepare()
        allowed.check("connect")
        with _translated(line):
            response = adapter.send(prepared, stream=True, timeout=None)
        record.status = response.status_code
        if response.status_code >= http.HTTPStatus.BAD_REQUEST:
            return _refusal(response, line, max_body)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise AnswerError(f"the answer is encoded as {encoding[:20]!r}, which was not asked for")
        return Answer(response.status_code, response.headers, _body(response, line, max_body), complete=True)
    finally:
        adapter.close()
        if line.sock is not None:
            line.sock.close()
            record.bytes = line.sock.received
        record.elapsed_s = round(allowed.elapsed(), 3)


def _refusal(response: Any, line: _Line, max_body: int) -> Answer:
    """Read the body of an answer ≥ 400 as far as it comes soon: its status is the verdict, the body only explains it."""
    line.sock.budget = line.budget.child(_ERROR_BODY_SECONDS, max_bytes=max_body)
    try:
        body = _body(response, line, max_body)
    except TransportError:
        return Answer(response.status_code, response.headers, b"", complete=False)
    return Answer(response.status_code, response.headers, body, complete=True)


def _body(response: Any, line: _Line, max_body: int) -> bytes:
    announced = response.headers.get("Content-Length", "")
    too_large = TooLargeError(f"the answer is larger than {max_body} bytes", phase="body")
    if announced.isdigit() and len(announced) < 20 and int(announced) > max_body:
        raise too_large
    parts = bytearray()
    with _translated(line):
        while part := response.raw.read(65536, decode_content=False):
            parts += part
            if len(parts) > max_body:
                raise too_large
    return bytes(parts)


class _translated:  # noqa: N801 - reads as a clause at its use
    """The one place where the errors of `http.client`, urllib3 and `requests` are turned into ours.

    Deadlines, limits and broken connections are raised by the socket itself and pass through; what is left are faults of
    the protocol.
    """

    def __init__(self, line: _Line) -> None:
        self.line = line

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, TransportError):
            return
        foreign = (http.client.HTTPException, HTTPError, requests.RequestException, OSError, ValueError)
        if not isinstance(error, foreign):
            return
        chain = [error]
        while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and len(chain) < 8:
            chain.append(cause)
        chain += [arg for link in chain for arg in getattr(link, "args", ()) if isinstance(arg, BaseException)]
        for link in chain:
            if isinstance(link, TransportError):
                raise link from None
        raise _fault(chain, self.line) from error


def _fault(chain: list[BaseException], line: _Line) -> TransportError:
    sock = line.sock
    phase = sock.phase if sock is not None else "connect"
    if line.budget.left() <= 0:
        return line.budget.over(phase)
    if sock is not None and sock.ended and phase == "body":
        return TruncatedError("the body ended before the length that was announced", phase="body")
    if any(isinstance(link, (IncompleteRead, http.client.IncompleteRead)) for link in chain):
        return TruncatedError("the body ended before the length that was announced", phase="body")
    if phase == "head" or any(isinstance(link, InvalidHeader) for link in chain):
        return GarbledError("the answer is not HTTP that can be read", phase="head")
    if any(isinstance(link, (ProtocolError, http.client.HTTPException)) for link in chain):
        return ReceiveError("the framing of the body is not HTTP", phase=phase)
    return ReceiveError("the answer could not be read", phase=phase)


__all__ = ["MAX_BODY", "Answer", "DeadlineError", "send"]
