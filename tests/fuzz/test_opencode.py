"""What an OpenCode Server answers: compared and told without any of its values (CONTRACT F1, F4, F5)."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import assume, event, example, given
from hypothesis import strategies as st

from precheck_lib.checks.kind import Context
from precheck_lib.checks.opencode import KIND, OpenCodeOptions
from precheck_lib.errors import AnswerError, StatusError, TalkError
from precheck_lib.findings import NotReadyError
from precheck_lib.servers.opencode import Comparison, OpenCodeServer, RefusedError
from tests.fuzz.values import JSON, TEXT, OneAnswer, answer, budget, json_values, ordinary_stack

CANARY = "cAnArY"
"""Begins every value; no key has it, and so nothing that is told may have it."""

KEYS = st.one_of(
    st.sampled_from(
        ["models", "provider", "ollama", "options", "apiKey", "baseURL", "name", "qwen3:8b", "limit", "model"]
    ),
    st.text("abc._-/:é ", max_size=3),
)
SECRET_LEAVES = st.one_of(
    st.text(max_size=5).map(lambda text: CANARY + text),
    st.sampled_from([f"{CANARY}{{env:KEY}}", f"{{file:x}}{CANARY}", f"Bearer {CANARY}", f"{CANARY}{{envy", CANARY]),
    st.sampled_from([739201, 739201.5, -739201]),
)
ALIKE = st.sampled_from([True, 1, 1.0, False, 0, None, "", "1"])
"""What is easily taken for one another; too short to be a secret."""
LEAVES = st.one_of(SECRET_LEAVES, SECRET_LEAVES, ALIKE)
TREES = json_values(LEAVES, KEYS)
MODELS = st.dictionaries(KEYS, TREES, max_size=3)
OLLAMA = st.one_of(
    TREES,
    st.builds(lambda models, more: {**more, "models": models}, MODELS, st.dictionaries(KEYS, TREES, max_size=2)),
)
CONFIGS = st.one_of(
    TREES,
    st.builds(
        lambda ollama, more, model: {**more, **model, "provider": {"ollama": ollama}},
        OLLAMA,
        st.dictionaries(KEYS, TREES, max_size=2),
        st.one_of(st.just({}), st.builds(lambda value: {"model": value}, LEAVES)),
    ),
)
# What a configuration looks like, with a value or an object of any kind at each place.
_REAL = st.builds(
    lambda model, npm, url, key, limit, more: {
        "model": model,
        "provider": {
            "ollama": {
                "npm": npm,
                "options": {"baseURL": url, "apiKey": key, "headers": {"X": key}},
                "models": {"qwen3:8b": {"limit": {"context": limit, "output": limit}}, "b": {"name": npm}, "c": {}},
                **more,
            }
        },
    },
    *[LEAVES] * 5,
    st.dictionaries(KEYS.filter(lambda key: key not in ("models", "options", "npm")), TREES, max_size=1),
)


def mended(value: Any, changes: list[tuple[int, Any]]) -> Any:
    """A copy with some of its parts taken out or replaced, so that two configurations are alike but not the same."""
    copy = json.loads(json.dumps(value))
    for number, new in changes:
        holders = [copy]
        for holder in holders:
            parts = holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ()
            holders += [part for part in parts if isinstance(part, (dict, list)) and part]
        holder = holders[number % len(holders)]
        if isinstance(holder, dict) and holder:
            key = sorted(holder)[number % len(holder)]
            if new is ...:
                del holder[key]
            else:
                holder[key] = new
        elif isinstance(holder, list) and holder:
            holder[number % len(holder)] = None if new is ... else new
    return copy


PAIRS = st.one_of(
    st.tuples(CONFIGS, CONFIGS),
    st.one_of(_REAL, _REAL, CONFIGS).flatmap(
        lambda config: st.lists(st.tuples(st.integers(0, 50), st.one_of(st.just(...), TREES, ALIKE)), max_size=4).map(
            lambda changes: (config, mended(config, changes))
        )
    ),
)


def told_of(comparison: Comparison) -> list[str]:
    return [*comparison.missing_models, *comparison.different, *comparison.dropped]


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every leaf of a tree of objects by its path; a list is one leaf."""
    if not isinstance(value, dict):
        return {path: value}
    return {at: leaf for key, part in value.items() for at, leaf in leaves(part, (*path, key)).items()}


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, str) and re.search(r"\{(env|file):", left):
        return isinstance(right, str)
    if isinstance(left, bool) or isinstance(right, bool):
        return type(left) is type(right) and left == right
    return left == right  # a number is the same however it is written


