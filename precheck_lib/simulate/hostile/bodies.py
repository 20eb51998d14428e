"""JSON lies: a right answer with one thing wrong in it that a lenient reader does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.simulate.hostile.fault import HostileFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.simulate.hostile.fault import Wire


def _with(member: bytes) -> Callable[[bytes], bytes]:
    """Put a member more at the end of the object."""
    return lambda body: body.rstrip()[:-1] + (b"," if body.strip() != b"{}" else b"") + member + b"}"


def _doubled(body: bytes) -> bytes:
    """Name the first key twice, first with nothing and then with its right value."""
    key = body.partition(b":")[0].strip()
    return key + b":null," + body.strip()[1:]


SPOILERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "empty": ("No body at all.", lambda _: b""),
    "cut": ("The JSON ends in the middle.", lambda body: body.rstrip()[:-1]),
    "doubled-key": ("A key stands twice, with two values.", _doubled),
    "nan": ("A value is NaN.", _with(b'"precheck":NaN')),
    "vast-number": ("A number is beyond a double.", _with(b'"precheck":1e999')),
    "5000-digits": ("An integer has 5,000 digits.", _with(b'"precheck":' + b"1" * 5000)),
    "half-surrogate": ("A string holds half of a surrogate pair.", _with(b'"precheck":"\\ud800"')),
    "too-deep": ("Arrays lie 200,000 deep.", _with(b'"precheck":' + b"[" * 200_000 + b"]" * 200_000)),
    "not-utf-8": ("A string is Latin-1.", _with(b'"precheck":"\xe9"')),
    "utf-16": ("The text is UTF-16.", lambda body: body.decode().encode("utf-16")),
    "byte-order-mark": ("The text begins with a byte order mark.", lambda body: b"\xef\xbb\xbf" + body),
    "trailing": ("More text follows the JSON.", lambda body: body + b"{}"),
    "comment": ("There is a comment in it.", lambda body: b"/* right */" + body),
    "list": ("The right object, in a list.", lambda body: b"[" + body + b"]"),
    "null": ("The answer is null.", lambda _: b"null"),
    "string": ("The answer is a string.", lambda _: b'"ok"'),
    "page": ("A web page instead of JSON.", lambda _: b"<!doctype html><title>It works!</title>"),
}
"""By name: what it is, and what it makes of a right body."""


def _script(spoil: Callable[[bytes], bytes]) -> Callable[[Wire], None]:
    def script(wire: Wire) -> None:
        body = spoil(wire.body)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        wire.connection.send(head + body)
        wire.connection.hold()

    return script


JSON = tuple(HostileFault(f"json-{name}", "json", text, _script(spoil)) for name, (text, spoil) in SPOILERS.items())
