"""Every client path against every hostile fault that applies: the end, the right one, in time, with nothing left."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.simulate.hostile import HOSTILE, HostileServer
from tests.bounded import matrix
from tests.bounded.hostile import at_the_same_time

if TYPE_CHECKING:
    from precheck_lib.simulate.hostile import Authority, HostileFault

SECONDS = 0.3
"""The budget of each call."""


@pytest.mark.parametrize("fault", HOSTILE, ids=lambda fault: fault.name)
def test_every_client_ends_in_time_and_as_it_should(
    fault: HostileFault, certificates: Authority, trusted: None, ends_within, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with contextlib.ExitStack() as stack:
        servers = {
            path.label: (path, stack.enter_context(matrix.serve(fault, path, certificates)))
            for path in matrix.PATHS
            if matrix.applies(fault, path)
        }
        seen: dict[str, object] = {}

        def call(label: str) -> None:
            path, server = servers[label]
            seen[label] = matrix.ended(lambda: path.call(server.url, Budget(SECONDS)), path)

        slow = any(matrix.is_slow(fault, path) for path, _ in servers.values())
        with ends_within(SECONDS, flood=True):
            if slow:  # their waits are worth more than the exactness of a flood's memory, of which none is slow
                at_the_same_time({label: lambda label=label: call(label) for label in servers})
        for label in () if slow else servers:
            with ends_within(SECONDS, flood=True):
                call(label)
        wanted = {label: matrix.ends_of(fault, path) for label, (path, _) in servers.items()}
        wrong = {label: (seen[label], end) for label, end in wanted.items() if not matrix.fits(seen[label], end)}
        assert not wrong
        most = {label: 1 + (path.again == fault.name) for label, (path, _) in servers.items()}
        assert not {label for label, (_, server) in servers.items() if len(server.connections) > most[label]}
    assert list(Path(tmp_path).iterdir()) == []


@pytest.mark.parametrize("path", matrix.PATHS, ids=lambda path: path.label)
def test_every_client_is_content_with_a_server_whose_turn_to_be_wrong_never_comes(path, certificates, trusted):
    layer = {"http": "http-silence", "ws": "ws-no-answer", "tcp": "tcp-silence"}[path.protocol]
    server = HostileServer(
        layer,
        answer=matrix.answer,
        reply=matrix.reply,
        after=1000,
        secure=path.secure,
        authority=certificates if path.secure else None,
    )
    with server:
        assert matrix.ended(lambda: path.call(server.url, Budget(5)), path) == matrix.PASSES


def test_every_fault_meets_a_client_and_has_its_end_in_the_table():
    assert len(HOSTILE) >= 75
    assert {fault.name for fault, _ in matrix.pairs()} == {fault.name for fault in HOSTILE} == matrix.ENDS.keys()
