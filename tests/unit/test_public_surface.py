"""What `precheck_lib` offers: nothing comes or goes without this file."""

from __future__ import annotations

import subprocess
import sys

import precheck_lib

PUBLIC = {
    "BudgetTooSmallError",
    "CATALOGUE",
    "CheckResult",
    "CheckSpec",
    "CycleRecord",
    "Finding",
    "Host",
    "Problem",
    "Report",
    "RequestRecord",
    "Source",
    "Spec",
    "SpecError",
    "SpecIdentity",
    "__version__",
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


def test_importing_the_package_imports_no_part_of_it() -> None:
    code = "import sys, precheck_lib; print([name for name in sys.modules if name.startswith('precheck_lib.')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
