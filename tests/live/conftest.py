from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live.servers import (
    NO_JSON,
    SHARED_CONTENT,
    SHARED_ENVIRONMENT,
    WRONG_SHAPE,
    CodexServer,
    Commands,
    OpenCodeServer,
    pins,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(120))


def missing(reason: str) -> None:
    """Skip with the reason, or fail with it where the live tests are not allowed to be left out."""
    if os.environ.get("PRECHECK_LIVE") == "required":
        pytest.fail(f"PRECHECK_LIVE=required, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    folder = os.environ.get("PRECHECK_LIVE_BIN", "")
    if not folder:
        reason = os.environ.get("PRECHECK_LIVE_MISSING") or "PRECHECK_LIVE_BIN is not set (run scripts/test-live)"
        missing(f"the real servers are not there: {reason}")
    for name in ("codex", "opencode"):
        if not os.access(Path(folder, name), os.X_OK):
            missing(f"there is no {name} in {folder}")
    codex, opencode = pins()
    # A run that is told to end ends its servers too, as it does after Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield Commands(folder=Path(folder), codex_version=codex, opencode_version=opencode)
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def codex(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodexServer]:
    """A Codex server without an account, without MCP servers.

    It is shared: no client may introduce itself by a name that the server keeps, so by none but
    `codex_app_server_daemon`.
    """
    with CodexServer(commands, tmp_path_factory.mktemp("codex")) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def signed_in_codex(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CodexServer]:
    """A Codex server with an API key for an account, without MCP servers; shared, as `codex` is."""
    auth = json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-made-up-for-a-test"})
    with CodexServer(commands, tmp_path_factory.mktemp("signed-in-codex"), auth=auth) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def opencode(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCodeServer]:
    """An OpenCode server without a password, to be read from only."""
    with OpenCodeServer(
        commands,
        tmp_path_factory.mktemp("opencode"),
        content=SHARED_CONTENT,
        environment=SHARED_ENVIRONMENT,
    ) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def locked_opencode(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCodeServer]:
    """The same with a user name and a password that is not ASCII."""
    with OpenCodeServer(
        commands,
        tmp_path_factory.mktemp("locked-opencode"),
        content=SHARED_CONTENT,
        username="somebody",
        password="pä:ss wörd",
        environment=SHARED_ENVIRONMENT,
    ) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def opencode_without_json(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCodeServer]:
    """An OpenCode server whose configuration cannot be read, with a key in it."""
    folder = tmp_path_factory.mktemp("opencode-without-json")
    with OpenCodeServer(commands, folder, content=NO_JSON) as server:
        yield server.ready()


@pytest.fixture(scope="session")
def opencode_of_wrong_shape(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenCodeServer]:
    """An OpenCode server whose configuration has values of wrong types, with a key in it."""
    folder = tmp_path_factory.mktemp("opencode-of-wrong-shape")
    with OpenCodeServer(commands, folder, content=WRONG_SHAPE) as server:
        yield server.ready()
