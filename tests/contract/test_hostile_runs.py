"""A whole strict run against each fault of HTTP, JSON and WebSocket: the right check, word and exit code, in time."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from precheck_lib import engine
from precheck_lib.simulate import HOSTILE_FAULTS, Model, hostile_named
from precheck_lib.spec.load import load_spec
from tests.bounded import matrix
from tests.contract.harness import ORDER, open_stage, write_strict

STEPS = {
    "opencode": {
        "/global/health": "opencode-health",
        "/experimental/capabilities": "opencode-capabilities",
        "/config": "opencode-config",
        "/config/providers": "opencode-providers",
    },
    "ollama": {"tags": "ollama-tags", "unload": "residency", "load": "residency", "ps": "residency"},
    "codex": {"initialize": "codex", "account/read": "codex", "mcpServerStatus/list": "codex"},
}
"""Where a fault can act, by server, and the check that has to end there."""

_turns = {server: itertools.cycle(steps) for server, steps in STEPS.items()}
CASES = [(fault, next(_turns[fault.server])) for fault in HOSTILE_FAULTS]

MCP = "mcpServerStatus/list"
HALF = {"budget": "500ms", "connect": "500ms"}
BOUNDS = {
    "codex": HALF,
    "ollama-tags": HALF,
    **dict.fromkeys(STEPS["opencode"].values(), HALF),
    "residency": dict.fromkeys(("connect", "read", "unload", "removal", "load"), "500ms"),
}
SECONDS = 5.0
"""More than any of these runs takes: a wait of half a second, one more in the cleanup, two children."""


def codes_of(fault, step):
    """Say the exit codes that a run may end with: two where the machine decides between them."""
    protocol = "ws" if fault.server == "codex" else "http"
    path = next(path for path in matrix.PATHS if path.protocol == protocol and path.lenient == (step in ("tags", "ps")))
    codes = {end.curl for end in matrix.ends_of(hostile_named(fault.name), path)}
    # No answer in time is how MCP servers that are configured show (CONTRACT E2).
    return codes | {1} if step == MCP and codes & {28} else codes


def run(fault, step, spec, folder):
    """Make the run; returns what is wrong with its end, in a few words, or nothing."""
    layer = hostile_named(fault.name).layer
    options = {fault.server: {"at": None if layer == "handshake" else step, "every": 0.05}}
    models = {"qwen3:8b": Model()}
    with open_stage(folder, faults={fault.server: fault.name}, fault_options=options, models=models) as stage:
        began = time.monotonic()
        report = engine.run(spec, env=stage.environment)
        took = time.monotonic() - began
        resident = stage.ollama.state()
    index = ORDER.index(STEPS[fault.server][step])
    words = [result.outcome for result in report.checks]
    codes = codes_of(fault, step)
    if codes == {0}:
        right = (report.exit_code, words, took < SECONDS) == (0, ["passed"] * len(ORDER), True)
    else:
        right = (
            report.exit_code in codes
            and words[:index] == ["passed"] * index
            and words[index] in ("failed", "error")
            and set(words[index + 1 :]) <= {"skipped"}
            and bool(report.checks[index].findings)
            and not resident
            and took < SECONDS
        )
    return "" if right else f"exit {report.exit_code} of {codes}, {words}, {took:.1f} s, resident {resident}"


@pytest.mark.parametrize(("server", "step"), [(server, step) for server, steps in STEPS.items() for step in steps])
def test_a_run_ends_in_the_check_that_met_the_fault_with_its_code(server, step, tmp_path):
    spec = load_spec(str(write_strict(tmp_path / "spec", BOUNDS)))
    faults = [fault for fault, at in CASES if (fault.server, at) == (server, step)]
    with ThreadPoolExecutor(6) as pool:  # most of them wait
        ends = pool.map(lambda fault: run(fault, step, spec, tmp_path / fault.name), faults)
        wrong = {fault.name: end for fault, end in zip(faults, ends, strict=True) if end}
    assert len(faults) >= 15
    assert wrong == {}
