"""Whether a row is right (CONTRACT G4), and which row is the model's (G0, T1 to T9 of the facts)."""

from __future__ import annotations

from typing import Any

import pytest

from precheck_lib.findings import NotReadyError
from precheck_lib.residency.judge import judge, listed
from tests.unit.residency.fakes import row

NAME = "m:latest"
DIGEST = "a" * 64


def verdict(*rows: Any, context_length: int | None = 65536, digest: str | None = None) -> Any:
    """Judge and give the one finding; the case fails if nothing is wrong."""
    with pytest.raises(NotReadyError) as caught:
        judge(rows, "m", context_length=context_length, digest=digest)
    assert (caught.value.word, caught.value.curl) == ("failed", 1)
    (finding,) = caught.value.findings
    return finding


@pytest.mark.parametrize(
    ("size", "context_length"),
    [(1, 65536), (6549825126, 65536), (6549825126, 262144), (2**63 - 1, 65537), (10**40, 10**40)],
)
def test_a_row_with_all_of_its_bytes_on_the_gpu_and_context_enough_is_right(size: int, context_length: int) -> None:
    right = row(NAME, size=size, size_vram=size, context_length=context_length)
    assert judge([right], "m", context_length=65536) is right


def test_other_rows_do_not_matter_whatever_they_say() -> None:
    others = [
        row("other:1b", size="1", size_vram=None, context_length=True),
        row("m:7b", size=-1, size_vram=0),
        row("me/m:latest", size=..., size_vram=..., context_length=...),
    ]
    right = row(NAME)
    assert judge([*others, right], "m", context_length=65536) is right


@pytest.mark.parametrize(
    "name",
    ["m", "m:latest", "M:Latest", "library/m", "registry.ollama.ai/library/m:latest", "registry.ollama.ai/m"],
)
def test_the_row_is_found_by_its_canonical_name(name: str) -> None:
    rows = [row("x"), row(name)]
    assert [found.name for found in listed(rows, "m")] == [name]
    assert judge(rows, "m", context_length=65536).name == name


def test_t1_a_model_wholly_on_the_cpu_is_named_as_such() -> None:
    found = verdict(row(NAME, size=6549825126, size_vram=0))
    assert found.code == "residency.partial"
    assert "0 of 6549825126 bytes" in found.message
    assert "nothing of it is on the GPU" in found.evidence


@pytest.mark.parametrize("absent", [("size_vram",), ("size",), ("context_length",), ("size", "context_length")])
def test_t2_a_missing_key_is_named(absent: tuple[str, ...]) -> None:
    found = verdict(row(NAME, **dict.fromkeys(absent, ...)))
    assert found.code == "residency.row"
    for key in absent:
        assert f"no {key}" in found.message
    for key in {"size_vram", "context_length"} - set(absent):
        assert key not in found.message


def test_t3_a_split_is_told_in_exact_bytes() -> None:
    found = verdict(row(NAME, size=100, size_vram=77))
    assert found.code == "residency.partial"
    assert "77 of 100 bytes" in found.message
    assert "23 bytes are on the CPU" in found.message
    assert "77 %" in found.evidence


def test_t3_a_split_of_one_byte_is_not_rounded_away() -> None:
    found = verdict(row(NAME, size=10**12, size_vram=10**12 - 1))
    assert "1 bytes are on the CPU" in found.message
    assert "100 %" not in found.evidence


def test_t4_a_doubled_size_is_a_split_like_any_other() -> None:
    assert verdict(row(NAME, size=28668906045, size_vram=14388140442)).code == "residency.partial"


@pytest.mark.parametrize("key", ["size", "size_vram", "context_length"])
@pytest.mark.parametrize(
    "value",
    [1.0, 65536.0, "1", "65536", "", True, False, None, [], {}, [1], 1e300],
    ids=repr,
)
def test_a_number_that_is_no_integer_is_wrong_and_named(key: str, value: object) -> None:
    found = verdict(row(NAME, **{key: value}))
    assert found.code == "residency.row"
    assert key in found.message
    assert "not an integer" in found.message


