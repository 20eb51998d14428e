from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.simulate import Model, Stage
from tests.contract import harness
from tests.contract.harness import open_stage, start_precheck, write_strict
from tests.contract.warm import WarmServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.contract.harness import Ended


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
            made.append(stack.enter_context(open_stage(tmp_path / f"stage{len(made)}", **arguments)))
            return made[-1]

        yield make


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A stage on which the strict spec passes."""
    return make_stage()


@pytest.fixture(scope="session", autouse=True)
def _warm() -> Iterator[None]:
    """What most runs are forked from (`warm.py`); PRECHECK_TESTS_COLD=1 begins each of them as a user does."""
    if sys.platform != "linux" or os.environ.get("PRECHECK_TESTS_COLD"):
        yield
        return
    harness.server = WarmServer()
    yield
    harness.server.close()
    harness.server = None


class _Background:
    """A run of the unmodified strict spec on an Ollama whose model never leaves: it goes on while other tests do."""

    def __init__(self, folder: Path) -> None:
        with contextlib.ExitStack() as stack:
            models = {"qwen3:8b": Model()}
            self.stage = stack.enter_context(Stage(folder, models=models, faults={"ollama": "never-leaves"}))
            self._running = stack.enter_context(start_precheck(self.stage))
            self._stack = stack.pop_all()
        self._ended: Ended | None = None

    def __call__(self) -> tuple[Stage, Ended]:
        """Wait for its end, once."""
        if self._ended is None:
            self._ended = self._running.finish(50)
            # Its end was then, not when somebody asked.
            self._stack.close()
        return self.stage, self._ended

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session", autouse=True)
def thirty_seconds(
    _warm: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Background | None]:
    """The run that waits out 30 s, begun with the first test where one that wants it is to come."""
    if not any(item.get_closest_marker("thirty_seconds") for item in request.session.items):
        yield None
        return
    background = _Background(tmp_path_factory.mktemp("thirty-seconds"))
    yield background
    background.close()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thirty_seconds: the test waits out a real bound; it is run last")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("thirty_seconds") is not None)
