"""Hostile servers that are closed after the test, a clock that allows a quarter of a second, and a certificate."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.bounded import tls
from precheck_lib.bounded.cancel import Cancel
from tests.bounded.hostile import Hostile, Peer, held_up, over_tls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from pathlib import Path

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
    """Hold a block to `seconds` and a quarter, and its memory to 16 MiB where it is a flood."""

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


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate authority, `ca.pem`, and what it has signed for localhost, 127.0.0.1 and ::1: `server.pem`.

    `expired.pem` is the same, out of date.
    """
    folder = tmp_path_factory.mktemp("authority")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    _openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n", encoding="ascii")
    _openssl(folder, "req", "-new", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    sign = ["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-extfile", "names"]
    for name, days in (("server", "1"), ("expired", "-1")):
        _openssl(folder, *sign, "-CAcreateserial", "-days", days, "-out", f"{name}.crt")
        chain = (folder / f"{name}.crt").read_text() + (folder / "server.key").read_text()
        (folder / f"{name}.pem").write_text(chain)
    return folder


@pytest.fixture(scope="session")
def trusting(authority: Path) -> ssl.SSLContext:
    """A context as the clients have it that trusts the authority of these tests as well."""
    made = tls.make_context()
    made.load_verify_locations(authority / "ca.pem")
    return made


@pytest.fixture
def trusted(trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clients trust the authority of these tests."""
    monkeypatch.setattr(tls, "context", lambda: trusting)


@pytest.fixture
def server_context(authority: Path) -> ssl.SSLContext:
    return make_server_context(authority / "server.pem")


def make_server_context(chain: Path) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return context


@pytest.fixture
def serve_tls(serve: Callable[..., Hostile], server_context: ssl.SSLContext) -> Callable[..., Hostile]:
    """Start a server whose script speaks inside TLS."""

    def start(script: Callable[[Peer], None], **options: Any) -> Hostile:
        return serve(over_tls(server_context, script), **options)

    return start
