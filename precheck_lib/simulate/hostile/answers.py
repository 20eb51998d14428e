"""Faults of HTTP/1.1 answers: heads, bodies, chunks, trailers, interim answers, encodings, lengths, redirects."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from precheck_lib.simulate.hostile.fault import HostileFault, drips, ends, floods, holds, repeats, resets

if TYPE_CHECKING:
    from precheck_lib.simulate.hostile.fault import Wire

_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_LENGTH = _OK + b"Content-Length: $LENGTH\r\n\r\n"
_OPEN = _OK + b"\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_WHOLE = b"Content-Length: $LENGTH\r\n\r\n$BODY"
_FAR = b"Content-Length: 1000000000000\r\n\r\n"


def _fat(wire: Wire) -> None:
    wire.send(_OK)
    for number in range(97):
        wire.send(b"X-%d: %s\r\n" % (number, b"x" * 65000))
    holds(_WHOLE)(wire)


def _bomb(wire: Wire) -> None:
    floods(_OK, b"Content-Encoding: gzip\r\n\r\n", then=gzip.compress(b" " * (8 << 20)))(wire)


_SLOW = (
    ("http-silence", "The request is read and never answered.", holds()),
    ("http-drip-status", "The status line comes one byte at a time.", drips(then=b"HTTP/1.1 200 OK ")),
    ("http-drip-headers", "Headers come one byte at a time.", drips(_OK, then=b"X: y\r\n")),
    (
        "http-drip-body",
        "A body with a length comes one byte at a time.",
        drips(_OK, b"Content-Length: 90000\r\n\r\n", then=b" "),
    ),
    ("http-drip-open-body", "A body without a length comes one byte at a time.", drips(_OPEN, then=b" ")),
    ("http-drip-chunks", "Chunks of one byte, one at a time.", repeats(_CHUNKED, then=b"1\r\n \r\n")),
    ("http-drip-chunk-size", "The size of a chunk comes one byte at a time.", drips(_CHUNKED, then=b"0")),
    (
        "http-drip-trailers",
        "Trailers come one at a time.",
        repeats(_CHUNKED, b"$HEX\r\n$BODY\r\n0\r\n", then=b"X: y\r\n"),
    ),
    ("http-100-drip", "100 Continue, again and again.", repeats(then=b"HTTP/1.1 100 Continue\r\n\r\n")),
    ("http-103-drip", "103 Early Hints, again and again.", repeats(then=b"HTTP/1.1 103 Early Hints\r\n\r\n")),
    ("http-open-end", "The right answer without a length, and the connection stays open.", holds(_OPEN, b"$BODY")),
    (
        "http-vast-chunk",
        "A chunk says that it has 2^60 bytes, then silence.",
        holds(_CHUNKED, b"1000000000000000\r\n$BODY"),
    ),
)

_FLOODS = (
    ("http-100-flood", "100 Continue without end.", floods(then=b"HTTP/1.1 100 Continue\r\n\r\n")),
    ("http-103-flood", "103 Early Hints without end.", floods(then=b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n")),
    ("http-header-flood", "Headers without end.", floods(_OK, then=b"X: y\r\n")),
    ("http-vast-header", "One header without end.", floods(_OK, b"X: ", then=b"y")),
    ("http-vast-status-line", "A status line without end.", floods(b"HTTP/1.1 200 ", then=b"O")),
    (
        "http-fat-headers",
        "97 headers of 65,000 bytes, each just within what a reader takes.",
        _fat,
    ),
    ("http-body-flood", "A body without length and without end.", floods(_OPEN, then=b"x")),
    ("http-vast-length", "A length of 10^12, and the body that goes with it.", floods(_OK, _FAR, then=b"x")),
    ("http-vast-length-silence", "A length of 10^12, then silence.", holds(_OK, _FAR, b"$BODY")),
    ("http-chunk-flood", "Chunks without end.", floods(_CHUNKED, then=b"4\r\nabcd\r\n")),
    ("http-endless-chunk", "One chunk without end.", floods(_CHUNKED, b"fffffffffff\r\n", then=b"x")),
    ("http-chunk-extension-flood", "The line of a chunk's size without end.", floods(_CHUNKED, b"5;", then=b"x")),
    ("http-trailer-flood", "Trailers without end.", floods(_CHUNKED, b"$HEX\r\n$BODY\r\n0\r\n", then=b"X: y\r\n")),
    (
        "http-redirect-flood",
        "A redirect whose own body has no end.",
        floods(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", then=b"x"),
    ),
)

_BROKEN = (
    ("http-empty-reply", "The server closes without an answer.", ends()),
    ("http-rst", "The server resets without an answer.", resets()),
    ("http-fin-in-status", "The server closes within the status line.", ends(b"HTTP/1.1 20")),
    ("http-fin-in-head", "The server closes within the head.", ends(_OK, b"Content-Length: 2\r\n")),
    ("http-rst-in-head", "The server resets within the head.", resets(_OK, b"Content-Length: 2\r\n")),
    ("http-fin-after-103", "The server closes after an interim answer.", ends(b"HTTP/1.1 103 Early Hints\r\n\r\n")),
    ("http-fin-in-body", "The server closes within the body.", ends(_OK, b"Content-Length: 90000\r\n\r\n$BODY")),
    ("http-no-body", "The server closes after the head.", ends(_OK, b"Content-Length: 90000\r\n\r\n")),
    ("http-rst-in-body", "The server resets within the body.", resets(_OK, b"Content-Length: 90000\r\n\r\n$BODY")),
    ("http-rst-in-open-body", "The server resets within a body without length.", resets(_OPEN, b"$BODY")),
    ("http-fin-in-chunk", "The server closes within a chunk.", ends(_CHUNKED, b"ffff\r\n$BODY")),
    (
        "http-fin-between-chunks",
        "The server closes where the last chunk is missing.",
        ends(_CHUNKED, b"$HEX\r\n$BODY\r\n"),
    ),
    ("http-rst-in-chunk", "The server resets within a chunk.", resets(_CHUNKED, b"ffff\r\n$BODY")),
)

_LIES = (
    ("http-2-answer", "The answer says HTTP/2.0.", holds(b"HTTP/2.0 200 OK\r\n", _WHOLE)),
    ("http-0.9-answer", "The body comes without a head.", ends(b"$BODY")),
    ("http-tls-alert", "A TLS server answers a plain request.", ends(b"\x15\x03\x01\x00\x02\x02\x46\r\n")),
    ("http-short-status", "A status of two digits.", holds(b"HTTP/1.1 99 Hm\r\n", _WHOLE)),
    (
        "http-bad-header",
        "A line in the head is no header; plain readers drop all after it.",
        holds(_OK, b"no header\r\n", _WHOLE),
    ),
    ("http-length-word", "The length is a word.", holds(_OK, b"Content-Length: two\r\n\r\n$BODY")),
    ("http-length-negative", "The length is negative.", holds(_OK, b"Content-Length: -2\r\n\r\n$BODY")),
    (
        "http-length-digits",
        "The length has 5,000 digits.",
        holds(_OK, b"Content-Length: %s\r\n\r\n$BODY" % (b"1" * 5000)),
    ),
    ("http-length-underscore", "The length is spelt 0_2.", holds(_OK, b"Content-Length: 0_2\r\n\r\n$BODY")),
    ("http-two-lengths", "Two lengths that differ.", holds(_OK, b"Content-Length: 1\r\n", _WHOLE)),
    ("http-chunk-size-word", "The size of a chunk is no number.", holds(_CHUNKED, b"zz\r\n$BODY")),
    ("http-chunk-size-negative", "The size of a chunk is negative.", holds(_CHUNKED, b"-5\r\n$BODY")),
    (
        "http-gzip-bomb",
        "Gzip that was not asked for: 8 KiB that become 8 MiB.",
        _bomb,
    ),
    ("http-gzip-twice", "Gzip within gzip.", holds(_OK, b"Content-Encoding: gzip, gzip\r\n", _WHOLE)),
    ("http-unknown-encoding", "An encoding nobody knows.", holds(_OK, b"Content-Encoding: x-none\r\n", _WHOLE)),
    (
        "http-gzip-chunks",
        "Gzip as a transfer coding.",
        holds(_OK, b"Transfer-Encoding: gzip, chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n"),
    ),
    (
        "http-redirect",
        "A redirect to the same place, for ever.",
        holds(b"HTTP/1.1 302 Found\r\nLocation: /\r\n", _WHOLE),
    ),
    (
        "http-redirect-elsewhere",
        "A redirect to another server.",
        holds(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/\r\n", _WHOLE),
    ),
    (
        "http-401",
        "The server wants to know who asks.",
        holds(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n", _WHOLE),
    ),
    ("http-404", "The server knows no such path.", holds(b"HTTP/1.1 404 Not Found\r\n", _WHOLE)),
    (
        "http-503",
        "The server is busy, and would like to be asked in an hour.",
        holds(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\n", _WHOLE),
    ),
    (
        "http-503-drip",
        "An error's page comes one byte at a time.",
        drips(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", then=b"x"),
    ),
    ("http-503-flood", "An error's page without end.", floods(b"HTTP/1.1 503 Service Unavailable\r\n\r\n", then=b"x")),
    (
        "http-101",
        "An upgrade that nobody asked for.",
        holds(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n$BODY"),
    ),
    ("http-204", "No content.", holds(b"HTTP/1.1 204 No Content\r\n\r\n")),
    ("http-206", "A part of the content.", holds(b"HTTP/1.1 206 Partial Content\r\n", _WHOLE)),
)

HTTP = tuple(HostileFault(name, "http", text, script) for name, text, script in (*_SLOW, *_FLOODS, *_BROKEN, *_LIES))
"""Faults of the answer to a request that was read whole; wherever it can be, the right body is in it."""
