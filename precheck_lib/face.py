"""What a run looks like while it goes on: plain lines for a log, a live line for a person."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

from precheck_lib.report.console import check_line, note_line, phase_line
from precheck_lib.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.outcome import CheckResult
    from precheck_lib.terminal import Terminal

HEARTBEAT_SECONDS = 15.0
"""How long a log may be silent: CI logs that stand still look dead, and some systems end such jobs."""

PATIENCE_SECONDS = 1.0
"""How long a person may wait at the end of a run without a word, while what it has loaded is unloaded."""

_STYLES = {"passed": "green", "failed": "bold red", "error": "bold red", "skipped": "dim"}
_ERASE = "\r\x1b[2K"


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

    def begin(self, budget: Budget) -> None:
        """Let nobody who reads slowly put the end of the run off."""
        self._terminal.end = budget.end

    def phase(self, check: str, text: str, seconds: float) -> None:
        """Remember what goes on, or write a note at once."""
        if seconds < 0:
            self._note(note_line(check, text))
            return
        self._check, self._text, self._seconds = check, text, seconds
        self._began = self._clock()

    def waiting(self) -> None:
        """Say that the run is alive, where nothing was said for a while."""
        self._beat(HEARTBEAT_SECONDS)

    def ended(self, result: CheckResult) -> None:
        """Say how a check has ended."""
        self._said = self._clock()
        self._terminal.out(check_line(result))

    def _note(self, line: str) -> None:
        self._said = self._clock()
        self._terminal.out(line)

    def _beat(self, silence: float) -> bool:
        """Write a heartbeat where nothing was said for so long; tell whether it was."""
        now = self._clock()
        if now - self._said < silence:
            return False
        self._said = now
        self._terminal.out(phase_line(self._check, self._text, now - self._began, self._seconds))
        return True


class LiveFace(PlainFace):
    """The same with colours, and in place of the heartbeat a line that moves. There is no thread behind it.

    `memory` says how many bytes of the GPU's memory are in use, where that can be known without asking the driver.
    `console` is rich's, and only renders: what it renders is written here, for rich would wait for ever on a terminal
    that is stopped. `descriptor` is that of the terminal.
    """

    def __init__(
        self,
        terminal: Terminal,
        console: Any,
        memory: Callable[[], int | None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
        descriptor: int = 1,
    ) -> None:
        super().__init__(terminal, clock)
        self._console = console
        self._memory = memory
        self._descriptor = descriptor
        self._is_shown = False
        self._silence = PATIENCE_SECONDS

    def waiting(self) -> None:
        """Move the live line. The cleanup has none: no `ended` follows it that would take the line away."""
        if self._check == "cleanup":
            if self._beat(self._silence):
                self._silence = HEARTBEAT_SECONDS
            return
        elapsed = self._clock() - self._began
        line = phase_line(self._check, self._text, elapsed, self._seconds, self._memory())
        self._is_shown = True
        self._draw(_ERASE + self._rendered(line, "cyan", width=self._columns()))

    def ended(self, result: CheckResult) -> None:
        """Say how a check has ended, in place of the live line."""
        if self._is_shown:
            self._is_shown = False
            self._draw(_ERASE)
        self._said = self._clock()
        self._terminal.out(self._rendered(check_line(result), _STYLES[result.outcome]))

    def _note(self, line: str) -> None:
        if self._is_shown:
            self._is_shown = False
            self._draw(_ERASE)
        super()._note(self._rendered(line, "yellow"))

    def _rendered(self, line: str, style: str, width: int | None = None) -> str:
        from rich.text import Text

        with self._console.capture() as capture:
            text = Text(line, style=style)
            if width is None:
                self._console.print(text, soft_wrap=True, end="")
            else:
                self._console.print(text, width=width, no_wrap=True, overflow="ellipsis", end="")
        rendered: str = capture.get()
        return rendered

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            return 80

    def _draw(self, text: str) -> None:
        """Write to the terminal what it takes at once; a frame that it does not take is left out."""
        with contextlib.suppress(OSError):
            # Opened a second time, for a mode set on the descriptor itself would be that of other processes too.
            name = os.ttyname(self._descriptor)
            again = os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(again, text.encode("utf-8", "backslashreplace"))
            finally:
                os.close(again)


def face_for(terminal: Terminal, env: Mapping[str, str], memory: Callable[[], int | None] = lambda: None) -> PlainFace:
    """Choose the face: the live one only where a person looks at a terminal that can show it."""
    if not terminal.is_person or env.get("TERM", "dumb") == "dumb" or env.get("GITHUB_ACTIONS") == "true":
        return PlainFace(terminal)
    try:
        return LiveFace(terminal, make_console(env), memory)
    except ImportError:
        return PlainFace(terminal)


def make_console(env: Mapping[str, str]) -> Any:
    """Make the console that renders lines: without any colour where `NO_COLOR` is set."""
    import io

    from rich.console import Console

    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system=None if env.get("NO_COLOR") else "standard",
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ=dict(env),
    )
