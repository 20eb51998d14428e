"""A library of C in the place of NVIDIA's, loaded by the real child: one that hangs for ever, and one that is old."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.checks import gpu
from precheck_lib.checks.kind import Context
from precheck_lib.findings import NotReadyError

COMPILER = shutil.which("cc")

MISMATCH = "int nvmlInitWithFlags(unsigned f) { return 18; }"
HANGS = """
#include <signal.h>
#include <unistd.h>
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { IGNORE for (;;) pause(); }
"""
CRASHES = "int nvmlInitWithFlags(unsigned f) { return *(volatile int *)0; }"


@pytest.fixture
def library(tmp_path):
    """Compile a library in the place of NVIDIA's and give the environment in which it is found."""
    if COMPILER is None:
        pytest.skip("there is no C compiler here")

    def make(code):
        source = tmp_path / "nvml.c"
        source.write_text(code)
        made = tmp_path / "libnvidia-ml.so.550.144"
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O0", "-o", made, source], check=True, timeout=30)
        (tmp_path / "libnvidia-ml.so.1").symlink_to(made.name)
        return {"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}

    return make


def ended(env, seconds):
    context = Context(
        env=env, budget=Budget(seconds), journal=Journal(), expand=lambda value: value, exit_code=lambda _: 1
    )
    started = time.monotonic()
    with pytest.raises(NotReadyError) as caught:
        gpu.run(gpu.GpuOptions(), context)
    return caught.value, time.monotonic() - started


@pytest.mark.parametrize("ignore", ["", "signal(SIGTERM, SIG_IGN); signal(SIGINT, SIG_IGN);"])
def test_a_driver_that_hangs_is_told_within_the_budget_and_half_a_second(library, ignore):
    error, took = ended(library(HANGS.replace("IGNORE", ignore)), 1.0)
    assert (error.word, [finding.code for finding in error.findings]) == ("error", ["gpu.hung"])
    assert took <= 1.5


def test_a_library_of_another_version_than_the_driver_is_named_by_its_file(library, monkeypatch):
    error, _ = ended(library(MISMATCH), 20.0)
    (finding,) = error.findings
    assert (error.word, finding.code) == ("failed", "gpu.mismatch")
    assert finding.message.endswith("the library on disk is 550.144")


def test_a_library_that_crashes_is_an_error_and_nothing_else_goes_with_it(library):
    error, _ = ended(library(CRASHES), 20.0)
    assert (error.word, [finding.code for finding in error.findings]) == ("error", ["run.broken"])
    assert "signal 11" in error.findings[0].message
