"""HTTP with `requests` over the bounded socket.

One connection for one request, no proxy, no redirect, no retry, no cookie, no netrc, identity encoding only
(CONTRACT A2, H1).
"""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any

import requests
from urllib3.exceptions import HTTPError

from precheck_lib import __version__
from precheck_lib.bounded.adapter import Adapter, Line
from precheck_lib.bounded.peer import tell
from precheck_lib.errors import (
    AnswerError,
    DeadlineError,
    EmptyReplyError,
    GarbledError,
    ReceiveError,
    ResolveError,
    SendError,
    TooLargeError,
    TransportError,
    TruncatedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.journal import Journal
    from precheck_lib.errors import Phase

MAX_BODY = 2 << 20
"""The most bytes of a body (CONTRACT H1)."""

_HEAD_ALLOWANCE = 64 << 10  # what a head, chunk lines and trailers may add on the wire
_ENCODINGS = frozenset(("br", "compress", "deflate", "gzip", "x-gzip", "zstd"))
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
    peer: str = "the server",
) -> Answer:
    """Make one request and return its answer, whatever its status.

    The end is absolute: `total_seconds` from now, cut by `budget`, covering name resolution, connecting (itself at most
    `connect_seconds`, TLS included), sending, interim answers, head, body and trailers. Raises `TransportError` of the
    phase that failed, `AnswerError` for a content encoding that was not asked for, and `Cancelled`. `peer` is what a
    `DeadlineError` calls the server.
    """
    allowed = budget.child(total_seconds, max_bytes=max_body + _HEAD_ALLOWANCE)
    record = journal.open(
        method,
        url,
        connect_seconds=connect_seconds,
        total_seconds=total_seconds,
        allowed_seconds=allowed.left(),
    )
    line = Line(allowed, connect_seconds)
    adapter = Adapter(line)
    response: requests.Response | None = None
    every = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        "User-Agent": f"precheck/{__version__}",
    }
    try:
        with _translated(line):
            prepared = requests.Request(method, url, headers={**every, **(headers or {})}, data=body).prepare()
            response = adapter.send(prepared, stream=True, timeout=None)
        record.status = response.status_code
        if response.status_code >= http.HTTPStatus.BAD_REQUEST:
            return _refusal(response, line, max_body)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            # A header could hold anything: only a usual name is told.
            how = f"as {encoding!r}" if encoding in _ENCODINGS else "in an unknown way"
            raise AnswerError(f"the answer is encoded {how}, which was not asked for")
        return Answer(response.status_code, response.headers, _body(response, line, max_body), complete=True)
    except DeadlineError as error:
        tell(error, peer, url, line.sock)
        raise
    finally:
        if response is not None:
            response.close()  # it holds the descriptor open until then, for as long as somebody keeps the error
        adapter.close()
        if line.sock is not None:
            line.sock.close()
            record.bytes = line.sock.received
        record.elapsed_s = round(allowed.elapsed(), 3)


def _refusal(response: Any, line: Line, max_body: int) -> Answer:
    """Read the body of an answer ≥ 400 as far as it comes soon: it only explains the status, which is the verdict."""
    line.sock.budget = line.budget.child(_ERROR_BODY_SECONDS, max_bytes=max_body)
    try:
        body = _body(response, line, max_body)
    except TransportError:
        return Answer(response.status_code, response.headers, b"", complete=False)
    return Answer(response.status_code, response.headers, body, complete=True)


def _body(response: Any, line: Line, max_body: int) -> bytes:
    too_large = TooLargeError(f"the answer is larger than {max_body} bytes", phase="body")
    announced = response.raw.length_remaining  # 0 for HEAD, 204 and 304, whatever length they tell
    if announced is not None and announced > max_body:
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

    Deadlines, limits and broken connections are raised by the socket itself and pass through; what is left are faults
    of the protocol.
    """

    def __init__(self, line: Line) -> None:
        self.line = line

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        found = self._fault(error)
        if isinstance(found, (EmptyReplyError, ReceiveError)) and self.line.unsent is not None:
            raise self.line.unsent from found
        if found is not None and found is not error:
            raise found from error

    def _fault(self, error: BaseException | None) -> TransportError | None:
        if isinstance(error, TransportError):
            return error
        if not isinstance(
            error, (http.client.HTTPException, HTTPError, requests.RequestException, OSError, ValueError)
        ):
            return None
        sock = self.line.sock
        phase: Phase = "resolve" if sock is None else sock.phase
        if self.line.budget.left() <= 0:
            return self.line.budget.over(phase)
        fault, said = _FAULTS["cut" if phase == "body" and sock.ended else phase]
        return fault(said, phase=phase)


_FAULTS: dict[str, tuple[type[TransportError], str]] = {
    "resolve": (ResolveError, "the URL cannot be used"),
    "send": (SendError, "the request cannot be sent"),
    "head": (GarbledError, "the answer is not HTTP that can be read"),
    "body": (ReceiveError, "the framing of the body is not HTTP"),
    "cut": (TruncatedError, "the body ended before the length that was announced"),
}


__all__ = ["MAX_BODY", "Answer", "DeadlineError", "send"]
