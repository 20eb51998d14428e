"""The demo: it passes without anything, each of its faults shows what it says, and nothing of it is left."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter

import pytest

from precheck_lib import demo, engine
from precheck_lib.catalogue import CATALOGUE
from precheck_lib.cli import run_command_line
from precheck_lib.demo import DEMOS, Play, list_lines, shortened
from precheck_lib.interrupt import Interrupts
from precheck_lib.spec import load_spec
from precheck_lib.watcher import Watcher
from tests.junit_schema import check_consumers, parse
from tests.runner_grammar import commands

MOST_SECONDS = 3.0
QUICK = 0.4

# What each fault has to show: the code of the first finding, and the exit code of the run.
SHOWN = {
    "report-unwritable": ("report.unwritable", 70),
    "cancelled": ("run.cancelled", 130),
    "role-missing": ("roles.missing", 1),
    "role-alone": ("roles.pair", 1),
    "role-carriage-return": ("roles.malformed", 1),
    "role-url": ("roles.malformed", 1),
    "role-jsonc": ("roles.malformed", 1),
    "command-old": ("command.version", 1),
    "command-hangs": ("command.deadline", 28),
    "command-broken": ("command.failed", 1),
    "codex-stale": ("codex.version", 1),
    "opencode-stale": ("opencode.version", 1),
    "opencode-down": ("transport.connect", 7),
    "codex-down": ("tcp.failed", 7),
    "codex-silent": ("transport.deadline", 28),
    "codex-other-home": ("codex.home", 1),
    "codex-no-account": ("codex.account", 1),
    "codex-mcp": ("codex.mcp", 1),
    "opencode-password": ("opencode.unauthorized", 22),
    "opencode-unhealthy": ("opencode.unhealthy", 1),
    "opencode-page": ("opencode.unhealthy", 1),
    "opencode-subagents": ("opencode.subagents", 1),
    "opencode-config-error": ("opencode.config-error", 22),
    "opencode-other-config": ("opencode.config", 1),
    "opencode-model-missing": ("opencode.provider", 1),
    "ollama-not-pulled": ("ollama.not-pulled", 1),
    "ollama-cloud": ("ollama.cloud-model", 1),
    "ollama-too-old": ("ollama.too-old", 1),
    "ollama-never-leaves": ("ollama.removal", 28),
    "ollama-inventory": ("ollama.inventory", 1),
    "ollama-load-fails": ("ollama.load", 22),
    "ollama-load-hangs": ("ollama.load-deadline", 28),
    "gpu-partial": ("residency.partial", 1),
    "gpu-lost": ("residency.partial", 1),
    "context-short": ("residency.context", 1),
    "model-evicted": ("residency.evicted", 1),
    "opencode-drip": ("transport.deadline", 28),
    "opencode-huge": ("transport.too-large", 63),
    "budget-small": ("run.budget", 2),
}


# The keys and passwords that the demo is made of.
SECRETS = ("stand-in-openai-key", "stand-in-anthropic-key", "stand-in-gemini-key", "stand-in-ollama-key")
SECRETS += (
    "hunter2hunter2",
    "right-password",
    "wrong-password",
    "b3BlbmNvZGU6d3JvbmctcGFzc3dvcm",
    "d3JvbmctcGFzc3dvcm",
)


class Played:
    """A demo that has ended: its exit code, its lines, its report, and how long it took."""

    def __init__(self, code, captured, report, took, junit):
        self.code = code
        self.junit = junit
        self.out = captured.out.splitlines()
        self.err = captured.err.splitlines()
        self.report = report
        self.took = took

    @property
    def failures(self):
        return [finding for check in self.report["checks"] for finding in check["findings"]]


@pytest.fixture
def interrupts():
    made = Interrupts()
    yield made
    made.restore()


@pytest.fixture
def play(tmp_path, monkeypatch, capfd):
    """Carry out `demo` in an environment of nothing but secrets; no file of it may be left anywhere.

    With `on_github` all writers write. None of it may hold a secret, neither of the environment nor made up.
    """
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.chdir(tmp_path)
    github = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
    }

    def carry_out(*arguments, on_github=False):
        canary = "canary-of-the-environment"
        env = {"TEST_OPENAI_API_KEY": canary, "OPENCODE_CONFIG_CONTENT": json.dumps({"apiKey": canary})}
        monkeypatch.setattr(os, "environ", {**env, **(github if on_github else {})})
        arguments = [*arguments, *(["--junit", str(tmp_path / "report.xml")] if on_github else [])]
        interrupts = Interrupts()
        interrupts.install()
        file = tmp_path / "report.json"
        capfd.readouterr()
        began = time.monotonic()
        try:
            code = run_command_line(["demo", *arguments, "--json", str(file)], interrupts)
        finally:
            interrupts.restore()
        took = time.monotonic() - began
        assert list(place.iterdir()) == []
        report = json.loads(file.read_bytes()) if file.exists() else None
        captured = capfd.readouterr()
        files = [path.read_text(encoding="utf-8") for path in tmp_path.iterdir() if path.is_file()]
        for text in (captured.out, captured.err, *files):
            assert [secret for secret in (canary, *SECRETS) if secret in text] == []
        told = commands(captured.out) + commands(captured.err)
        assert {command.name for command in told} <= ({"error", "warning"} if on_github else set())
        junit = tmp_path / "report.xml"
        return Played(code, captured, report, took, junit.read_bytes() if junit.exists() else None)

    return carry_out


def test_the_demo_passes_with_no_configuration_at_all(play):
    played = play()
    assert (played.code, played.err) == (0, [])
    assert played.out[-1] == "strict live precheck passed"
    assert [line.split()[0] for line in played.out[:-1]] == ["ok"] * 10
    assert played.took < 2


def test_the_demo_runs_the_strict_spec_with_its_own_bounds(play):
    played = play()
    assert played.report["spec"]["name"] == "strict"
    budgets = {check["id"]: check["budget_s"] for check in played.report["checks"]}
    strict = load_spec("strict")
    assert budgets == {check.id: pytest.approx(check.budget or budgets["residency"]) for check in strict.checks}
    assert budgets["residency"] > 800


def test_every_letter_of_the_contract_has_a_fault_to_show():
    assert set(Counter(one.letter for one in DEMOS.values())) == set("ABCDEFGH")


def test_every_fault_has_its_line_in_the_list_and_its_row_here():
    assert set(SHOWN) == set(DEMOS)
    assert [line.split()[:2] for line in list_lines()] == [[one.letter, name] for name, one in DEMOS.items()]
    for line in list_lines():
        assert len(line) <= 80
    assert {code for code, _ in SHOWN.values()} <= set(CATALOGUE)
    letters = [one.letter for one in DEMOS.values()]
    assert letters == sorted(letters)


@pytest.mark.parametrize("name", [name for name in SHOWN if name not in ("report-unwritable", "cancelled")])
def test_a_fault_shows_what_it_says(play, monkeypatch, name):
    if name != "command-hangs":  # the other command has to end in that time
        monkeypatch.setattr(demo, "SHORT", QUICK)
    played = play("--fault", name, on_github=True)
    first = played.failures[0]
    assert (first["code"], played.report["exit_code"], played.code) == (*SHOWN[name], SHOWN[name][1])
    assert first["message"] in played.err[0]
    assert "strict live precheck passed" not in played.out
    assert played.took < MOST_SECONDS - (1 - QUICK)
    check_consumers(parse(played.junit))


def test_a_report_that_cannot_be_written_turns_a_pass_into_70(play, tmp_path):
    played = play("--fault", "report-unwritable", "--junit", str(tmp_path / "report.xml"))
    code, exit_code = SHOWN["report-unwritable"]
    assert played.code == exit_code
    assert [line.split()[0] for line in played.out] == ["ok"] * 10
    assert played.err[0].startswith("precheck: reports: cannot write ")
    assert f'<error type="precheck.{code}"' in (tmp_path / "report.xml").read_text()


def test_a_cancelled_load_is_undone(play):
    played = play("--fault", "cancelled")
    code, exit_code = SHOWN["cancelled"]
    assert (played.failures[0]["code"], played.code) == (code, exit_code)
    assert played.report["verdict"] == "cancelled"
    assert not any("unconfirmed" in line for line in played.err)
    assert played.report["requests"][-1]["check"] == "cleanup"
    assert played.took < MOST_SECONDS


def test_only_the_bounds_that_a_fault_uses_up_are_short():
    strict = load_spec("strict")
    assert shortened(strict, {}) == strict
    made = shortened(strict, {"residency": ("removal",), "codex": ("budget",)})
    before, after = ({check.id: check for check in spec.checks} for spec in (strict, made))
    assert after["codex"].budget == demo.SHORT
    assert (after["residency"].options.removal, after["residency"].options.load) == (demo.SHORT, 360)
    assert [id_ for id_ in before if before[id_] != after[id_]] == ["codex", "residency"]
    for one in DEMOS.values():
        shortened(strict, one.short)
        assert set(one.short) <= set(before)


@pytest.mark.parametrize("arguments", [["--fault", "none-of-that-name"], ["--fault", ""]])
def test_a_fault_that_there_is_not_is_a_usage_error(play, arguments):
    played = play(*arguments)
    assert played.code == 2
    assert "`demo --list` names them" in played.err[0]


def test_the_list_needs_no_stand_in(play):
    played = play("--list")
    assert played.code == 0
    assert played.out == list(list_lines())


def test_what_the_gpu_holds_grows_while_a_model_loads(monkeypatch, tmp_path, interrupts):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "SLOW_SECONDS", 0.4)
    used = []

    class Looks(Watcher):
        def waiting(self):
            used.append(play.memory())

    with Play(load_spec("strict"), interrupts, slow=True) as play:
        assert play.memory() == 0
        monkeypatch.setattr(demo, "SHORT", 0.0)
        spec = shortened(play.spec, {"residency": ("settle", "hold")})
        report = engine.run(spec, env=play.environment, watcher=Looks())
        assert report.verdict == "ready"
        assert play.memory() == 6 << 30
    grown = sorted(set(used))
    assert used == sorted(used)
    assert any(0 < one < 6 << 30 for one in grown)


def test_a_stage_that_cannot_be_set_leaves_no_folder(monkeypatch, tmp_path, interrupts):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def broken(*_, **__):
        raise OSError("no port is free")

    monkeypatch.setattr(demo, "Stage", broken)
    with pytest.raises(OSError, match="no port is free"):
        Play(load_spec("strict"), interrupts)
    assert list(tmp_path.iterdir()) == []
