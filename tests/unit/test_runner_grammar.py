"""The parser of the tests sees commands where GitHub's runner does."""

from __future__ import annotations

import pytest

from tests.runner_grammar import commands


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("::error title=a%3A b,file=x%2Cy::c%0Ad", [("error", {"title": "a: b", "file": "x,y"}, "c\nd")]),
        ("  \t\u2003::ERROR::c", [("error", {}, "c")]),
        ("::error::%250A%25", [("error", {}, "%0A%")]),
        ("::error file=,line=1,=x,y::", [("error", {"line": "1", "": "x"}, "")]),
        ("model x ##[error a=b;c=d%3Be%5D]boo", [("error", {"a": "b", "c": "d;e]"}, "boo")]),
        ("##[add-mask]a", [("add-mask", {}, "a")]),
        ("#####[error]a", [("error", {}, "a")]),
        ("a\r::error::b\rc", [("error", {}, "b")]),
        ("a\n::error::b\r\n::warning::c", [("error", {}, "b"), ("warning", {}, "c")]),
        # A command that the runner does not know is none, and another one may follow in the line.
        ("::unknown::b ##[error]c", [("unknown", {}, "b ##[error]c"), ("error", {}, "c")]),
        ("::error::b ##[error]c", [("error", {}, "b ##[error]c")]),
        (b"::error::\xff", [("error", {}, "\ufffd")]),
        ("a ::error::b", []),
        ("::error", []),
        (":: ::", []),
        ("::::", []),
        ("# #[error]a", []),
        ("##[error", []),
        ("fine\u2028::error::b\x85::error::c\x0b::error::d", []),
    ],
)
def test_a_command_is_found_where_the_runner_finds_one(text, found):
    assert commands(text) == found