def within(config: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        config = config.get(key) if isinstance(config, dict) else None
    return config if isinstance(config, dict) else {}


@example(({"provider": {"ollama": {"a": True}}}, {"provider": {"ollama": {"a": 1}}}))
@example(({"provider": {"ollama": {"a": 1}}}, {"provider": {"ollama": {"a": 1.0}}}))
@example(({"provider": {"ollama": {"a": {"b": 1}}}}, {"provider": {"ollama": {"a": CANARY}}}))
@example(({"provider": {"ollama": {"a": {"b": 1}}}}, {"provider": {"ollama": {}}}))
@given(PAIRS)
def test_two_configurations_are_compared_leaf_by_leaf_and_no_value_is_told(pair):
    expected, live = pair
    assume(isinstance(expected, dict))
    server = OpenCodeServer("http://127.0.0.1:1", credentials=None, journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(live))
    try:
        comparison = server.compare_config(expected, budget())
    except TalkError as error:
        assert not isinstance(live, dict)
        assert CANARY not in str(error)
        return
    assert isinstance(live, dict)
    assert CANARY not in "".join(told_of(comparison))
    assert not any("739201" in text for text in told_of(comparison))

    wanted, found = within(expected, "provider", "ollama"), within(live, "provider", "ollama")
    missing = [key for key in within(wanted, "models") if key not in within(found, "models")]
    assert list(comparison.missing_models) == missing
    assert comparison.model_differs == ("model" in expected and not equal(expected["model"], live.get("model", ...)))
    if any(isinstance(leaf, list) for tree in (wanted, found) for leaf in leaves(tree).values()):
        return  # lists are compared item by item, with paths of their own
    different, dropped = set(), set()
    for path, leaf in leaves(wanted).items():
        if path[:1] == ("models",) and path[1:2] and path[1] in missing:
            continue
        beside: Any = found
        for at, key in enumerate(path):
            if not isinstance(beside, dict):
                # A value there, an object here: that differs as a whole.
                different.add(path[:at])
                break
            if key not in beside:
                dropped.add(path)
                break
            beside = beside[key]
        else:
            if not equal(leaf, beside):
                different.add(path)
    event(f"{min(len(different), 2)} different, {min(len(dropped), 2)} dropped")
    names = [{".".join(("provider", "ollama", *path)) for path in paths} for paths in (different, dropped)]
    assert names[0] <= set(comparison.different)
    assert names[1] == set(comparison.dropped)
    if all(_objects(wanted)):  # an object without a leaf differs from a value all the same
        assert names[0] == set(comparison.different)


def _objects(value: Any) -> list[Any]:
    return [value, *(each for part in value.values() for each in _objects(part))] if isinstance(value, dict) else []


READS = st.sampled_from(["health", "capabilities", "config", "providers"])


@given(READS, st.one_of(CONFIGS, JSON), CONFIGS, st.sampled_from(["application/json", "text/html", CANARY, ""]))
def test_a_check_of_any_answer_ends_with_findings_that_tell_no_value_of_the_configuration(read, live, expected, kind):
    context = Context(
        env={},
        budget=budget(),
        journal=None,  # type: ignore[arg-type]
        expand=lambda value: value,
        exit_code=lambda _: 1,
    )
    models = within(expected, "provider", "ollama").get("models", {})
    options = OpenCodeOptions(url="http://127.0.0.1:1", read=read, version="1.18.33", config=expected, models=models)
    with OneAnswer(answer(live, content_type=kind)).everywhere():
        try:
            found = KIND.run(options, context)
        except NotReadyError as error:
            found = error.findings
            assert found
        else:
            assert all(finding.severity == "warning" for finding in found)
            assert kind == "application/json"
    if read in ("config", "providers"):
        said = json.dumps([[finding.message, finding.evidence] for finding in found])
        # Of a list of providers the ids are shown: they are names, not values.
        assert CANARY not in said or read == "providers"
        assert "739201" not in said or read == "providers"


# Refusals -------------------------------------------------------------------------------------------------------------

HIDDEN = json_values(SECRET_LEAVES, st.text("abc", max_size=3).map(lambda text: CANARY + text))
STEPS = st.lists(st.one_of(st.sampled_from(["provider", "ollama", "models"]), st.integers(0, 9)), max_size=3)
SHOWN_NAMES = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,63}", fullmatch=True),
    st.sampled_from(["a" * 65, f"{CANARY}-x", f"{CANARY} y", f"{CANARY}\n", f"1{CANARY}", f"{CANARY}é", f"{CANARY}:"]),
    HIDDEN.filter(lambda value: not isinstance(value, str)),
)
ISSUES = st.one_of(
    HIDDEN,
    st.lists(
        st.one_of(HIDDEN, st.builds(lambda path, more: {**more, "path": path}, STEPS, st.just({"message": CANARY}))),
        max_size=7,
    ),
)
REFUSALS = st.one_of(
    HIDDEN,
    st.builds(
        lambda name, message, path, issues: {
            "name": name,
            "message": message,
            "data": {"path": path, "issues": issues, "message": message, CANARY: message},
        },
        SHOWN_NAMES,
        st.one_of(st.sampled_from([CANARY, f"{CANARY}Error"]), HIDDEN),
        st.one_of(st.just("/home/u/opencode.json"), HIDDEN.filter(lambda value: not isinstance(value, str))),
        ISSUES,
    ),
    st.builds(lambda data: {"name": "ConfigInvalidError", "data": data}, HIDDEN),
)
STATUSES = st.sampled_from([201, 204, 302, 400, 401, 403, 404, 500, 503, 599])


