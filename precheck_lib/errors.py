"""What can go wrong while talking to a server, by phase.

    TalkError
    ├── TransportError            it could not be found out (JUnit `<error>`)
    │   ├── ResolveError          6   the name is not known, or the resolver did not answer
    │   ├── ConnectError          7   refused, unreachable, reset while connecting
    │   ├── TlsError             35   the handshake failed
    │   │   └── CertificateError 60   the certificate is not to be trusted, or is for another name
    │   ├── SendError            55   the request could not be sent
    │   ├── ReceiveError         56   the connection broke while the answer was read
    │   │   └── GarbledError      1   what came is not the protocol
    │   ├── EmptyReplyError      52   closed before a single byte of an answer
    │   ├── TruncatedError       18   the body is shorter than was announced
    │   ├── TooLargeError        63   more bytes than the budget allows
    │   └── DeadlineError        28   the time is over
    └── AnswerError               1   the answer is there and it is wrong (JUnit `<failure>`)
        └── StatusError          22   an HTTP status ≥ 400 (others that are not the right one: 1)
    Cancelled                         the run is to end (a signal); no TalkError, so that no handler swallows it

Every error is raised in one place: the socket in `bounded/net.py` knows its phase and its budget, so that nothing
above has to guess from the class of a foreign exception. The numbers are curl's exit codes (CONTRACT H4).
"""

from __future__ import annotations

from typing import Literal

Phase = Literal["resolve", "connect", "tls", "send", "head", "body", "frame", "close", "child", "folder", "wait"]


class TalkError(Exception):
    """Anything that keeps a question to a server from having a usable answer.

    `str()` of it is one sentence for a person; it never holds a header, a body or a credential.
    """

    curl: int = 1
    word: Literal["failed", "error"] = "error"


class TransportError(TalkError):
    """The answer could not be had; `phase` says how far the exchange got."""

    def __init__(self, message: str, *, phase: Phase) -> None:
        super().__init__(message)
        self.phase: Phase = phase


class ResolveError(TransportError):
    """The name could not be turned into an address."""

    curl = 6


class ConnectError(TransportError):
    """No address of the server took the connection."""

    curl = 7


class TlsError(TransportError):
    """The TLS handshake failed."""

    curl = 35


class CertificateError(TlsError):
    """The server's certificate is not trusted, has expired or is for another name."""

    curl = 60


class SendError(TransportError):
    """The connection broke while the request was sent."""

    curl = 55


class ReceiveError(TransportError):
    """The connection broke while the answer was received."""

    curl = 56


class GarbledError(ReceiveError):
    """What the peer sent is not the protocol that was spoken to it."""

    curl = 1


class EmptyReplyError(TransportError):
    """The peer closed the connection without sending a byte."""

    curl = 52


class TruncatedError(TransportError):
    """The body ended before the length that the server had announced."""

    curl = 18


class TooLargeError(TransportError):
    """The answer is larger than the budget of bytes."""

    curl = 63


class DeadlineError(TransportError):
    """The time is over. `seconds` is the bound that was hit.

    Where a request was under way, `peer` says with whom and where (never with credentials), and `received` how many
    bytes had come by then.
    """

    curl = 28
    peer = ""
    received = 0

    def __init__(self, message: str, *, phase: Phase, seconds: float) -> None:
        super().__init__(message, phase=phase)
        self.seconds = seconds


class AnswerError(TalkError):
    """The answer arrived and is not what it has to be."""

    word: Literal["failed", "error"] = "failed"


class StatusError(AnswerError):
    """The server answered with the HTTP status `status` where another was needed.

    401, 403 and every status below 400 are answers (`failed`); any other status ≥ 400 keeps the answer from being known
    (`error`), unless the request was to change something: `refused_change` makes it `failed` (CONTRACT A6).
    """

    def __init__(self, message: str, status: int, *, refused_change: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.curl = 22 if status >= 400 else 1
        known = status < 400 or status in (401, 403) or refused_change
        self.word = "failed" if known else "error"


class Cancelled(BaseException):
    """The run is to end because of a signal; `signum` is its number.

    A `BaseException`: only the engine may catch it.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum
