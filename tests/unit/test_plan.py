"""What `plan` says: every deed in its order, with budgets, without touching anything or needing a secret."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from precheck_lib import build_spec
from precheck_lib.checks import kind_named
from precheck_lib.plan import plan_lines
from precheck_lib.spec import load_spec

ROLES = {
    "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": "b",
    "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"ollama": {"models": {"a": {}, "b": {}, "c": {"id": "B"}}}}}),
    "TEST_OPENAI_API_KEY": "sk-not-to-be-shown",
}


@pytest.fixture
def untouchable(monkeypatch):
    """Nothing can be contacted, started or written."""

    def never(*args, **_):
        raise AssertionError(args)

    for of, name in [
        (socket, "socket"),
        (socket, "create_connection"),
        (socket, "getaddrinfo"),
        (subprocess, "Popen"),
        (os, "posix_spawn"),
        (os, "fork"),
        (os, "mkdir"),
        (os, "unlink"),
        (os, "rename"),
        (os, "replace"),
        (Path, "write_text"),
    ]:
        monkeypatch.setattr(of, name, never)


def strict_plan(env, budget=None):
    return plan_lines(load_spec("strict"), env, budget)


def test_the_plan_of_strict_touches_nothing_and_needs_nothing(untouchable):
    assert len(strict_plan({})) > 30


def test_the_plan_of_strict_is_the_same_whatever_the_environment_but_for_the_models(untouchable):
    without = strict_plan({"TEST_OPENAI_API_KEY": "sk-not-to-be-shown"})
    with_roles = strict_plan(ROLES)
    differ = [line for line in with_roles if line not in without]
    assert [line.split(":")[0] for line in differ] == ["residency", "budget", "reserve", SMALLEST]
    assert "sk-not-to-be-shown" not in "\n".join(with_roles)


SMALLEST = "smallest budget that leaves time for a load"


def test_the_plan_names_every_check_in_order_with_its_time_and_needs():
    spec = load_spec("strict")
    heads = [line for line in strict_plan({}) if line and not line.startswith(" ")]
    assert heads[0] == f"strict ({spec.identity.path})"
    assert heads[1] == f"roles: {spec.checks[0].title} (at most 2s)"
    assert heads[2] == f"commands: {spec.checks[1].title} (at most 10s, after roles)"
    assert [line.partition(":")[0] for line in heads[1:11]] == [check.id for check in spec.checks]
    assert heads[10].endswith("(at most 7m23s for one model, after ollama-tags)")


def test_the_plan_says_of_every_deed_whether_it_changes_a_server():
    deeds = [line for line in strict_plan({}) if line.startswith(" ")]
    assert all(line.startswith(("    reads    ", "    CHANGES  ")) for line in deeds)
    changes = [line.removeprefix("    CHANGES  ") for line in deeds if "CHANGES" in line]
    assert changes == [
        "POST ${TEST_CUSTOM_OLLAMA_URL}/generate: unload it (30s)",
        "POST ${TEST_CUSTOM_OLLAMA_URL}/generate: load it for 10m (6m)",
        "POST ${TEST_CUSTOM_OLLAMA_URL}/generate: unload it again, unless it is to stay",
        "when the run fails: unload what it has loaded, and see it gone",
    ]


def test_without_roles_the_budgets_are_for_each_model():
    assert strict_plan({})[-3:] == [
        "budget: 9m37s for one model and 8m42s for each further one, the sum of the parts",
        "reserve: 1m for one model and 30s for each further one, kept of it for cleanup and reports",
        f"{SMALLEST}: 1m5s for one model and 32s for each further one",
    ]


def test_with_roles_the_budgets_are_for_the_models_that_there_are():
    # `B` is `b` to Ollama: two models, not three.
    plan = strict_plan(ROLES)
    assert plan[-3:] == [
        "budget: 18m19s, the sum of the parts",
        "reserve: 1m30s, kept of it for cleanup and reports",
        f"{SMALLEST}: 1m37s",
    ]
    assert any("(at most 15m35s for 2 models, after ollama-tags)" in line for line in plan)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"provider": {}}', '{"provider": {"ollama": {"models": {}}}}'])
def test_roles_that_cannot_be_used_are_as_if_they_were_not_set(text):
    assert strict_plan({"OPENCODE_CONFIG_CONTENT": text}) == strict_plan({})


def test_a_budget_that_is_given_is_said_and_one_that_is_too_small_too():
    assert "budget given: 20m" in strict_plan(ROLES, 1200.0)
    assert "budget given: 1m33s" in strict_plan(ROLES, 93.0)
    refused = "budget given: 1m30s; it leaves no time for a load, and a run would be refused (exit code 2)"
    assert refused in strict_plan(ROLES, 90.0)


@pytest.fixture
def plan_of(tmp_path):
    def plan(text, budget=None):
        (tmp_path / "it.yml").write_text(f"version: 1\nname: x\n{text}", encoding="utf-8")
        return plan_lines(load_spec(str(tmp_path / "it.yml")), {}, budget)

    return plan


def test_a_spec_without_changes_has_no_reserve_and_may_have_any_budget(plan_of):
    lines = plan_of("checks: [{id: one, budget: 3s, env: }]\n", 0.5)
    assert lines[-2:] == ["budget: 3s, the sum of the parts", "budget given: 500ms"]


def test_the_budget_of_the_spec_is_said_and_one_that_is_given_counts_before_it(plan_of):
    text = "budget: 7s\nchecks: [{id: one, env: }]\n"
    assert plan_of(text)[-1] == "budget given: 7s"
    assert plan_of(text, 8.0)[-1] == "budget given: 8s"


def test_what_changes_stands_last_as_it_will_run(plan_of):
    lines = plan_of(
        "checks:\n  - {id: gpu, residency: {url: h, models: [m], stay: [m]}}\n  - {id: port, tcp: {url: h}}\n"
    )
    heads = [line.partition(":")[0] for line in lines if line and not line.startswith(" ")]
    assert heads[1:3] == ["port", "gpu"]


def test_a_check_with_a_budget_of_its_own_does_not_grow_with_the_models(plan_of):
    residency = "{url: h, models: '${MODELS#}', stay: []}"
    lines = plan_of(f"checks: [{{id: gpu, budget: 5m, residency: {residency}}}]\n")
    assert "budget: 6m for one model and 30s for each further one, the sum of the parts" in lines


def test_text_of_the_spec_is_one_harmless_line(plan_of):
    lines = plan_of('checks: [{id: one, title: "a\\n::error::b\\e[31mc", tcp: {url: "x\\ny"}}]\n')
    assert lines[2:4] == [
        "one: a ::error::bc (at most 2s)",
        "    reads    connect to the host and port of x y, and close",
    ]


def test_every_kind_has_a_plan():
    from precheck_lib.checks import KINDS

    assert [name for name in KINDS if kind_named(name).name != name] == []


@pytest.mark.parametrize(
    ("models", "told"),
    [
        (["qwen3:8b"], "qwen3:8b"),
        (["qwen3:8b", "gpt-oss:20b"], "qwen3:8b, gpt-oss:20b"),
        ({"qwen3:8b": {}}, "qwen3:8b"),
        ("${MODELS}", "each model of ${MODELS}"),
    ],
)
@pytest.mark.parametrize("kind", ["ollama", "residency"])
def test_models_are_named_as_a_person_would(kind, models, told):
    spec = build_spec(
        {"version": 1, "name": "x", "checks": [{"id": "a", kind: {"url": "http://127.0.0.1:1/api", "models": models}}]}
    )
    lines = "\n".join(plan_lines(spec, {}, None))
    assert f"must list {told}" in lines or f"{told}:" in lines
    assert "['" not in lines
    assert "{'" not in lines