@given(
    st.one_of(
        REFUSALS.map(lambda value: json.dumps(value).encode()), TEXT.map(lambda text: text.encode("utf-8", "replace"))
    ),
    STATUSES,
    st.booleans(),
)
def test_of_a_refusal_nothing_is_told_but_status_name_and_paths(body, status, complete):
    server = OpenCodeServer("http://127.0.0.1:1", credentials=None, journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(body, status, complete=complete))
    for ask in (
        server.health,
        server.background_subagents,
        server.connected_models,
        lambda b: server.compare_config({}, b),
    ):
        try:
            ask(budget())
        except RefusedError as error:
            assert error.status == status
            assert CANARY not in str(error)
            assert len(str(error)) < 1200
            event("named" if error.name else "not named")
            assert error.name is None or re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]{0,63}", error.name)
        else:
            raise AssertionError("a refusal was taken for an answer")


@given(st.one_of(JSON, CONFIGS), st.sampled_from([200, 200, 404]), st.sampled_from(["application/json", "text/html"]))
def test_any_answer_to_any_read_is_a_value_or_an_error_of_a_talk(value, status, content_type):
    server = OpenCodeServer("http://127.0.0.1:1", credentials=None, journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(value, status, content_type))
    for ask in (server.health, server.background_subagents, server.connected_models):
        try:
            ask(budget())
        except StatusError:
            assert status != 200
        except AnswerError as error:
            assert CANARY not in str(error)
        else:
            assert (status, content_type) == (200, "application/json")
            assert isinstance(value, dict)


def nested(depth: int, kind: str) -> bytes:
    ends = {"lists": ("[", "1", "]"), "objects": ('{"a":', "1", "}")}[kind]
    inside = ends[0] * depth + ends[1] + ends[2] * depth
    return f'{{"provider":{{"ollama":{{"models":{{}},"a":{inside}}}}}}}'.encode()


@given(st.integers(1, 1200), st.sampled_from(["lists", "objects"]))
def test_however_deep_a_configuration_is_it_is_compared_or_refused(depth, kind):
    body = nested(depth, kind)
    server = OpenCodeServer("http://127.0.0.1:1", credentials=None, journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(body))
    try:
        from precheck_lib.bounded.strict_json import parse

        with ordinary_stack():
            expected = parse(body)
            assert told_of(server.compare_config(expected, budget())) == []
    except (ValueError, AnswerError):
        assert depth > 100
