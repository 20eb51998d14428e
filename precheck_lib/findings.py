"""Making findings of the catalogue, and the errors that end a check with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.errors import (
    AnswerError,
    CertificateError,
    ConnectError,
    DeadlineError,
    EmptyReplyError,
    GarbledError,
    ReceiveError,
    ResolveError,
    SendError,
    StatusError,
    TalkError,
    TlsError,
    TooLargeError,
    TransportError,
    TruncatedError,
)
from precheck_lib.outcome import Finding

if TYPE_CHECKING:
    from typing import Literal

    from precheck_lib.outcome import Who


UNCONFIRMED = "native residency remains unconfirmed"
"""What is said wherever a model that this run has loaded may be left (CONTRACT G6)."""

_TRANSPORT: tuple[tuple[type[TalkError], str], ...] = (
    # The first that fits: subclasses stand before their bases.
    (ResolveError, "transport.resolve"),
    (ConnectError, "transport.connect"),
    (CertificateError, "transport.certificate"),
    (TlsError, "transport.tls"),
    (SendError, "transport.send"),
    (GarbledError, "transport.garbled"),
    (ReceiveError, "transport.receive"),
    (EmptyReplyError, "transport.empty"),
    (TruncatedError, "transport.truncated"),
    (TooLargeError, "transport.too-large"),
    (DeadlineError, "transport.deadline"),
    (TransportError, "transport.receive"),
    (StatusError, "http.status"),
    (AnswerError, "http.answer"),
    (TalkError, "http.answer"),
)

_LATE = {
    "resolve": "the name server of this machine did not answer",
    "connect": "nothing answered: the host is down, or a firewall drops packets",
    "tls": "it took the connection and did not finish the TLS handshake",
    "send": "it did not take the whole request",
    "head": "it took the request and began no answer: it hangs, or is starting",
    "body": "it began an answer and did not end it",
    "frame": "it fell silent in the middle of the exchange",
}

_BROKEN = {
    "send": "while the request was sent",
    "head": "before an answer was complete",
    "body": "in the middle of the answer",
    "frame": "in the middle of the exchange",
}


def make(
    code: str,
    message: str,
    *,
    evidence: str = "",
    remedy: str | None = None,
    who: Who | None = None,
    retryable: bool | None = None,
    severity: Literal["error", "warning"] = "error",
) -> Finding:
    """Make a finding of a code of the catalogue, with what is special to this one."""
    entry = CATALOGUE[code]
    return Finding(
        code=code,
        message=message,
        evidence=evidence,
        remedy=entry.remedy if remedy is None else remedy,
        who=entry.who if who is None else who,
        retryable=entry.retryable if retryable is None else retryable,
        severity=severity,
    )


def of_error(error: TalkError, subject: str) -> Finding:
    """Make the finding of a talk with `subject` (a server and what was asked of it) that had no usable answer."""
    code = next(code for kind, code in _TRANSPORT if isinstance(error, kind))
    evidence, remedy = "", None
    if isinstance(error, DeadlineError):
        evidence = _late(error)
        if error.peer:
            remedy = CATALOGUE[code].remedy.replace("the server", error.peer, 1)
    elif isinstance(error, ConnectError):
        evidence = "nothing listens there, or nothing can be reached"
    elif isinstance(error, TransportError) and error.phase in _BROKEN:
        evidence = f"it happened {_BROKEN[error.phase]}"
    return make(code, f"{subject}: {error}", evidence=evidence, remedy=remedy)


def _late(error: DeadlineError) -> str:
    """Say how far an exchange had come when its time was over."""
    if error.phase == "head" and error.received:
        came = f"{error.received} byte{'' if error.received == 1 else 's'} in {error.seconds:g} s"
        return f"it took the request, and the head of its answer was not complete: {came}"
    return _LATE.get(error.phase, "")


class NotReadyError(Exception):
    """Ends a check: its `findings` (the first is the verdict), its outcome `word`, and curl's exit code for it.

    `curl` is 1 for a requirement that is not met, 22 for an HTTP status ≥ 400, 28 for a deadline, and the code of the
    fault for anything in transport (CONTRACT H4); it counts only in specs that ask for those codes. `usage` says that
    it is no fault of the machine but of how the run was asked for (exit code 2).
    """

    def __init__(
        self,
        findings: list[Finding],
        *,
        word: Literal["failed", "error"] = "failed",
        curl: int = 1,
        usage: bool = False,
    ) -> None:
        self.usage = usage
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings
        self.word: Literal["failed", "error"] = word
        self.curl = curl


def not_ready(
    code: str,
    message: str,
    *,
    evidence: str = "",
    remedy: str | None = None,
    retryable: bool | None = None,
    word: Literal["failed", "error"] = "failed",
    curl: int = 1,
) -> NotReadyError:
    """Make the error that ends a check with one finding of the catalogue."""
    finding = make(code, message, evidence=evidence, remedy=remedy, retryable=retryable)
    return NotReadyError([finding], word=word, curl=curl)


def not_ready_for(error: TalkError, subject: str, *, code: str | None = None) -> NotReadyError:
    """Make the error that ends a check because a talk with `subject` had no usable answer (`code` names it better)."""
    finding = of_error(error, subject)
    if code is not None:
        finding = make(code, finding.message, evidence=finding.evidence)
    return NotReadyError([finding], word=error.word, curl=error.curl)
