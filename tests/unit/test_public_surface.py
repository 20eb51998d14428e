"""What `precheck_lib` offers: nothing comes or goes without this file."""

from __future__ import annotations

import signal
import subprocess
import sys

import precheck_lib
from precheck_lib.interrupt import SIGNALS
from precheck_lib.simulate import Model, OllamaStandIn
from tests.typing import as_a_user

PUBLIC = {
    "BudgetTooSmallError",
    "CATALOGUE",
    "CheckResult",
    "CheckSpec",
    "CycleRecord",
    "Finding",
    "Host",
    "Interrupts",
    "Problem",
    "Report",
    "RequestRecord",
    "Source",
    "Spec",
    "SpecError",
    "SpecIdentity",
    "Wait",
    "Watcher",
    "When",
    "__version__",
    "build_spec",
    "json_bytes",
    "junit_bytes",
    "load_spec",
    "run",
}


def test_the_public_names_are_these() -> None:
    assert set(precheck_lib.__all__) == PUBLIC


def test_every_public_name_is_there() -> None:
    for name in precheck_lib.__all__:
        assert getattr(precheck_lib, name) is not None


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    assert not hasattr(precheck_lib, "nothing_of_this_name")


def test_a_program_of_a_user_gets_verdict_reports_and_progress(tmp_path) -> None:
    with OllamaStandIn({"qwen3:8b": Model()}) as server:
        right = as_a_user.from_plain_data(f"{server.url}/version")
        report, lines = as_a_user.verdict_of(right, {})
    assert (report.verdict, lines) == ("ready", ["web: passed"])
    assert as_a_user.what_to_do(report) == []
    gone, _ = as_a_user.verdict_of(right, {})
    assert as_a_user.what_to_do(gone) == [precheck_lib.CATALOGUE["transport.connect"].remedy]
    (tmp_path / "bad.yml").write_text("version: 1\n", encoding="utf-8")
    assert as_a_user.from_a_file(str(tmp_path / "bad.yml"))[0].startswith(f"{tmp_path}/bad.yml:1: ")


def test_the_environment_is_this_process_s_own_where_none_is_given(monkeypatch) -> None:
    spec = precheck_lib.build_spec(
        {"version": 1, "name": "it", "checks": [{"id": "a", "env": {"required": {"MINE": {}}}}]}
    )
    monkeypatch.setenv("MINE", "here")
    assert precheck_lib.run(spec).verdict == "ready"
    monkeypatch.delenv("MINE")
    assert precheck_lib.run(spec).verdict == "not-ready"


def test_handlers_are_as_before_after_the_block() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with precheck_lib.Interrupts() as interrupts:
        assert signal.getsignal(signal.SIGTERM) == interrupts._handle
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_importing_the_package_imports_no_part_of_it() -> None:
    code = "import sys, precheck_lib; print([name for name in sys.modules if name.startswith('precheck_lib.')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
