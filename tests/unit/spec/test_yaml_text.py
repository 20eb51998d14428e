"""YAML to plain values: what is refused and where, and what stays text."""

from __future__ import annotations

import time

import pytest

from precheck_lib.spec import SpecError
from precheck_lib.spec.yaml_text import MAX_BYTES, MAX_DEPTH, read_yaml


def values(text):
    return read_yaml(text.encode(), "it.yml")[0]


def problems(text):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(SpecError) as caught:
        read_yaml(data, "it.yml")
    return [str(problem) for problem in caught.value.problems]


def test_what_yaml_1_1_would_change_stays_text():
    line = "yes no on off y n True FALSE Null 12:30 1:2:3 0x1F 010 1_000 .inf .nan 1e5 1.5e5 2024-01-01 = 1. .5 --1"
    texts = line.split()
    assert values("".join(f"- {text}\n" for text in texts)) == texts


def test_the_plain_values_are_few():
    text = "[true, false, null, ~, '', 0, -7, +5, 65536, 1.5, -0.25, two words]"
    assert values(text) == [True, False, None, None, "", 0, -7, 5, 65536, 1.5, -0.25, "two words"]
    assert [type(value) for value in values("[1, 1.0, true]")] == [int, float, bool]


def test_quotes_and_blocks_make_text_of_anything():
    assert values("- 'true'\n- \"5\"\n- |\n  7\n- >\n  null\n- !!str 5\n") == ["true", "5", "7\n", "null\n", "5"]


def test_digits_without_end_stay_text():
    assert values(f"- {'9' * 5000}\n- 1.{'9' * 5000}\n") == ["9" * 5000, f"1.{'9' * 5000}"]


@pytest.mark.parametrize("byte_order_mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_changes_nothing(byte_order_mark):
    value, places = read_yaml(byte_order_mark + b"a: b\n", "it.yml")
    assert value == {"a": "b"}
    assert places["a", "?"] == (1, 1)
    assert places["a",] == (1, 4)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_places_are_counted_in_lines_and_characters_from_1(end):
    _, places = read_yaml(end.join(["# one", "ä:", "  - öö: [x, y]", ""]).encode(), "it.yml")
    assert places["ä", "?"] == (2, 1)
    assert places["ä", 0] == (3, 5)
    assert places["ä", 0, "öö", 1] == (3, 13)


@pytest.mark.parametrize("text", ["", "\n \n", "# only a comment\n", "\ufeff"])
def test_an_empty_file_is_said_to_be_empty(text):
    assert problems(text) == ["it.yml:1:1: the file is empty"]


def test_a_file_beyond_the_limit_is_not_parsed():
    assert problems(b"[" * (MAX_BYTES + 1)) == ["it.yml:1:1: the file is larger than 1 MiB"]
    assert values("a: b\n" + "#" * (MAX_BYTES - 5)) == {"a": "b"}


@pytest.mark.parametrize("byte_order_mark", [b"", b"\xef\xbb\xbf"])
def test_bytes_that_are_not_utf_8_have_their_place(byte_order_mark):
    assert problems(byte_order_mark + "a: b\nö: xy".encode() + b"\xff\n") == [
        "it.yml:2:6: the file is not UTF-8; save it as UTF-8"
    ]


def test_utf_16_is_not_utf_8():
    assert problems("a: b\n".encode("utf-16")) == ["it.yml:1:1: the file is not UTF-8; save it as UTF-8"]


@pytest.mark.parametrize("character", ["\0", "\x07", "\x1b", "\x7f", "\x80", "\uffff"])
def test_a_control_character_has_its_place(character):
    text = f"it.yml:2:5: not YAML: the character U+{ord(character):04X} cannot stand in YAML"
    assert problems(f"a: b\nö: x{character}\n") == [text]


def test_a_place_behind_empty_lines_is_counted_from_the_first():
    assert problems("\n\x07")[0].startswith("it.yml:2:1: ")
    assert problems(b"\n\xff")[0].startswith("it.yml:2:1: ")
    assert problems("\x07")[0].startswith("it.yml:1:1: ")


@pytest.mark.parametrize("text", ["a:\n\tb: c\n", "a:\n\t- b\n", "- a\n\t- b: c\n"])
def test_a_tab_cannot_indent(text):
    assert problems(text) == ["it.yml:2:1: not YAML: a tab cannot indent; use spaces"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a: [b\n",
            "2:1: not YAML: did not find expected ',' or ']', while parsing a flow sequence that begins in line 1",
        ),
        (
            "a: 'b\n",
            "2:1: not YAML: found unexpected end of stream, while scanning a quoted scalar that begins in line 1",
        ),
        (
            "a: [b",
            "1:6: not YAML: did not find expected ',' or ']', while parsing a flow sequence that begins in line 1",
        ),
        ("a: b\nc", "2:2: not YAML: could not find expected ':', while scanning a simple key that begins in line 2"),
        (
            "a: b: c\n",
            (
                "1:5: not YAML: mapping values are not allowed in this context; see the indentation, and where a value "
                "has `: ` in it, put the value in quotes"
            ),
        ),
        ("a: @b\n", "1:4: not YAML: found character that cannot start any token; put the value in quotes"),
        (
            "version: >=2\n",
            (
                "1:11: not YAML: did not find expected comment or line break, while scanning a block scalar that "
                "begins in line 1; `>` and `|` begin a text of several lines, so put the value in quotes"
            ),
        ),
        ("a: *b\n", "1:4: not YAML: found undefined alias; `*` begins an alias, so put the value in quotes"),
        ("a: b\n---\nc: d\n", "2:1: not YAML: a second document begins here; a spec is one"),
    ],
)
def test_bad_yaml_has_its_place_and_where_that_began(text, said):
    assert problems(text) == [f"it.yml:{said}"]


