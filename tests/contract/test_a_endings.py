"""A6: one table for JUnit, verdict and exit code; the first failure in the spec's order decides."""

from __future__ import annotations

import json
import shutil

import pytest

from precheck_lib.simulate import Command
from tests.contract.harness import (
    BRIEF,
    ORDER,
    ROOT,
    Family,
    command_of,
    open_stage,
    run_precheck,
    write_strict,
)

# what happened: stage, roles on top of the stage's, and the JUnit word, exit code and blocker of a strict run
ROWS = {
    "missing-role": ({}, {"TEST_GEMINI_API_KEY": ""}, "failed", 1, "roles"),
    "wrong-version-of-a-command": ({"codex_command": "0.1.0"}, {}, "failed", 1, "commands"),
    "command-missing": ({}, {"PATH": "/nowhere"}, "error", 1, "commands"),
    "command-deadline": (
        {"codex_command": Command("codex-cli 0.171.0", sleep_seconds=30)},
        {},
        "error",
        28,
        "commands",
    ),
    "tcp-refused": ({"faults": {"codex": "refuse"}}, {}, "error", 7, "codex-tcp"),
    "mcp-servers": ({"faults": {"codex": "mcp-configured"}}, {}, "failed", 1, "codex"),
    "401": ({"faults": {"opencode": "unauthorized"}}, {}, "failed", 22, "opencode-health"),
    "403": (
        {"faults": {"opencode": "status"}, "fault_options": {"opencode": {"status": 403}}},
        {},
        "failed",
        22,
        "opencode-health",
    ),
    "503": ({"faults": {"opencode": "status"}}, {}, "error", 22, "opencode-health"),
    "404": (
        {"faults": {"ollama": "status"}, "fault_options": {"ollama": {"at": "tags", "status": 404}}},
        {},
        "error",
        22,
        "ollama-tags",
    ),
    "redirect": ({"faults": {"opencode": "redirect"}}, {}, "failed", 1, "opencode-health"),
    "deadline": ({"faults": {"ollama": "silence"}}, {}, "error", 28, "ollama-tags"),
    "refused-unload": ({"faults": {"ollama": "unload-404"}}, {}, "failed", 22, "residency"),
    "refused-load": ({"faults": {"ollama": "load-500"}}, {}, "failed", 22, "residency"),
    "inventory-500": ({"faults": {"ollama": "ps-500-with-body"}}, {}, "error", 22, "residency"),
    "removal-deadline": ({"faults": {"ollama": "never-leaves"}}, {}, "failed", 28, "residency"),
    "bad-row": ({"faults": {"ollama": "partly-on-cpu"}}, {}, "failed", 1, "residency"),
    "invalid-inventory": ({"faults": {"ollama": "ps-invalid"}}, {}, "failed", 1, "residency"),
}


@pytest.fixture(scope="module")
def ends(request, tmp_path_factory):
    """Each row's run."""
    place = tmp_path_factory.mktemp("rows")
    small, brief = write_strict(place / "small"), write_strict(place / "brief", BRIEF)

    def run(name):
        arguments, roles, *_ = ROWS[name]
        with open_stage(place / name, **arguments) as stage:
            return run_precheck({**stage.environment, **roles}, spec=brief if "deadline" in name else small)

    function = "test_each_ending_has_its_word_its_verdict_and_its_exit_code"
    return Family(request, function, ROWS, run)


@pytest.mark.parametrize("name", ROWS)
def test_each_ending_has_its_word_its_verdict_and_its_exit_code(name, ends):
    _, _, word, code, blocker = ROWS[name]
    ended = ends[name]
    assert ended.code == code, ended
    assert ended.json["verdict"] == "not-ready"
    at = ORDER.index(blocker)
    expected = ["passed"] * at + [word] + ["skipped"] * (len(ORDER) - at - 1)
    assert ended.words == dict(zip(ORDER, expected, strict=True)), ended
    reasons = {case.message for case in ended.cases.values() if case.word == "skipped"}
    assert reasons <= {f"skipped for {blocker}"}
    assert (f"curl: ({code})" in ended.err) == (code != 1), ended


def test_when_all_is_met_the_run_is_ready(stage, small_strict):
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 0, ended
    assert ended.json["verdict"] == "ready"
    assert ended.words == dict.fromkeys(ORDER, "passed")


