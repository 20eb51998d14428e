"""What `explain` says, and the page of all findings that is kept in step with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.cli import run_command_line
from precheck_lib.demo import DEMOS
from precheck_lib.interrupt import Interrupts
from precheck_lib.report.explain import WHO, catalogue_page, explain_lines

PAGE = Path(__file__).resolve().parents[3] / "docs" / "failures.md"


@pytest.fixture
def command(capfd):
    interrupts = Interrupts()

    def carry_out(*arguments):
        code = run_command_line(arguments, interrupts)
        return code, capfd.readouterr()

    yield carry_out
    interrupts.restore()


def unwrapped(lines):
    return re.sub(r"\s+", " ", " ".join(lines))


def test_every_code_is_explained_with_meaning_causes_remedy_who_and_whether_to_retry():
    for code, entry in CATALOGUE.items():
        text = unwrapped(explain_lines(code))
        assert text.startswith(f"{code}: {entry.meaning} usual causes, the likeliest first: - {entry.causes[0]}")
        places = [text.index(f"- {cause}") for cause in entry.causes]
        assert places == sorted(places)
        assert f"what to do: {entry.remedy} who can do it: {WHO[entry.who]} retry: " in text
        assert text.endswith("mended or free again" if entry.retryable else "before something is changed")


def test_an_explanation_has_80_columns():
    for code in CATALOGUE:
        assert all(len(line) <= 80 for line in explain_lines(code)), code


def test_the_command_prints_the_explanation(command):
    code, streams = command("explain", "residency.partial")
    assert (code, streams.err) == (0, "")
    assert streams.out.splitlines() == explain_lines("residency.partial")


def test_a_code_that_there_is_not_is_a_usage_error_that_names_what_is_near(command):
    code, streams = command("explain", "residency.partly")
    assert code == 2
    assert "there is no finding 'residency.partly'; near are residency.partial" in streams.err


# The page -------------------------------------------------------------------------------------------------------------


def test_the_page_of_failures_has_the_catalogue_as_it_is_now():
    text = PAGE.read_text(encoding="utf-8")
    assert text.endswith("\n".join(catalogue_page()).rstrip("\n") + "\n"), "run scripts/docs"


def test_the_page_of_failures_has_a_section_for_each_demo_with_its_command_text_and_annotation():
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^### ([a-z-]+): (.+)\n((?:(?!^##).*\n)+)", text, re.MULTILINE)
    assert [(name, title) for name, title, _ in found] == [(name, demo.text) for name, demo in DEMOS.items()], (
        "run scripts/docs"
    )
    for name, _, section in found:
        assert f"`demo --fault {name}`" in section
        assert "exit code" in section
        assert section.count("```text\n") == 2
        assert "precheck: gpu-runner-1 not ready - " in section


def test_the_page_of_failures_names_no_machine():
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"/(?:root|home|tmp/[^ ]*demo-[a-z0-9_]{8})\b", text) == []
    assert set(re.findall(r"127\.0\.0\.1(?::| port )(\d+)", text)) <= {"4096", "4500", "11434"}
