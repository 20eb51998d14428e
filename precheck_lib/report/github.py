"""What GitHub's runner is told: what to mask, annotations, a job summary, and the outputs of the step.

The runner executes `::command::` at the start of a line and `##[command]` anywhere in one; what is untrusted goes
through `clean`, which breaks both, before it is escaped. Limits that the runner applies without a word: 10 annotations
of a kind for a step (one is kept for its own `Process completed with exit code`), 4,096 characters of a message, 1 MiB
of a summary.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.needles import SHORTEST
from precheck_lib.outcome import Finding, Source
from precheck_lib.redact import parts
from precheck_lib.report.junit import place
from precheck_lib.report.text import clean
from precheck_lib.report.wording import contradiction, failures, is_bad, warnings
from precheck_lib.spellings import as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from precheck_lib.outcome import CheckResult, Report

MOST_OF_A_KIND = 9
BODY_LIMIT = 700
"""Characters of an annotation's body: what a reader of the job's page sees without unfolding it."""

SUMMARY_LIMIT = 256 << 10
"""Bytes of a summary: a quarter of what the runner takes, for a larger one is dropped as a whole."""

WHO = {"job": "the job's author", "spec": "the spec's author", "host": "the host's owner"}

_NOT_TESTED = "Your code was not tested."
_GOES_ON = "The job goes on, on a machine that is not fit for it."
_CUT = "\n\n(cut: the reports have all of it)\n"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>$])")


# Masks ---------------------------------------------------------------------------------------------------------------


def mask_lines(secrets: Iterable[str]) -> list[str]:
    """Write the workflow commands that make the runner hide these secrets in the log of the whole job.

    One for each line of a value, and for each secret inside of one that is JSON. The runner would mask every line of a
    value of several lines by itself, a lone `{` too; here whatever has fewer than 8 characters is left out. It adds the
    usual spellings (base64, JSON, URL, XML) to each on its own.
    """
    found: dict[str, None] = {}
    for secret in secrets:
        for part in parts(secret):
            # As the runner reads it from a log: bytes that are no UTF-8 are U+FFFD.
            for line in re.split(r"[\r\n]+", as_bytes(part).decode("utf-8", "replace")):
                if len(line.strip()) >= SHORTEST:
                    found[line.strip()] = None
    return [f"::add-mask::{_data(line)}" for line in found]


# Annotations ----------------------------------------------------------------------------------------------------------


def annotation_lines(report: Report, *, workspace: str | None, only_warn: bool = False) -> list[str]:
    """Write the workflow commands that annotate the job: the first failure first, then the others, then warnings.

    At most 9 of a kind; the last of them says then how many are left out. With `only_warn` the job goes on where the
    machine is not ready: its failures are warnings that say so. `workspace` is the folder of the checkout: an
    annotation stands at the line of its check where the spec lies below it.
    """
    goes_on = only_warn and report.verdict == "not-ready"
    kind = "warning" if goes_on else "error"
    begin = _GOES_ON if goes_on else _NOT_TESTED
    lines: dict[str, list[str]] = {"error": [], "warning": []}
    for check, finding, source in _failures(report):
        title = f"precheck: {_host(report)} not ready - {clean(finding.code, 100)}"
        lines[kind].append(_command(kind, title, _body(begin, check, finding), _where(source, workspace)))
    for result in report.checks:
        for finding in warnings(result):
            title = f"precheck: {_host(report)} - {clean(finding.code, 100)}"
            body = _body("", result.id, finding)
            lines["warning"].append(_command("warning", title, body, _where(result.source, workspace)))
    return [line for kind, found in lines.items() for line in _limited(found, kind, report)]


def _failures(report: Report) -> Iterator[tuple[str, Finding, Source | None]]:
    """Yield all that speaks against the run: the id of the check, what was found, and where it is written."""
    for result in report.checks:
        for finding in failures(result):
            yield result.id, finding, result.source or _named_place(finding, report)
    broken = contradiction(report)
    if broken is not None:
        yield "precheck", broken, None
    if report.remarks:
        entry = CATALOGUE["run.unconfirmed"]
        text = "; ".join(report.remarks)
        yield (
            "cleanup",
            Finding(code="run.unconfirmed", message=text, remedy=entry.remedy, who=entry.who, retryable=False),
            None,
        )


def _named_place(finding: Finding, report: Report) -> Source | None:
    """Read where a fault of the spec is from its message, which begins with it: `FILE:LINE:COLUMN: `."""
    file = report.spec.path
    if finding.code != "spec.invalid" or not file or not finding.message.startswith(f"{file}:"):
        return None
    line = re.match(r"(\d{1,9}):", finding.message[len(file) + 1 :])
    return Source(file, int(line[1])) if line is not None else None


def _limited(lines: list[str], kind: str, report: Report) -> list[str]:
    if len(lines) <= MOST_OF_A_KIND:
        return lines
    kept = lines[: MOST_OF_A_KIND - 1]
    text = f"{len(lines) - len(kept)} more are in the log, the job summary and the reports."
    return [*kept, _command(kind, f"precheck: {_host(report)}", text, "")]


def _host(report: Report) -> str:
    return clean(report.host.runner or report.host.name, 60) or "this host"


def _body(begin: str, check: str, finding: Finding) -> str:
    """Write: your code was not tested; what is wrong; why; what to do and who can; whether to retry.

    What does not fit is cut where there is most of it, so that every part is there.
    """
    parts = [(f"{clean(check, 64)}: ", finding.message)]
    if finding.evidence:
        parts.append(("Why: ", finding.evidence))
    elif finding.code in CATALOGUE and finding.severity == "error":
        parts.append(("Usual causes: ", "; ".join(CATALOGUE[finding.code].causes)))
    if finding.remedy:
        parts.append((f"What to do ({WHO[finding.who]}): ", finding.remedy))
    fixed = [begin] if begin else []
    end = [_retry(finding)] if finding.severity == "error" else []
    room = BODY_LIMIT - sum(len(text) + 1 for text in (*fixed, *end)) - sum(len(label) + 2 for label, _ in parts)
    texts = _fitted([text for _, text in parts], room)
    told = [_sentence(label + text) for (label, _), text in zip(parts, texts, strict=True)]
    return " ".join([*fixed, *told, *end])


def _fitted(texts: list[str], room: int) -> list[str]:
    """Clean texts so that they have at most `room` characters together: the longest give way first."""
    texts = [clean(text, room) for text in texts]
    most = max(map(len, texts))
    while sum(min(len(text), most) for text in texts) > room:
        most -= 1
    return [clean(text, most) for text in texts]


def _retry(finding: Finding) -> str:
    return (
        "A retry may pass, once the machine is mended or free again."
        if finding.retryable
        else "A retry is of no use before that."
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."


def _where(source: Source | None, workspace: str | None) -> str:
    found = place(source, workspace)
    # A path that would have to be cleaned is another one then; the message names it all the same.
    if found is None or clean(found[0]) != found[0]:
        return ""
    return f"file={_property(found[0])},line={found[1]},"


def _command(kind: str, title: str, body: str, where: str) -> str:
    # act drops a property whose value holds a `=`.
    return f"::{kind} {where}title={_property(title.replace('=', ' '))}::{_data(body)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# Outputs --------------------------------------------------------------------------------------------------------------


def outputs(
    report: Report,
    *,
    folder: str | None,
    json: str | None,
    junit: str | None,
    redact: Callable[[str], str] = str,
) -> dict[str, str]:
    """Return the outputs of the step; a list is separated by commas, and nothing holds a secret.

    A path that `redact` would change is left out, as the runner leaves out an output of a job: it leads nowhere then.
    """
    found = list(_failures(report))
    folder, json, junit = (path if path is not None and redact(path) == path else "" for path in (folder, json, junit))
    first = f"{found[0][0]}: {found[0][1].message}" if found else ""
    return {
        # A report that contradicts itself must not let a step that asks for `ready` run.
        "status": "error" if report.exit_code == 0 and found else report.verdict,
        "exit-code": str(report.exit_code),
        "failed": ",".join(clean(result.id, 100) for result in report.checks if is_bad(result)),
        "codes": ",".join(dict.fromkeys(clean(finding.code, 100) for _, finding, _ in found)),
        "first": clean(first, 500),
        "retryable": "true" if found and found[0][1].retryable else "false",
        "host": clean(report.host.runner or report.host.name, 200),
        "dir": folder,
        "json": json,
        "junit": junit,
    }


def output_text(values: Mapping[str, str]) -> str:
    """Write outputs as the runner's file command reads them.

    Each has a random delimiter, so that no value can end its own, and is one line. There is no empty line anywhere:
    act refuses one.
    """
    lines = []
    for name, value in values.items():
        line = " ".join(value.splitlines()).encode("utf-8", "backslashreplace").decode("utf-8")
        delimiter = f"ghadelimiter_{secrets.token_hex(16)}"
        lines.append(f"{name}<<{delimiter}\n{line}\n{delimiter}\n" if line.strip() else f"{name}=\n")
    return "".join(lines)


# Summary --------------------------------------------------------------------------------------------------------------


def summary(report: Report) -> str:
    """Write the job summary in Markdown: verdict, findings, a table of checks, the cycles; every text is escaped."""
    text = "\n".join(_summary_lines(report)) + "\n"
    data = text.encode("utf-8", "replace")
    if len(data) <= SUMMARY_LIMIT:
        return text
    kept = data[: SUMMARY_LIMIT - len(_CUT)].decode("utf-8", "ignore")
    return kept.rsplit("\n", 1)[0] + _CUT


def _summary_lines(report: Report) -> Iterator[str]:
    found = list(_failures(report))
    mark = "❌" if report.exit_code or found else "✅"
    name = _cell(report.spec.name or "")
    host = _cell(_host(report))
    yield f"### {mark} precheck{' ' if name else ''}{name}: {report.verdict} on {host}"
    yield ""
    if report.exit_code or found:
        yield _meaning(report)
        yield ""
    for note in report.notes:
        yield f"- {_cell(note, 600)}"
    for check, finding, _ in found:
        yield from _finding(check, finding)
    for result in report.checks:
        for finding in warnings(result):
            yield from _finding(result.id, finding, "warning, ")
    yield from _tables(report)


def _meaning(report: Report) -> str:
    if report.verdict == "not-ready":
        return "This says nothing about the code under test: **the machine is not fit for it**."
    if report.verdict == "cancelled":
        return "This says nothing about the code under test: the run was ended before the machine was proven fit."
    return "This says nothing about the code under test, nor about the machine: precheck could not do its work."


def _finding(check: str, finding: Finding, word: str = "") -> Iterator[str]:
    yield f"- **{_cell(check)}** ({word}{_cell(finding.code)}): {_cell(finding.message, 600)}"
    if finding.evidence:
        yield f"  - why: {_cell(finding.evidence, 600)}"
    elif finding.code in CATALOGUE and finding.severity == "error":
        yield f"  - usual causes: {_cell('; '.join(CATALOGUE[finding.code].causes), 600)}"
    if finding.remedy:
        yield f"  - what to do ({WHO[finding.who]}): {_cell(finding.remedy, 600)}"
    if finding.severity == "error":
        yield f"  - {_retry(finding)}"


def _tables(report: Report) -> Iterator[str]:
    yield from ("", "| check | outcome | time | budget |", "|---|---|--:|--:|")
    for result in report.checks:
        took = "" if result.outcome == "skipped" else f"{result.elapsed_s:.2f} s"
        word = _word(result)
        allowed = "" if result.budget_s is None else f"{result.budget_s:g} s"
        yield f"| {_cell(result.id)} | {word} | {took} | {allowed} |"
    if not report.cycles:
        return
    yield from (
        "",
        "| model | unload | absent | load | bytes | on the GPU | context |",
        "|---|--:|--:|--:|--:|--:|--:|",
    )
    for cycle in report.cycles:
        times = " | ".join(_seconds(value) for value in (cycle.unload_s, cycle.absent_s, cycle.load_s))
        times = "kept | | " if cycle.kept else times
        sizes = " | ".join(_number(value) for value in (cycle.size, cycle.size_vram, cycle.context_length))
        yield f"| {_cell(cycle.model)} | {times} | {sizes} |"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _word(result: CheckResult) -> str:
    if result.unmet is not None:
        return f"skipped, {_cell(result.unmet)}"
    return f"skipped for {_cell(result.skipped_for or '')}" if result.outcome == "skipped" else result.outcome


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _cell(text: str, limit: int = 200) -> str:
    """Escape a text for a table cell or a list item: no markup, no HTML, no cell, no link of its own."""
    escaped = clean(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace("://", "&colon;//")
    return _MARKDOWN.sub(r"\\\1", escaped).replace("@", "@\u200b")
