"""What GitHub's runner is told: what to mask, annotations, and the outputs of the step.

The runner executes `::command::` at the start of a line and `##[command]` anywhere in one; what is untrusted goes
through `clean`, which breaks both, before it is escaped. Limits that the runner applies without a word: 10 annotations
of a kind for a step (one is kept for its own `Process completed with exit code`), 4,096 characters of a message.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.needles import SHORTEST
from precheck_lib.redact import parts
from precheck_lib.report.junit import place
from precheck_lib.report.text import clean
from precheck_lib.report.wording import WHO, all_failures, host_name, is_bad, lately_text, retry_text, warnings
from precheck_lib.spellings import as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from precheck_lib.outcome import Finding, Report, Source

MOST_OF_A_KIND = 9
BODY_LIMIT = 700
"""Characters of an annotation's body: what a reader of the job's page sees without unfolding it."""

_NAMES_LIMIT = 400
_NOT_TESTED = "Your code was not tested."
_CHANGED = "This machine is not what your tests were to run on: do not trust their result, red or green."
_GOES_ON = "The job goes on, on a machine that is not fit for it."


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
    begin = _GOES_ON if goes_on else _NOT_TESTED if report.verifies is None else _CHANGED
    word = "not ready" if report.verifies is None else "changed"
    lines: dict[str, list[str]] = {"error": [], "warning": []}
    bad = [result.id for result in report.checks if is_bad(result)]
    if len(bad) > 1:
        text = f"{begin} {len(bad)} of {len(report.checks)} checks did not pass: {clean(', '.join(bad), _NAMES_LIMIT)}."
        lines[kind].append(_command(kind, f"precheck: {host_name(report)} {word}", text, ""))
    for check, finding, source in all_failures(report):
        title = f"precheck: {host_name(report)} {word} - {clean(finding.code, 100)}"
        body = _body(begin, check, finding, lately_text(report, finding))
        lines[kind].append(_command(kind, title, body, _where(source, workspace)))
    for result in report.checks:
        for finding in warnings(result):
            title = f"precheck: {host_name(report)} - {clean(finding.code, 100)}"
            body = _body("", result.id, finding, "")
            lines["warning"].append(_command("warning", title, body, _where(result.source, workspace)))
    return [line for kind, found in lines.items() for line in _limited(found, kind, report)]


def _limited(lines: list[str], kind: str, report: Report) -> list[str]:
    if len(lines) <= MOST_OF_A_KIND:
        return lines
    kept = lines[: MOST_OF_A_KIND - 1]
    text = f"{len(lines) - len(kept)} more are in the log, the job summary and the reports."
    return [*kept, _command(kind, f"precheck: {host_name(report)}", text, "")]


def _body(begin: str, check: str, finding: Finding, lately: str) -> str:
    """Write: your code was not tested; what is wrong; why; what to do and who can; whether to retry; how often lately.

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
    end = [retry_text(finding)] if finding.severity == "error" else []
    end += [lately] if lately else []
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
    found = list(all_failures(report))
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
