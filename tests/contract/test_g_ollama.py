"""CONTRACT G: the models, the residency cycle and its cleanup, against a server with Ollama's manners.

T1 to T10 are the ten field reports that facts/ollama.md makes test cases of.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.simulate import INVALID_INVENTORIES, Model, OllamaStandIn, Stage
from tests.contract.harness import ORDER, Scripted, run_all, run_precheck, start_precheck, write_strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.contract.harness import Ended

    Passed = tuple[Stage, Ended]

MIB = 1 << 20
ONE: Mapping[str, Model] = {"qwen3:8b": Model()}
TWO: Mapping[str, Model] = {"qwen3:8b": Model(), "gpt-oss:20b": Model()}
REMOVAL = "Ollama residency removal deadline elapsed"
CLEANUP = "Ollama cleanup unload/observation failed (exit {})"
UNCONFIRMED = "native residency remains unconfirmed"


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Passed]:
    """A run that passes on two small models, and what the servers saw of it."""
    with Stage(tmp_path_factory.mktemp("passed"), models=TWO) as stage:
        ended = run_precheck(stage)
        assert ended.code == 0, ended
        yield stage, ended


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., Path]:
    """Write the strict spec with these options of the residency check; all other bounds stay as they are."""

    def write(**options: Any) -> Path:
        return write_strict(tmp_path / "spec", {"residency": {"hold": "300ms", **options}}, small=False)

    return write


def story(stage: Stage) -> list[str]:
    """What Ollama was asked, in order: `tags`, `ps`, `load NAME`, `unload NAME`."""
    found = []
    for request in stage.ollama.seen:
        step = stage.ollama.step(request)
        found.append(f"{step} {json.loads(request.body)['model']}" if request.method == "POST" else step)
    return found


def changes(stage: Stage) -> list[str]:
    """The unloads and loads alone."""
    return [" ".join(action) for action in stage.ollama.actions]


def ended_at(ended: Ended, check_id: str, word: str, code: int) -> str:
    """Assert that the run ended at this check and in this way; give the message and evidence of the one finding."""
    before, later = ORDER[: ORDER.index(check_id)], ORDER[ORDER.index(check_id) + 1 :]
    assert ended.code == code, ended
    words = {**dict.fromkeys(before, "passed"), check_id: word, **dict.fromkeys(later, "skipped")}
    assert ended.words == words, ended
    (finding,) = ended.check(check_id)["findings"]
    assert (f"[curl: ({code})]" in finding["message"]) == (code > 1), ended
    return f"{finding['message']}; {finding['evidence']}"


def is_clean(stage: Stage, ended: Ended) -> None:
    """Assert that the cleanup worked: nothing is resident, and neither of its two texts is there."""
    assert stage.ollama.wait_for(lambda: not stage.ollama.state(), 2), stage.ollama.state()
    for text in ("cleanup", UNCONFIRMED):
        assert text not in ended.err, ended


def cleanup_failed(ended: Ended, code: int) -> None:
    assert CLEANUP.format(code) in ended.err, ended
    assert UNCONFIRMED in ended.err, ended


# G0 and G1: the models ----------------------------------------------------------------------------------------------


def configured(models: Mapping[str, Any], default: str) -> dict[str, Any]:
    return {"model": f"ollama/{default}", "provider": {"ollama": {"models": models}}}


def test_the_id_of_a_model_is_its_name_where_it_has_one_and_two_keys_of_one_model_are_one(
    make_stage: Callable[..., Stage],
) -> None:
    models = {"again": {"id": "QWEN3:8b"}, "mine": {"id": "qwen3:8b"}, "gpt-oss:20b": {"name": "mine"}}
    stage = make_stage(models=TWO, config=configured(models, "mine"))
    ended = run_precheck(stage)
    assert ended.code == 0, ended
    assert changes(stage) == [
        *("unload gpt-oss:20b", "load gpt-oss:20b", "unload gpt-oss:20b"),
        *("unload qwen3:8b", "load qwen3:8b"),
    ]


def test_names_are_compared_in_one_spelling_and_sent_as_configured(make_stage: Callable[..., Stage]) -> None:
    spelled = "registry.ollama.ai/library/Llama3.2"
    config = configured({"big": {"id": spelled}, "LIBRARY/other:1B": {}}, "big")
    stage = make_stage(models={"llama3.2": Model(), "other:1b": Model()}, config=config)
    env = {**stage.environment, "TEST_CUSTOM_OLLAMA_URL": f"{stage.ollama.url}/"}
    ended = run_precheck(env)
    assert ended.code == 0, ended
    assert changes(stage)[-2:] == [f"unload {spelled}", f"load {spelled}"]
    assert changes(stage)[0] == "unload LIBRARY/other:1B"
    assert stage.ollama.resident == ["llama3.2:latest"]
    assert {request.path for request in stage.ollama.seen} == {"/api/tags", "/api/ps", "/api/generate"}


def test_a_model_that_is_missing_or_runs_elsewhere_is_refused_before_anything_is_changed(
    make_stage: Callable[..., Stage],
) -> None:
    options = {"ollama": {"model": "gpt-oss:20b"}}
    missing = make_stage(models=TWO, faults={"ollama": "not-pulled"}, fault_options=options)
    cloud = make_stage(models=TWO, faults={"ollama": "cloud-model"}, fault_options=options)
    ends = run_all([lambda: run_precheck(missing), lambda: run_precheck(cloud)])
    for stage, ended, said in zip((missing, cloud), ends, ("not pulled", "cloud"), strict=True):
        text = ended_at(ended, "ollama-tags", "failed", 1)
        assert said in text
        assert "gpt-oss:20b" in text
        assert "qwen3:8b" not in text.split(";")[0]
        assert story(stage) == ["tags"]


def test_tags_that_are_no_list_of_models_are_refused(make_stage: Callable[..., Stage]) -> None:
    shapes = ['{"models":null}', '{"models":[{"name":""}]}']
    stages = [
        make_stage(faults={"ollama": "not-json"}, fault_options={"ollama": {"at": "tags", "body": shape}})
        for shape in shapes
    ]
    for stage, ended in zip(stages, run_all([lambda one=one: run_precheck(one) for one in stages]), strict=True):
        ended_at(ended, "ollama-tags", "failed", 1)
        assert story(stage) == ["tags"]


# G2: the cycle ------------------------------------------------------------------------------------------------------


def test_each_model_is_cycled_the_default_one_last_and_it_alone_stays(passed: Passed) -> None:
    stage, ended = passed
    assert story(stage) == [
        "tags",
        *("unload gpt-oss:20b", "ps", "load gpt-oss:20b", "ps", "unload gpt-oss:20b", "ps"),
        *("unload qwen3:8b", "ps", "load qwen3:8b", "ps"),
        "ps",
    ]
    assert stage.ollama.resident == ["qwen3:8b"]
    assert [cycle["model"] for cycle in ended.json["cycles"]] == ["gpt-oss:20b", "qwen3:8b"]


def test_the_requests_are_exactly_these(passed: Passed) -> None:
    stage, _ = passed
    bodies = [json.loads(request.body) for request in stage.ollama.seen if request.method == "POST"]
    for body in bodies:
        expected = 0 if body["keep_alive"] == 0 else "10m"
        assert body == {"model": body["model"], "prompt": "", "stream": False, "keep_alive": expected}
        assert type(body["keep_alive"]) is type(expected)
    assert [body["keep_alive"] for body in bodies] == [0, "10m", 0, 0, "10m"]
    for request in stage.ollama.seen:
        assert "origin" not in request.headers
        assert "authorization" not in request.headers


def test_no_two_requests_are_in_flight_and_each_has_its_own_connection(passed: Passed) -> None:
    stage, _ = passed
    assert len(stage.ollama.connections) == len(stage.ollama.seen)


def test_models_that_are_resident_already_are_loaded_cold(make_stage: Callable[..., Stage]) -> None:
    models = {"qwen3:8b": Model(unload_seconds=0.2), "gpt-oss:20b": Model(unload_seconds=0.12, load_seconds=0.1)}
    stage = make_stage(models=models)
    with OllamaStandIn(models, preloaded=models) as ollama:
        ended = run_precheck({**stage.environment, "TEST_CUSTOM_OLLAMA_URL": ollama.url})
        assert ended.code == 0, ended
        steps = [ollama.step(request) for request in ollama.seen]
        assert ollama.resident == ["qwen3:8b"]
    # In each of the three absences the row was read while it still stood there.
    assert steps.count("ps") >= 3 * 3 + 3
    assert [step for step in steps if step not in ("ps", "tags")] == ["unload", "load", "unload", "unload", "load"]
    first, second = ended.json["cycles"]
    assert 0.12 <= first["absent_s"] <= 0.5
    assert 0.2 <= second["absent_s"] <= 0.6
    assert first["load_s"] >= 0.1


def test_models_of_others_are_left_alone_and_do_not_matter(make_stage: Callable[..., Stage]) -> None:
    theirs = {"theirs:70b": Model(vram=0, context_length=1), "qwen3:7b": Model(vram=5)}
    stage = make_stage(models=ONE)
    with OllamaStandIn({**ONE, **theirs}, preloaded=theirs) as ollama:
        ended = run_precheck({**stage.environment, "TEST_CUSTOM_OLLAMA_URL": ollama.url})
        assert ended.code == 0, ended
        assert sorted(ollama.resident) == ["qwen3:7b", "qwen3:8b", "theirs:70b"]
        assert ollama.actions == [("unload", "qwen3:8b"), ("load", "qwen3:8b")]


REFUSALS: Mapping[str, tuple[str, str, int, list[str]]] = {
    "unload-500": ("unload failed", "failed", 22, []),
    "unload-404": ("not found", "failed", 22, []),
    "too-old": ("0.3.11", "failed", 1, []),
    "load-500": ("llama-server process has terminated", "failed", 22, ["ps", "load qwen3:8b", "unload qwen3:8b", "ps"]),
    "load-error-200": ("unable to load full model", "failed", 1, ["ps", "load qwen3:8b", "unload qwen3:8b", "ps"]),
}


def test_an_unload_or_a_load_that_is_refused_is_a_failure_and_only_a_load_is_cleaned_up(
    make_stage: Callable[..., Stage],
) -> None:
    stages = {fault: make_stage(models=ONE, faults={"ollama": fault}) for fault in REFUSALS}
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages.values()])
    for (fault, stage), ended in zip(stages.items(), ends, strict=True):
        said, word, code, then = REFUSALS[fault]
        assert said in ended_at(ended, "residency", word, code), fault
        assert story(stage) == ["tags", "unload qwen3:8b", *then], fault
        assert "cleanup" not in ended.err, fault
        assert UNCONFIRMED not in ended.err, fault


def test_an_answer_that_does_not_say_done_is_a_failure(
    make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = OllamaStandIn._done
    undone = {"done": False, "done_reason": "load", "model": "qwen3:8b"}

    def done(self: OllamaStandIn, ask: Any, reason: str) -> Any:
        return self._json(200, undone) if reason == "load" else answer(self, ask, reason)

    monkeypatch.setattr(OllamaStandIn, "_done", done)
    stage = make_stage(models=ONE)
    ended = run_precheck(stage)
    ended_at(ended, "residency", "failed", 1)
    assert changes(stage) == ["unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b"]
    is_clean(stage, ended)


# G2 and G3: the absence ---------------------------------------------------------------------------------------------


def test_reads_that_say_nothing_are_asked_again_while_a_model_leaves(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    empty = make_stage(models=ONE, faults={"ollama": "ps-500-empty"}, fault_options={"ollama": {"times": 3}})
    hangs = make_stage(models=ONE, faults={"ollama": "ps-hangs-once"})
    path = spec(read="500ms")
    first, second = run_all([lambda: run_precheck(empty), lambda: run_precheck(hangs, spec=path)])
    assert first.code == 0, first
    assert story(empty) == ["tags", "unload qwen3:8b", *["ps"] * 4, "load qwen3:8b", "ps", "ps"]
    assert second.code == 0, second
    assert story(hangs) == ["tags", "unload qwen3:8b", "ps", "ps", "load qwen3:8b", "ps", "ps"]
    assert 0.5 <= second.json["cycles"][0]["absent_s"] <= 0.9
    # Every read has a connection of its own, the one after a hanging one too.
    assert len(hangs.ollama.connections) == len(hangs.ollama.seen)


def test_the_same_reads_are_a_failure_in_the_row_check_and_cleaned_up(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    once = {"ollama": {"after": "load", "times": 1}}
    empty = make_stage(models=ONE, faults={"ollama": "ps-500-empty"}, fault_options=once)
    hangs = make_stage(models=ONE, faults={"ollama": "ps-hangs-once"}, fault_options=once)
    path = spec(read="400ms")
    first, second = run_all([lambda: run_precheck(empty), lambda: run_precheck(hangs, spec=path)])
    ended_at(first, "residency", "error", 22)
    ended_at(second, "residency", "error", 28)
    for stage, ended in ((empty, first), (hangs, second)):
        assert story(stage)[1:] == ["unload qwen3:8b", "ps", "load qwen3:8b", "ps", "unload qwen3:8b", "ps"]
        is_clean(stage, ended)


def test_t6_an_unload_or_reads_that_are_never_answered_end_by_their_bounds_and_without_a_load(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    reads = make_stage(models=ONE, faults={"ollama": "silence"}, fault_options={"ollama": {"at": "ps"}})
    unload = make_stage(models=ONE, faults={"ollama": "silence"}, fault_options={"ollama": {"at": "unload"}})
    path = spec(read="200ms", removal="500ms", unload="400ms")
    unread, unanswered = run_all([lambda: run_precheck(reads, spec=path), lambda: run_precheck(unload, spec=path)])
    text = ended_at(unread, "residency", "failed", 28)
    assert REMOVAL in text
    assert "no readable inventory" in text
    assert 0.5 <= unread.check("residency")["elapsed_s"] <= 0.8
    assert story(reads)[1:] == ["unload qwen3:8b", *["ps"] * (len(story(reads)) - 2)]
    assert len(story(reads)) >= 4
    assert "deadline of 0.4 s elapsed" in ended_at(unanswered, "residency", "error", 28)
    assert 0.4 <= unanswered.check("residency")["elapsed_s"] <= 0.7
    assert story(unload) == ["tags", "unload qwen3:8b"]
    for ended in (unread, unanswered):
        assert "cleanup" not in ended.err


def test_what_is_no_inventory_fails_at_once_and_never_authorises_a_load(make_stage: Callable[..., Stage]) -> None:
    shapes = ("models-null", "no-models", "row-string", "name-number", "blank-name", "not-json")
    assert set(shapes) <= INVALID_INVENTORIES.keys()
    stages = {
        shape: make_stage(models=ONE, faults={"ollama": "ps-invalid"}, fault_options={"ollama": {"shape": shape}})
        for shape in shapes
    }
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages.values()])
    for (shape, stage), ended in zip(stages.items(), ends, strict=True):
        ended_at(ended, "residency", "failed", 1)
        assert story(stage) == ["tags", "unload qwen3:8b", "ps"], shape
        assert ended.check("residency")["findings"][0]["code"] == "ollama.inventory", shape
        assert "cleanup" not in ended.err, shape


def test_a_row_of_anything_makes_an_inventory_valid_as_long_as_it_has_a_name(
    make_stage: Callable[..., Stage],
) -> None:
    """While the model is unloaded nothing but names counts; the row check then reads the right rows."""
    rows = (
        '{"name":"x"}',
        '{"name":"y","size":"1","size_vram":true,"context_length":null,"model":5}',
        '{"name":"z","size":' + "9" * 300 + ',"size_vram":-1.5e300,"context_length":{}}',
    )
    body = f'{{"models":[{",".join(rows)}],"more":[]}}'
    stage = make_stage(models=ONE, faults={"ollama": "ps-invalid"}, fault_options={"ollama": {"shape": body}})
    ended = run_precheck(stage)
    assert ended.code == 0, ended


def test_any_other_status_of_a_read_fails_at_once(make_stage: Callable[..., Stage]) -> None:
    body = make_stage(models=ONE, faults={"ollama": "ps-500-with-body"})
    gone = make_stage(
        models=ONE, faults={"ollama": "status"}, fault_options={"ollama": {"at": "ps", "status": 404, "body": ""}}
    )
    for stage, ended in zip(
        (body, gone), run_all([lambda: run_precheck(body), lambda: run_precheck(gone)]), strict=True
    ):
        ended_at(ended, "residency", "error", 22)
        assert story(stage) == ["tags", "unload qwen3:8b", "ps"]


def test_t10_a_proxy_in_the_environment_is_not_used_and_its_page_is_no_word_of_ollamas(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage(models=ONE, faults={"ollama": "status"}, fault_options={"ollama": {"at": "ps"}})
    with Scripted() as proxy:
        names = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY")
        ended = run_precheck({**stage.environment, **dict.fromkeys(names, proxy.url)})
        assert not proxy.connections
    text = ended_at(ended, "residency", "error", 22)
    assert "not Ollama's JSON" in text
    assert "<b>" not in ended.err
    assert changes(stage) == ["unload qwen3:8b"]


def test_t5_a_model_that_never_leaves_was_sent_one_unload_and_no_load(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    stage = make_stage(models=TWO, faults={"ollama": "never-leaves"})
    ended = run_precheck(stage, spec=spec(removal="400ms"))
    text = ended_at(ended, "residency", "failed", 28)
    assert text.startswith(f"{REMOVAL}: gpt-oss:20b")
    assert "expires at 20" in text
    assert "busy" in text
    assert 0.4 <= ended.check("residency")["elapsed_s"] <= 0.7
    assert changes(stage) == ["unload gpt-oss:20b"]
    assert "cleanup" not in ended.err
    assert UNCONFIRMED not in ended.err


# G4: the row --------------------------------------------------------------------------------------------------------

ROWS: Mapping[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "T1 on the CPU": ("on-cpu", {}, ("0 of 67108864 bytes", "nothing of it is on the GPU")),
    "T2 no size_vram": ("missing-size-vram", {}, ("no size_vram",)),
    "T3 and T4 split": ("partly-on-cpu", {}, ("51673825 of 67108864 bytes", "15435039 bytes")),
    "T7 another tag": ("alias-row", {"alias": "gpt-4.1:latest"}, ("gpt-4.1:latest", "same weights")),
    "T9 short": ("short-context", {"context_length": 65535}, ("65535", "65536")),
    "T9 no context": ("missing-context", {}, ("no context_length",)),
    "T9 true": ("bool-context", {}, ("context_length", "not an integer")),
    "strings": ("size-as-string", {}, ("size", "not an integer")),
    "floats": ("size-as-float", {}, ("size", "not an integer")),
    "no row": ("no-row", {}, ("not resident",)),
    "two rows": ("two-rows", {}, ("2 times",)),
}


def test_a_row_that_is_not_right_is_a_failure_that_says_why_and_is_cleaned_up(
    make_stage: Callable[..., Stage],
) -> None:
    stages = {
        name: make_stage(models=ONE, faults={"ollama": fault}, fault_options={"ollama": options})
        for name, (fault, options, _) in ROWS.items()
    }
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages.values()])
    for (name, stage), ended in zip(stages.items(), ends, strict=True):
        text = ended_at(ended, "residency", "failed", 1)
        for said in ROWS[name][2]:
            assert said in text, (name, text)
        assert story(stage)[1:5] == ["unload qwen3:8b", "ps", "load qwen3:8b", "ps"], name
        assert changes(stage)[2:] == ["unload qwen3:8b"], name
        is_clean(stage, ended)


# G6: the cleanup ----------------------------------------------------------------------------------------------------


def test_what_was_loaded_and_not_proven_absent_again_is_unloaded_once_whatever_was_sent_before(
    make_stage: Callable[..., Stage],
) -> None:
    cycle = ["unload gpt-oss:20b", "load gpt-oss:20b", "unload gpt-oss:20b"]
    # The first has gone again; the one that need not stay is wrong; its departure cannot be read (the second absence).
    last = make_stage(models={"qwen3:8b": Model(vram=0), "gpt-oss:20b": Model()})
    first = make_stage(models={"qwen3:8b": Model(), "gpt-oss:20b": Model(vram=0)})
    options = {"ollama": {"skip": 1, "times": 1}}
    unseen = make_stage(models=TWO, faults={"ollama": "ps-invalid"}, fault_options=options)
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in (last, first, unseen)])
    for ended, name in zip(ends, ("qwen3:8b", "gpt-oss:20b", "gpt-oss:20b"), strict=True):
        assert name in ended_at(ended, "residency", "failed", 1)
    assert changes(last) == [*cycle, "unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b"]
    assert changes(first) == cycle
    assert changes(unseen) == [*cycle, "unload gpt-oss:20b"]
    is_clean(last, ends[0])
    is_clean(first, ends[1])
    assert "gpt-oss:20b" not in unseen.ollama.state()
    assert "cleanup" not in ends[2].err


def test_several_models_that_stay_are_unloaded_in_reverse(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    """T8: the first is pushed out, which is found when all are read together at the end."""
    stage = make_stage(
        models=TWO, faults={"ollama": "evicted-after-load"}, fault_options={"ollama": {"model": "gpt-oss:20b"}}
    )
    ended = run_precheck(stage, spec=spec(stay=["gpt-oss:20b", "qwen3:8b"]))
    text = ended_at(ended, "residency", "failed", 1)
    assert text.startswith("gpt-oss:20b ")
    assert ended.check("residency")["findings"][0]["code"] == "residency.evicted"
    assert changes(stage) == [
        *("unload gpt-oss:20b", "load gpt-oss:20b"),
        *("unload qwen3:8b", "load qwen3:8b"),
        *("unload qwen3:8b", "unload gpt-oss:20b"),
    ]
    is_clean(stage, ended)


UNANSWERED: Mapping[str, tuple[str, dict[str, Any], int]] = {
    "deadline": ("load-hangs", {}, 28),
    "closed": ("load-drops-connection", {}, 52),
    "reset": ("load-drops-connection", {"reset": True}, 56),
}


def test_after_a_load_without_an_answer_absence_has_to_hold(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    path = spec(load="300ms", hold="400ms")
    stages = {
        name: make_stage(models=ONE, faults={"ollama": fault}, fault_options={"ollama": options})
        for name, (fault, options, _) in UNANSWERED.items()
    }
    ends = run_all([lambda stage=stage: run_precheck(stage, spec=path) for stage in stages.values()])
    for (name, stage), ended in zip(stages.items(), ends, strict=True):
        ended_at(ended, "residency", "error", UNANSWERED[name][2])
        assert changes(stage) == ["unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b"], name
        last = max(index for index, what in enumerate(story(stage)) if what == "unload qwen3:8b")
        reads = [request.at for request in stage.ollama.seen[last + 1 :]]
        assert story(stage)[last + 1 :] == ["ps"] * len(reads), name
        assert reads[-1] - reads[0] >= 0.35, name
        is_clean(stage, ended)
    assert stages["deadline"].ollama.aborted == ["qwen3:8b"]


def test_a_model_that_appears_after_its_cleanup_unload_is_unloaded_once_more(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    path = spec(load="300ms", hold="400ms")
    stages = [
        make_stage(
            models=ONE,
            faults={"ollama": "comes-back-late"},
            fault_options={"ollama": {"seconds": 0.2, "answer": answer}},
        )
        for answer in ("drop", "hang")
    ]
    ends = run_all([lambda stage=stage: run_precheck(stage, spec=path) for stage in stages])
    for stage, ended, code in zip(stages, ends, (52, 28), strict=True):
        ended_at(ended, "residency", "error", code)
        assert changes(stage) == ["unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b", "unload qwen3:8b"]
        is_clean(stage, ended)


def test_after_an_answered_load_one_absence_is_enough(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(models={"qwen3:8b": Model(vram=0, unload_seconds=0.2)})
    ended = run_precheck(stage)
    ended_at(ended, "residency", "failed", 1)
    after = story(stage)[5:]
    assert after[0] == "unload qwen3:8b"
    assert len(after) >= 3
    assert set(after[1:]) == {"ps"}
    reads = [request.at for request in stage.ollama.seen[6:]]
    assert reads[-1] - reads[0] <= 0.6
    is_clean(stage, ended)


FAILED_CLEANUPS: Mapping[str, tuple[str, dict[str, Any], int, list[str]]] = {
    "unload refused": ("unload-500", {"skip": 1}, 22, ["unload qwen3:8b"]),
    "unload of no model": ("unload-404", {"skip": 1}, 22, ["unload qwen3:8b"]),
    "inventory invalid": ("ps-invalid", {"skip": 1}, 1, ["unload qwen3:8b", "ps"]),
    "inventory refused": ("ps-500-with-body", {"skip": 1}, 22, ["unload qwen3:8b", "ps"]),
}


def test_a_failed_cleanup_says_so_and_changes_nothing_else(make_stage: Callable[..., Stage]) -> None:
    stages = {
        name: make_stage(
            models={"qwen3:8b": Model(vram=0)}, faults={"ollama": fault}, fault_options={"ollama": options}
        )
        for name, (fault, options, _, _) in FAILED_CLEANUPS.items()
    }
    ends = run_all([lambda stage=stage: run_precheck(stage) for stage in stages.values()])
    for (name, stage), ended in zip(stages.items(), ends, strict=True):
        _, _, code, then = FAILED_CLEANUPS[name]
        assert "not fully on the GPU" in ended_at(ended, "residency", "failed", 1), name
        cleanup_failed(ended, code)
        assert ended.json["verdict"] == "not-ready"
        assert story(stage)[1:] == ["unload qwen3:8b", "ps", "load qwen3:8b", "ps", *then], name


def test_a_cleanup_that_does_not_see_the_model_leave_has_failed_with_28(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    stage = make_stage(models={"qwen3:8b": Model(vram=0, unload_seconds=60.0)})
    ended = run_precheck(stage, spec=spec(removal="400ms"))
    ended_at(ended, "residency", "failed", 1)
    cleanup_failed(ended, 28)
    assert changes(stage) == ["unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b"]


def test_the_cleanup_reaches_the_other_models_though_one_fails(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    # The last of four unloads of each model fails: only the cleanup's.
    stage = make_stage(
        models={"qwen3:8b": Model(vram=0), "gpt-oss:20b": Model()},
        faults={"ollama": "unload-500"},
        fault_options={"ollama": {"model": "qwen3:8b", "skip": 1}},
    )
    ended = run_precheck(stage, spec=spec(stay=["gpt-oss:20b", "qwen3:8b"]))
    ended_at(ended, "residency", "failed", 1)
    cleanup_failed(ended, 22)
    assert changes(stage)[-2:] == ["unload qwen3:8b", "unload gpt-oss:20b"]
    assert stage.ollama.resident == ["qwen3:8b"]


def test_a_signal_during_a_load_unloads_what_may_have_come_of_it(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    stage = make_stage(models=ONE, faults={"ollama": "load-hangs"})
    with start_precheck(stage, spec=spec()) as running:
        assert stage.ollama.wait_for(lambda: ("load", "qwen3:8b") in stage.ollama.actions, 10)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert ended.code == 128 + signal.SIGTERM, ended
    assert ended.json["verdict"] == "cancelled"
    assert changes(stage) == ["unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b"]
    is_clean(stage, ended)


def test_a_signal_before_the_first_load_changes_nothing_more(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    stage = make_stage(models=ONE, faults={"ollama": "never-leaves"})
    with start_precheck(stage, spec=spec()) as running:
        assert stage.ollama.wait_for(lambda: len(story(stage)) >= 4, 10)
        running.signal(signal.SIGTERM)
        ended = running.finish()
    assert ended.code == 128 + signal.SIGTERM, ended
    assert changes(stage) == ["unload qwen3:8b"]
    is_unarmed = "cleanup" not in ended.err and UNCONFIRMED not in ended.err
    assert is_unarmed, ended


def test_a_load_that_the_budget_ends_is_cleaned_up_in_the_reserve(
    make_stage: Callable[..., Stage], spec: Callable[..., Path]
) -> None:
    stage = make_stage(models=ONE, faults={"ollama": "load-hangs"})
    path = spec(reserve="700ms", reserve_per_model="700ms", settle="0s")
    ended = run_precheck(stage, "--budget", "3s", spec=path)
    text = ended_at(ended, "residency", "error", 28)
    assert ended.check("residency")["findings"][0]["code"] == "run.budget"
    assert "budget" in text
    assert changes(stage) == ["unload qwen3:8b", "load qwen3:8b", "unload qwen3:8b"]
    assert ended.json["elapsed_s"] <= 3.0
    is_clean(stage, ended)


# G7 and G8 ----------------------------------------------------------------------------------------------------------


def test_a_model_that_vanishes_after_its_row_check_was_evicted(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(models=ONE, faults={"ollama": "evicted-after-load"})
    ended = run_precheck(stage)
    text = ended_at(ended, "residency", "failed", 1)
    assert ended.check("residency")["findings"][0]["code"] == "residency.evicted"
    assert text.startswith("qwen3:8b ")
    assert story(stage)[1:] == ["unload qwen3:8b", "ps", "load qwen3:8b", "ps", "ps", "unload qwen3:8b", "ps"]
    is_clean(stage, ended)


def pauses(stage: Stage) -> tuple[float, float]:
    """Seconds between the read of the absence and the load, and between the row check and the last read."""
    seen = stage.ollama.seen
    load = story(stage).index("load qwen3:8b")
    assert story(stage)[load - 1] == "ps"
    assert story(stage)[load + 1 :] == ["ps", "ps"]
    return seen[load].at - seen[load - 1].at, seen[load + 2].at - seen[load + 1].at


def test_big_models_and_those_of_unknown_size_are_settled_for_and_read_a_while_after_their_load(
    make_stage: Callable[..., Stage], spec: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from precheck_lib.simulate import ollama

    original = ollama.tags_row

    def row_without_size(name: str, model: Model) -> dict[str, Any]:
        row = original(name, model)
        if model.load_seconds:
            del row["size"]
        return row

    monkeypatch.setattr(ollama, "tags_row", row_without_size)
    path = spec(settle="500ms", hold="400ms")
    models = (
        Model(size=256 * MIB),
        Model(load_seconds=0.01),  # the one without a size
        Model(size=256 * MIB - 1),
    )
    stages = [make_stage(models={"qwen3:8b": model}) for model in models]
    ends = run_all([lambda stage=stage: run_precheck(stage, spec=path) for stage in stages])
    assert [ended.code for ended in ends] == [0, 0, 0], ends
    for stage in stages[:2]:
        settled, held = pauses(stage)
        assert settled <= 0.9
        assert 0.4 <= held <= 0.8
    settled, held = pauses(stages[2])
    assert settled < 0.3
    assert held < 0.3


# What is shown ------------------------------------------------------------------------------------------------------


def test_no_secret_is_shown_though_ollama_repeats_it(make_stage: Callable[..., Stage]) -> None:
    body = json.dumps({"error": "no: stand-in-openai-key and stand-in-ollama-key"})
    stage = make_stage(
        models=ONE,
        faults={"ollama": "status"},
        fault_options={"ollama": {"at": "load", "status": 500, "type": "application/json", "body": body}},
    )
    ended = run_precheck(stage)  # which looks for the secrets of the environment everywhere
    text = ended_at(ended, "residency", "failed", 22)
    assert "no: *** and ***" in text
