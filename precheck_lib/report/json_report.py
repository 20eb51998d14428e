"""Writing a run as JSON, version 1: the form for programs, with every request and every cycle."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from precheck_lib.outcome import CheckResult, Report

# The keys are named here and not taken from the structs: a field that is added there for another purpose
# must not leave the house by itself.
_FINDING = ("code", "message", "evidence", "remedy", "who", "retryable", "severity")
_REQUEST = (
    "check",
    "method",
    "url",
    "connect_timeout_s",
    "total_timeout_s",
    "allowed_s",
    "retries",
    "status",
    "elapsed_s",
    "bytes",
)
_CYCLE = ("model", "kept", "unload_s", "absent_s", "load_s", "reads", "size", "size_vram", "context_length")

_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Valid in a JSON string, harmful where someone prints the file in a log: the v1 form of a workflow command,
# C1 controls, bidi and invisible marks. Their escapes mean the same to every parser.
_HARMFUL = re.compile(
    r"#(?=#\[)|[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]"
    r"|[\U000e0000-\U000e0fff]"
)


def json_bytes(report: Report) -> bytes:
    """Write a whole run as UTF-8 JSON, indented by two, with a newline at its end.

    Times are in seconds, rounded to three decimals; one that is no number is null. Texts are whole and as
    they came, except that a lone surrogate, which UTF-8 cannot hold, becomes U+FFFD. It raises for no text.
    """
    import json

    document = {
        "version": report.version,
        "spec": _pick(report.spec, ("name", "path", "digest")),
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "started": report.started,
        "elapsed_s": _seconds(report.elapsed_s),
        "budget_s": _seconds(report.budget_s),
        "host": _pick(report.host, ("name", "runner", "os", "python")),
        "checks": [_check(result) for result in report.checks],
        "requests": [_pick(request, _REQUEST) for request in report.requests],
        "cycles": [_pick(cycle, _CYCLE) for cycle in report.cycles],
        "remarks": list(report.remarks),
        "notes": list(report.notes),
        "observed": [_pick(one, ("check", "subject", "fact", "value", "wanted")) for one in report.observed],
        "verifies": report.verifies,
        "lately": None if report.lately is None else _pick(report.lately, ("runs", "codes")),
    }
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return _HARMFUL.sub(_escape, _SURROGATE.sub("\ufffd", text)).encode() + b"\n"


def _check(result: CheckResult) -> dict[str, Any]:
    return {
        "id": result.id,
        "title": result.title,
        "kind": result.kind,
        "outcome": result.outcome,
        "started_s": _seconds(result.started_s),
        "elapsed_s": _seconds(result.elapsed_s),
        "budget_s": _seconds(result.budget_s),
        "source": None if result.source is None else _pick(result.source, ("file", "line")),
        "findings": [_pick(finding, _FINDING) for finding in result.findings],
        "skipped_for": result.skipped_for,
        "unmet": result.unmet,
        "attempts": result.attempts,
    }


def _pick(value: object, names: Iterable[str]) -> dict[str, Any]:
    picked = {name: getattr(value, name) for name in names}
    return {name: _seconds(item) if name.endswith("_s") else item for name, item in picked.items()}


def _seconds(value: float | None) -> float | None:
    """NaN and the infinities have no form in JSON (RFC 8259, section 6)."""
    return None if value is None or not abs(value) < float("inf") else round(value, 3)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