def test_a_key_that_stands_twice_is_refused_where_it_stands_again():
    assert problems("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n") == [
        'it.yml:4:3: the key "c" stands here a second time',
        'it.yml:5:1: the key "a" stands here a second time',
    ]


def test_a_key_has_to_be_text():
    assert problems("? [a]\n: b\n? {c: d}\n: e\n") == [
        "it.yml:1:3: a key has to be text",
        "it.yml:3:3: a key has to be text",
    ]
    assert values("on: 1\n5: 2\ntrue: 3\n") == {"on": 1, "5": 2, "true": 3}


def test_merge_keys_are_refused_unless_quoted():
    assert problems("a: &a {b: c}\nd:\n  <<: *a\n") == [
        "it.yml:3:3: merge keys (<<) are not supported; write the keys out"
    ]
    assert values("'<<': a\n") == {"<<": "a"}


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("!foo b", "!foo"),
        ("!foo 'b'", "!foo"),
        ("!foo [b]", "!foo"),
        ("!foo {b: c}", "!foo"),
        ("!!set {b}", "!!set"),
        ("!!binary aGk=", "!!binary"),
        ("!!int '5'", "!!int"),
        ("!!python/object:os.system x", "!!python/object:os.system"),
        ("!!python/object/apply:os.system ['true']", "!!python/object/apply:os.system"),
    ],
)
def test_a_tag_is_refused_wherever_it_stands(text, tag):
    hint = "leave it out (text that begins with '!' needs quotes)"
    assert problems(f"a: {text}\n") == [f'it.yml:1:4: the tag "{tag}" is not supported; {hint}']


def test_a_tag_on_a_key_is_refused():
    assert len(problems("!foo a: b\n")) == 1


def test_an_alias_is_the_value_again():
    assert values("a: &x [1, {b: c}]\nd: *x\n") == {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}


def test_an_alias_that_multiplies_itself_is_refused_at_once():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    began = time.process_time()
    assert ["too many values (an alias that repeats itself?)" in said for said in problems(bomb)] == [True]
    assert time.process_time() - began < 5


def test_a_bomb_of_mappings_is_refused_too():
    bomb = "a0: &a0 {a: x, b: x, c: x, d: x, e: x, f: x}\n"
    bomb += "".join(f"a{n}: &a{n} {{{', '.join(f'k{m}: *a{n - 1}' for m in range(6))}}}\n" for n in range(1, 14))
    assert ["too many values" in said for said in problems(bomb)] == [True]


def test_an_alias_inside_of_what_it_names_is_refused():
    for text in ("a: &a [*a]\n", "a: &a {b: *a}\n", "&a [b, *a, c, *a]\n"):
        assert ["nested too deeply (or an alias holds itself)" in said for said in problems(text)] == [True], text


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 2000, MAX_BYTES])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
def test_nesting_has_an_end(depth, opening, closing):
    depth = min(depth, (MAX_BYTES - 1) // len(opening + closing))
    assert ["nested too deeply" in said for said in problems(opening * depth + "x" + closing * depth)] == [True]


def test_ordinary_nesting_is_fine():
    value = values("[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH):
        (value,) = value
    assert value == "x"


def test_the_parser_without_libyaml_says_the_same(monkeypatch):
    import yaml

    monkeypatch.setattr("precheck_lib.spec.yaml_text._Loader", yaml.SafeLoader)
    assert values("a: [yes, 5, 'x']\n") == {"a": ["yes", 5, "x"]}
    assert problems("a:\n\tb: c\n") == ["it.yml:2:1: not YAML: a tab cannot indent; use spaces"]
    assert problems("a: b\n---\nc: d\n") == ["it.yml:2:1: not YAML: a second document begins here; a spec is one"]
    assert problems("[" * 1200) == ["it.yml:1:1: it is nested too deeply"]
