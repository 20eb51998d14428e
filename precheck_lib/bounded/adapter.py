"""The way from `requests` to the bounded socket: connection classes that make their sockets with `net.connect`.

`requests`' own timeout bounds nothing (it restarts with every byte), so none is used; the budget inside the socket ends
every phase. `_new_conn` and `response_class` are not documented by urllib3: it is pinned to version 2, and a test fails
where a request goes past our socket.
"""

from __future__ import annotations

import email.errors
import http.client
import re
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from precheck_lib.bounded import net
from precheck_lib.errors import SendError

if TYPE_CHECKING:
    import socket

    from precheck_lib.bounded.budget import Budget

_LENGTH = re.compile(r"[0-9]{1,18}")
_NO_HEADER = (
    email.errors.MissingHeaderBodySeparatorDefect,
    email.errors.FirstHeaderLineIsContinuationDefect,
    email.errors.MisplacedEnvelopeHeaderDefect,
)


class Line:
    """What one request's connection is made from, and the socket it has got.

    `unsent` is why the request could not be sent whole. The server may have answered (413, 401) and closed before it
    had read all of it: the answer is looked for, and where there is none this is the error.
    """

    def __init__(self, budget: Budget, connect_seconds: float) -> None:
        self.budget = budget
        self.connect_seconds = connect_seconds
        self.sock: Any = None
        self.unsent: SendError | None = None

    def open(self, host: str, port: int, *, secure: bool) -> socket.socket:
        """Connect by `connect_seconds`, TLS included; the whole exchange has the request's budget from here on."""
        dialing = self.budget.child(self.connect_seconds)
        self.sock = net.connect(host, port, dialing)
        if secure:
            from precheck_lib.bounded import tls

            self.sock = tls.wrap(self.sock, host, dialing)
        self.sock.budget = self.budget
        self.sock.phase = "send"
        made: socket.socket = self.sock
        return made


class _FinalResponse(http.client.HTTPResponse):
    """A response that goes past every interim answer, and whose framing can be told for certain.

    `http.client` itself skips only 100 and takes 103 for the end. It also drops every header after a line that is none,
    and reads to the end of the stream where it cannot make out the length.
    """

    bounded: Any = None

    def begin(self) -> None:
        if self.bounded is not None:
            self.bounded.phase = "head"
        super().begin()
        if any(isinstance(defect, _NO_HEADER) for defect in self.headers.defects):
            raise http.client.HTTPException("a line of the head is no header")
        coding = ", ".join(self.headers.get_all("Transfer-Encoding", [])).strip().lower()
        if coding not in ("", "chunked", "identity"):
            raise http.client.HTTPException("an unknown transfer coding")
        if not self.chunked:
            self._settle_length()
        if self.bounded is not None:
            self.bounded.phase = "body"

    def _settle_length(self) -> None:
        said = {part.strip() for text in self.headers.get_all("Content-Length", []) for part in text.split(",")}
        if not said:
            return
        # RFC 9112, 6.3: the same length said twice is one length, anything else makes the answer unusable.
        if len(said) > 1 or not _LENGTH.fullmatch(next(iter(said))):
            raise http.client.HTTPException("a length that is none")
        if self.length is None:
            self.length = int(said.pop())

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]  # not in the stubs
            if not 100 < status < 200 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return version, status, reason
            # Skipped, not parsed: of a flood of them the parsing would take twenty times as long as the receiving.
            while self.fp.readline(65536) not in (b"\r\n", b"\n", b""):
                pass


class _Bounded(HTTPConnection):
    """What plain and secure connections share."""

    line: Line

    def send(self, data: Any) -> None:
        try:
            super().send(data)
        except SendError as error:
            self.line.unsent = self.line.unsent or error

    def response_class(self, sock: Any, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        response = _FinalResponse(sock, *args, **kwargs)
        response.bounded = sock
        return response


class _Connection(_Bounded):
    def _new_conn(self) -> socket.socket:
        return self.line.open(self.host.strip("[]"), self.port or 80, secure=False)


class _SecureConnection(_Bounded, HTTPSConnection):
    def connect(self) -> None:
        # urllib3's own connect would load certificates for each connection and hand its timeouts to a plain socket.
        self.sock = self.line.open(self.host.strip("[]"), self.port or 443, secure=True)
        self.is_verified = True


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection
    line: Line

    def _new_conn(self) -> Any:
        made = super()._new_conn()
        made.line = self.line  # type: ignore[attr-defined]
        return made


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection
    line: Line

    def _new_conn(self) -> Any:
        made = super()._new_conn()
        made.line = self.line  # type: ignore[attr-defined]
        return made


class _Pools(PoolManager):
    def __init__(self, line: Line, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.line = line
        self.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def _new_pool(self, *args: Any, **kwargs: Any) -> Any:
        # Attributes, not keywords: urllib3's pool key refuses keywords it does not know.
        pool = super()._new_pool(*args, **kwargs)
        pool.line = self.line  # type: ignore[attr-defined]
        return pool


class Adapter(HTTPAdapter):
    """`requests`' adapter over pools that make bounded sockets."""

    def __init__(self, line: Line) -> None:
        self.line = line
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
        """Make the pools; called by `requests` itself."""
        self.poolmanager = _Pools(self.line, num_pools=connections, maxsize=maxsize, block=block, **kwargs)

    def cert_verify(self, *_: Any, **__: Any) -> None:
        """Do nothing: the shared context has verified already; this would load certifi's file again (+20 ms)."""

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Make the response without `requests`' look at its cookies: nobody wants them, and anybody may write them."""
        response = requests.Response()
        response.request = req
        response.raw = resp
        response.status_code = resp.status
        response.headers = CaseInsensitiveDict(resp.headers)
        return response


__all__ = ["Adapter", "Line"]
