"""The only room that opens a socket, starts a process or waits.

Every call here takes a `Budget` and returns or raises by its end. Design (c) of the bounded-I/O study: a socket that
re-arms itself from an absolute deadline on every call is the one choke point that headers, interim answers, chunk
lines, trailers, TLS records and WebSocket frames all pass.
"""

from __future__ import annotations
