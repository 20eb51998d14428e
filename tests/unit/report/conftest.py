"""Reports to write, and texts that a hostile server could put into one."""

from __future__ import annotations

import pytest

from precheck_lib.outcome import (
    CheckResult,
    CycleRecord,
    Finding,
    Host,
    Report,
    RequestRecord,
    Source,
    SpecIdentity,
)

HOSTILE = {
    "command-v2": "::error::boo",
    "command-v2-indented": "  \t::add-mask::a",
    "command-v2-behind-newline": "fine\n::set-output name=a::b",
    "command-v2-behind-line-separator": "fine\u2028::error::b",
    "command-v2-encoded-newline": "%0A::error::boo",
    "command-v2-many-colons": "::::error::boo",
    "command-v1": "##[add-mask]x",
    "command-v1-inside": "model x ##[error]boo ##[stop-commands]t",
    "command-v1-many-signs": "#####[error]boo",
    "command-v1-split-by-colour": "#\x1b[0m#[error]",
    "command-v1-split-by-title": "##\x1b]0;x\x07[error]",
    "command-v1-split-by-selector": "#\ufe0f#\ufe0e[error]",
    "command-v1-nested": "##\x1b[##[0m[error]",
    "command-v2-split-by-colour": ":\x1b[31m:error::x",
    "command-v2-behind-mark": "\u200b::error::x",
    "command-v2-in-capitals": "::Set-Output name=a::b",
    "command-v2-behind-return": "fine\r::stop-commands::token",
    "command-v2-behind-separators": "fine\x85\u2029\x0b\x0c\x1c\x1d\x1e\x1f::error::b",
    "command-v2-behind-spaces": "\u3000\xa0\u2003::error::b",
    "command-v1-with-properties": "##[add-matcher file=a;line=1]/etc/passwd",
    "command-v1-behind-newline": "fine\r\n##[error]x",
    "escapes-of-commands": "%25%0A%0D%3A%2C%5D%3B::%0A##%5B",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07 \x9d52;c;ZXZpbA==\x9c",
    "bell-and-backspace": "safe\x07\b\b\b\bevil\x7f",
    "cursor": "\x1b[2J\x1b[H\x1b[1A\x1bc\x1b7\x1b8\x1bM",
    "markdown-table": "a | b |\n|---|---|\n| c | d \\| e \\\\| f",
    "markdown-fences": "```\n~~~\n```mermaid\ngraph TD; a-->b\n```\n    indented",
    "markdown-blocks": "# a\n## b\n> c\n- d\n+ e\n1. f\n***\n---\n===\n[x]: http://evil",
    "markdown-inline": "[a](http://evil) ![b](http://evil/c.png) <http://evil> **d** __e__ `f` ~~g~~ $x$ :smile: #1",
    "mentions": "@octocat @org/team GH-1 org/repo#1",
    "html": "<script>alert(1)</script></details><details open><img src=x onerror=alert(1)><!-- --><b>&#x3c;&lt;&amp;",
    "invalid-utf-8": b"a\xff\xfe\xc3(\xe2\x82\xf0\x9f".decode("utf-8", "surrogateescape"),
    "ansi": "\x1b[31mred\x1b[0m \x9b1mbold \x1b(B plain",
    "ansi-nested": "\x1b[\x1b[0m31mred",
    "ansi-unfinished": "before\x1b[12",
    "osc-link": "\x1b]8;;http://evil/\x1b\\here\x1b]8;;\x07",
    "osc-unfinished": "\x1b]0;title and the rest of the evidence",
    "dcs": "a\x90q#0\x9cb",
    "cdata-end": "]]> <![CDATA[ <b>&amp;</b> --> <!--",
    "not-characters": "a\uffff\ufffe\ufdd0\U0001ffffb",
    "nul": "a\x00b",
    "all-controls": "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)])),
    "lone-surrogates": "\ud800 \udfff \udc80 \ud83d\ude00",
    "bidi": "a\u202eb\u2066c\u2069\u200f\u061cd",
    "unseen": "a\u200b\u2060\ufeff\xad\u3164\u180e\u034f\U000e0041\U000e0100b",
    "line-separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "many-lines": "a\r\n\r\nb\rc",
    "huge": "a" * 10_000_000,
    "huge-sequences": "\x1b[0m" * 500_000,
    "huge-unfinished-sequences": "\x9d\x1b]" * 500_000,
    "huge-lines": "\n" * 2_000_000,
    "empty": "",
    "blank": " \n\t ",
}


def pytest_generate_tests(metafunc):
    if "hostile" in metafunc.fixturenames:
        metafunc.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())


class Maker:
    """Makes the values that a report consists of, each with only what a test says about it."""

    @staticmethod
    def finding(message="the port is closed", **fields):
        return Finding(**{"code": "tcp.failed", "message": message, **fields})

    @staticmethod
    def check(id="tcp", outcome="passed", **fields):  # noqa: A002
        if outcome in {"failed", "error"}:
            fields.setdefault("findings", [Maker.finding()])
        return CheckResult(**{"id": id, "title": f"title of {id}", "kind": "tcp", "outcome": outcome, **fields})

    @staticmethod
    def report(*checks, **fields):
        bad = any(check.outcome in {"failed", "error"} for check in checks)
        return Report(
            **{
                "spec": SpecIdentity(name="strict", path="specs/strict.yml", digest="ab" * 32),
                "verdict": "not-ready" if bad else "ready",
                "exit_code": 1 if bad else 0,
                "started": "2026-01-02T03:04:05.678901+00:00",
                "host": Host(name="gpu-01", runner="gpu-01-a", os="Linux 6", python="3.11.7"),
                "checks": list(checks),
                **fields,
            }
        )

    @staticmethod
    def hostile(text):
        """A report that has the text in every place where a text can be."""
        finding = Finding(code=text, message=text, evidence=text, remedy=text)
        warning = Finding(code=text, message=text, evidence=text, remedy=text, severity="warning")
        fields = {"title": text, "kind": text, "source": Source(text, 1)}
        return Report(
            spec=SpecIdentity(name=text, path=text, digest=text),
            verdict="not-ready",
            exit_code=1,
            started=text,
            host=Host(name=text, runner=text, os=text, python=text),
            checks=[
                CheckResult(id=text, outcome="failed", findings=[finding, finding, warning], **fields),
                CheckResult(id=text, outcome="error", findings=[finding], **fields),
                CheckResult(id=text, outcome="skipped", skipped_for=text, **fields),
                CheckResult(id=text, outcome="passed", findings=[warning], **fields),
            ],
            requests=[
                RequestRecord(
                    check=text,
                    method=text,
                    url=text,
                    connect_timeout_s=2.0,
                    total_timeout_s=10.0,
                    allowed_s=9.5,
                )
            ],
            cycles=[CycleRecord(model=text)],
            remarks=[text],
        )


@pytest.fixture
def make():
    return Maker
