"""Untrusted text, cleaned: nothing in it is obeyed, hidden or lost without a sign."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest

from precheck_lib.report.text import LINE_LIMIT, clean, clean_lines, fit_bytes, xml_text


def is_command(line):
    """What the runner takes for a command: `::` first after white space, `##[` anywhere."""
    return line.lstrip().startswith("::") or "##[" in line


def test_hostile_text_becomes_one_line_without_commands(hostile):
    line = clean(hostile)
    assert not is_command(line)
    assert line.isprintable()
    assert len(line) <= LINE_LIMIT


def test_hostile_text_becomes_lines_without_commands(hostile):
    for line in clean_lines(hostile, 10_000).split("\n"):
        assert not is_command(line)
        assert line.isprintable()


def test_cleaning_what_is_clean_changes_nothing(hostile):
    once = clean(hostile)
    assert clean(once) == once


def test_hostile_text_is_cleaned_in_a_moment(hostile):
    before = time.process_time()
    clean(hostile)
    clean_lines(hostile, 64 * 1024)
    assert time.process_time() - before < 2


@pytest.mark.parametrize(
    "text",
    [
        "TCP readiness deadline elapsed",
        "deadline of 10 s elapsed [curl: (28)]",
        "native residency remains unconfirmed",
        "model `qwen3:8b` has  two spaces, a\\b, C:\\x1b and std::vector",
        "größer 模型 ✓ é e\u0301 🚀",
        "# heading ## [link] #[1]",
    ],
)
def test_harmless_text_is_not_touched(text):
    assert clean(text) == text
    assert clean_lines(text, 1000) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::boo", ": :error::boo"),
        ("::::error::boo", ": :::error::boo"),
        ("model x ##[error]boo", "model x ## [error]boo"),
        ("#\x1b[0m#[error]", "## [error]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://evil/\x1b\\here\x1b]8;;\x07", "here"),
        ("\x1b]0;title and evidence", "\\x1b]0;title and evidence"),
        ("\x1bHello", "\\x1bHello"),
        ("a\x00b\x7f\x9b", "a\\x00b\\x7f\\x9b"),
        ("a\r\n\r\nb\u2028c\x0bd\te", "a b c d e"),
        ("qwen\u200b3", "qwen\\u200b3"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u3164b\u034fc\u2800d", "a\\u3164b\\u034fc\\u2800d"),
        ("a\U000e0100b", "a\\U000e0100b"),
        ("\udc80", "\\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("✔\ufe0f done", "✔ done"),
        ("a\xa0b\u3000c", "a b c"),
    ],
)
def test_what_is_not_text_is_shown_or_dropped(text, shown):
    assert clean(text) == shown


def test_no_character_that_formats_or_hides_gets_through():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
            assert character not in clean(f"a{character}b")


def test_line_breaks_and_indentation_stay_where_lines_are_wanted():
    assert clean_lines("\n\na\r\n  b\u2028\x1b[1m  ::c\n\n", 100) == "a\n  b\n  : :c"
    assert clean_lines("a\n\n\r\n\n\nb\n\nc", 100) == "a\n\nb\n\nc"


def test_a_sequence_cannot_hide_a_line_break():
    assert clean("a\x1b]0;b\nc\x07d") == "a\\x1b]0;b c\\x07d"


def test_a_long_text_is_cut_with_a_sign():
    assert clean("abcdefgh", 8) == "abcdefgh"
    assert clean("abcdefghi", 8) == "abcdefg…"
    assert clean_lines("ab\ncdefghi", 8) == "ab\ncdef…"


def test_text_that_was_not_looked_at_is_never_passed_over_in_silence():
    assert clean("\x1b[0m" * 100_000 + "the cause").endswith("…")


def test_xml_text_shows_what_xml_cannot_hold():
    assert xml_text("a\x1b\x00\x7f\ud800\uffff\ufffe") == "a#x1B#x00#x7F#xD800#xFFFF#xFFFE"


def test_xml_text_keeps_what_xml_can_hold():
    text = "\t\n\r ~\x80\ud7ff\ue000\ufffd\U00010000\U0010ffff]]>&<"
    assert xml_text(text) == text


def test_a_text_is_cut_at_bytes_and_not_inside_a_character():
    assert fit_bytes("äää", 6) == "äää"
    assert fit_bytes("ääää", 6) == "ä…"
    assert fit_bytes("a" * 10_000_000, 100) == "a" * 97 + "…"
