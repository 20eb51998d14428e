"""The workflows of the project, and the one that README.md gives to copy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from precheck_lib.spec import load_spec

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TO_COPY = sorted((ROOT / "docs" / "workflows").glob("*.yml"))
YAMLS = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
USES = re.compile(r"uses: (\S+)@(\S+)(?: # (\S+))?")


def test_every_action_is_pinned_by_its_commit_and_the_same_everywhere():
    found = {}
    for text in (*(file.read_text(encoding="utf-8") for file in (*WORKFLOWS, *TO_COPY)), *YAMLS):
        for name, commit, version in USES.findall(text):
            if name != "OWNER/precheck":
                assert re.fullmatch(r"[0-9a-f]{40}", commit), name
                assert re.fullmatch(r"v\d+\.\d+\.\d+", version), name
                found.setdefault(name, set()).add((commit, version))
    assert {name: len(pins) for name, pins in found.items()} == dict.fromkeys(found, 1)
    assert "actions/checkout" in found


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_no_rights_that_it_does_not_name_and_every_job_has_an_end(file):
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert document["permissions"] == {}
    for job in document["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        assert 0 < job["timeout-minutes"] <= 60


def test_the_scripts_that_ci_runs_are_there():
    text = "\n".join(file.read_text(encoding="utf-8") for file in WORKFLOWS) + (ROOT / ".ci" / "run").read_text()
    named = set(re.findall(r"\bscripts/[a-z-]+", text))
    assert {
        "scripts/check",
        "scripts/docs",
        "scripts/lint",
        "scripts/test",
        "scripts/test-action",
        "scripts/test-live",
    } <= named
    for name in named:
        assert (ROOT / name).stat().st_mode & 0o111, name


def test_ci_tests_every_python_that_the_project_is_for():
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert ci["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
    assert 'requires-python = ">=3.10"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_example_workflow_gives_the_strict_spec_all_its_variables():
    example = yaml.safe_load((ROOT / ".github" / "workflows" / "precheck.yml").read_text(encoding="utf-8"))
    (roles,) = (check for check in load_spec("strict").checks if check.id == "roles")
    given = example["jobs"]["gpu"]["env"]
    assert set(given) == set(roles.options.required)
    for name, role in roles.options.required.items():
        place = "secrets" if role.secret and name != "OPENCODE_CONFIG_CONTENT" else "vars"
        assert given[name] == f"${{{{ {place}.{name} }}}}"


def test_the_workflow_of_the_readme_has_gate_and_tests_in_one_job():
    workflow, _ = (yaml.safe_load(text) for text in YAMLS)
    (job,) = workflow["jobs"].values()
    uses = [step.get("uses", step.get("run")) for step in job["steps"]]
    assert [one.partition("@")[0] for one in uses] == [
        *("actions/checkout", "OWNER/precheck", "./run-the-live-tests", "OWNER/precheck"),
    ]
    for step in (job["steps"][1], job["steps"][3]):
        assert set(step["with"]) <= set(ACTION["inputs"])


def test_the_spec_of_the_readme_can_be_loaded(tmp_path):
    path = tmp_path / "precheck.yml"
    path.write_text(YAMLS[1], encoding="utf-8")
    assert [check.id for check in load_spec(str(path)).checks] == ["roles", "server"]


def test_the_readme_names_every_input_and_output():
    assert re.findall(r"^\| `([a-z-]+)` \|", README, re.MULTILINE) == list(ACTION["inputs"])
    told = README[README.index("Outputs: ") :].partition("\n\n")[0]
    for name in ACTION["outputs"]:
        assert f"`{name}`" in told


def test_the_first_commands_of_the_readme_are_the_demo_and_the_tests():
    first = re.search(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[1]
    assert [line.partition("#")[0].strip() for line in first.splitlines()] == [
        "python3 entrypoint.py demo",
        "scripts/test",
    ]