def test_a_warning_is_a_pass_with_its_text_in_system_out(stage, small_strict):
    config = json.loads(stage.environment["OPENCODE_CONFIG_CONTENT"])
    config["provider"]["ollama"]["options"]["neverHeardOf"] = 1
    env = {**stage.environment, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    ended = run_precheck(env, spec=small_strict)
    assert ended.code == 0, ended
    assert ended.json["verdict"] == "ready"
    (finding,) = ended.check("opencode-config")["findings"]
    assert finding["severity"] == "warning"
    assert "neverHeardOf" in ended.cases["opencode-config"].system_out
    assert ended.words["opencode-config"] == "passed"


def test_a_spec_error_is_an_error_in_junit(tmp_path):
    spec = write_strict(tmp_path / "spec", exit_codes="of curl")
    ended = run_precheck({}, spec=spec)
    assert ended.code == 2
    assert ended.json["verdict"] == "error"
    assert list(ended.words.values()) == ["error"]


def _broken_copy(tmp_path, file: str, line: str) -> tuple[str, ...]:
    """Copy the package, with `line` at the begin of the first function of a file; give the command that runs it."""
    shutil.copytree(ROOT / "precheck_lib", tmp_path / "copy" / "precheck_lib")
    shutil.copytree(ROOT / "specs", tmp_path / "copy" / "specs")
    path = tmp_path / "copy" / "precheck_lib" / file
    before, function, after = path.read_text().partition("\ndef run(" if "checks/" in file else "\ndef load_spec(")
    head, docstring, body = after.partition('"""\n')
    assert docstring, file
    path.write_text(f"{before}{function}{head}{docstring}    {line}\n{body}")
    return command_of(tmp_path / "copy")


def test_an_internal_error_of_a_check_ends_with_70_and_all_reports(stage, small_strict, tmp_path):
    command = _broken_copy(tmp_path, "checks/tcp.py", 'raise RuntimeError(f"a fault of our own, {context.env}")')
    ended = run_precheck(stage, spec=small_strict, command=command)
    assert ended.code == 70, ended
    assert ended.json["verdict"] == "error"
    assert ended.blockers == ["codex-tcp"]
    assert ended.words["codex-tcp"] == "error"
    assert ended.words["residency"] == "skipped"
    assert "a fault of our own" in ended.err
    assert "TEST_OPENAI_API_KEY" in ended.err  # and no value of a secret: `run_precheck` has looked
    assert not stage.codex.connections


def test_an_internal_error_outside_of_any_check_ends_with_70_and_all_reports(stage, small_strict, tmp_path):
    command = _broken_copy(tmp_path, "spec/load.py", 'raise RuntimeError("a fault of our own")')
    ended = run_precheck(stage, spec=small_strict, command=command)
    assert ended.code == 70, ended
    assert ended.json["verdict"] == "error"
    assert list(ended.words.values()) == ["error"]
    assert "a fault of our own" in ended.err


SEVERAL = """\
version: 1
name: several
checks:
  - {id: good, env: {required: {ALPHA: {}}}}
"""
FAILED_ONE = "  - {id: wrong, env: {required: {BETA: {}}}}\n"
ERROR_ONE = "  - {id: unknown, tcp: {url: 'http://127.0.0.1:1'}}\n"


@pytest.mark.parametrize(
    ("checks", "code"), [(FAILED_ONE + ERROR_ONE, 1), (ERROR_ONE + FAILED_ONE, 3)], ids=["failed", "error"]
)
def test_with_several_failures_the_first_in_the_specs_order_decides(checks, code, tmp_path):
    spec = tmp_path / "several.yml"
    spec.write_text(SEVERAL + checks)
    ended = run_precheck({"ALPHA": "x"}, spec=spec)
    assert ended.code == code, ended
    assert ended.words == {"good": "passed", "wrong": "failed", "unknown": "error"}


def test_a_check_is_skipped_for_what_it_needs_and_names_the_first_cause(tmp_path):
    spec = tmp_path / "chain.yml"
    chain = [
        FAILED_ONE,
        "  - {id: second, needs: [wrong], env: {required: {ALPHA: {}}}}\n",
        "  - {id: third, needs: [second], env: {required: {ALPHA: {}}}}\n",
        "  - {id: apart, env: {required: {ALPHA: {}}}}\n",
    ]
    spec.write_text(SEVERAL + "".join(chain))
    ended = run_precheck({"ALPHA": "x"}, spec=spec)
    assert ended.code == 1
    assert ended.words == {
        "good": "passed",
        "wrong": "failed",
        "second": "skipped",
        "third": "skipped",
        "apart": "passed",
    }
    assert ended.check("third")["skipped_for"] == "wrong"
    assert ended.cases["third"].message == "skipped for wrong"
