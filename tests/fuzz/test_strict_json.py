"""JSON as RFC 8259 has it: what Python reads too, less what has no meaning that everybody shares."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from precheck_lib.bounded.strict_json import MAX_DEPTH, kind_of, parse, parse_object
from precheck_lib.errors import AnswerError
from tests.fuzz.values import ANY_CHARACTER, JSON, TEXT, json_values, ordinary_stack

SURROGATE = re.compile("[\ud800-\udfff]")


class Python:
    """What Python's own parser makes of a text, and why nobody should rely on it."""

    def __init__(self, text: str) -> None:
        self.doubtful = False
        self.twice = False
        try:
            self.value = json.loads(
                text, object_pairs_hook=self._pairs, parse_constant=self._constant, parse_float=self._float
            )
            self.read = True
            self.doubtful |= _depth(self.value) > MAX_DEPTH
            self.doubtful |= SURROGATE.search(json.dumps(self.value, ensure_ascii=False)) is not None
        except (ValueError, RecursionError):
            self.read = False

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        self.twice |= len(made) != len(pairs)
        return made

    def _constant(self, name: str) -> Any:
        self.doubtful = True
        return name

    def _float(self, text: str) -> float:
        self.doubtful |= float(text) in (float("inf"), float("-inf"))
        return float(text)


def _depth(value: Any) -> int:
    deepest, level = 0, [(value, 0)]
    while level:
        part, at = level.pop()
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, (dict, list)):
            deepest = max(deepest, at + 1)
        level += [(each, at + 1) for each in inner]
    return deepest


def same(left: Any, right: Any) -> bool:
    """Equal, and of the same types all through: to Python `True == 1 == 1.0`."""
    return json.dumps(left) == json.dumps(right)


PIECES = [
    *(
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '"',
        "a",
        '"a"',
        '"a":1',
        "1",
        "-",
        "0",
        "01",
        "1.5",
        "1e5",
        "1e999",
        "-1e999",
        "1E+2",
    ),
    *(
        "true",
        "false",
        "null",
        "NaN",
        "Infinity",
        "-Infinity",
        " ",
        "\n",
        "\t",
        "\x0b",
        "\ufeff",
        "\u00a0",
        "\x00",
        "\\",
    ),
    *(
        '"\\u0000"',
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\x"',
        '"\t"',
        "'a'",
        "//",
        "/**/",
        "9" * 400,
        "9" * 4301,
        ",}",
        ",]",
    ),
]
TOKENS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)
WRITTEN = st.builds(
    lambda value, indent, ascii_only: json.dumps(value, indent=indent, ensure_ascii=ascii_only),
    JSON,
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
SPOILT = st.builds(
    lambda text, at, length, new: text[: at % (len(text) + 1)] + new + text[at % (len(text) + 1) + length :],
    WRITTEN,
    st.integers(0, 200),
    st.integers(0, 3),
    st.sampled_from(PIECES),
)
TWICE = st.builds(
    lambda pairs: "{" + ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in pairs) + "}",
    st.lists(st.tuples(st.sampled_from(["a", "b", "models", "name", "size", "A"]), JSON), max_size=4),
)
DEEP = st.builds(
    lambda depth, ends, inside: ends[0] * depth + inside + ends[1] * depth,
    st.one_of(st.integers(MAX_DEPTH - 2, MAX_DEPTH + 2), st.sampled_from([1, 500, 3000, 100_000])),
    st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ("[1,", "]")]),
    st.sampled_from(["1", "", '"\\u0041"']),
)
ODD = st.builds(
    lambda frame, odd: frame.replace("%s", odd),
    st.sampled_from(["%s", "[%s]", '{"a":%s}', '[0,{"b":[%s]}]', '{"models":[{"name":"a","size":%s}]}']),
    st.sampled_from(
        [
            *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 4301, "-0", "1E400", "1.5", "01", "+1", ".5"),
            *(
                '"\\ud800"',
                '"\\udc00x"',
                '"\\ud83d\\ude00"',
                '"\\ud83d \\ude00"',
                '"\ud800"',
                '"\\u00e9"',
                '{"a":1,"a":1}',
            ),
        ]
    ),
)
TEXTS = st.one_of(WRITTEN, SPOILT, TOKENS, TWICE, DEEP, TEXT)


def is_read_or_refused_as_it_must_be(text: str) -> None:
    python = Python(text)
    raw = SURROGATE.search(text) is not None
    for given_text in (text, None if raw else text.encode()):
        if given_text is None:
            continue
        try:
            with ordinary_stack():
                value = parse(given_text)
        except ValueError as error:
            assert type(error) is ValueError
            assert raw or not python.read or python.doubtful or python.twice
            assert len(str(error)) < 120
            event(str(error).partition(" at line")[0])
        else:
            assert python.read
            assert not raw
            assert not python.doubtful
            assert not python.twice
            assert same(value, python.value)
            event("read")


@example("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
@example("[" * MAX_DEPTH + "]" * MAX_DEPTH)
@given(TEXTS)
def test_what_is_read_is_what_python_reads_and_what_is_refused_has_a_reason(text):
    is_read_or_refused_as_it_must_be(text)


@given(ODD)
def test_an_odd_value_is_read_or_refused_wherever_it_stands(text):
    is_read_or_refused_as_it_must_be(text)


@given(TEXTS)
def test_what_is_read_strictly_is_read_leniently_as_the_same(text):
    try:
        value = parse(text)
    except ValueError:
        try:
            value = parse(text, lenient=True)
        except ValueError:
            return
        # Nothing but these is let through, and no key that decides something stands twice.
        python = Python(text)
        assert python.doubtful or python.twice or re.search(r"\d{4301}", text)
        assert "NaN" not in re.sub(r'"[^"]*"', "", text)
        return
    assert same(parse(text, lenient=True), value)


_BYTES = st.one_of(
    st.binary(max_size=20),
    st.builds(
        lambda text, name: text.encode(name),
        WRITTEN.filter(lambda text: not SURROGATE.search(text)),
        st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "utf-8"]),
    ),
)


@given(_BYTES)
def test_any_bytes_are_json_in_utf_8_or_refused(data):
    try:
        value = parse(data)
    except ValueError:
        return
    assert same(value, json.loads(data.decode("utf-8")))


@given(
    st.text(ANY_CHARACTER, min_size=8, max_size=20).filter(re.compile("[^ -~]").search),
    st.sampled_from(["{%s", '{"a": %s', '["%s', '{"%s":1,"%s":2}', "[1e999, %s]"]),
)
def test_a_refusal_quotes_nothing_of_what_it_refused(text, frame):
    inside = json.dumps(text)[1:-1]
    try:
        parse(frame.replace("%s", inside))
    except ValueError as error:
        assert inside not in str(error)
        assert text not in str(error)


@given(st.one_of(JSON, json_values()))
def test_an_answer_is_an_object_or_is_said_to_be_something_else(value):
    body = json.dumps(value, ensure_ascii=True).encode()
    try:
        found = parse_object(body, "the answer")
    except AnswerError as error:
        said = str(error)
        assert said.startswith("the answer ")
        if "surrogate" not in said:
            assert said == f"the answer is not a JSON object but {kind_of(value)}"
            assert not isinstance(value, dict)
    else:
        assert same(found, value)
