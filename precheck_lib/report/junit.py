"""Writing a run as JUnit XML, so that every consumer that was looked at shows it right.

The document is built with junit-xml 1.9 and its element tree is mended before it is written, for what that
library gets wrong: no `time` for 0 s, times and `disabled` counts that the xUnit schema junit-10.xsd
refuses, a failure without a message that counts as a pass, characters that make the file unreadable, a
nameless root. One level, one suite: several consumers lose the tests of nested suites.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from precheck_lib.report.text import clean, clean_lines, fit_bytes, xml_text
from precheck_lib.report.wording import UNEXPLAINED, advice, contradiction, failures, warnings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

    from precheck_lib.outcome import CheckResult, Finding, Report, Source

_NAME_LIMIT = 300
_PATH_LIMIT = 4096
_BODY_BYTES = 64 * 1024
"""Bound of an element's text as UTF-8, before markup is escaped; Jenkins keeps all of it in memory."""

_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def junit_bytes(report: Report, *, workspace: str | None = None) -> bytes:
    """Write a run as a JUnit XML document (UTF-8, with a newline at its end).

    `workspace` is the folder of the checkout (`GITHUB_WORKSPACE`). With it, a test case has `file` and
    `line`, the place of its check in the spec, where that lies below the folder; without it, the document
    is valid against junit-10.xsd, which knows neither. A report whose exit code and checks contradict each
    other (CONTRACT A6) gets a test case `precheck` with an error: an empty or green suite must not stand
    for a run that was not passed.
    """
    from xml.etree import ElementTree as ET

    import junit_xml

    classname = _classname(report.spec.name)
    cases = [_case(result, classname, workspace) for result in report.checks]
    broken = contradiction(report)
    if broken is not None:
        cases.append(junit_xml.TestCase("precheck", classname, 0.0))
        cases[-1].add_error_info(*_explained([broken]))
    suite: Element = junit_xml.TestSuite(
        "precheck",
        cases,
        hostname=clean(report.host.name, _NAME_LIMIT) or None,
        timestamp=_timestamp(report.started),
        properties=_properties(report),
        stderr=fit_bytes("\n".join(map(clean, [*report.remarks, *report.notes])), _BODY_BYTES) or None,
    ).build_xml_doc()
    root = ET.Element("testsuites", {"name": "precheck"})
    root.append(suite)
    _mend(root, suite, [*(result.elapsed_s for result in report.checks), 0.0], report.elapsed_s)
    ET.indent(root, " ")
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def place(source: Source | None, workspace: str | None) -> tuple[str, int] | None:
    """Find the path of a source relative to the workspace, with `/`, and its line; `None` outside of it.

    Links are followed only where the paths as written do not tell. A relative path counts from the working
    folder.
    """
    if source is None or not workspace or source.line < 1 or len(source.file) > _PATH_LIMIT:
        return None
    try:
        for resolve in (os.path.abspath, os.path.realpath):
            root, path = resolve(workspace), resolve(source.file)
            if path.startswith(root.rstrip(os.sep) + os.sep):
                return os.path.relpath(path, root).replace(os.sep, "/"), source.line
    except (OSError, ValueError):  # the working folder is gone; a NUL or an impossible character is in a path
        pass
    return None


def _case(result: CheckResult, classname: str, workspace: str | None) -> Any:
    import junit_xml

    at = place(result.source, workspace)
    case = junit_xml.TestCase(
        clean(result.id, _NAME_LIMIT),
        classname,
        result.elapsed_s,
        stdout=_body("warning: ", warnings(result)) or None,
        file=at and at[0],
        line=at and at[1],
    )
    if result.outcome == "failed":
        case.add_failure_info(*_explained(failures(result)))
    elif result.outcome == "error":
        case.add_error_info(*_explained(failures(result)))
    elif result.outcome == "skipped":
        blocker = clean(result.skipped_for or "", _NAME_LIMIT)
        reason = f"skipped for {blocker}" if blocker else clean(result.unmet or "", _NAME_LIMIT) or "not reached"
        case.add_skipped_info(reason, reason)
    return case


def _explained(findings: list[Finding]) -> tuple[str, str, str]:
    """Give message, text and type of a failure; none is empty, for junit-xml takes that for a pass."""
    first = findings[0]
    message = clean(first.message) or "no message was given"
    # Rails reads `type="array"` and its like as an order to convert: the type always has a dot in it.
    return (
        message,
        _body("", findings) or message,
        f"precheck.{clean(first.code, _NAME_LIMIT) or UNEXPLAINED}",
    )


def _body(prefix: str, findings: Iterable[Finding]) -> str:
    parts = [[f"{prefix}{finding.message}", *advice(finding)] for finding in findings]
    # Lines inside a text are indented, so that no server can write a `do:` of its own.
    blocks = ["\n".join(clean_lines(text, _BODY_BYTES).replace("\n", "\n    ") for text in part) for part in parts]
    return fit_bytes("\n\n".join(blocks), _BODY_BYTES)


def _classname(spec: str | None) -> str:
    name = clean(spec or "", _NAME_LIMIT)
    return f"precheck.{name}" if name else "precheck"


def _timestamp(started: str) -> str | None:
    """Cut zone and fraction, which some consumers cannot read; `started` is UTC."""
    match = _SECOND.match(started)
    return match[0] if match else None


def _properties(report: Report) -> dict[str, str]:
    values = {
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "spec.name": report.spec.name,
        "spec.path": report.spec.path,
        "spec.digest": report.spec.digest,
        "started": report.started,
        "budget_s": None if report.budget_s is None else _seconds(report.budget_s),
        "runner": report.host.runner,
        "os": report.host.os,
        "python": report.host.python,
    }
    return {f"precheck.{name}": clean(str(value)) for name, value in values.items() if value is not None}


def _mend(root: Element, suite: Element, case_times: list[float], total: float) -> None:
    """Put right in the tree what junit-xml 1.9 leaves wrong (see the head of this file)."""
    suite.attrib.pop("disabled")
    suite.set("time", _seconds(total))
    for name in ("tests", "failures", "errors", "time"):  # the schema knows no other here, not even `skipped`
        root.set(name, suite.attrib[name])
    for case, elapsed in zip(suite.iter("testcase"), case_times, strict=False):
        case.set("time", _seconds(elapsed))
    for element in root.iter():
        for name, value in element.items():
            # A line break in an attribute is a space to some parsers and a line break to others.
            element.set(name, xml_text(" ".join(value.splitlines())))
        if element.text is not None:
            element.text = xml_text(element.text)


def _seconds(value: float) -> str:
    """Write seconds as junit-10.xsd and every consumer can read them; what is no sane number is 0."""
    return f"{abs(value):.3f}" if 0 <= value < float("inf") else "0.000"
