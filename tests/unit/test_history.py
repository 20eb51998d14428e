"""What is remembered of the runs on a host, and when nothing is."""

from __future__ import annotations

import json
import os
import time

import pytest

from precheck_lib.history import FILE, LATELY_SECONDS, look_back, remember
from precheck_lib.outcome import CheckResult, Finding, Host, Lately, Report, SpecIdentity


@pytest.fixture
def env(tmp_path):
    (tmp_path / "precheck").mkdir()
    return {"GITHUB_ACTIONS": "true", "RUNNER_TOOL_CACHE": str(tmp_path), "GITHUB_RUN_ID": "77"}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "precheck" / FILE


def ended(*codes, verdict="not-ready", **fields):
    findings = [
        Finding(code=code, severity="error", message="m", evidence="", remedy="", who="host", retryable=True)
        for code in codes
    ]
    return Report(
        spec=SpecIdentity(name="mine", path=None, digest=None),
        verdict=verdict,
        exit_code=1,
        started="2026-01-02T03:04:05+00:00",
        host=Host(name="h", runner=None, os="o", python="p"),
        checks=[CheckResult(id="a", title="a", kind="tcp", outcome="failed", findings=findings)],
        **fields,
    )


def test_what_earlier_runs_have_found_is_counted_by_its_code(env):
    assert look_back(env) is None
    remember(ended("a.x", "b.y", "a.x"), env)
    remember(ended(verdict="ready"), env)
    remember(ended("a.x", verdict="error"), env)
    later = {**env, "GITHUB_RUN_ID": "78"}
    assert look_back(later) == Lately(runs=3, codes={"a.x": 2, "b.y": 1})


def test_an_earlier_attempt_of_the_same_run_is_known(env):
    remember(ended("a.x"), env)
    found = look_back({**env, "GITHUB_RUN_ATTEMPT": "2"})
    assert found is not None
    assert found.before == ("a.x",)


@pytest.mark.parametrize("fields", [{"verdict": "cancelled"}, {"verifies": "2026-01-02T03:00:00Z"}])
def test_a_run_that_says_nothing_of_the_host_is_not_remembered(env, file, fields):
    remember(ended("a.x", **fields), env)
    assert not file.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"GITHUB_ACTIONS": ""},
        {"RUNNER_TOOL_CACHE": ""},
        {"RUNNER_TOOL_CACHE": "relative"},
        {"RUNNER_TOOL_CACHE": "/nowhere/at/all"},
    ],
)
def test_nothing_is_kept_but_in_a_tool_cache_that_precheck_uses(env, tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative" / "precheck").mkdir(parents=True)
    remember(ended("a.x"), {**env, **change})
    assert not list(tmp_path.rglob(FILE))
    assert look_back({**env, **change}) is None


def test_a_tool_cache_that_precheck_does_not_use_stays_as_it_is(env, tmp_path):
    (tmp_path / "precheck").rmdir()
    remember(ended("a.x"), env)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("age", [LATELY_SECONDS + 5, -3600])
def test_what_is_old_or_from_the_future_does_not_count(env, file, age):
    file.write_text(json.dumps({"at": int(time.time() - age), "codes": ["a.x"]}) + "\n")
    assert look_back(env) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no json\n",
        b'{"at": 1e400, "codes": []}\n',
        b'{"at": NOW, "codes": "a.x"}\n',
        b'{"at": NOW, "codes": [1]}\n',
        b'{"at": NOW}\n',
        b'{"at": "NOW", "codes": []}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\0\n",
        b"null\n[]\n1\n",
    ],
)
def test_what_is_no_line_of_ours_is_passed_over(env, file, text):
    file.write_bytes(text.replace(b"NOW", str(int(time.time())).encode()))
    assert look_back(env) is None
    remember(ended("a.x"), env)
    found = look_back(env)
    assert found is not None
    assert (found.runs, found.codes) == (1, {"a.x": 1})


@pytest.mark.parametrize("what", ["folder", "link", "dead-link", "fifo", "unreadable"])
def test_what_is_no_file_is_left_alone_and_nothing_waits_for_it(env, file, tmp_path, what):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs\n")
    if what == "folder":
        file.mkdir()
    elif what == "fifo":
        os.mkfifo(file)
    elif what == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        file.touch(mode=0)
    else:
        file.symlink_to(elsewhere if what == "link" else tmp_path / "nothing")
    remember(ended("a.x"), env)
    assert look_back(env) is None
    assert elsewhere.read_text() == "theirs\n"
    assert not (tmp_path / "nothing").exists()


def test_the_file_does_not_grow_without_end_and_its_latest_lines_stay(env, file):
    for number in range(1500):
        remember(ended(f"code.{number}"), {**env, "GITHUB_RUN_ID": str(number)})
    assert file.stat().st_size <= 64 << 10
    found = look_back(env)
    assert found is not None
    assert found.codes["code.1499"] == 1
    assert "code.0" not in found.codes
    assert found.runs == len(file.read_text().splitlines()) > 300
