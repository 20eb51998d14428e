"""The report for programs."""

from __future__ import annotations

import json
import unicodedata

import pytest

from precheck_lib.outcome import CycleRecord, Lately, Observed, RequestRecord, Source
from precheck_lib.report import json_bytes

HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_a_report_has_exactly_these_keys_in_this_order(make):
    report = make.report(
        make.check("a", "failed", source=Source("strict.yml", 7), started_s=0.5, elapsed_s=1.23456, budget_s=2.0),
        make.check("b", "skipped", skipped_for="a"),
        elapsed_s=3.00049,
        budget_s=60.0,
        requests=[
            RequestRecord(
                check="a",
                method="GET",
                url="http://h/",
                connect_timeout_s=2.0,
                total_timeout_s=10.0,
                allowed_s=9.87654,
                status=200,
                elapsed_s=0.0004,
                bytes=12,
            )
        ],
        cycles=[CycleRecord(model="m", unload_s=0.12345, reads=3, size=5, size_vram=5)],
        remarks=["one"],
        notes=["two"],
        observed=[Observed(check="a", subject="m", fact="context length", value=65536, wanted=4096)],
        verifies="2026-01-02T03:00:00Z",
        lately=Lately(runs=7, codes={"a.x": 2}, before=("a.x",)),
    )
    assert json.loads(json_bytes(report)) == {
        "version": 1,
        "spec": {"name": "strict", "path": "specs/strict.yml", "digest": "ab" * 32},
        "verdict": "not-ready",
        "exit_code": 1,
        "started": "2026-01-02T03:04:05.678901+00:00",
        "elapsed_s": 3.0,
        "budget_s": 60.0,
        "host": {"name": "gpu-01", "runner": "gpu-01-a", "os": "Linux 6", "python": "3.11.7"},
        "checks": [
            {
                "id": "a",
                "title": "title of a",
                "kind": "tcp",
                "outcome": "failed",
                "started_s": 0.5,
                "elapsed_s": 1.235,
                "budget_s": 2.0,
                "source": {"file": "strict.yml", "line": 7},
                "findings": [
                    {
                        "code": "tcp.failed",
                        "message": "the port is closed",
                        "evidence": "",
                        "remedy": "",
                        "who": "host",
                        "retryable": False,
                        "severity": "error",
                    }
                ],
                "skipped_for": None,
                "unmet": None,
                "attempts": 1,
            },
            {
                "id": "b",
                "title": "title of b",
                "kind": "tcp",
                "outcome": "skipped",
                "started_s": None,
                "elapsed_s": 0.0,
                "budget_s": None,
                "source": None,
                "findings": [],
                "skipped_for": "a",
                "unmet": None,
                "attempts": 1,
            },
        ],
        "requests": [
            {
                "check": "a",
                "method": "GET",
                "url": "http://h/",
                "connect_timeout_s": 2.0,
                "total_timeout_s": 10.0,
                "allowed_s": 9.877,
                "retries": 0,
                "status": 200,
                "elapsed_s": 0.0,
                "bytes": 12,
            }
        ],
        "cycles": [
            {
                "model": "m",
                "kept": False,
                "unload_s": 0.123,
                "absent_s": None,
                "load_s": None,
                "reads": 3,
                "size": 5,
                "size_vram": 5,
                "context_length": None,
            }
        ],
        "remarks": ["one"],
        "notes": ["two"],
        "observed": [{"check": "a", "subject": "m", "fact": "context length", "value": 65536, "wanted": 4096}],
        "verifies": "2026-01-02T03:00:00Z",
        "lately": {"runs": 7, "codes": {"a.x": 2}},
    }
    assert list(json.loads(json_bytes(report)))[:4] == ["version", "spec", "verdict", "exit_code"]


def test_it_is_indented_utf_8_with_a_newline_at_its_end(make):
    written = json_bytes(make.report(make.check(title="größer 模型")))
    assert written.startswith(b'{\n  "version": 1,\n  "spec": {\n')
    assert written.endswith(b"\n}\n")
    assert "größer 模型".encode() in written


def test_any_text_comes_back_as_it_was_but_for_lone_surrogates(make, hostile):
    hostile = hostile[:10_000]  # it is in some forty places
    written = json_bytes(make.hostile(hostile))
    expected = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in hostile)
    read = json.loads(written.decode())
    assert read["checks"][0]["findings"][0]["message"] == expected
    assert read["host"]["os"] == read["requests"][0]["url"] == read["cycles"][0]["model"] == expected
    assert read["remarks"] == [expected]


def test_a_report_that_is_printed_in_a_log_is_harmless(make, hostile):
    text = json_bytes(make.hostile(hostile[:10_000])).decode()
    assert "##[" not in text
    assert not {character for character in text if unicodedata.category(character) in HARMFUL} - {"\n"}
    for line in text.splitlines():
        assert not line.lstrip().startswith("::")


def test_a_huge_text_is_written_whole(make):
    read = json.loads(json_bytes(make.report(make.check(title="a" * 10_000_000))))
    assert len(read["checks"][0]["title"]) == 10_000_000


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_time_that_is_no_number_is_null(make, number):
    read = json.loads(json_bytes(make.report(make.check(elapsed_s=number), elapsed_s=number)))
    assert read["elapsed_s"] is None
    assert read["checks"][0]["elapsed_s"] is None
