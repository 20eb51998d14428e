"""A strict reader of HTTP/1.1 requests, as the stand-ins and the hostile server take them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from precheck_lib.simulate.loopback import Seen

if TYPE_CHECKING:
    from precheck_lib.simulate.loopback import Connection

_HEAD_LIMIT = 64 * 1024
_BODY_LIMIT = 16 * 1024 * 1024


class MalformedError(ValueError):
    """What came is no HTTP/1.1 request that the reader takes."""


def read_request(connection: Connection) -> Seen:
    """Read one request, body included; `MalformedError` for one that is not plain HTTP/1.1."""
    try:
        head = connection.read_until(b"\r\n\r\n", _HEAD_LIMIT)
    except ValueError as error:
        raise MalformedError(str(error)) from error
    at = time.monotonic()
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    path, _, protocol = rest.partition(" ")
    if protocol not in ("HTTP/1.1", "HTTP/1.0") or not method.isupper() or not path.startswith("/"):
        raise MalformedError(f"request line {first!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise MalformedError(f"header line {line!r}")
        headers[name.lower()] = value.strip()
    if "transfer-encoding" in headers:
        raise MalformedError("a chunked body")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length) > _BODY_LIMIT:
        raise MalformedError(f"Content-Length {length!r}")
    if protocol == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return Seen(method, path, headers, connection.read_exactly(int(length)), at)
