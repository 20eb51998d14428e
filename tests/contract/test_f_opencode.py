"""CONTRACT F: what is asked of the OpenCode Server and with which credentials (F1), and its four answers (F2 to F5)."""

from __future__ import annotations

import base64
import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.simulate import Stage
from tests.contract.harness import ORDER, Scripted, run_all, run_precheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.contract.harness import Ended

    Passed = tuple[Stage, Ended]

PATHS = {
    "opencode-health": "/global/health",
    "opencode-capabilities": "/experimental/capabilities",
    "opencode-config": "/config",
    "opencode-providers": "/config/providers",
}
CANARY = "sk-canary-5d1b7e"
"""A key that only the server knows: no redactor can look for it."""

USERNAME, PASSWORD = "münchen", "pä:ss wörd 🔑"


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passed]:
    """A run that passes against a server with a password of UTF-8, and what the servers saw of it."""
    with Stage(tmp_path_factory.mktemp("passed"), username=USERNAME, password=PASSWORD) as stage:
        ended = run_precheck(stage)
        assert ended.code == 0, ended
        yield stage, ended


def ended_at(ended: Ended, check_id: str, word: str, code: int) -> list[dict[str, Any]]:
    """Assert that the run ended at this check and in this way; give the check's findings."""
    before, later = ORDER[: ORDER.index(check_id)], ORDER[ORDER.index(check_id) + 1 :]
    assert ended.code == code, ended
    words = {**dict.fromkeys(before, "passed"), check_id: word, **dict.fromkeys(later, "skipped")}
    assert ended.words == words, ended
    return ended.check(check_id)["findings"]


def asked(stage: Stage) -> list[str]:
    return [request.path for request in stage.opencode.seen]


def up_to(check_id: str) -> list[str]:
    """The paths that are asked for until this check."""
    return list(PATHS.values())[: list(PATHS).index(check_id) + 1]


def shown(ended: Ended) -> str:
    return ended.out + ended.err + ended.raw.decode("utf-8")


# F1: what is asked --------------------------------------------------------------------------------------------------


def test_four_reads_are_made_in_order_and_no_other(passed: Passed) -> None:
    stage, ended = passed
    assert asked(stage) == list(PATHS.values())
    assert {request.method for request in stage.opencode.seen} == {"GET"}
    made = {request["check"]: request["url"] for request in ended.json["requests"] if "opencode" in request["check"]}
    assert made == {check_id: stage.opencode.url + path for check_id, path in PATHS.items()}


def test_every_read_has_a_connection_of_its_own(passed: Passed) -> None:
    stage, _ = passed
    assert len(stage.opencode.connections) == len(PATHS)


def test_every_read_carries_the_credentials_in_utf_8_and_no_other_server_gets_them(passed: Passed) -> None:
    stage, ended = passed
    token = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
    assert [request.headers["authorization"] for request in stage.opencode.seen] == [f"Basic {token}"] * 4
    for other in (*stage.codex.seen, *stage.ollama.seen):
        assert "authorization" not in other.headers
        assert token not in str(other)
    for secret in (token, PASSWORD, json.dumps(PASSWORD)[1:-1]):
        assert secret not in shown(ended)
    assert "@" not in "".join(url for _, url in ended.requests)


def test_without_the_pair_no_read_carries_credentials_and_a_slash_at_the_end_of_the_url_is_the_same(
    stage: Stage,
) -> None:
    assert run_precheck({**stage.environment, "TEST_OPENCODE_URL": f"{stage.opencode.url}/"}).code == 0
    assert asked(stage) == list(PATHS.values())
    assert all("authorization" not in request.headers for request in stage.opencode.seen)


# F1: refusals -------------------------------------------------------------------------------------------------------


