"""The scheduler of an Ollama server as seen from outside: loading, resident, unloading, what ends each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

State = Literal["loading", "resident", "unloading"]


@dataclass
class Runner:
    """One model in memory, or on its way in or out; times are those of `time.monotonic()`.

    `until` is when loading or unloading is done (`None`: never). `owner` is the number of the connection
    whose client has to stay for the load to go on, unless it is `sure`. `reads` is how many inventories list
    it before it vanishes by itself (`None`: all).
    """

    state: State
    until: float | None
    keep_alive: float
    expires: float
    owner: int = -1
    sure: bool = False
    reads: int | None = None


class Runners:
    """The runners by canonical name. The caller holds the lock; time passes when `advance` is called."""

    def __init__(self, unload_seconds: Callable[[str], float | None]) -> None:
        self._unload_seconds = unload_seconds
        self.table: dict[str, Runner] = {}

    def advance(self) -> None:
        """Let happen what is due: loads without a client end, keep-alives run out, unloaded rows go."""
        now = time.monotonic()
        for name, runner in list(self.table.items()):
            if runner.state == "loading" and runner.sure and runner.until is not None and runner.until <= now:
                self.finish(name, runner)
            if runner.state == "resident" and runner.expires <= now:
                self.begin_unload(name)
            if runner.state == "unloading" and runner.until is not None and runner.until <= now:
                del self.table[name]

    def next_change(self) -> float | None:
        """When `advance` next has something to do."""
        times = []
        for runner in self.table.values():
            if runner.state == "resident":
                times.append(runner.expires)
            elif runner.until is not None and (runner.sure or runner.state == "unloading"):
                times.append(runner.until)
        return min(times, default=None)

    def begin_load(self, name: str, seconds: float | None, keep_alive: float, owner: int = -1) -> Runner:
        """Put a model on its way in; `seconds` of `None` never end by themselves."""
        now = time.monotonic()
        until = None if seconds is None else now + seconds
        runner = Runner("loading", until, keep_alive, expires=now + keep_alive, owner=owner)
        self.table[name] = runner
        return runner

    def finish(self, name: str, runner: Runner) -> None:
        """Make a loading model resident."""
        runner.state, runner.until = "resident", None
        runner.expires = time.monotonic() + runner.keep_alive
        self.table[name] = runner

    def touch(self, runner: Runner, keep_alive: float | None) -> None:
        """Use a model that is there: any request that names a keep_alive overwrites the runner's one."""
        if keep_alive is not None:
            runner.keep_alive = keep_alive
        runner.expires = time.monotonic() + runner.keep_alive

    def begin_unload(self, name: str) -> None:
        """Unload a resident model; for one that is absent or still loading this does nothing."""
        runner = self.table.get(name)
        if runner is None or runner.state != "resident":
            return
        seconds, now = self._unload_seconds(name), time.monotonic()
        runner.state, runner.expires = "unloading", now
        runner.until = None if seconds is None else now + seconds
        if seconds is not None and seconds <= 0:
            del self.table[name]

    def appear_after(self, name: str, seconds: float) -> None:
        """Let a load that would never end be done in `seconds`, whether or not anybody waits for it."""
        runner = self.table.get(name)
        if runner is not None and runner.state == "loading" and runner.until is None:
            runner.sure, runner.until = True, time.monotonic() + seconds

    def read(self) -> list[str]:
        """Give what an inventory lists, and count the read of those that are listed only so often."""
        for name, runner in list(self.table.items()):
            if runner.state != "loading" and runner.reads is not None:
                if runner.reads == 0:
                    del self.table[name]
                runner.reads -= 1
        return self.listed()

    def listed(self) -> list[str]:
        """Give the names in the inventory: a loading model is not in it, one being unloaded still is."""
        return [name for name, runner in self.table.items() if runner.state != "loading"]
