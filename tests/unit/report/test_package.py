"""What the package costs to import."""

from __future__ import annotations

import subprocess
import sys

import precheck_lib.report


def test_importing_the_writers_loads_no_library_that_only_one_of_them_needs():
    program = (
        "import sys, msgspec; before = set(sys.modules); import precheck_lib.report.deliver; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    costly = {"junit_xml", "six", "xml", "json", "pathlib", "tempfile", "shutil", "subprocess", "unicodedata"}
    assert costly.isdisjoint(run.stdout.split())
    assert "precheck_lib" in run.stdout


def test_everything_that_is_exported_is_there():
    assert sorted(precheck_lib.report.__all__) == precheck_lib.report.__all__
    for name in precheck_lib.report.__all__:
        assert hasattr(precheck_lib.report, name)
