"""What a run looks like while it goes on: plain lines for a log, a live line for a person."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from precheck_lib.report.console import check_line, phase_line
from precheck_lib.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.outcome import CheckResult
    from precheck_lib.terminal import Terminal

HEARTBEAT_SECONDS = 15.0
"""How long a log may be silent: CI logs that stand still look dead, and some systems end such jobs."""

_STYLES = {"passed": "green", "failed": "bold red", "error": "bold red", "skipped": "dim"}


class PlainFace(Watcher):
    """One line for each check as it ends, and a heartbeat while something takes long."""

    def __init__(self, terminal: Terminal, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._said = clock()
        self._check = ""
        self._text = ""
        self._seconds = 0.0
        self._began = clock()

    def phase(self, check: str, text: str, seconds: float) -> None:
        """Remember what goes on."""
        self._check, self._text, self._seconds = check, text, seconds
        self._began = self._clock()

    def waiting(self) -> None:
        """Say that the run is alive, where nothing was said for a while."""
        now = self._clock()
        if now - self._said >= HEARTBEAT_SECONDS:
            self._said = now
            self._terminal.out(phase_line(self._check, self._text, now - self._began, self._seconds))

    def ended(self, result: CheckResult) -> None:
        """Say how a check has ended."""
        self._said = self._clock()
        self._terminal.out(check_line(result))


class LiveFace(PlainFace):
    """The same with colours, and in place of the heartbeat a line that moves (`rich`, without its thread).

    `memory` says how many bytes of the GPU's memory are in use, where that can be known without asking the driver.
    """

    def __init__(self, terminal: Terminal, console: Any, memory: Callable[[], int | None] = lambda: None) -> None:
        super().__init__(terminal)
        from rich.live import Live
        from rich.text import Text

        self._text_type = Text
        self._console = console
        self._memory = memory
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def waiting(self) -> None:
        """Move the live line."""
        if not self._live.is_started:
            self._live.start()
        elapsed = self._clock() - self._began
        line = phase_line(self._check, self._text, elapsed, self._seconds, self._memory())
        self._live.update(self._text_type(line, style="cyan", no_wrap=True, overflow="ellipsis"), refresh=True)

    def ended(self, result: CheckResult) -> None:
        """Say how a check has ended, in place of the live line."""
        if self._live.is_started:
            self._live.stop()
        style = _STYLES[result.outcome]
        self._console.print(self._text_type(check_line(result), style=style), soft_wrap=True)


def face_for(terminal: Terminal, env: Mapping[str, str], memory: Callable[[], int | None] = lambda: None) -> PlainFace:
    """Choose the face: the live one only where a person looks at a terminal that can show it."""
    if not terminal.is_person or env.get("TERM", "dumb") == "dumb" or env.get("GITHUB_ACTIONS") == "true":
        return PlainFace(terminal)
    try:
        from rich.console import Console
    except ImportError:
        return PlainFace(terminal)
    console = Console(highlight=False, markup=False, emoji=False, no_color=bool(env.get("NO_COLOR")))
    return LiveFace(terminal, console, memory)
