"""How long the fuzz tests look: a bounded, repeatable run (`ci`), or one that goes on (`long`, by `scripts/fuzz`)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROFILE = os.environ.get("PRECHECK_FUZZ_PROFILE", "ci")
_SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large]  # other jobs of the machine would trip over them

settings.register_profile(
    "ci", derandomize=True, database=None, max_examples=60, deadline=None, suppress_health_check=_SUPPRESSED
)
settings.register_profile(
    "long",
    derandomize=False,
    # Below a name that git ignores: what was found once is tried first the next time.
    database=DirectoryBasedExampleDatabase(".hypothesis/fuzz"),
    max_examples=int(os.environ.get("PRECHECK_FUZZ_EXAMPLES", "400")),
    deadline=None,
    print_blob=True,
    suppress_health_check=_SUPPRESSED,
)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Import the modules of this folder, and no others, under the profile: a test has the settings of that moment."""
    before = settings.get_current_profile_name()
    settings.load_profile(_PROFILE)
    yield
    settings.load_profile(before)


@pytest.fixture(autouse=True)
def _until_the_end() -> None:
    """A long run skips what would begin after its end."""
    if time.time() > float(os.environ.get("PRECHECK_FUZZ_END", "inf")):
        pytest.skip("the minutes are over")


@pytest.fixture
def repeatable() -> bool:
    """Whether every run sees the same examples, so that a test may say which places they reach."""
    return _PROFILE == "ci"
