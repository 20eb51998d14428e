"""Inventories and rows (CONTRACT G0, G3, G4): what is decoded and judged, against the contract's words said again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from precheck_lib.errors import AnswerError, StatusError
from precheck_lib.findings import NotReadyError
from precheck_lib.residency.judge import judge, listed
from precheck_lib.servers.ollama import InvalidInventoryError, NoInventoryError, OllamaServer, Row, TooOldError
from tests.fuzz.values import JSON, SCALARS, TEXT, OneAnswer, answer, budget

REAL = {
    "name": "qwen3:8b",
    "model": "qwen3:8b",
    "size": 6 << 30,
    "digest": "e4b5fd7f8af0fd62b8b0e5a8f5a4b4c8f3c2a1d0e9f8a7b6c5d4e3f2a1b0c9d8",
    "details": {
        "parent_model": "",
        "format": "gguf",
        "family": "qwen3",
        "families": ["qwen3"],
        "parameter_size": "8.2B",
        "quantization_level": "Q4_K_M",
    },
    "expires_at": "2318-03-12T11:33:27.123456789+01:00",
    "size_vram": 6 << 30,
    "context_length": 131072,
}

NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 1.0, 6 << 30, (6 << 30) - 1, float(6 << 30), 65535, 65536, 65536.0, 65537, 131072]),
    st.sampled_from([True, False, None, "1", "65536", [], {}, [1], 4096]),
    SCALARS,
)

SPELLINGS = [
    ("qwen3", "8b", ["qwen3:8b", "library/qwen3:8b", "QWEN3:8B", "registry.ollama.ai/library/qwen3:8b", "Qwen3:8b"]),
    ("qwen3", "latest", ["qwen3", "qwen3:latest", "library/qwen3", "QWEN3", "registry.ollama.ai/library/qwen3:Latest"]),
    ("me/qwen3", "latest", ["me/qwen3", "me/qwen3:latest", "ME/qwen3", "registry.ollama.ai/me/qwen3"]),
    ("hf.co/u/r-gguf", "q4_k_m", ["hf.co/u/R-GGUF:Q4_K_M", "HF.co/U/r-gguf:q4_k_m"]),
    ("host:5000/qwen3", "latest", ["host:5000/qwen3", "host:5000/qwen3:latest"]),
]
MODEL_OF = {spelling: (base, tag) for base, tag, spellings in SPELLINGS for spelling in spellings}
"""Which model each spelling is, written out by hand."""

NAMES = st.sampled_from(sorted(MODEL_OF))
BLANK = ["", " ", "\t\n", "\u2003", "\x1c", "\u200b", "\ufeff"]
"""Nothing but white space, and two that only look like it."""

NEAR_ROWS = st.builds(
    lambda name, changes, dropped: {
        key: value for key, value in {**REAL, "name": name, **changes}.items() if key not in dropped
    },
    st.one_of(NAMES, NAMES, NAMES, JSON, st.sampled_from(BLANK)),
    st.dictionaries(
        st.one_of(
            st.sampled_from(["size", "size_vram", "context_length"]), st.sampled_from(sorted(set(REAL) - {"name"}))
        ),
        NUMBERS,
        max_size=3,
    ),
    st.one_of(st.just(set()), st.just(set()), st.sets(st.sampled_from(sorted(REAL)), max_size=2)),
)
EQUAL_ROWS = st.builds(
    lambda name, size, context: {**REAL, "name": name, "size": size, "size_vram": size, "context_length": context},
    NAMES,
    NUMBERS,
    NUMBERS,
)
ROWS = st.one_of(st.just(REAL), NEAR_ROWS, NEAR_ROWS, EQUAL_ROWS, JSON)
INVENTORIES = st.one_of(
    st.builds(
        lambda rows, more: {**more, "models": rows}, st.lists(ROWS, max_size=4), st.dictionaries(TEXT, JSON, max_size=1)
    ),
    st.builds(lambda models: {"models": models}, JSON),
    JSON,
)
# One row of the model, right but for one thing at most, among rows of others.
_ODD_SIZES = [
    0,
    1,
    -1,
    True,
    False,
    1.0,
    "1",
    None,
    [],
    {},
    1e300,
    6 << 30,
    (6 << 30) - 1,
    (6 << 30) + 1,
    float(6 << 30),
]
_ODD_CONTEXTS = [65535, 65536, 65537, 65536.0, "65536", True, None, 0, -65536, 4096, 1e300]
_ONE_ODD_NUMBER = st.one_of(
    st.just({}),
    st.sampled_from(_ODD_SIZES).map(lambda value: {"size": value}),
    st.sampled_from(_ODD_SIZES).map(lambda value: {"size_vram": value}),
    st.sampled_from(_ODD_SIZES).map(lambda value: {"size": value, "size_vram": value}),
    st.sampled_from(_ODD_CONTEXTS).map(lambda value: {"context_length": value}),
    st.integers(65534, 65537).map(lambda value: {"context_length": value}),
    st.builds(lambda key, value: {key: value}, st.sampled_from(["size", "size_vram", "context_length"]), NUMBERS),
)
_ALIKE = st.sampled_from(SPELLINGS).flatmap(
    lambda model: st.builds(
        lambda asked, rows, others: ({"models": [*rows, *others]}, asked),
        st.sampled_from(model[2]),
        st.lists(
            st.builds(lambda name, odd: {**REAL, "name": name, **odd}, st.sampled_from(model[2]), _ONE_ODD_NUMBER),
            min_size=1,
            max_size=2,
        ),
        st.lists(
            st.builds(
                lambda name, odd: {**REAL, "name": name, **odd},
                st.one_of(NAMES, NAMES, st.sampled_from(BLANK), st.just("stranger")),
                _ONE_ODD_NUMBER,
            ),
            max_size=1,
        ),
    )
)
CASES = st.one_of(st.tuples(INVENTORIES, NAMES), _ALIKE, _ALIKE)


def is_inventory(value: Any) -> bool:
    """G3: an object whose `models` is a list of objects, each with a `name`: a string, not all white space."""
    if type(value) is not dict or type(value.get("models")) is not list:
        return False
    return all(
        type(each) is dict
        and type(each.get("name")) is str
        and any(not character.isspace() for character in each["name"])
        for each in value["models"]
    )


def is_integer(value: Any) -> bool:
    return value.__class__ is int


def is_fully_on_the_gpu(value: dict[str, Any], model: str) -> bool:
    """G4 (and exactly one row, G2.4) of a valid inventory."""
    found = [each for each in value["models"] if MODEL_OF.get(each["name"]) == MODEL_OF[model]]
    if len(found) != 1:
        return False
    size, size_vram, context = (found[0].get(key) for key in ("size", "size_vram", "context_length"))
    if not (is_integer(size) and is_integer(size_vram) and is_integer(context)):
        return False
    return size == size_vram > 0 and context >= 65536


def read(body: bytes, status: int = 200, *, complete: bool = True) -> list[Row]:
    server = OllamaServer("http://127.0.0.1:1/api", journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(body, status, complete=complete))
    return server.inventory(budget())


def body_of(value: Any, ascii_only: bool) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "replace")


HUGE = 10**4300 - 1


@example(({"models": [{**REAL, "size": HUGE, "size_vram": -HUGE}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "size": HUGE, "size_vram": HUGE, "context_length": HUGE}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "context_length": -HUGE}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "context_length": 65535}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "context_length": 65536}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "size": 1.0, "size_vram": 1.0}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "size": True, "size_vram": True}]}, "qwen3:8b"), True)
@example(({"models": [{**REAL, "size_vram": (6 << 30) - 1}]}, "qwen3:8b"), True)
@example(({"models": [REAL, {**REAL, "name": "library/qwen3:8b"}]}, "qwen3:8b"), True)
@given(CASES, st.booleans())
def test_a_model_is_right_exactly_where_the_contract_says_so(case, ascii_only):
    value, model = case
    body = body_of(value, ascii_only)
    value = json.loads(body)
    try:
        rows = read(body)
    except InvalidInventoryError:
        assert not is_inventory(value)
        event("invalid")
        return
    assert is_inventory(value)
    assert [row.name for row in rows] == [each["name"] for each in value["models"]]
    for row, each in zip(rows, value["models"], strict=True):
        for key in ("size", "size_vram", "context_length"):
            assert (key in row.missing) == (key not in each)
            kept = getattr(row, key)
            assert kept.__class__ is each.get(key).__class__
            assert kept == each.get(key)
    same = [each for each in value["models"] if MODEL_OF.get(each["name"], 0) == MODEL_OF[model]]
    if all(each["name"] in MODEL_OF for each in value["models"]):
        assert [row.name for row in listed(rows, model)] == [each["name"] for each in same]
    right = is_fully_on_the_gpu(value, model)
    try:
        judged = judge(rows, model, context_length=65536)
    except NotReadyError as error:
        assert not right
        event(error.findings[0].code)
        assert (error.word, error.curl) == ("failed", 1)
        message = error.findings[0].message
        if len(same) == 1:
            for key in ("size", "size_vram", "context_length"):
                assert key in same[0] or key in message, "a missing key is not named"
    else:
        assert right
        assert judged.name == same[0]["name"]
        event("right")


@given(ROWS, ROWS, st.sampled_from(["a", "b"]))
def test_a_row_of_another_model_changes_no_verdict(mine, other, model):
    def verdict(rows: list[Any]) -> str:
        try:
            return judge(read(body_of({"models": rows}, True)), model, context_length=65536).name
        except NotReadyError as error:
            return error.findings[0].message

    if not is_inventory({"models": [mine, other]}):
        return
    mine, other = {**mine, "name": "a"}, {**other, "name": "stranger"}
    if model == "a":
        assert verdict([mine, other]) == verdict([mine]) == verdict([other, mine])
    else:
        assert verdict([mine, other]) == "b is not resident after its load"


_RAW = [
    *("1e999", "-1e999", "1" * 5000, "-0", "1E5", "1.0", "0.1e-400", "NaN", "Infinity", "-Infinity", "01", "+1", "0x1"),
    *('"\\ud800"', '"\\u0000"', "[" * 50 + "]" * 50, "tru", "'a'", '"a\nb"', "1,", "/**/1", "{}", "[]", "null", ""),
]
_ODD_KEYS = [
    "name",
    "size",
    "size_vram",
    "context_length",
    "expires_at",
    "details",
    "Name",
    "SIZE",
    "x",
    "models",
    "\\u006eame",
]


@given(
    st.lists(st.tuples(st.sampled_from(_ODD_KEYS), st.sampled_from([*_RAW, '"a"', "65536", "true"])), max_size=5),
    st.sampled_from(
        ['{"models":[{"name":"a",%s}]}', '{"models":[],%s}', '{"models":[{%s}]}', '{%s,"models":[{"name":"a"}]}']
    ),
    st.sampled_from(["", "\ufeff", " \n", "}", "\x00"]),
)
def test_raw_json_is_an_inventory_exactly_where_it_is_json_and_of_that_shape(pairs, frame, around):
    inside = ",".join(f'"{key}":{value}' for key, value in pairs)
    text = around + frame.replace("%s", inside).replace(",}", "}").replace("{,", "{")
    doubled = []

    def pairs_of(found: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in found if key in ("models", "name", "size", "size_vram", "context_length")]
        doubled.extend(key for key in keys if keys.count(key) > 1)
        return dict(found)

    def refuse(name: str) -> Any:
        raise ValueError(name)

    def integer(digits: str) -> Any:
        return int(digits) if len(digits) <= 4300 else float("inf")

    try:
        value = json.loads(text, object_pairs_hook=pairs_of, parse_constant=refuse, parse_int=integer)
    except ValueError:
        value = None
    try:
        read(text.encode())
    except InvalidInventoryError:
        # A key that decides something and stands twice has no value that one could rely on.
        assert doubled or not is_inventory(value)
    else:
        assert not doubled
        assert is_inventory(value)


@given(
    st.one_of(st.sampled_from([200, 500, 500, 503, 404, 302, 204]), st.integers(100, 599)),
    st.one_of(st.just(b""), st.binary(max_size=20), JSON.map(lambda value: body_of(value, True))),
    st.booleans(),
)
def test_a_status_is_no_inventory_and_500_without_a_body_says_nothing(status, body, complete):
    try:
        read(body, status, complete=complete)
    except NoInventoryError:
        assert (status, body, complete) == (500, b"", True)
    except InvalidInventoryError:
        assert status == 200
    except StatusError as error:
        assert error.status == status != 200
        assert (status, body, complete) != (500, b"", True)
        assert len(str(error)) < 600
    else:
        assert status == 200


_SCALARS = st.one_of(JSON, st.sampled_from([True, False, "unload", "load", "stop", "", None, 1]))
_ENDS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {}, optional={"done": _SCALARS, "done_reason": _SCALARS, "error": _SCALARS, "model": _SCALARS}
    ),
    st.fixed_dictionaries({"done": st.just(True), "done_reason": _SCALARS}),
)


@given(_ENDS, st.sampled_from(["load", "unload"]), st.sampled_from([200, 200, 200, 404, 500, 302]))
def test_a_load_and_an_unload_are_done_only_where_the_server_says_exactly_that(value, what, status):
    server = OllamaServer("http://127.0.0.1:1/api", journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(value, status))
    said = isinstance(value, dict) and value.get("done") is True and value.get("done_reason") == what
    right = status == 200 and said and "error" not in value
    try:
        if what == "load":
            server.load("a", "10m", budget(), 1.0)
        else:
            server.unload("a", budget(), 1.0)
    except TooOldError:
        assert what == "unload"
        assert not right
    except StatusError as error:
        assert error.word == "failed"  # a requirement that is not met, whatever the status (CONTRACT A6)
        assert status != 200
    except AnswerError:
        assert not right
    else:
        assert right


@given(st.one_of(INVENTORIES, JSON))
def test_the_list_of_installed_models_is_decoded_as_an_inventory_is(value):
    server = OllamaServer("http://127.0.0.1:1/api", journal=None, bounds=None)  # type: ignore[arg-type]
    server._server = OneAnswer(answer(value))
    try:
        tags = server.tags(budget())
    except InvalidInventoryError:
        assert not is_inventory(value)
    else:
        assert is_inventory(value)
        for tag, each in zip(tags, value["models"], strict=True):
            assert tag.name == each["name"]
            assert tag.size == (each["size"] if is_integer(each.get("size")) else None)
            assert tag.remote_host == (
                each.get("remote_host") if isinstance(each.get("remote_host"), str) else None
            ) or not each.get("remote_host")
