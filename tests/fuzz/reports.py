"""Reports that hold any text in any place."""

from __future__ import annotations

from hypothesis import strategies as st

from precheck_lib.bounded.journal import RequestRecord
from precheck_lib.outcome import CheckResult, CycleRecord, Finding, Host, Report, Source, SpecIdentity
from tests.fuzz.values import BIG, TEXT

CODES = st.one_of(
    st.sampled_from(["tcp.failed", "ollama.removal", "run.budget", "spec.invalid", "residency.partial"]), TEXT
)
FINDINGS = st.builds(
    Finding,
    code=CODES,
    message=TEXT,
    evidence=TEXT,
    remedy=TEXT,
    who=st.sampled_from(["job", "spec", "host"]),
    retryable=st.booleans(),
    severity=st.sampled_from(["error", "error", "warning"]),
)
SOURCES = st.one_of(
    st.none(), st.builds(Source, file=st.one_of(TEXT, st.just("/w/specs/a.yml")), line=st.integers(0, 99))
)
TIMES = st.one_of(st.none(), st.floats())
CHECKS = st.builds(
    CheckResult,
    id=st.one_of(TEXT, st.just("tcp")),
    title=TEXT,
    kind=TEXT,
    outcome=st.sampled_from(["passed", "failed", "failed", "error", "skipped"]),
    elapsed_s=st.floats(),
    budget_s=TIMES,
    source=SOURCES,
    findings=st.lists(FINDINGS, max_size=3),
    skipped_for=st.one_of(st.none(), TEXT),
)
NUMBERS = st.one_of(st.none(), st.integers(), BIG)
CYCLES = st.builds(
    CycleRecord,
    model=TEXT,
    unload_s=TIMES,
    absent_s=TIMES,
    load_s=TIMES,
    size=NUMBERS,
    size_vram=NUMBERS,
    context_length=NUMBERS,
)
REQUESTS = st.builds(
    RequestRecord,
    check=TEXT,
    method=TEXT,
    url=TEXT,
    connect_timeout_s=st.floats(),
    total_timeout_s=st.floats(),
    allowed_s=st.floats(),
)
OPTIONAL = st.one_of(st.none(), TEXT)
REPORTS = st.builds(
    Report,
    spec=st.builds(SpecIdentity, name=OPTIONAL, path=OPTIONAL, digest=OPTIONAL),
    verdict=st.sampled_from(["ready", "not-ready", "error", "cancelled"]),
    exit_code=st.sampled_from([0, 1, 2, 22, 70, 143]),
    started=st.one_of(TEXT, st.just("2026-01-02T03:04:05.678901+00:00")),
    elapsed_s=st.floats(),
    budget_s=TIMES,
    host=st.builds(Host, name=TEXT, runner=OPTIONAL, os=TEXT, python=TEXT),
    checks=st.lists(CHECKS, max_size=3),
    requests=st.lists(REQUESTS, max_size=1),
    cycles=st.lists(CYCLES, max_size=2),
    remarks=st.lists(TEXT, max_size=2),
)
