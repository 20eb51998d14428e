"""`command`: programs end and print as they have to: a line, a pattern, a version; all run at the same time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from precheck_lib.bounded.budget import describe_seconds
from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import literal, pattern_problem, refuse, refuse_options, text_of
from precheck_lib.checks.printed import Wanted, first_line, said_on_stderr, shown, together, unmet
from precheck_lib.findings import NotReadyError, make
from precheck_lib.interrupt import signal_name
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.versions import constraint_problem, parse_constraint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.bounded.process import ChildResult
    from precheck_lib.checks.kind import OptionProblem

_FLOOD_BYTES = 1 << 20
"""From here on what a program writes to stderr is said to be too much for a warning or two."""

_WHY_SIGNAL = {
    "SIGKILL": "it did not end itself: the kernel's memory killer, a limit of this job, or somebody else ended it",
    **dict.fromkeys(("SIGSEGV", "SIGBUS", "SIGILL", "SIGABRT", "SIGFPE", "SIGTRAP", "SIGSYS"), "it crashed"),
}


class OneCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`argv` is run without a shell; what it prints and how it ends has to be right in all that is given."""

    argv: Annotated[list[str], Meta(description="The program and its arguments; there is no shell.")]
    stdout: Annotated[str | None, Meta(description="The one line that it has to print, exactly.")] = None
    exit: Annotated[int, Meta(description="The exit status that it has to end with.")] = 0
    matches: Annotated[
        str | None,
        Meta(
            description="A regular expression (Python's) that has to be found in what it prints, `^` and `$` at the "
            "ends of a line; a group named `version` says what `version` is compared with."
        ),
    ] = None
    version: Annotated[
        str | None,
        Meta(
            description="What the version that it prints has to be, such as `>=12.4,<13` or `1.2.3`: of the group "
            "`version` of `matches`, or else of the first thing that looks like a version."
        ),
    ] = None


class CommandOptions(Options, frozen=True, kw_only=True):
    """One command, or several as `commands`: run at the same time, without input, within the check's budget."""

    commands: Annotated[list[OneCommand] | None, Meta(description="Several commands, run at the same time.")] = None
    argv: Annotated[
        list[str] | None, Meta(description="The program and its arguments, where there is one command.")
    ] = None
    stdout: Annotated[str | None, Meta(description="The one line that it has to print, exactly.")] = None
    exit: Annotated[int, Meta(description="The exit status that it has to end with.")] = 0
    matches: Annotated[str | None, Meta(description="A regular expression that has to be found in what it prints.")] = (
        None
    )
    version: Annotated[str | None, Meta(description="What the version that it prints has to be: `>=12.4,<13`.")] = None

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        commands = _commands(self)
        if not commands:
            yield (), "either `argv` (with what it has to print) or a list of `commands` is needed"
        for index, command in enumerate(commands):
            where = () if self.commands is None else ("commands", index)
            if not command.argv or not command.argv[0]:
                yield (*where, "argv"), "argv: a program is needed"
            if (pattern := literal(command.matches)) is not None and (why := pattern_problem(pattern)):
                yield (*where, "matches"), f"matches: {why}"
            if (version := literal(command.version)) is not None and (why := constraint_problem(version)):
                yield (*where, "version"), f"version: {why}"


def run(options: CommandOptions, context: Context) -> list[Finding]:
    """Run the commands and judge what they print."""
    from precheck_lib.bounded.process import Command, run_children

    env = context.child_env
    wanted = _wanted(options, context)
    commands = [Command(argv=each.argv, env=env) for each in wanted]
    results = run_children(commands, budget=context.budget, meanwhile=context.meanwhile)
    wrong: list[Finding] = []
    unknown: list[Finding] = []
    warnings: list[Finding] = []
    for command, each, result in zip(_commands(options), wanted, results, strict=True):
        said = _said(command.argv)
        found = _unknown(said, command.argv[0], result, context.budget.over("child").seconds)
        if found is not None:
            unknown.append(found)
        else:
            wrong += unmet(said, each, result)
            constraint = None if each.version is None else each.version.text
            if each.stdout is not None or constraint is not None:
                context.saw(f"`{said}`", "version", first_line(result.stdout), each.stdout or constraint)
        if result.held:
            pids = ", ".join(map(str, result.held))
            unknown.append(make("run.held", f"the kernel does not let `{said}` go (pid {pids})"))
        elif result.leftover:
            warnings.append(_leftover(said, result))
    if wrong:
        raise NotReadyError(wrong + unknown + warnings)
    if unknown:
        late = any(result.ended == "deadline" for result in results)
        raise NotReadyError(unknown + warnings, word="error", curl=28 if late else 1)
    return warnings