def test_401_is_a_failure_that_ends_the_run_at_the_first_read(make_stage: Callable[..., Stage]) -> None:
    without, wrong = make_stage(password="right-password"), make_stage(password="right-password")
    calls = [
        {key: value for key, value in without.environment.items() if "TEST_OPENCODE_USER" not in key},
        {**wrong.environment, "TEST_OPENCODE_PASSWORD": "wrong-password"},
    ]
    calls[0].pop("TEST_OPENCODE_PASSWORD")
    ends = run_all([lambda env=env: run_precheck(env) for env in calls])
    for stage, ended in zip((without, wrong), ends, strict=True):
        (finding,) = ended_at(ended, "opencode-health", "failed", 22)
        assert finding["code"] == "opencode.unauthorized"
        assert "401" in finding["message"]
        assert "[curl: (22)]" in ended.err
        assert "wrong-password" not in shown(ended)
        assert asked(stage) == ["/global/health"]
        assert not stage.ollama.connections


WRONG: tuple[tuple[str, str, str, int, str], ...] = (
    ("unauthorized", "opencode-config", "failed", 22, "status 401"),
    ("redirect", "opencode-health", "failed", 1, "status 302"),
    ("redirect", "opencode-providers", "failed", 1, "status 302"),
    ("html-200", "opencode-capabilities", "failed", 1, "text/html"),
    ("not-json", "opencode-health", "failed", 1, "not JSON"),
    ("not-json", "opencode-config", "failed", 1, "not JSON"),
    ("status", "opencode-capabilities", "error", 22, "status 503"),
    ("status", "opencode-providers", "error", 22, "status 503"),
)


def test_a_wrong_answer_ends_the_run_whichever_read_it_is(make_stage: Callable[..., Stage]) -> None:
    stages = [
        make_stage(faults={"opencode": fault}, fault_options={"opencode": {"at": PATHS[at]}}) for fault, at, *_ in WRONG
    ]
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages])
    for (fault, at, word, code, said), stage, ended in zip(WRONG, stages, ends, strict=True):
        (finding,) = ended_at(ended, at, word, code)
        assert PATHS[at] in finding["message"], fault
        assert said in finding["message"], fault
        assert ("[curl: (22)]" in finding["message"]) == (code == 22), fault
        assert asked(stage) == up_to(at), fault
        assert not stage.ollama.connections, fault


def test_no_redirect_is_followed_to_another_server(make_stage: Callable[..., Stage]) -> None:
    with Scripted() as elsewhere:
        location = f"http://{elsewhere.authority}/global/health"
        stage = make_stage(
            password="right-password",
            faults={"opencode": "redirect"},
            fault_options={"opencode": {"location": location}},
        )
        ended = run_precheck(stage)
        assert not elsewhere.connections
    ended_at(ended, "opencode-health", "failed", 1)
    assert location not in ended.err


def test_of_a_refused_configuration_the_name_and_the_places_are_told_and_never_the_message(
    make_stage: Callable[..., Stage],
) -> None:
    config = {"model": "ollama/qwen3:8b", "provider": {"ollama": {"models": {"qwen3:8b": {}}, "options": {}}}}
    server = copy.deepcopy(config)
    server["provider"]["ollama"]["options"] = {"apiKey": CANARY}  # type: ignore[index]
    kinds = ("ConfigInvalidError", "ConfigJsonError")
    stages = [
        make_stage(config=server, faults={"opencode": "config-400"}, fault_options={"opencode": {"kind": kind}})
        for kind in kinds
    ]
    role = {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    ends = run_all([lambda stage=stage: run_precheck({**stage.environment, **role}) for stage in stages])
    for stage, kind, ended in zip(stages, kinds, ends, strict=True):
        assert CANARY in json.dumps(stage.opencode._echo(kind)), "the server does repeat it"
        (finding,) = ended_at(ended, "opencode-capabilities", "error", 22)
        assert f"status 400 instead of 200, {kind} in OPENCODE_CONFIG_CONTENT" in finding["message"]
        assert ("provider.ollama" in finding["message"]) == (kind == "ConfigInvalidError")
        for secret in (CANARY, "JSONC Input", "Expected"):
            assert secret not in shown(ended)


# F2 and F3 ----------------------------------------------------------------------------------------------------------


def test_an_unhealthy_server_and_one_off_the_pin_are_failures(make_stage: Callable[..., Stage]) -> None:
    sick, other = make_stage(faults={"opencode": "unhealthy"}), make_stage(faults={"opencode": "wrong-version"})
    number = make_stage()
    number.opencode.version = 1.18  # type: ignore[assignment]
    unhealthy, version, untold = run_all([lambda stage=stage: run_precheck(stage) for stage in (sick, other, number)])
    ended_at(untold, "opencode-health", "failed", 1)
    (finding,) = ended_at(unhealthy, "opencode-health", "failed", 1)
    assert finding["code"] == "opencode.unhealthy"
    (finding,) = ended_at(version, "opencode-health", "failed", 1)
    assert finding["code"] == "opencode.version"
    assert "1.18.33" in finding["message"]
    assert "1.18.20" in finding["message"]
    assert "server" in finding["evidence"]
    assert asked(sick) == asked(other) == ["/global/health"]


def test_background_subagents_have_to_be_false_and_nothing_like_it(make_stage: Callable[..., Stage]) -> None:
    values = (True, None, 0, "false")
    stages = [make_stage() for _ in values]
    for stage, value in zip(stages, values, strict=True):
        stage.opencode.background_subagents = value
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages])
    for ended in ends:
        (finding,) = ended_at(ended, "opencode-capabilities", "failed", 1)
        assert finding["code"] == "opencode.subagents"
        assert "backgroundSubagents" in finding["message"]


