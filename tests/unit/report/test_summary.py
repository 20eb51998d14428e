"""The summary of a job: verdict, what to do, tables and a timeline; no text in it has markup of its own."""

from __future__ import annotations

import re

import pytest

from precheck_lib.outcome import CycleRecord, Observed
from precheck_lib.report.summary import SUMMARY_LIMIT, summary
from precheck_lib.report.text import clean
from tests.runner_grammar import rows


def test_a_summary_has_verdict_findings_and_times_against_budgets(make):
    finding = make.finding("the port is closed", evidence="refused", remedy="Start it.", retryable=True)
    report = make.report(
        make.check("roles", elapsed_s=0.0123, budget_s=2.0),
        make.check("codex-tcp", "failed", findings=[finding], elapsed_s=1.5, budget_s=2.0),
        make.check("codex", "skipped", skipped_for="codex-tcp"),
    )
    text = summary(report)
    assert text.startswith("### ❌ precheck strict: not-ready on gpu\\-01\\-a\n\n")
    assert "the machine is not fit for it" in text
    assert "- **codex\\-tcp** (tcp\\.failed): the port is closed\n  - why: refused\n" in text
    assert (
        "  - what to do (the host's owner): Start it\\.\n"
        "  - A retry may pass, once the machine is mended or free again.\n" in text
    )
    assert rows(text) == [
        ["check", "outcome", "time", "budget"],
        ["---", "---", "--:", "--:"],
        ["roles", "passed", "0.01 s", "2 s"],
        ["codex\\-tcp", "**failed**", "1.50 s", "2 s"],
        ["codex", "skipped for codex\\-tcp", "", ""],
    ]


def test_a_summary_of_a_pass_is_short(make):
    text = summary(make.report(make.check("roles")))
    assert text.startswith("### ✅ precheck strict: ready on gpu\\-01\\-a\n")
    assert "fit" not in text
    assert "retry" not in text


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("not-ready", "the machine is not fit for it"),
        ("cancelled", "ended before the machine was proven fit"),
        ("error", "nor about the machine"),
    ],
)
def test_a_summary_says_what_a_red_step_means(make, verdict, said):
    assert said in summary(make.report(make.check("a", "failed"), verdict=verdict))


def test_a_summary_that_contradicts_itself_is_red(make):
    text = summary(make.report(make.check("a", "failed"), exit_code=0, verdict="ready"))
    assert text.startswith("### ❌")
    assert "the run claims exit code 0 although a did not pass" in text


def test_a_summary_has_the_cycles(make):
    cycles = [
        CycleRecord(
            model="m|x", unload_s=0.5, absent_s=0.25, load_s=12.0, size=10 << 30, size_vram=9 << 30, context_length=4096
        ),
        CycleRecord(model="n"),
    ]
    report = make.report(make.check("residency"), cycles=cycles)
    assert rows(summary(report))[-2:] == [
        ["m\\|x", "0.50 s", "0.25 s", "12.00 s", "10.0 GiB", "9.0 GiB (90 %)", "4096"],
        ["n", "", "", "", "", "", ""],
    ]


@pytest.mark.parametrize(
    ("size", "vram", "told"),
    [
        (100 << 20, 100 << 20, "100 MiB (100 %)"),
        (10 << 30, (10 << 30) - 1, "10.0 GiB (99 %)"),
        (0, 5 << 20, "5 MiB"),
        (None, 5 << 20, "5 MiB"),
        (10 << 30, None, ""),
        pytest.param(10 << 30, 1 << 2000, "(99 %)", id="vast"),
        (10 << 30, -5 << 30, "-5120 MiB (0 %)"),
    ],
)
def test_all_of_a_model_is_on_the_gpu_only_where_it_is_exactly_that(make, size, vram, told):
    report = make.report(make.check("r"), cycles=[CycleRecord(model="m", size=size, size_vram=vram)])
    assert rows(summary(report))[-1][5] == told


def test_a_summary_has_the_versions_found_beside_those_that_are_wanted(make):
    seen = [
        Observed(check="a", subject="Ollama at h:1", fact="version", value="0.32|1", wanted=">=0.30"),
        Observed(check="a", subject="m at h:1", fact="context length", value=4096),
        Observed(check="b", subject="`git`", fact="version", value="2.1"),
    ]
    assert rows(summary(make.report(make.check("a"), observed=seen)))[-4:] == [
        ["what", "version found", "wanted"],
        ["---", "---", "---"],
        ["Ollama at h:1", "0\\.32\\|1", "\\>=0\\.30"],
        ["\\`git\\`", "2\\.1", ""],
    ]


def timeline(make, *checks, seconds=12.0):
    text = summary(make.report(*checks, elapsed_s=seconds))
    return text.partition("```mermaid\n")[2].partition("\n```")[0].splitlines()


def test_a_run_that_took_long_has_a_timeline(make):
    chart = timeline(
        make,
        make.check("roles", started_s=0.0, elapsed_s=0.01),
        make.check("load", "failed", started_s=0.5, elapsed_s=61.25),
        make.check("after", "skipped", started_s=None),
        seconds=62.0,
    )
    assert chart == [
        "gantt",
        "    dateFormat YYYY-MM-DD HH:mm:ss.SSS",
        "    axisFormat %M:%S",
        "    roles :done, 2000-01-01 00:00:00.000, 2000-01-01 00:00:00.050",
        "    load :crit, 2000-01-01 00:00:00.500, 2000-01-01 00:01:01.750",
    ]


