"""Durations and sizes as specs write them."""

from __future__ import annotations

import re

import pytest

from precheck_lib.units import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    Bytes,
    Seconds,
    duration_text,
    exact_size_text,
    parse_duration,
    parse_size,
)


def test_durations_are_hours_minutes_seconds_and_milliseconds_in_that_order():
    cases = {
        "2s": 2.0,
        "0s": 0.0,
        "2.5s": 2.5,
        "500ms": 0.5,
        "1m": 60.0,
        "1m30s": 90.0,
        "1m5ms": 60.005,
        "1h": 3600.0,
        "1h2m3.5s": 3723.5,
        "1h4ms": 3600.004,
        "90s": 90.0,
    }
    assert {text: parse_duration(text) for text in cases} == cases
    assert type(parse_duration("2s")) is Seconds


def test_anything_else_is_no_duration():
    texts = [
        "5",
        "5.0",
        "s",
        "ms",
        "-2s",
        "+2s",
        "1.5m",
        "1s1m",
        "1m1h",
        "1s2s",
        "2S",
        "2sec",
        "1d",
        "1e3s",
        ".5s",
        "5.s",
        "inf",
        "nan",
        "1_0s",
        "٣s",
        "1000000000000000s",
    ]
    for text in (*texts, "", " ", "2 s", " 2s", "2s ", "2s\n", "9" * 400 + "s"):
        with pytest.raises(ValueError, match="is not a duration such as 2s, 1m30s or 500ms"):
            parse_duration(text)


def test_sizes_are_powers_of_1024():
    cases = {
        "512B": 512,
        "0B": 0,
        "1KiB": 1024,
        "256MiB": 256 << 20,
        "20GiB": 20 << 30,
        "20 GiB": 20 << 30,
        "1.5GiB": 3 << 29,
        "2TiB": 2 << 40,
        "0.5B": 0,
        "123456789012B": 123456789012,
    }
    assert {text: parse_size(text) for text in cases} == cases
    assert type(parse_size("1KiB")) is Bytes


def test_anything_else_is_no_size():
    for text in (
        *["5", "GiB", "1GB", "1G", "1gib", "-1GiB", "1e3B", ".5GiB", "٣GiB"],
        "",
        "1  GiB",
        "1GiB ",
        "9" * 400 + "GiB",
    ):
        with pytest.raises(ValueError, match="is not a size such as 20GiB or 256MiB"):
            parse_size(text)


@pytest.mark.parametrize("value", [5, 5.0, True, None, [], {}])
def test_what_is_no_text_is_neither(value):
    for parse in (parse_duration, parse_size):
        with pytest.raises(ValueError, match="is not a"):
            parse(value)


def test_what_is_said_of_a_long_text_is_short():
    with pytest.raises(ValueError, match="is not a duration") as caught:
        parse_duration("x" * 10_000)
    assert len(str(caught.value)) < 130


def test_a_size_of_many_digits_is_exact():
    assert parse_size("999999999999TiB") == 999999999999 << 40


def test_durations_are_written_as_a_spec_would():
    cases = {
        0: "0s",
        0.0004: "0s",
        0.5: "500ms",
        2: "2s",
        2.25: "2s250ms",
        60: "1m",
        90: "1m30s",
        3600: "60m",
        59.9996: "1m",
    }
    assert {seconds: duration_text(seconds) for seconds in cases} == cases


@pytest.mark.parametrize("text", ["0B", "1B", "1023B", "1KiB", "1025B", "256MiB", "20GiB", "3TiB", "1024TiB"])
def test_a_size_is_written_as_a_spec_would_without_losing_a_byte(text):
    assert exact_size_text(parse_size(text)) == text


@pytest.mark.parametrize(
    "text", ["2s", "1m30s", "500ms", "1h", "2.5s", "1h2m3s4ms", "", "5", "2 s", "1s1m", "1.5m", "s"]
)
def test_the_pattern_of_durations_for_other_programs_takes_what_is_one(text):
    try:
        parse_duration(text)
    except ValueError:
        assert not re.search(DURATION_PATTERN, text)
    else:
        assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize("text", ["20GiB", "1.5 MiB", "0B", "", "5", "5GB", "GiB", "-1B", "1.5.5KiB"])
def test_the_pattern_of_sizes_for_other_programs_takes_what_is_one(text):
    try:
        parse_size(text)
    except ValueError:
        assert not re.search(SIZE_PATTERN, text)
    else:
        assert re.search(SIZE_PATTERN, text)
