from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.simulate import Stage
from tests.contract.harness import write_strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def small_strict(tmp_path: Path) -> Path:
    """A copy of the strict spec whose bounds are about a second (`harness.SMALL`)."""
    return write_strict(tmp_path / "spec")


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Make a stage with the arguments of `Stage`; it is closed after the test."""
    with contextlib.ExitStack() as stack:
        made = []

        def make(**arguments: Any) -> Stage:
            made.append(stack.enter_context(Stage(tmp_path / f"stage{len(made)}", **arguments)))
            return made[-1]

        yield make


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A stage on which the strict spec passes."""
    return make_stage()