def test_what_would_be_too_thin_to_see_shares_a_bar(make):
    chart = timeline(
        make,
        make.check("a", started_s=0.0, elapsed_s=0.01),
        make.check("b", started_s=0.1, elapsed_s=0.2),
        make.check("c", "error", started_s=0.4, elapsed_s=0.1),
        make.check("d", started_s=1.0, elapsed_s=60.0),
        seconds=62.0,
    )
    assert chart[3:] == [
        "    2 quick checks :done, 2000-01-01 00:00:00.000, 2000-01-01 00:00:00.300",
        "    c :crit, 2000-01-01 00:00:00.400, 2000-01-01 00:00:00.500",
        "    d :done, 2000-01-01 00:00:01.000, 2000-01-01 00:01:01.000",
    ]


def test_a_quick_run_has_no_timeline(make):
    assert timeline(make, make.check("a", started_s=0.0, elapsed_s=9.9), seconds=10.0) == []


def test_names_in_a_timeline_cannot_end_it_or_add_to_it(make, hostile):
    for line in timeline(make, make.check(hostile, started_s=0.0, elapsed_s=11.0))[3:]:
        assert re.fullmatch(r"    [A-Za-z0-9 ._-]* :(done, |crit, )?2000-01-01 [\d:.]+, 2000-01-01 [\d:.]+", line)


def test_a_timeline_has_a_limit(make):
    checks = [make.check(f"c{number}", started_s=0.0, elapsed_s=11.0) for number in range(500)]
    assert len(timeline(make, *checks)) < 100


@pytest.mark.parametrize(
    ("outcome", "verdict", "told"),
    [
        (
            "passed",
            "ready",
            "### ✅ precheck strict: nothing has changed since 2026\\-01\\-02T03:04:05Z on gpu\\-01\\-a",
        ),
        ("failed", "not-ready", "### ❌ precheck strict: changed since 2026\\-01\\-02T03:04:05Z on gpu\\-01\\-a"),
        ("error", "cancelled", "### ❌ precheck strict: cancelled on gpu\\-01\\-a"),
    ],
)
def test_the_summary_of_a_run_that_verifies_says_since_when(make, outcome, verdict, told):
    text = summary(make.report(make.check("a", outcome), verdict=verdict, verifies="2026-01-02T03:04:05Z"))
    assert text.splitlines()[0] == told
    assert ("proves nothing" in text) == (verdict == "not-ready")


def test_a_summary_has_warnings_and_what_the_cleanup_left(make):
    mild = make.finding("odd", code="command.leftover", severity="warning")
    report = make.report(
        make.check("a", findings=[mild]), make.check("b", "failed"), remarks=["native residency remains unconfirmed"]
    )
    text = summary(report)
    assert "- **a** (warning, command\\.leftover): odd\n" in text
    assert "- **cleanup** (run\\.unconfirmed): native residency remains unconfirmed\n" in text


def test_hostile_texts_keep_a_summary_in_its_cells_and_without_markup(make, hostile):
    text = summary(make.hostile(hostile))
    assert {len(row) for row in rows(text)} == {4, 7}
    for line in text.splitlines():
        assert line.isprintable() or "\u200b" in line
        assert "<" not in line
        assert "##[" not in line.replace("\\", "")[4:]
        # Whatever is no markup of ours is escaped.
        ours = re.sub(r"^(### . precheck|  - |- |\|)|\*\*|\(the \w+'s \w+\)|\\.", "", line)
        assert not re.search(r"[`\[\]*_#$~]|!\[", ours), line


def test_a_markdown_reader_finds_nothing_but_our_own_markup(make, hostile):
    markdown = pytest.importorskip("markdown_it", reason="markdown-it-py comes with rich")
    reader = markdown.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    text = summary(make.hostile(hostile))
    kinds = {
        token.type
        for block in reader.parse(text)
        for token in (block, *(block.children or ()))
        if not token.type.endswith("_close")
    }
    plain = {"heading_open", "paragraph_open", "bullet_list_open", "list_item_open", "inline", "text", "text_special"}
    table = {"table_open", "thead_open", "tbody_open", "tr_open", "th_open", "td_open"}
    assert kinds <= plain | table | {"strong_open", "softbreak", "hr"}
    tables = [token for token in reader.parse(text) if token.type == "table_open"]
    assert len(tables) == 2


def test_a_summary_has_a_limit_far_below_the_runners(make):
    finding = make.finding("ä" * 600)
    report = make.report(*[make.check(f"check-{number}", "failed", findings=[finding]) for number in range(1000)])
    text = summary(report)
    assert len(text.encode()) <= SUMMARY_LIMIT <= 1 << 20
    assert text.endswith("\n\n(cut: the reports have all of it)\n")
    assert text.startswith("### ❌")


def test_a_bare_url_in_a_summary_is_no_link(make):
    report = make.report(make.check("a", "failed", findings=[make.finding("see http://evil/x and www.evil.org")]))
    text = summary(report)
    assert "see http&colon;//evil/x and www\\.evil\\.org" in text
    # GitHub links a bare URL where it reads `://` or `www.` in the source.
    assert "://" not in text
    assert "www." not in text


def test_texts_of_the_summary_are_cleaned_before_they_are_escaped(make):
    report = make.report(make.check("a", "failed", findings=[make.finding("x\n| y | <b>\x1b[31m@all")]))
    assert f"{clean('x')} \\| y \\| &lt;b\\>@\u200ball" in summary(report)
