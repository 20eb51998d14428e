"""Hostile servers that are closed after the test, a clock that allows a quarter of a second, and a certificate."""

from __future__ import annotations

import contextlib
import gc
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.bounded import tls
from precheck_lib.bounded.cancel import Cancel
from precheck_lib.simulate.hostile import Authority
from tests.bounded.hostile import Hostile, Peer, held_up, over_tls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from tests.bounded.hostile import Ended

OVERRUN_SECONDS = 0.25
"""How far beyond its budget anything may end, on a machine that is not busy with something else."""

MEMORY_BYTES = 16 << 20
"""How much a flood may take, whatever it promises."""


@pytest.fixture
def serve() -> Iterator[Callable[..., Hostile]]:
    """Start a server with the arguments of `Hostile`; it is closed after the test."""
    with contextlib.ExitStack() as stack:

        def start(script: Callable[[Peer], None], **options: Any) -> Hostile:
            return stack.enter_context(contextlib.closing(Hostile(script, **options)))

        yield start


@pytest.fixture
def cancel() -> Iterator[Cancel]:
    with contextlib.closing(Cancel()) as made:
        yield made


@pytest.fixture
def ends_within(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Hold a block to `seconds` and a quarter, and its memory to 16 MiB where that is asked for."""

    @contextlib.contextmanager
    def hold(seconds: float, *, overrun: float = OVERRUN_SECONDS, flood: bool = False) -> Iterator[None]:
        gc.collect()
        if flood:
            tracemalloc.start()
        started, before = time.monotonic(), held_up()
        try:
            yield
        finally:
            took = time.monotonic() - started
            busy = max(0.0, held_up() - before)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        request.node.user_properties.append(("overrun_ms", round((took - busy - seconds) * 1000, 1)))
        assert took - busy <= seconds + overrun, f"took {took:.3f} s of {seconds} s, {busy:.3f} s without a processor"
        assert peak <= MEMORY_BYTES, f"took {peak >> 20} MiB"

    return hold


@pytest.fixture
def all_end_within(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Hold several calls to `seconds` and a quarter."""

    def hold(seconds: float, ended: dict[str, Ended]) -> None:
        took = {name: end.seconds - end.held_up for name, end in ended.items()}
        request.node.user_properties.append(("overrun_ms", round((max(took.values()) - seconds) * 1000, 1)))
        assert not {name: took for name, took in took.items() if took > seconds + OVERRUN_SECONDS}

    return hold


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make the certificates that hostile servers show."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def trusting(certificates: Authority) -> ssl.SSLContext:
    """A context as the clients have it that trusts the authority of these tests as well."""
    made = tls.make_context()
    made.load_verify_locations(certificates.certificate)
    return made


@pytest.fixture
def trusted(trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clients trust the authority of these tests."""
    monkeypatch.setattr(tls, "context", lambda: trusting)


@pytest.fixture
def serve_tls(serve: Callable[..., Hostile], certificates: Authority) -> Callable[..., Hostile]:
    """Start a server whose script speaks inside TLS."""

    def start(script: Callable[[Peer], None], **options: Any) -> Hostile:
        return serve(over_tls(certificates.context(), script), **options)

    return start