# F4 -----------------------------------------------------------------------------------------------------------------

ROLE: dict[str, Any] = {
    "model": "ollama/qwen3:8b",
    "provider": {
        "ollama": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:11434/v1", "apiKey": "{env:KEY}", "timeout": 5},
            "models": {
                "qwen3:8b": {"name": "Qwen", "limit": {"context": 65536, "output": 8192}, "tool_call": True},
                "gpt-oss:20b": {"name": "GPT"},
            },
        }
    },
}


def with_(path: str, value: Any, config: dict[str, Any] = ROLE) -> dict[str, Any]:
    """Give a copy with `value` at the path of keys (`/` between them); `...` takes it out."""
    made = copy.deepcopy(config)
    place: Any = made
    *steps, last = path.split("/")
    for step in steps:
        place = place.setdefault(step, {})
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made


OPTIONS, MODELS = "provider/ollama/options", "provider/ollama/models"
SERVER = with_(f"{OPTIONS}/apiKey", CANARY)
"""The configuration of a server that is right: `{env:KEY}` has become a key."""

DIFFERENT: Mapping[str, tuple[dict[str, Any], str]] = {
    "another model": (with_("model", f"ollama/{CANARY}", SERVER), "model"),
    "a model that is missing": (with_(f"{MODELS}/gpt-oss:20b", ..., SERVER), "gpt-oss:20b"),
    "another text": (with_(f"{OPTIONS}/baseURL", f"http://{CANARY}/v1", SERVER), "provider.ollama.options.baseURL"),
    "a boolean for a number": (with_(f"{OPTIONS}/timeout", True, SERVER), "provider.ollama.options.timeout"),
    "another number": (
        with_(f"{MODELS}/qwen3:8b/limit/context", 4096, SERVER),
        "provider.ollama.models.qwen3:8b.limit.context",
    ),
    "a number for a boolean": (
        with_(f"{MODELS}/qwen3:8b/tool_call", 1, SERVER),
        "provider.ollama.models.qwen3:8b.tool_call",
    ),
}


def against(stage: Stage, role: dict[str, Any]) -> dict[str, str]:
    return {
        **stage.environment,
        "OPENCODE_CONFIG_CONTENT": json.dumps(role),
        "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": "qwen3:8b",
    }


def test_every_difference_is_a_failure_told_by_its_key_path_and_no_value_is_shown(
    make_stage: Callable[..., Stage],
) -> None:
    stages = [make_stage(config=config) for config, _ in DIFFERENT.values()]
    ends = run_all([lambda stage=stage: run_precheck(against(stage, ROLE)) for stage in stages])
    for (name, (_, path)), stage, ended in zip(DIFFERENT.items(), stages, ends, strict=True):
        findings = ended_at(ended, "opencode-config", "failed", 1)
        assert [finding["code"] for finding in findings] == ["opencode.config"], name
        assert path in findings[0]["message"], name
        assert CANARY not in shown(ended), name
        assert "11434/v1" not in shown(ended), name
        assert asked(stage)[-1] == "/config"
        assert not stage.ollama.connections


