"""What a program printed and how it ended, compared with what it has to: a line, a pattern, a version, a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from precheck_lib.findings import make
from precheck_lib.versions import Constraint, first_version, parse_version

if TYPE_CHECKING:
    import re

    from precheck_lib.bounded.process import ChildResult
    from precheck_lib.outcome import Finding

_LONGEST_VERSION = 200

_MOST_MATCHED = 8192
"""Characters of what a program prints that are looked through: a pattern can take long on a long text."""


class Wanted(NamedTuple):
    """What a command has to print and how it has to end, its variables expanded."""

    argv: list[str]
    stdout: str | None
    exit: int
    matches: re.Pattern[str] | None
    version: Constraint | None


def unmet(said: str, wanted: Wanted, result: ChildResult) -> list[Finding]:
    """Say what is wrong with what the command printed, or how it ended."""
    line = wanted.stdout
    if result.ended == "flood":
        instead = f" instead of {line!r}" if line is not None else ""
        text = f"the command `{said}` printed without end{instead}"
        return [make("command.flood", text, evidence=f"it was ended after {len(result.stdout)} bytes")]
    if result.code != wanted.exit:
        text = f"`{said}` ended with exit status {result.code}"
        text += f", not {wanted.exit}" if wanted.exit else ""
        return [make("command.failed", text, evidence=said_on_stderr(result))]
    if line is not None and not _is_line(result.stdout, line):
        return [_other_line(said, line, result)]
    return _unmatched(said, wanted, result)


def _other_line(said: str, line: str, result: ChildResult) -> Finding:
    if not result.stdout.strip():
        return _silent(said, f"pinned is {line!r}", result)
    text = f"the command `{said}` printed {shown(result.stdout)}, pinned is {line!r}"
    if not _is_text(result.stdout):
        return make("command.version", text, evidence="what it printed is not UTF-8, so no version")
    off = "it is the command on PATH that is off the pin; no server was asked yet"
    return make("command.version", text, evidence=off)


def _silent(said: str, wanted: str, result: ChildResult) -> Finding:
    text = f"the command `{said}` printed nothing, {wanted}"
    found_none = f"it ended with exit status {result.code}; its stdin was empty and its output no terminal"
    return make("command.silent", text, evidence=together(found_none, said_on_stderr(result)))


def _unmatched(said: str, wanted: Wanted, result: ChildResult) -> list[Finding]:
    """Compare with the regular expression and with the constraint."""
    if wanted.matches is None and wanted.version is None:
        return []
    if not result.stdout.strip():
        needed = f"version {wanted.version.text} is needed" if wanted.version else "something was to be found in it"
        return [_silent(said, needed, result)]
    text = result.stdout.decode("utf-8", "replace")[:_MOST_MATCHED]
    match = wanted.matches.search(text) if wanted.matches is not None else None
    if wanted.matches is not None and match is None:
        what = f"the command `{said}` printed {shown(result.stdout)}, which does not match {wanted.matches.pattern!r}"
        return [make("command.output", what)]
    return [] if wanted.version is None else _wrong_version(said, wanted.version, text, match, result)


def _wrong_version(
    said: str, wanted: Constraint, text: str, match: re.Match[str] | None, result: ChildResult
) -> list[Finding]:
    named = match is not None and "version" in match.re.groupindex
    found = match["version"] if match is not None and named else first_version(text)
    if found is None:
        what = f"the command `{said}` printed {shown(result.stdout)}, with no version in it"
        return [make("command.output", what, evidence=f"{wanted.text} is needed")]
    try:
        holds = wanted.holds(parse_version(found))
    except ValueError as error:
        return [make("command.output", f"the command `{said}`: {error}", evidence=f"{wanted.text} is needed")]
    if holds:
        return []
    what = f"the command `{said}` is version {found}, needed is {wanted.text}"
    return [make("command.version", what, evidence=f"it printed {shown(result.stdout)}")]


def _is_line(stdout: bytes, line: str) -> bool:
    return stdout in (line.encode() + end for end in (b"\n", b"\r\n", b""))


def _is_text(stdout: bytes) -> bool:
    try:
        stdout.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def shown(stdout: bytes) -> str:
    """Write what was printed, or the beginning of it."""
    lines = stdout.rstrip(b"\r\n").split(b"\n")
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    if not _is_text(stdout):
        return f"bytes that are no text, {lines[0][:80]!r}{'…' if len(lines[0]) > 80 else ''}{more}"
    line = lines[0].decode("utf-8")
    return f"{line[:80]!r}{'…' if len(line) > 80 else ''}{more}"  # the sign of a cut: half a secret is before it


def first_line(stdout: bytes) -> str:
    """Return the first line that is not blank, where it looks like a version; else nothing."""
    lines = [line for line in stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[0].strip() if lines and lines[0].isprintable() and len(lines[0]) <= _LONGEST_VERSION else ""


def said_on_stderr(result: ChildResult) -> str:
    """Say what was written to stderr at last."""
    lines = result.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    if not lines:
        return ""
    return f"its last line on stderr: {lines[-1][:160]}{'…' if len(lines[-1]) > 160 else ''}"


def together(*parts: str) -> str:
    """Join what there is to say."""
    return "; ".join(part for part in parts if part)
