"""What is in a file: its SHA-256 and a text that has to stand in it, read once and never shown."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

import msgspec

from precheck_lib.checks.look import size_text
from precheck_lib.findings import make

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.outcome import Finding

_PART = 1 << 20


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be in a file: a digest of all of it, a text within its first `max_read` bytes; `said` names it."""

    sha256: str | None = None
    text: str | None = None
    said: str = ""
    max_read: int = _PART


def judge_content(path: str, name: str, wanted: Content, budget: Budget) -> list[Finding]:
    """Read a file until the budget's end and judge what is in it; what cannot be read is unknown."""
    try:
        # Whatever it has become since it was looked at: a FIFO must not hold us, a terminal not become ours.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        return [make("file.unreadable", f"{name} cannot be read: {error.strerror}")]
    with open(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return [make("file.unreadable", f"{name} is no file any more")]
        digest, head, length = hashlib.sha256(), bytearray(), 0
        try:
            while wanted.sha256 is not None or len(head) < wanted.max_read:
                budget.check("folder")
                part = file.read(_PART)
                if not part:
                    break
                length += len(part)
                if wanted.sha256 is not None:
                    digest.update(part)
                if wanted.text is not None:
                    head += part[: max(0, wanted.max_read - len(head))]
        except OSError as error:
            return [make("file.unreadable", f"{name} cannot be read: {error.strerror}")]
        more = length > len(head) or bool(file.read(1))
    return list(_judge(name, wanted, digest.hexdigest(), bytes(head), more=more))


def _judge(name: str, wanted: Content, digest: str, head: bytes, *, more: bool) -> Iterator[Finding]:
    if wanted.sha256 is not None and digest != wanted.sha256:
        yield make("file.digest", f"{name} has the SHA-256 {digest}, not {wanted.sha256}")
    if wanted.text is None or wanted.text.encode("utf-8", "surrogateescape") in head:
        return
    if more:
        searched = size_text(wanted.max_read)
        text = f"{name} does not hold {wanted.said!r} within its first {searched}, and more of it is not read"
        yield make("file.unreadable", text, remedy="Raise `max_read` in the spec.", who="spec")
    else:
        yield make("file.content", f"{name} does not hold {wanted.said!r}", evidence=f"it has {len(head)} bytes")


__all__ = ["Content", "judge_content"]
