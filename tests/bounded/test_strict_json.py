"""`strict_json`: what RFC 8259 allows, and the reasons for refusing the rest, which quote none of it."""

from __future__ import annotations

import sys

import pytest

from precheck_lib.bounded.strict_json import kind_of, parse, parse_object
from precheck_lib.errors import AnswerError

DEEP = 200_000

REFUSED = {
    "empty": (b"", "it is not JSON: Expecting value at line 1 column 1"),
    "html": (b"<html>", "it is not JSON: Expecting value at line 1 column 1"),
    "trailing-text": (b"{} x", "it is not JSON: Extra data at line 1 column 4"),
    "two-documents": (b"{}\n{}", "it is not JSON: Extra data at line 2 column 1"),
    "cut": (b'{"a": [1', "it is not JSON: Expecting ',' delimiter at line 1 column 9"),
    "trailing-comma": (b"[1,]", "it is not JSON: "),
    "comment": (b"{} // x", "it is not JSON: "),
    "single-quotes": (b"{'a': 1}", "it is not JSON: "),
    "control-character": (b'"a\nb"', "it is not JSON: Invalid control character at at line 1 column 3"),
    "bom": (b"\xef\xbb\xbf{}", "it is not JSON: "),
    "utf-16": ("{}".encode("utf-16"), "it is not UTF-8"),
    "utf-16-without-bom": ("{}".encode("utf-16-le"), "it is not JSON: "),
    "latin-1": ('{"a": "ä"}'.encode("latin-1"), "it is not UTF-8"),
    "a-surrogate-in-utf-8": (b'"\xed\xa0\x80"', "it is not UTF-8"),
    "an-overlong-form": (b'"\xc0\xaf"', "it is not UTF-8"),
    "nan": (b"[NaN]", "NaN is not JSON"),
    "infinity": (b"[Infinity]", "Infinity is not JSON"),
    "minus-infinity": (b"[-Infinity]", "-Infinity is not JSON"),
    "beyond-a-double": (b"[1e999]", "a number is too large"),
    "far-below-a-double": (b"[-1e999]", "a number is too large"),
    "a-key-twice": (b'{"hush": 1, "hush": 2}', "an object has the same key twice"),
    "a-key-twice-by-escapes": (b'{"a": 1, "\\u0061": 2}', "an object has the same key twice"),
    "a-key-twice-within": (b'[{"a": {"b": 1, "b": 1}}]', "an object has the same key twice"),
    "5000-digits": (b"1" * 5000, "a number is too long"),
    "deep-lists": (b"[" * DEEP, "it is nested too deeply"),
    "deep-lists-that-end": (b"[" * DEEP + b"]" * DEEP, "it is nested too deeply"),
    "deep-objects": (b'{"a":' * DEEP, "it is nested too deeply"),
    "half-a-surrogate-pair": (b'"\\ud800"', "a string holds half of a surrogate pair"),
    "the-other-half": (b'"x\\udc00y"', "a string holds half of a surrogate pair"),
    "half-in-a-key": (b'{"\\ud800": 1}', "a string holds half of a surrogate pair"),
    "the-halves-in-the-wrong-order": (b'"\\udc00\\ud800"', "a string holds half of a surrogate pair"),
    "text-with-undecodable-bytes": ('{"a": "\udcff"}', "it is not UTF-8"),
    "text-with-a-bom": ("\ufeff{}", "it is not JSON: "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_reason(name):
    text, reason = REFUSED[name]
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text)
    said = str(caught.value)
    assert said.startswith(reason) if reason.endswith(" ") else said == reason
    assert "hush" not in said


ACCEPTED = {
    "object": (b'{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
    "scalar": (b"0", 0),
    "white-space-around": (b" \t\r\n{} \n", {}),
    "utf-8": ('"ä€😀"'.encode(), "ä€😀"),
    "a-whole-surrogate-pair": (b'"\\ud83d\\ude00"', "😀"),
    "a-backslash-before-a-u": (b'"\\\\ud800"', "\\ud800"),
    "the-largest-double": (b"1.7976931348623157e308", sys.float_info.max),
    "an-integer-beyond-a-double": (b"1" + b"0" * 400, 10**400),
    "integers-stay-integers": (b"[1, 1.0, -0]", [1, 1.0, 0]),
    "the-same-key-in-two-objects": (b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
    "text": ('{"a": "ä"}', {"a": "ä"}),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_is_read(name):
    text, value = ACCEPTED[name]
    found = parse(text)
    assert found == value
    assert type(found) is type(value)


LENIENT = {
    "beyond-a-double": (b'{"a": 1e999}', {"a": float("inf")}),
    "far-below-a-double": (b'{"a": -1e999}', {"a": float("-inf")}),
    "5000-digits": (b'{"size": ' + b"1" * 5000 + b"}", {"size": float("inf")}),
    "numbers-stay-what-they-are": (b'{"a": [5, 1.5]}', {"a": [5, 1.5]}),
    "a-key-twice-that-decides-nothing": (b'{"a": 1, "a": 2}', {"a": 2}),
}


@pytest.mark.parametrize("name", LENIENT)
def test_where_every_value_is_judged_by_itself_it_is_read(name):
    text, value = LENIENT[name]
    assert parse(text, lenient=True) == value
    assert parse_object(text, "the answer", lenient=True) == value


@pytest.mark.parametrize(
    "text", [b"[NaN]", b"\xff", b"[" * DEEP, b"{", b'{"size": 1, "size": 2}', b'[{"name": 1, "name": 1}]']
)
def test_where_every_value_is_judged_by_itself_these_are_refused_all_the_same(text):
    with pytest.raises(ValueError, match=r"."):
        parse(text, lenient=True)


def test_an_answer_has_to_be_an_object():
    assert parse_object(b'{"a": 1}', "the answer") == {"a": 1}
    with pytest.raises(AnswerError, match=r"^the answer is not a JSON object but a list$"):
        parse_object(b"[]", "the answer")
    with pytest.raises(AnswerError, match=r"^the answer cannot be read: it is not UTF-8$"):
        parse_object(b"\xff", "the answer")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        ("x", "a string"),
        ([], "a list"),
        ({}, "an object"),
    ],
)
def test_a_kind_is_named_without_its_value(value, kind):
    assert kind_of(value) == kind
