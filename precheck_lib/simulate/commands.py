"""Shell scripts that print what `codex --version` and `opencode --version` do."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

_LINES = {"codex": "codex-cli {}", "opencode": "{}"}


@dataclass(frozen=True)
class Command:
    """What one command does when asked for its version; with the defaults it does it right.

    `line` is printed on stdout, `before` and `after` around it and `stderr` on stderr, all as they stand.
    Then it sleeps `sleep_seconds` and ends with `exit_code`. With `ignore_term` SIGTERM does nothing to it;
    with `grandchild_seconds` it leaves a process that holds stdout open for so long. Only shell builtins run
    unless a time is given.
    """

    line: str
    before: str = ""
    after: str = ""
    stderr: str = ""
    exit_code: int = 0
    sleep_seconds: float = 0.0
    ignore_term: bool = False
    grandchild_seconds: float = 0.0
    crlf: bool = False

    def script(self) -> str:
        """Give the text of the script."""

        def say(text: str, where: str = "") -> list[str]:
            return [f"printf '%s' {shlex.quote(text)}{where}"] if text else []

        lines = ["#!/bin/sh"]
        if self.ignore_term:
            lines.append("trap '' TERM")
        lines.append('case "$*" in --version | -V | -v) ;; *) exit 64 ;; esac')
        lines += say(self.stderr, " >&2")
        # `command -p` finds sleep where PATH holds this folder alone.
        if self.grandchild_seconds:
            lines.append(f"command -p sleep {self.grandchild_seconds:g} &")
        lines += say(self.before)
        lines += say(self.line + ("\r\n" if self.crlf else "\n") if self.line else "")
        lines += say(self.after)
        if self.sleep_seconds:
            lines.append(f"command -p sleep {self.sleep_seconds:g}")
        return "\n".join([*lines, f"exit {self.exit_code}", ""])


def write_commands(
    folder: str | Path, *, codex: str | Command = "0.171.0", opencode: str | Command = "1.18.33"
) -> dict[str, Path]:
    """Write the executables `codex` and `opencode` into `folder` (made if missing); give their paths by name.

    A version is enough for one that behaves; a `Command` says all the rest. `codex` prints `codex-cli X`,
    `opencode` the bare version, each on one line.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, what in (("codex", codex), ("opencode", opencode)):
        command = what if isinstance(what, Command) else Command(_LINES[name].format(what))
        path = place / name
        path.write_text(command.script(), encoding="utf-8", newline="")
        path.chmod(0o755)
        written[name] = path
    return written
