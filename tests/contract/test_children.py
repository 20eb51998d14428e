"""The check kind `command` through the engine, with real children that do what no command should (C2, A5, A6).

Each one ends by its budget and a quarter of a second, all that it has started is gone, nothing of its output floods the
report, and the finding says what it did.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from precheck_lib import engine
from precheck_lib.checks.command import CommandOptions, OneCommand
from precheck_lib.outcome import Source, SpecIdentity
from precheck_lib.redact import Redactor
from precheck_lib.report import json_bytes, junit_bytes
from precheck_lib.spec import CheckSpec, Spec
from tests.bounded.hostile import held_up
from tests.bounded.offspring import LEAVE, Offspring
from tests.contract.harness import FORKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUDGET = 0.8
OVERRUN = 0.25
SOON = 1.5
"""Long before the budget of 20 s that those have which are not to run into it."""

SAY = "os.write(1, b'tool 1.0\\n')\n"
STAY = "time.sleep(60)\n"


class Case(NamedTuple):
    """What a command does, what the check says of it, and with which numbers a run ends by it.

    `make` writes the program and gives the argument list; `code` is Python for one that is written in it. `finding` is
    the code of the first finding, `says` is in its message or its evidence, `exits` are the exit codes of a strict run
    and of any other.
    """

    code: str
    outcome: str
    finding: str | None
    says: tuple[str, ...]
    exits: tuple[int, int]
    late: bool = False
    make: Callable[[Path], list[str]] | None = None


def leaving(name: str) -> str:
    return LEAVE[name].format(sleep="ready(); time.sleep(60)") + "\nwhile not os.listdir(FOLDER): time.sleep(0.005)\n"


def written(content: bytes, mode: int = 0o755) -> Callable[[Path], list[str]]:
    def make(place: Path) -> list[str]:
        (place / "tool").write_bytes(content)
        (place / "tool").chmod(mode)
        return ["tool"]

    return make


def a_folder(place: Path) -> list[str]:
    (place / "tool").mkdir()
    return ["tool"]


def late(code: str, *says: str) -> Case:
    return Case(code, "error", "command.deadline", ("deadline of 0.8 s elapsed", *says), (28, 3), late=True)


def wrong(code: str, finding: str, *says: str) -> Case:
    return Case(code, "failed", finding, says, (1, 1))


def unknown(code: str, finding: str, *says: str) -> Case:
    return Case(code, "error", finding, says, (1, 3))


def unfit(make: Callable[[Path], list[str]], finding: str, *says: str) -> Case:
    return Case("", "error", finding, says, (1, 3), make=make)


IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"

KEY = "canary-42-canary"
CUT = {
    "prints-half-a-key-before-its-line-is-cut": (f"print('x' * 70 + '{KEY}')", f"printed '{'x' * 70}canary-42-'…"),
    "prints-half-a-key-before-stderr-is-cut": (f"sys.exit('x' * 150 + '{KEY}')", f"stderr: {'x' * 150}canary-42-…"),
    "prints-half-a-key-at-the-end-of-what-is-kept-of-stderr": (
        f"sys.exit('x' * 2000 + '\\n' + 'y' * 33 + '{KEY}')",
        f"stderr: {'y' * 33}canary-42-cana…",
    ),
    "prints-half-a-character-at-the-end-of-what-is-kept-of-stderr": (
        r"os.write(2, b'x' * 2040 + b'\ncanar' + b'\xc3\xa4' * 9); sys.exit(1)",
        "stderr: canar…",
    ),
}
"""What a command printed, and how it is shown before secrets are hidden in it."""

CASES: dict[str, Case] = {
    "does-it-right": Case(SAY, "passed", None, (), (0, 0)),
    "sleeps": late(SAY + STAY, "by then it had printed 'tool 1.0'"),
    "ignores-term": late(IGNORE + SAY + STAY, "SIGTERM did not end it, SIGKILL did"),
    "stops-itself": late(SAY + "os.kill(os.getpid(), signal.SIGSTOP)", "it did not run: something had stopped it"),
    "floods-stderr": late("while True: os.write(2, b'x' * 65536)", "it wrote on and on to stderr (", " MiB)"),
    "closes-its-output-and-stays": late("os.close(1); os.close(2)\n" + STAY),
    "hides-a-daemon-and-stays": late(
        leaving("orphaned-without-the-pipe") + STAY, "one process that it had started outlived it and was ended"
    ),
    "starts-many-that-ignore-term-and-stays": late(
        f"for _ in range(5):\n if os.fork() == 0: {IGNORE.strip()}; {STAY.strip()}\n" + IGNORE + STAY,
        "SIGTERM did not end it, SIGKILL did; 5 processes that it had started outlived it and were ended",
    ),
    "grandchild-holds-the-pipe": Case(
        leaving("in-the-group-with-the-pipe") + SAY,
        "passed",
        "command.leftover",
        ("left one process behind; it was ended", "its output was still held open after its end"),
        (0, 0),
    ),
    "double-forks-with-setsid": Case(
        leaving("orphaned-without-the-pipe") + SAY,
        "passed",
        "command.leftover",
        ("left one process behind; it was ended", "1 of them in a session of its own, as a daemon is"),
        (0, 0),
    ),
    "double-forks-with-setsid-and-prints-another-line": wrong(
        leaving("orphaned-with-the-pipe") + "print('tool 0.9')", "command.version", "printed 'tool 0.9'"
    ),
    "floods-stdout": wrong(
        "while True: os.write(1, b'tool 1.0\\n' * 7000)",
        "command.flood",
        "printed without end instead of 'tool 1.0'",
        "it was ended after 65536 bytes",
    ),
    "prints-invalid-utf-8": wrong(
        r"os.write(1, b'tool \xff\xfe1.0\n')",
        "command.version",
        r"printed bytes that are no text, b'tool \xff\xfe1.0'",
        "what it printed is not UTF-8",
    ),
    "prints-another-line": wrong("print('tool 0.9')", "command.version", "printed 'tool 0.9', pinned is 'tool 1.0'"),
    "prints-nothing": wrong("", "command.silent", "printed nothing", "it ended with exit status 0"),
    "prints-only-on-stderr": wrong(
        "os.write(2, b'tool 1.0\\n')", "command.silent", "printed nothing", "its last line on stderr: tool 1.0"
    ),
    "waits-for-a-line-on-stdin": wrong(
        "print(end=sys.stdin.readline())", "command.silent", "printed nothing", "its stdin was empty"
    ),
    "reads-stdin-and-does-it-right": Case("sys.stdin.read()\n" + SAY, "passed", None, (), (0, 0)),
    "exits-non-zero": wrong(
        SAY + "sys.exit('no such model')",
        "command.failed",
        "ended with exit status 1",
        "its last line on stderr: no such model",
    ),
    "prints-a-long-line": wrong("print('x' * 100)", "command.version", f"printed {'x' * 80!r}…, pinned is"),
    "prints-long-bytes": wrong(
        r"os.write(1, b'\xff' + b'x' * 100)", "command.version", rf"b'\xff{'x' * 79}'…, pinned is"
    ),
    **{
        name: wrong(code, "command.failed" if "stderr" in name else "command.version", says)
        for name, (code, says) in CUT.items()
    },
    "crashes": unknown(SAY + "os.kill(os.getpid(), signal.SIGSEGV)", "command.signal", "by SIGSEGV", "it crashed"),
    "is-killed": unknown(
        SAY + "os.kill(os.getpid(), signal.SIGKILL)", "command.signal", "by SIGKILL", "the kernel's memory killer"
    ),
    "is-ended-by-a-signal-without-a-name": unknown("os.kill(os.getpid(), 40)", "command.signal", "by signal 40"),
    "is-missing": unfit(lambda _: ["tool"], "command.missing", "tool is not on PATH"),
    "is-missing-at-its-path": unfit(lambda _: ["/no/such/tool"], "command.missing", "there is no such file"),
    "is-not-executable": unfit(written(b"#!/bin/sh\n", 0o644), "command.unusable", "/tool is not executable"),
    "is-a-folder": unfit(a_folder, "command.unusable", "/tool is a folder"),
    "has-no-interpreter": unfit(
        written(b"#!/no/such/interpreter\n"), "command.unusable", "is not on this machine: /no/such/interpreter"
    ),
    "has-a-windows-line-end": unfit(
        written(b"#!/bin/sh\r\n"), "command.unusable", r"'/bin/sh\r'", "the end of its first line"
    ),
    "is-for-another-processor": unfit(
        written(b"\x7fELF" + b"\0" * 60), "command.unusable", "is built for another system or processor"
    ),
    "is-no-program": unfit(written(b"tool 1.0\n"), "command.unusable", "no #! line, no known format"),
    "cannot-be-started": unfit(lambda _: ["/bin/true", "x" * (4 << 20)], "command.unusable", "Argument list too long"),
}

SPECS = {"curl": 0, "plain": 1}
"""What `exit_codes` a spec asks for, and which of the two numbers of a case that makes."""


class Done(NamedTuple):
    report: Any
    check: Any
    seconds: float
    held_up: float
    alive: list[Any]


def carry_out(case: Case, exit_codes: str, place: Path) -> Done:
    place.mkdir()
    with FORKING:
        offspring = Offspring(place / "ready")
        if case.make is not None:
            (place / "bin").mkdir()
            argv = case.make(place / "bin")
        else:
            argv = list(offspring.python(f"FOLDER = {str(offspring.folder)!r}\n{case.code}").argv)
    spec = Spec(
        identity=SpecIdentity(name="it", path="it.yml", digest="d"),
        checks=(
            CheckSpec(
                id="tool",
                title="the tool",
                kind="command",
                options=CommandOptions(commands=[OneCommand(argv=argv, stdout="tool 1.0")]),
                source=Source("it.yml", 1),
                needs=(),
                budget=BUDGET if case.late else 20.0,
            ),
        ),
        success="ok",
        budget=None,
        pins={},
        exit_codes=exit_codes,
    )
    before, started = held_up(), time.monotonic()
    report = engine.run(spec, env={"PATH": f"{place / 'bin'}:/usr/bin:/bin", "TEST_TOOL_API_KEY": "canary-42-canary"})
    seconds = time.monotonic() - started
    return Done(report, report.checks[0], seconds, max(0.0, held_up() - before), offspring.alive())


def assert_right(case: Case, exit_codes: str, done: Done) -> None:
    report, check, seconds, busy, alive = done
    assert alive == []
    assert (check.outcome, report.exit_code) == (case.outcome, case.exits[SPECS[exit_codes]])
    assert [finding.code for finding in check.findings[:1]] == ([case.finding] if case.finding else [])
    text = "".join(f"{finding.message}\n{finding.evidence}\n" for finding in check.findings[:1])
    assert [part for part in case.says if part not in text] == [], text
    assert "run.held" not in [finding.code for finding in check.findings]
    if case.late:
        assert BUDGET <= seconds <= BUDGET + OVERRUN + busy
    else:
        assert seconds <= SOON + busy
    # Of its arguments (one has 4 MiB here) and of what it prints no more than a line is shown.
    assert len(json_bytes(report)) < 20_000
    assert len(junit_bytes(report)) < 20_000


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.late])
def test_what_a_command_has_done_is_said_and_nothing_of_it_is_left(name, tmp_path):
    for exit_codes in SPECS:
        assert_right(CASES[name], exit_codes, carry_out(CASES[name], exit_codes, tmp_path / exit_codes))


def test_what_commands_did_that_had_to_be_ended_is_said_and_nothing_of_them_is_left(tmp_path):
    # They only wait, so they do it together.
    runs = [(name, exit_codes) for name, case in CASES.items() if case.late for exit_codes in SPECS]
    with ThreadPoolExecutor(4) as pool:
        done = pool.map(lambda run: carry_out(CASES[run[0]], run[1], tmp_path / "-".join(run)), runs)
        for (name, exit_codes), one in zip(runs, done, strict=True):
            assert_right(CASES[name], exit_codes, one)


def test_no_two_of_them_are_told_alike():
    told = [(case.finding, case.says) for case in CASES.values() if case.says]
    assert len(set(told)) == len(told)


def test_half_a_secret_that_is_left_before_a_cut_is_hidden():
    assert [Redactor([KEY]).text(says) for _, says in list(CUT.values())[:3]] == [
        f"printed '{'x' * 70}***'…",
        f"stderr: {'x' * 150}***…",
        f"stderr: {'y' * 33}***…",
    ]
    assert Redactor(["canar" + "ä" * 9]).text("stderr: canar…") == "stderr: ***…"
