"""D1 to D4: what is asked of whom and when; a failed step ends the run; nothing is changed before all is read."""

from __future__ import annotations

import json

import pytest

from tests.contract.harness import (
    BRIEF,
    ORDER,
    SPECS,
    Family,
    everything_seen,
    open_stage,
    read_yaml,
    run_precheck,
    write_strict,
    write_yaml,
)

BEFORE_THE_CYCLES = [
    "codex TCP",
    "codex GET /",
    "codex initialize",
    "codex account/read",
    "codex mcpServerStatus/list",
    "opencode GET /global/health",
    "opencode GET /experimental/capabilities",
    "opencode GET /config",
    "opencode GET /config/providers",
    "ollama GET /api/tags",
]
CYCLES = [
    "ollama unload gpt-oss:20b",
    "ollama GET /api/ps",
    "ollama load gpt-oss:20b",
    "ollama GET /api/ps",
    "ollama unload gpt-oss:20b",
    "ollama GET /api/ps",
    "ollama unload qwen3:8b",
    "ollama GET /api/ps",
    "ollama load qwen3:8b",
    "ollama GET /api/ps",
    "ollama GET /api/ps",
]


def test_everything_is_asked_in_the_order_of_the_contract(stage):
    ended = run_precheck(stage)
    assert ended.code == 0, ended
    assert everything_seen(stage) == BEFORE_THE_CYCLES + CYCLES
    assert [check["id"] for check in ended.json["checks"]] == list(ORDER)
    started = [check["started_s"] for check in ended.json["checks"]]
    assert started == sorted(started)


def test_the_spec_itself_says_the_order_by_needs():
    document = read_yaml(SPECS / "strict.yml")
    needs = {check["id"]: check.get("needs", []) for check in document["checks"]}
    assert list(needs) == list(ORDER)
    assert needs == {check: list(ORDER[max(0, at - 1) : at]) for at, check in enumerate(ORDER)}


def test_the_engine_knows_no_spec_by_its_name(stage, tmp_path):
    spec = write_strict(tmp_path / "elsewhere", name="another", success="another passed")
    ended = run_precheck(stage, spec=spec.rename(spec.with_name("another.yml")))
    assert ended.code == 0, ended
    assert everything_seen(stage) == BEFORE_THE_CYCLES + CYCLES


STEPS = {
    "tcp": ("codex", "refuse", "codex-tcp", 0),
    "handshake": ("codex", "handshake-403", "codex", 2),
    "account": ("codex", "no-account", "codex", 4),
    "mcp": ("codex", "mcp-configured", "codex", 5),
    "health": ("opencode", "unhealthy", "opencode-health", 6),
    "capabilities": ("opencode", "subagents-on", "opencode-capabilities", 7),
    "config": ("opencode", "config-other-model", "opencode-config", 8),
    "providers": ("opencode", "provider-not-connected", "opencode-providers", 9),
    "tags": ("ollama", "not-pulled", "ollama-tags", 10),
}


@pytest.fixture(scope="module")
def failed_steps(request, tmp_path_factory):
    """The stage and the run in which each step fails."""
    place = tmp_path_factory.mktemp("steps")
    spec = write_strict(place / "spec")

    def run(step):
        server, fault, *_ = STEPS[step]
        with open_stage(place / step, faults={server: fault}) as stage:
            return stage, run_precheck(stage, spec=spec)

    return Family(request, "test_after_a_failed_step_nothing_later_is_contacted", STEPS, run)


@pytest.mark.parametrize("step", STEPS)
def test_after_a_failed_step_nothing_later_is_contacted(step, failed_steps):
    _, _, blocker, count = STEPS[step]
    stage, ended = failed_steps[step]
    assert ended.code != 0
    assert ended.blockers == [blocker], ended
    assert everything_seen(stage) == BEFORE_THE_CYCLES[:count]
    skipped = [check for check, word in ended.words.items() if word == "skipped"]
    assert skipped == list(ORDER[ORDER.index(blocker) + 1 :])
    assert {ended.check(check)["skipped_for"] for check in skipped} == {blocker}


def test_after_a_failed_cycle_no_other_model_is_touched(make_stage, small_strict):
    stage = make_stage(faults={"ollama": "load-500"}, fault_options={"ollama": {"model": "gpt-oss:20b"}})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 22, ended
    assert {model for _, model in stage.ollama.actions} == {"gpt-oss:20b"}


def _turned_around(spec, *, fail_fast):
    """Let a spec list its checks in the opposite order, with no needs to hold them together."""
    document = read_yaml(spec)
    document["checks"].reverse()
    document["fail_fast"] = fail_fast
    for check in document["checks"]:
        check.pop("needs", None)
    return write_yaml(spec, document)


@pytest.mark.parametrize("fail_fast", [True, False])
def test_every_read_comes_before_the_first_change_whatever_the_spec_says_first(fail_fast, stage, small_strict):
    ended = run_precheck(stage, spec=_turned_around(small_strict, fail_fast=fail_fast))
    assert ended.code == 0, ended
    seen = everything_seen(stage)
    first_change = next(at for at, what in enumerate(seen) if what.startswith(("ollama unload", "ollama load")))
    assert sorted(seen[:first_change]) == sorted(BEFORE_THE_CYCLES)
    assert seen[first_change:] == CYCLES


@pytest.mark.parametrize(("fault", "options"), [("unhealthy", {}), ("silence", {"at": "/config"})])
def test_nothing_is_changed_when_any_read_has_failed_without_fail_fast(fault, options, make_stage, tmp_path):
    stage = make_stage(faults={"opencode": fault}, fault_options={"opencode": options})
    spec = _turned_around(write_strict(tmp_path / "spec", BRIEF), fail_fast=False)
    ended = run_precheck(stage, spec=spec)
    assert ended.code != 0
    assert ended.words["residency"] == "skipped", ended
    assert stage.ollama.actions == []
    assert [request.path for request in stage.ollama.seen] == ["/api/tags"]


def test_the_inventory_is_not_consulted_before_the_first_unload(make_stage, small_strict):
    # A server that fails every read of the inventory is still sent the unload.
    stage = make_stage(faults={"ollama": "ps-invalid"}, fault_options={"ollama": {"after": "always"}})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1, ended
    assert [request.path for request in stage.ollama.seen] == ["/api/tags", "/api/generate", "/api/ps"]
    assert json.loads(stage.ollama.seen[1].body)["keep_alive"] == 0