def _commands(options: CommandOptions) -> list[OneCommand]:
    """Return the commands in whichever form they are written; empty where it is neither form or both."""
    if options.argv is None:
        alone = (options.stdout, options.matches, options.version) == (None, None, None) and options.exit == 0
        return list(options.commands or []) if alone else []
    if options.commands is not None:
        return []
    one = OneCommand(
        argv=options.argv,
        stdout=options.stdout,
        exit=options.exit,
        matches=options.matches,
        version=options.version,
    )
    return [one]


def _wanted(options: CommandOptions, context: Context) -> list[Wanted]:
    """Expand the variables, and refuse what cannot be meant."""
    refuse_options(options)
    problems = []
    wanted = []
    for command in _commands(options):
        argv = [context.text(part) for part in command.argv]
        line, matches = text_of(command.stdout, context), text_of(command.matches, context)
        version = text_of(command.version, context)
        if matches is not None and (why := pattern_problem(matches)):
            problems.append(f"matches: {why}")
        elif version is not None and (why := constraint_problem(version)):
            problems.append(f"version: {why}")
        else:
            pattern = None if matches is None else re.compile(matches, re.MULTILINE)
            constraint = None if version is None else parse_constraint(version)
            wanted.append(Wanted(argv, line, command.exit, pattern, constraint))
    refuse(problems)
    return wanted


def _unknown(said: str, program: str, result: ChildResult, seconds: float) -> Finding | None:
    """Say why it could not be found out what the command prints, where it could not."""
    if result.ended == "deadline":
        text = f"`{said}`: deadline of {describe_seconds(seconds)} elapsed"
        return make("command.deadline", text, evidence=_while_it_ran(result))
    if result.ended == "signal":
        name = signal_name(result.code)
        evidence = together(_WHY_SIGNAL.get(name, ""), said_on_stderr(result))
        return make("command.signal", f"`{said}` was ended by {name}", evidence=evidence)
    if result.ended == "missing":
        where = "there is no such file" if "/" in program else f"{program} is not on PATH"
        return make("command.missing", f"`{said}`: {where}")
    if result.ended not in ("exit", "flood"):
        return make("command.unusable", f"`{said}`: {_why_unusable(program, result)}")
    return None


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
    printed = f"by then it had printed {shown(result.stdout)}" if result.stdout.strip() else ""
    return together(manner, started, printed, said_on_stderr(result))


def _leftover(said: str, result: ChildResult) -> Finding:
    count = result.others
    text = f"`{said}` left {_processes(count)} behind; {'it was' if count == 1 else 'they were'} ended"
    away = f"{result.away} of them in a session of its own, as a daemon is" if result.away else ""
    held = "its output was still held open after its end" if result.pipe_held else ""
    return make("command.leftover", text, evidence=together(away, held), severity="warning")


def _processes(count: int) -> str:
    return "one process" if count == 1 else f"{count} processes"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _said(argv: list[str]) -> str:
    """Write an argument list as it is shown: a script in it would fill the page."""
    text = " ".join(argv)
    return text if len(text) <= 200 else f"{text[:199]}…"


def plan(options: CommandOptions) -> list[Deed]:
    """Say what would be done."""
    return [Deed(f"run `{_said(command.argv)}`; {_needed(command)}") for command in _commands(options)]


def _needed(command: OneCommand) -> str:
    needs = []
    if command.stdout is not None:
        needs.append(f"must print `{command.stdout}`")
    if command.matches is not None:
        needs.append(f"must print something that matches `{command.matches}`")
    if command.version is not None:
        needs.append(f"must print a version that is {command.version}")
    if command.exit or not needs:
        needs.append(f"must end with exit status {command.exit}")
    return f"it {' and '.join(needs)}"


KIND = Kind(name="command", options=CommandOptions, run=run, plan=plan, imports=("psutil",))