def test_several_differences_are_all_told(make_stage: Callable[..., Stage]) -> None:
    config = with_(f"{OPTIONS}/timeout", 6, with_(f"{MODELS}/gpt-oss:20b", ..., with_("model", "ollama/x", SERVER)))
    ended = run_precheck(against(make_stage(config=config), ROLE))
    findings = ended_at(ended, "opencode-config", "failed", 1)
    text = " ".join(finding["message"] for finding in findings)
    for part in ("`model`", "gpt-oss:20b", "provider.ollama.options.timeout"):
        assert part in text


def test_a_server_may_have_more_and_a_reference_fits_what_has_been_put_in(make_stage: Callable[..., Stage]) -> None:
    config = with_(f"{MODELS}/extra:1b", {"name": "more"}, with_(f"{OPTIONS}/headerTimeout", 9, SERVER))
    ended = run_precheck(against(make_stage(config=config), ROLE))
    assert ended.code == 0, ended
    assert ended.check("opencode-config")["findings"] == []
    assert CANARY not in shown(ended)


def test_a_key_that_the_server_has_dropped_is_a_warning_and_nothing_more(make_stage: Callable[..., Stage]) -> None:
    role = with_(f"{MODELS}/qwen3:8b/temprature", CANARY, with_("provider/ollama/apiKeyy", CANARY))
    ended = run_precheck(against(make_stage(config=with_(f"{OPTIONS}/apiKey", "put-in", role)), role))
    assert ended.code == 0, ended
    (finding,) = ended.check("opencode-config")["findings"]
    assert finding["severity"] == "warning"
    for path in ("provider.ollama.apiKeyy", "provider.ollama.models.qwen3:8b.temprature"):
        assert path in finding["message"]
        assert path in ended.cases["opencode-config"].system_out
        assert path in ended.err
    assert ended.words["opencode-config"] == "passed"
    assert CANARY not in shown(ended)


# F5 -----------------------------------------------------------------------------------------------------------------


def test_ollama_has_to_be_connected_and_to_offer_every_configured_model(make_stage: Callable[..., Stage]) -> None:
    absent = make_stage(faults={"opencode": "provider-not-connected"})
    partial = make_stage(
        faults={"opencode": "provider-missing-model"}, fault_options={"opencode": {"model": "gpt-oss:20b"}}
    )
    first, second = run_all([lambda: run_precheck(absent), lambda: run_precheck(partial)])
    (finding,) = ended_at(first, "opencode-providers", "failed", 1)
    assert finding["code"] == "opencode.provider"
    assert "not connected" in finding["message"]
    (finding,) = ended_at(second, "opencode-providers", "failed", 1)
    assert "gpt-oss:20b" in finding["message"]
    assert "qwen3:8b" not in finding["message"]
    for stage in (absent, partial):
        assert asked(stage) == list(PATHS.values())
        assert not stage.ollama.connections


def test_what_is_configured_and_offered_are_keys_and_not_ids(make_stage: Callable[..., Stage]) -> None:
    role = with_("model", "ollama/mine", with_(MODELS, {"mine": {"id": "qwen3:8b", "name": "mine"}}))
    stage = make_stage(config=with_(f"{OPTIONS}/apiKey", CANARY, role))
    ended = run_precheck({**against(stage, role), "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": "mine"})
    assert ended.code == 0, ended


def test_a_canary_in_any_answer_of_a_failing_run_is_never_shown(make_stage: Callable[..., Stage]) -> None:
    """The same key stands in `/config` and in `/config/providers`; the run fails after both."""
    stage = make_stage(config=SERVER, faults={"ollama": "on-cpu"})
    ended = run_precheck(against(stage, ROLE))
    assert ended.blockers == ["residency"]
    assert CANARY not in shown(ended)
