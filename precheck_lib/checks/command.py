"""`command`: programs print exactly one line each; all run at the same time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from precheck_lib.bounded.budget import describe_seconds
from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.findings import NotReadyError, make
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature

if TYPE_CHECKING:
    from precheck_lib.bounded.process import ChildResult

_ALLOWED = re.compile(r"PATH|HOME|LANG|LC_.*|TMPDIR|XDG_.*")
"""What a child is given of the environment (CONTRACT C2): enough to run, and no secret."""


class OneCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`argv` is run without a shell; `stdout` is the one line that it has to print."""

    argv: list[str]
    stdout: str


class CommandOptions(Options, frozen=True, kw_only=True):
    """`commands`: run at the same time, stdin from the null device, stderr ignored, within the check's budget."""

    commands: list[OneCommand]


def run(options: CommandOptions, context: Context) -> list[Finding]:
    """Run the commands and compare what they print."""
    from precheck_lib.bounded.process import Command, run_children

    env = {name: context.env[name] for name in context.env if _ALLOWED.fullmatch(name)}
    wanted = [context.text(command.stdout) for command in options.commands]
    commands = [Command(argv=[context.text(part) for part in command.argv], env=env) for command in options.commands]
    results = run_children(commands, budget=context.budget, meanwhile=context.meanwhile)
    unmet: list[Finding] = []
    unknown: list[Finding] = []
    warnings: list[Finding] = []
    for command, line, result in zip(options.commands, wanted, results, strict=True):
        said = " ".join(command.argv)
        found = _unknown(said, command.argv[0], result, context.budget.over("child").seconds)
        if found is not None:
            unknown.append(found)
        else:
            unmet += _unmet(said, line, result)
        if result.held:
            pids = ", ".join(map(str, result.held))
            unknown.append(make("run.held", f"the kernel does not let `{said}` go (pid {pids})"))
        elif result.leftover:
            text = f"`{said}` left processes behind; they were ended"
            warnings.append(make("command.leftover", text, severity="warning"))
    if unmet:
        raise NotReadyError(unmet + unknown + warnings)
    if unknown:
        late = any(result.ended == "deadline" for result in results)
        raise NotReadyError(unknown + warnings, word="error", curl=28 if late else 1)
    return warnings


def _unknown(said: str, program: str, result: ChildResult, seconds: float) -> Finding | None:
    """Say why it could not be found out what the command prints, where it could not."""
    if result.ended == "deadline":
        text = f"`{said}`: deadline of {describe_seconds(seconds)} elapsed"
        return make("command.deadline", text, evidence=_said_on_stderr(result.stderr))
    if result.ended in ("missing", "not-executable", "folder", "failed"):
        return make("command.missing", _not_begun(said, program, result.ended, result.stderr))
    if result.ended == "signal":
        text = f"`{said}` was ended by signal {result.code}"
        return make("command.failed", text, evidence=_said_on_stderr(result.stderr))
    return None


def _unmet(said: str, line: str, result: ChildResult) -> list[Finding]:
    """Say what is wrong with what the command printed, or how it ended."""
    if result.ended == "flood":
        return [make("command.version", f"the command `{said}` printed without end instead of {line!r}")]
    if result.code != 0:
        text = f"`{said}` ended with exit status {result.code}"
        return [make("command.failed", text, evidence=_said_on_stderr(result.stderr))]
    if not _is_line(result.stdout, line):
        text = f"the command `{said}` printed {_shown(result.stdout)}, pinned is {line!r}"
        return [
            make(
                "command.version",
                text,
                evidence="it is the command on PATH that is off the pin; no server was asked yet",
            )
        ]
    return []


def _is_line(stdout: bytes, line: str) -> bool:
    return stdout in (line.encode() + end for end in (b"\n", b"\r\n", b""))


def _shown(stdout: bytes) -> str:
    text = stdout.decode("utf-8", "backslashreplace").rstrip("\r\n")
    lines = text.split("\n")
    if not text:
        return "nothing"
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    return f"{lines[0][:80]!r}{more}"


def _not_begun(said: str, program: str, ended: str, detail: bytes) -> str:
    text = detail.decode("utf-8", "backslashreplace")
    if ended == "missing":
        return f"`{said}`: {program} is not on PATH"
    if ended == "not-executable":
        return f"`{said}`: {text} is not executable"
    if ended == "folder":
        return f"`{said}`: {text} is a folder"
    return f"`{said}` could not be started: {text}"


def _said_on_stderr(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    return f"its last line on stderr: {lines[-1][:160]}" if lines else ""


def plan(options: CommandOptions) -> list[Deed]:
    """Say what would be done."""
    return [Deed(f"run `{' '.join(command.argv)}`; it must print `{command.stdout}`") for command in options.commands]


KIND = Kind(name="command", options=CommandOptions, run=run, plan=plan, imports=("psutil",))
