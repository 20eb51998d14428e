"""Versions in order, and constraints on them."""

from __future__ import annotations

import itertools

import pytest

from precheck_lib.versions import first_version, parse_constraint, parse_version

IN_ORDER = [
    *("0.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0rc2", "1.0.0-rc10"),
    *("1.0.0", "1.0.1", "1.2", "1.9", "1.10", "1.10.0.1", "2", "12.4", "535.183.01", "2024.5"),
]


@pytest.mark.parametrize(("earlier", "later"), list(itertools.combinations(IN_ORDER, 2)))
def test_versions_are_compared_number_by_number_and_pre_releases_come_before(earlier, later):
    assert parse_version(earlier).order < parse_version(later).order
    assert parse_constraint(f"!={earlier}").holds(parse_version(later))
    assert not parse_constraint(earlier).holds(parse_version(later))
    assert parse_constraint(f">={earlier}").holds(parse_version(later))
    assert not parse_constraint(f">={later}").holds(parse_version(earlier))
    assert parse_constraint(f"<={later}").holds(parse_version(earlier))
    assert not parse_constraint(f"<{earlier}").holds(parse_version(later))
    assert not parse_constraint(f">{later}").holds(parse_version(earlier))


@pytest.mark.parametrize(
    ("one", "other"), [("1.2", "1.2.0"), ("v1.2", "1.2"), ("1.2+cu121", "1.2"), ("1.2.RC1", "1.2-rc.1"), ("0", "0.0")]
)
def test_what_is_the_same_version_in_two_spellings_is_equal(one, other):
    for operator in ("", "==", ">=", "<="):
        assert parse_constraint(f"{operator}{one}").holds(parse_version(other))
    for operator in ("!=", ">", "<"):
        assert not parse_constraint(f"{operator}{one}").holds(parse_version(other))


@pytest.mark.parametrize(
    ("constraint", "version", "holds"),
    [
        (">=12.4,<13", "12.4", True),
        (">=12.4,<13", "12.10.1", True),
        (">= 12.4 , < 13", "12.10.1", True),
        (">=12.4,<13", "12.3.9", False),
        (">=12.4,<13", "13", False),
        (">=12.4,<13", "13-rc1", False),
        (">=12.4", "12.4-rc1", False),
        ("!=12.5,>12", "12.5", False),
        ("<1.0-rc2", "1.0-rc1", True),
    ],
)
def test_every_part_of_a_constraint_has_to_hold(constraint, version, holds):
    assert parse_constraint(constraint).holds(parse_version(version)) is holds


@pytest.mark.parametrize("text", ["", "x", "1.", ".1", "1..2", "latest", "1.2 3", "1" * 30, "1.2-", "~1.2", "-1"])
def test_what_is_no_version_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"is not a version such as 12\.4"):
        parse_version(text)


@pytest.mark.parametrize("text", ["", ",", ">=", ">=1,", "=>1.2", "~=1.2", "^1", "1.x", ">=1 <2", "*"])
def test_what_is_no_constraint_is_refused_and_says_how_one_is_written(text):
    with pytest.raises(ValueError, match=r"is no version constraint: .*written as >=12.4,<13"):
        parse_constraint(text)


def test_a_constraint_without_end_is_refused():
    for text in (",".join(["1"] * 9), "1" * 300):
        with pytest.raises(ValueError, match="too long"):
            parse_constraint(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("codex-cli 0.171.0", "0.171.0"),
        ("v1.18.33\n", "v1.18.33"),
        ("git version 2.43.0", "2.43.0"),
        ("Python 3.12.0rc2 on x86_64", "3.12.0rc2"),
        ("Cuda compilation tools, release 12.4, V12.4.131", "12.4"),
        ("gcc (Debian 12.2.0-14) 12.2.0", "12.2.0"),
        ("ollama version is 0.33.0-rc2", "0.33.0-rc2"),
        ("ollama version is 0.32.15", "0.32.15"),
        ("(1.2.3)", "1.2.3"),
        ("version 12 of x86_64", None),
        ("2024-05-06", None),
        ("libfoo.so.1.2", None),
        ("", None),
    ],
)
def test_the_first_thing_that_looks_like_a_version_is_found(text, version):
    assert first_version(text) == version


def test_a_text_without_end_is_searched_in_no_time():
    assert first_version("1" * 1_000_000) is None
    assert first_version("1." * 500_000) == "1.1.1.1.1.1.1.1.1.1"
