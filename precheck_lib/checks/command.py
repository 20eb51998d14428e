"""`command`: programs print exactly one line each; all run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from precheck_lib.bounded.budget import describe_seconds
from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.findings import NotReadyError, make
from precheck_lib.interrupt import signal_name
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature

if TYPE_CHECKING:
    from precheck_lib.bounded.process import ChildResult

_FLOOD_BYTES = 1 << 20
"""From here on what a program writes to stderr is said to be too much for a warning or two."""

_WHY_SIGNAL = {
    "SIGKILL": "it did not end itself: the kernel's memory killer, a limit of this job, or somebody else ended it",
    **dict.fromkeys(("SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE", "SIGTRAP", "SIGSYS"), "it crashed"),
}


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

    env = context.child_env
    wanted = [context.text(command.stdout) for command in options.commands]
    commands = [Command(argv=[context.text(part) for part in command.argv], env=env) for command in options.commands]
    results = run_children(commands, budget=context.budget, meanwhile=context.meanwhile)
    unmet: list[Finding] = []
    unknown: list[Finding] = []
    warnings: list[Finding] = []
    for command, line, result in zip(options.commands, wanted, results, strict=True):
        said = _said(command.argv)
        found = _unknown(said, command.argv[0], result, context.budget.over("child").seconds)
        if found is not None:
            unknown.append(found)
        else:
            unmet += _unmet(said, line, result)
        if result.held:
            pids = ", ".join(map(str, result.held))
            unknown.append(make("run.held", f"the kernel does not let `{said}` go (pid {pids})"))
        elif result.leftover:
            warnings.append(_leftover(said, result))
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
        return make("command.deadline", text, evidence=_while_it_ran(result))
    if result.ended == "signal":
        name = signal_name(result.code)
        evidence = _together(_WHY_SIGNAL.get(name, ""), _said_on_stderr(result))
        return make("command.signal", f"`{said}` was ended by {name}", evidence=evidence)
    if result.ended == "missing":
        where = "there is no such file" if "/" in program else f"{program} is not on PATH"
        return make("command.missing", f"`{said}`: {where}")
    if result.ended not in ("exit", "flood"):
        return make("command.unusable", f"`{said}`: {_why_unusable(program, result)}")
    return None


def _unmet(said: str, line: str, result: ChildResult) -> list[Finding]:
    """Say what is wrong with what the command printed, or how it ended."""
    if result.ended == "flood":
        text = f"the command `{said}` printed without end instead of {line!r}"
        return [make("command.flood", text, evidence=f"it was ended after {len(result.stdout)} bytes")]
    if result.code != 0:
        text = f"`{said}` ended with exit status {result.code}"
        return [make("command.failed", text, evidence=_said_on_stderr(result))]
    if _is_line(result.stdout, line):
        return []
    if not result.stdout.strip():
        text = f"the command `{said}` printed nothing, pinned is {line!r}"
        found_none = "it ended with exit status 0; its stdin was empty and its output no terminal"
        return [make("command.silent", text, evidence=_together(found_none, _said_on_stderr(result)))]
    text = f"the command `{said}` printed {_shown(result.stdout)}, pinned is {line!r}"
    if not _is_text(result.stdout):
        return [make("command.version", text, evidence="what it printed is not UTF-8, so no version")]
    off = "it is the command on PATH that is off the pin; no server was asked yet"
    return [make("command.version", text, evidence=off)]


def _is_line(stdout: bytes, line: str) -> bool:
    return stdout in (line.encode() + end for end in (b"\n", b"\r\n", b""))


def _is_text(stdout: bytes) -> bool:
    try:
        stdout.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _shown(stdout: bytes) -> str:
    lines = stdout.rstrip(b"\r\n").split(b"\n")
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    if not _is_text(stdout):
        return f"bytes that are no text, {lines[0][:80]!r}{more}"
    return f"{lines[0].decode('utf-8')[:80]!r}{more}"


def _why_unusable(program: str, result: ChildResult) -> str:
    detail = result.stderr.decode("utf-8", "backslashreplace")
    if result.ended == "not-executable":
        return f"{detail} is not executable"
    if result.ended == "folder":
        return f"{detail} is a folder"
    if result.ended == "no-interpreter":
        what = detail if detail.isprintable() else f"{detail!r}, with what stands at the end of its first line"
        return f"{program} is there, but what is to run it is not on this machine: {what}"
    if result.ended == "wrong-format":
        built = "is built for another system or processor" if detail else "is no program: no #! line, no known format"
        return f"{program} {built}"
    return f"{program} could not be started: {detail}"


def _while_it_ran(result: ChildResult) -> str:
    """Say what is known of a program that had to be ended: the likeliest reason comes first."""
    if result.stderr_bytes > _FLOOD_BYTES:
        return f"it wrote on and on to stderr ({result.stderr_bytes >> 20} MiB)"
    manner = ""
    if result.stopped:
        manner = "it did not run: something had stopped it (SIGSTOP, or a wish for a terminal)"
    elif result.stubborn:
        manner = "SIGTERM did not end it, SIGKILL did"
    started = ""
    if result.others:
        started = f"{_processes(result.others)} that it had started outlived it and {_were(result.others)} ended"
    printed = f"by then it had printed {_shown(result.stdout)}" if result.stdout.strip() else ""
    return _together(manner, started, printed, _said_on_stderr(result))


def _leftover(said: str, result: ChildResult) -> Finding:
    count = result.others
    text = f"`{said}` left {_processes(count)} behind; {'it was' if count == 1 else 'they were'} ended"
    away = f"{result.away} of them in a session of its own, as a daemon is" if result.away else ""
    held = "its output was still held open after its end" if result.pipe_held else ""
    return make("command.leftover", text, evidence=_together(away, held), severity="warning")


def _processes(count: int) -> str:
    return "one process" if count == 1 else f"{count} processes"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _said(argv: list[str]) -> str:
    """Write an argument list as it is shown: a script in it would fill the page."""
    text = " ".join(argv)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _said_on_stderr(result: ChildResult) -> str:
    lines = result.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    return f"its last line on stderr: {lines[-1][:160]}" if lines else ""


def _together(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def plan(options: CommandOptions) -> list[Deed]:
    """Say what would be done."""
    return [Deed(f"run `{_said(command.argv)}`; it must print `{command.stdout}`") for command in options.commands]


KIND = Kind(name="command", options=CommandOptions, run=run, plan=plan, imports=("psutil",))
