"""Plain values to typed ones, by the type alone."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from precheck_lib.checks import KINDS, kind_named
from precheck_lib.spec.typed import BAD, convert, guess
from precheck_lib.units import Bytes, Seconds


class Inner(msgspec.Struct, frozen=True):
    a: str
    b: list[int] = []


class Outer(msgspec.Struct, frozen=True):
    one: Inner
    many: list[Inner] = []
    named: dict[str, Inner] = {}
    ratio: float = 0.5
    maybe: Seconds | None = None
    size: Bytes | None = None
    word: Literal["x", "y"] | None = None
    anything: Any = None


def converted(value, type_):
    """The value and what was said on the way."""
    said = []
    made = convert(value, type_, (), lambda path, text: said.append(f"{'/'.join(map(str, path))}: {text}"))
    assert (made is BAD) == bool(said)
    return said or made


def test_a_struct_is_made_with_all_that_is_in_it():
    value = {
        "one": {"a": "x"},
        "many": [{"a": "y", "b": [1]}],
        "named": {"n": {"a": "z"}},
        "ratio": 1,
        "maybe": "2s",
        "size": "1KiB",
        "word": "y",
        "anything": [None, {"k": 1.5}],
    }
    assert converted(value, Outer) == Outer(
        one=Inner("x"),
        many=[Inner("y", [1])],
        named={"n": Inner("z")},
        ratio=1,
        maybe=Seconds(2),
        size=Bytes(1024),
        word="y",
        anything=[None, {"k": 1.5}],
    )


def test_every_fault_in_it_is_said_at_its_path():
    value = {
        "one": {"b": [1, "2", 3.0, True]},
        "many": [{"a": "y"}, 5],
        "named": [],
        "ratio": "half",
        "maybe": "soon",
        "size": None,
        "word": "z",
        "other": 1,
    }
    assert converted(value, Outer) == [
        'other/?: unknown key "other"',
        'one/b/1: item 2 of b: a whole number is needed, not the text "2"',
        "one/b/2: item 3 of b: a whole number is needed, not the number 3.0",
        "one/b/3: item 4 of b: a whole number is needed, not true",
        'one: one: the key "a" is missing',
        "many/1: item 2 of many: a mapping is needed, not the number 5",
        "named: named: a mapping is needed, not a list",
        'ratio: ratio: a number is needed, not the text "half"',
        "maybe: maybe: 'soon' is not a duration such as 2s, 1m30s or 500ms",
        'word: word: "x" or "y" is needed, not the text "z"',
    ]


def test_a_long_text_is_cut_in_what_is_said_of_it():
    assert converted("x" * 40, int) == [f': a whole number is needed, not the text "{"x" * 40}"']
    assert converted("x" * 41, int) == [f': a whole number is needed, not the text "{"x" * 40}"…']


def test_a_type_that_options_cannot_have_is_a_mistake_of_ours():
    for type_ in (set[str], tuple[str, ...], bytes, complex):
        with pytest.raises((KeyError, TypeError)):
            converted("x", type_)


def test_the_options_of_every_kind_have_types_that_are_known():
    class Odd:
        """A value of no type that a spec can hold."""

    for kind in KINDS:
        for field in msgspec.structs.fields(kind_named(kind).options):
            converted({field.name: [Odd()]}, kind_named(kind).options)
            converted({field.name: {"x": Odd()}}, kind_named(kind).options)


def test_a_guess_is_near_or_none():
    assert guess("ulr", ["url", "read"]) == '; did you mean "url"?'
    assert guess("zzz", ["url", 5, None]) == ""
    assert guess("a", []) == ""


def test_a_list_of_names_where_a_mapping_is_needed_is_told_how_to_write_it():
    notes = []
    convert(["A b", "C"], dict[str, str], ("required",), lambda path, text: notes.append(text))
    assert notes == ["required: a mapping is needed, not a list; write each name as a key, `A b: {}`"]