def test_sizes_that_are_equal_and_true_are_still_no_integers() -> None:
    assert verdict(row(NAME, size=True, size_vram=True)).code == "residency.row"
    assert verdict(row(NAME, size=1.0, size_vram=1.0)).code == "residency.row"
    assert verdict(row(NAME, size="1", size_vram="1")).code == "residency.row"


@pytest.mark.parametrize(
    ("size", "size_vram"),
    [(0, 0), (-1, -1), (5, 6), (0, 1), (-5, 5), (10**40, 10**40 + 1)],
)
def test_sizes_that_cannot_be_true_are_no_split(size: int, size_vram: int) -> None:
    found = verdict(row(NAME, size=size, size_vram=size_vram))
    assert found.code == "residency.row"
    assert f"{size}" in found.message
    assert f"{size_vram}" in found.message


DIGITS = 10**4300 - 1  # as many as Python reads; it writes no more, and their difference has one more


@pytest.mark.parametrize(
    "values",
    [
        {"size": DIGITS, "size_vram": -DIGITS},
        {"size": DIGITS - 1, "size_vram": DIGITS},
        {"size": 1, "size_vram": -DIGITS},
        {"context_length": -DIGITS},
    ],
)
def test_numbers_beyond_all_sense_are_told_in_words(values: dict[str, int]) -> None:
    found = verdict(row(NAME, **values))
    assert "a number of more than 60 digits" in found.message
    assert len(found.message) < 200
    assert len(found.evidence) < 200


def test_numbers_beyond_all_sense_that_are_equal_are_right() -> None:
    assert judge([row(NAME, size=DIGITS, size_vram=DIGITS, context_length=DIGITS)], NAME, context_length=65536)


def test_a_negative_part_on_the_gpu_is_wrong() -> None:
    assert verdict(row(NAME, size=5, size_vram=-5)).code in ("residency.row", "residency.partial")


@pytest.mark.parametrize("context_length", [65535, 4096, 0, -1])
def test_t9_a_short_context_is_told_with_both_numbers(context_length: int) -> None:
    found = verdict(row(NAME, context_length=context_length))
    assert found.code == "residency.context"
    assert f"{context_length}" in found.message
    assert "65536" in found.message


def test_t9_the_context_that_ollama_gives_without_a_gpu_is_explained() -> None:
    assert "4096" in verdict(row(NAME, context_length=4096)).evidence


def test_a_spec_without_a_context_length_asks_for_none() -> None:
    for value in (..., 1, "x", True):
        right = row(NAME, context_length=value)
        assert judge([right], "m", context_length=None) is right


def test_a_split_with_a_larger_context_than_is_needed_says_so() -> None:
    found = verdict(row(NAME, size=100, size_vram=77, context_length=262144))
    assert "262144" in found.evidence


def test_a_split_is_told_before_a_short_context() -> None:
    assert verdict(row(NAME, size=100, size_vram=77, context_length=1)).code == "residency.partial"


def test_a_model_without_a_row_is_not_resident() -> None:
    assert verdict().code == "residency.absent"
    found = verdict(row("other:1b"), row("m:7b"))
    assert found.code == "residency.absent"
    assert "other:1b" in found.evidence


def test_two_rows_of_one_model_are_one_too_many_whatever_their_spelling() -> None:
    for twin in (NAME, "M", "library/m"):
        found = verdict(row(NAME), row(twin))
        assert found.code == "residency.doubled"
        assert "2 times" in found.message


def test_t7_the_same_weights_under_another_name_are_no_absent_model() -> None:
    other = row("gpt-4.1:latest")
    alias = type(other)(name=other.name, size=1, size_vram=1, context_length=65536, digest=DIGEST)
    found = verdict(alias, digest=DIGEST)
    assert found.code == "residency.absent"
    assert "gpt-4.1:latest" in found.evidence
    assert "same weights" in found.evidence
    assert "same weights" not in verdict(other, digest=DIGEST).evidence
    assert "same weights" not in verdict(other, digest=None).evidence


def test_a_long_or_strange_name_of_another_model_is_quoted_and_cut() -> None:
    found = verdict(row("x" * 500 + ":latest"), row("\x1b[31m\n::error::boo"))
    assert len(found.evidence) < 300
    assert "\x1b" not in found.evidence
    assert "\n" not in found.evidence
