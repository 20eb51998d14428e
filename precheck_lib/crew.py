"""Checks at the same time: each in a thread, everything that is said of them in the thread of the run."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 64
"""So many checks run at the same time at most."""

_SLICE_SECONDS = 0.25


class Crew:
    """Runs work in threads. What a thread posts, and the end of its work, is done in the thread that calls `next`.

    The work itself has to be bounded and must not raise: nobody is left behind, because nobody is given up.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._posted: queue.SimpleQueue[tuple[str | None, Callable[[], None]]] = queue.SimpleQueue()
        self._threads: dict[str, threading.Thread] = {}

    @property
    def busy(self) -> int:
        """How many are at work."""
        return len(self._threads)

    def begin(self, name: str, work: Callable[[], Callable[[], None]]) -> None:
        """Start `work` in a thread; what it returns is called by `next` when it is over."""

        def run() -> None:
            done: Callable[[], None] = lambda: None  # noqa: E731 - where even the work has failed
            try:
                done = work()
            finally:
                self._posted.put((name, done))

        thread = threading.Thread(target=run, name=f"check {name}")
        self._threads[name] = thread
        thread.start()

    def post(self, call: Callable[[], None]) -> None:
        """Have something said, by a thread that is at work; in order, and before its end."""
        self._posted.put((None, call))

    def tell(self, call: Callable[[], None]) -> None:
        """Have something said, and wait until it was: for what has to be known before the work goes on."""
        said = threading.Event()

        def say() -> None:
            try:
                call()
            finally:
                said.set()  # the thread must not wait for ever for whoever cannot show it

        self.post(say)
        said.wait()  # `next` is called for as long as anybody is at work

    def next(self) -> None:
        """Wait until one thing was posted, and do it."""
        while True:
            try:
                name, call = self._posted.get(timeout=_SLICE_SECONDS)
            except queue.Empty:
                self._tick()
                continue
            if name is not None:
                self._threads.pop(name).join()
            call()
            return
