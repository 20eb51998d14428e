"""What the fuzz tests are fed with: hostile texts, JSON of any shape, and two fakes of connections."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

from hypothesis import strategies as st

from precheck_lib.bounded import websocket
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.http import Answer
from precheck_lib.bounded.journal import Journal
from precheck_lib.errors import DeadlineError
from precheck_lib.servers.http_server import Bounds, HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ANY_CHARACTER = st.characters(exclude_categories=[])
"""Lone surrogates too, which `st.text()` leaves out."""

PIECES = [
    *("::error::", "::add-mask::", "##[error]", "##[add-mask]", "::", ":", "##[", "#", "##", "]", "%0A", "%0D", "%25"),
    *("%3A", "%2C", "%", "\n", "\r", "\r\n", "\n\n\n", "\t", " ", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028"),
    *("\x1b[31m", "\x1b[", "\x1b]0;t\x07", "\x1b]8;;u\x1b\\", "\x9b1m", "\x9d", "\x9c", "\x1b", "\x07", "\x1b(B"),
    *("\x00", "\x7f", "\x80", "\uffff", "\ufffe", "\ud800", "\udfff", "\udc80", "\U0001ffff", "\U0010ffff"),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\ufe0f", "\u3164", "\u034f", "\U000e0041", "\U000e0101"),
    *("]]>", "<![CDATA[", "<b>", "</details>", "<!--", "&", "&amp;", "&#x0;", '"', "'", "<", ">"),
    *("|", "\\|", "\\", "`", "```", "*", "_", "[a](b)", "!", "$", "~", "@user", "http://u:p@h/", "://", "=", ",", ";"),
    *("a", "word", "two words", "é", "日本", "…", "0", "{", "}", "${A}", "a" * 700),
]

TEXT = st.one_of(
    st.text(ANY_CHARACTER, max_size=30),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(ANY_CHARACTER, max_size=3)), max_size=12).map("".join),
)
"""Any text, and texts made of what means something to a runner, a terminal, Markdown or XML."""

BIG = st.sampled_from([10**18, -(10**18), 2**63, 2**64, 10**400, 10**4299, -(10**4299), 10**4300 - 1, -(10**4300 - 1)])

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    BIG,
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(ANY_CHARACTER, max_size=8),
)

KEYS = st.text(ANY_CHARACTER, max_size=6)


def json_values(scalars: st.SearchStrategy[Any] = SCALARS, keys: st.SearchStrategy[str] = KEYS) -> Any:
    """Any JSON value, as Python has it."""
    return st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
        max_leaves=12,
    )


JSON = json_values()


class OneAnswer(HttpServer):
    """A server that gives one answer to whatever it is asked, without a network."""

    def __init__(self, answer: Answer) -> None:
        super().__init__("http://127.0.0.1:1/api", journal=Journal(), bounds=Bounds())
        self.answer = answer

    def ask(self, *_arguments: Any, **_more: Any) -> Answer:
        return self.answer

    def everywhere(self) -> Any:
        """Put its answer in the place of every server's meanwhile."""
        return mock.patch.object(HttpServer, "ask", return_value=self.answer)


def answer(body: Any, status: int = 200, content_type: str = "application/json", *, complete: bool = True) -> Answer:
    """An answer with bytes as they are, or with a value as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, {"Content-Type": content_type}, data, complete=complete)


class Frames:
    """A WebSocket session whose server sends these frames whatever it is asked; then it says nothing until the end."""

    def __init__(self, frames: Iterable[str]) -> None:
        self.frames = list(frames)
        self.sent: list[dict[str, Any]] = []
        self.closed = False

    def send(self, text: str) -> None:
        self.sent.append(json.loads(text))

    def receive(self) -> str:
        if not self.frames:
            raise DeadlineError("deadline of 10 s elapsed", phase="frame", seconds=10.0)
        return self.frames.pop(0)

    def close(self) -> None:
        self.closed = True

    def opened(self) -> Any:
        """Put it in the place of every WebSocket that is opened meanwhile."""
        return mock.patch.object(websocket, "open_session", return_value=self)


@contextlib.contextmanager
def ordinary_stack() -> Iterator[None]:
    """As deep a stack as a program has: Hypothesis gives its tests a deeper one, and would hide a recursion."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    sys.setrecursionlimit(depth + 900)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def budget() -> Budget:
    """A budget that no fake comes near."""
    return Budget(10.0)
