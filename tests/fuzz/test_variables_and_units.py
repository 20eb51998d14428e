"""What specs are written with: references to variables, durations, sizes; read, written and read again."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from precheck_lib.findings import NotReadyError
from precheck_lib.spec.variables import MalformedError, expand, names, references
from precheck_lib.units import Bytes, Seconds, duration_text, parse_duration, parse_size
from tests.fuzz.values import JSON, TEXT, json_values

CANARY = "cAnArY"
PIECES = [
    "$",
    "$$",
    "{",
    "}",
    "${",
    "${A}",
    "${B:-x}",
    "${B:-",
    "${J#}",
    "${J#/a/0}",
    "${pin:P}",
    "${pin:",
    "#",
    ":-",
    "/~2",
    "A",
]
SPEC_TEXTS = st.one_of(TEXT, st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
ENV_VALUES = st.one_of(st.just(""), st.just(" \t"), TEXT.map(lambda text: f"{CANARY}{text}"))
DOCUMENTS = st.one_of(JSON.map(json.dumps), ENV_VALUES, st.just(json.dumps({"a": [CANARY, {"b/c~": 1}]})))


@given(SPEC_TEXTS, ENV_VALUES, DOCUMENTS)
def test_any_text_is_expanded_or_said_to_be_wrong_without_a_value(text, value, document):
    env = {"A": value, "J": document}
    try:
        found = list(references(text))
    except MalformedError as error:
        with pytest.raises(NotReadyError) as caught:
            expand(text, env, {"P": "1"})
        assert caught.value.findings[0].code == "spec.invalid"
        assert len(str(error)) < 400
        event("malformed")
        return
    assert [one.name for one in found if one.name] == list(names(text))
    try:
        expand(text, env, {"P": "1"})
    except NotReadyError as error:
        assert CANARY not in str(error)
        event(error.findings[0].code)
    else:
        event("expanded")


@given(TEXT)
def test_a_text_whose_dollars_are_doubled_is_itself(text):
    assert expand(text.replace("$", "$$"), {}, {}) == text


PLAIN = TEXT.map(lambda text: (text.replace("$", "$$"), text))
NOT_BLANK = TEXT.filter(lambda text: text.strip())
PARTS = st.lists(
    st.one_of(
        PLAIN,
        st.just(("${A}", "A")),
        st.just(("${pin:P 1}", "pin")),
        TEXT.map(lambda text: text.replace("{", "").replace("}", "")).map(lambda text: (f"${{BLANK:-{text}}}", text)),
        st.just(("${A:-x}", "A")),
        st.just(("${J#/a/b~1c/1}", "text")),
    ),
    max_size=6,
)


@given(PARTS, NOT_BLANK)
def test_references_between_texts_are_replaced_and_all_else_stays(parts, value):
    env = {"A": value, "BLANK": " ", "J": json.dumps({"a": {"b/c": [0, value]}}), "pin": "no", "text": "no"}
    readable = not any(0xD800 <= ord(character) < 0xE000 for character in value)
    kept = {"${A}": value, "${A:-x}": value, "${pin:P 1}": "1.2.3", "${J#/a/b~1c/1}": value}
    written = "".join(source for source, _ in parts)
    meant = "".join(kept.get(source, becomes) for source, becomes in parts)
    if not readable and any(source.startswith("${J") for source, _ in parts):
        return
    assert expand(written, env, {"P 1": "1.2.3"}) == meant
    assert expand([written, {"k": written}, 1], env, {"P 1": "1.2.3"}) == [meant, {"k": meant}, 1]


@given(
    json_values(
        st.one_of(st.booleans(), st.integers(-(10**6), 10**6), st.text("ab/~", max_size=3)),
        st.text("a/~01", max_size=3),
    )
)
def test_a_pointer_leads_to_every_place_of_a_document(document):
    env = {"J": json.dumps(document)}

    def walk(value, pointer):
        if value is not None:
            found = expand(f"${{J#{pointer}}}", env, {})
            assert json.dumps(found) == json.dumps(value)
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, part in inner:
            walk(part, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")

    walk(document, "")


# Durations and sizes --------------------------------------------------------------------------------------------------


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_that_is_written_is_read_back_as_the_same(milliseconds):
    assert parse_duration(duration_text(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)


_WHOLE = st.one_of(st.none(), st.integers(0, 999_999_999_999))
_DECIMAL = st.one_of(
    st.none(), st.integers(0, 999_999_999_999).map(str), st.from_regex(r"[0-9]{1,12}\.[0-9]{1,12}", fullmatch=True)
)


@given(_WHOLE, _WHOLE, _DECIMAL, _WHOLE)
def test_a_duration_is_the_sum_of_its_parts(hours, minutes, seconds, milliseconds):
    parts = [(hours, "h", 3600), (minutes, "m", 60), (seconds, "s", 1), (milliseconds, "ms", Fraction(1, 1000))]
    text = "".join(f"{number}{unit}" for number, unit, _ in parts if number is not None)
    if not text:
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration(text)
        return
    value = parse_duration(text)
    exact = sum(Fraction(str(number)) * factor for number, _, factor in parts if number is not None)
    assert type(value) is Seconds
    assert value == pytest.approx(float(exact), rel=1e-12, abs=1e-12)
    if value < 1e12:  # more digits than twelve are a mistake
        assert parse_duration(duration_text(value)) == pytest.approx(value, rel=1e-12, abs=5.1e-4)


@given(_DECIMAL.filter(bool), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB"]), st.sampled_from(["", " "]))
def test_a_size_is_its_number_of_units_with_a_part_of_a_byte_dropped(number, unit, between):
    value = parse_size(f"{number}{between}{unit}")
    exact = Fraction(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)
    assert type(value) is Bytes
    if "." in number:
        assert value == pytest.approx(int(exact), rel=1e-15, abs=1)
    else:
        assert value == exact


UNIT_TEXTS = st.one_of(
    TEXT,
    JSON,
    st.lists(
        st.sampled_from(["1", "0", ".", "h", "m", "s", "ms", "B", "MiB", " ", "-", "e", "\n", "٣", "9" * 13]),
        max_size=6,
    ).map("".join),
)


@given(UNIT_TEXTS)
def test_what_is_no_duration_or_size_is_said_so_in_a_short_text(value):
    for parse in (parse_duration, parse_size):
        try:
            parsed = parse(value)
        except ValueError as error:
            assert type(error) is ValueError
            assert len(str(error)) < 200
        else:
            assert isinstance(value, str)
            assert value.isascii()
            assert 0 <= parsed < 1e28
