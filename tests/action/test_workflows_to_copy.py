"""The workflows of docs/workflows, run as they are but for what names the user's own things."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path

import pytest
import yaml

from precheck_lib.simulate import Model, OllamaStandIn
from tests.action.conftest import Job

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "docs" / "workflows").glob("*.yml"))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SPEC = """\
version: 1
name: mine
checks:
- id: server
  ollama: {{url: "http://127.0.0.1:{port}/api"}}
"""


def jobs_of(file):
    return yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"]


def steps_of(file):
    return [step for job in jobs_of(file).values() for step in job["steps"]]


def start(repository, name, scripts, **env):
    """Run a workflow with the action of this checkout; `scripts` are what it runs as the user's own.

    Nothing is uploaded: that action would have to be fetched.
    """
    workflow = yaml.safe_load((ROOT / "docs" / "workflows" / name).read_text(encoding="utf-8"))
    workflow["on"] = workflow.pop(True)  # which is what YAML makes of the key `on`
    for job in workflow["jobs"].values():
        job["steps"] = [step for step in job["steps"] if "upload-artifact" not in step.get("uses", "")]
        for step in job["steps"]:
            if step.get("uses", "").startswith("OWNER/precheck@"):
                step["uses"] = "./precheck"
                step["with"]["python"] = sys.executable
                step["with"]["out"] = f"{repository.evidence}/{step['id']}"
    for script, lines in scripts.items():
        repository.write(script, f"#!/bin/sh\n{lines}\n")
        (repository.folder / script).chmod(0o755)
    process = repository.start(yaml.safe_dump(workflow), env, platforms=("self-hosted", "gpu-01", "gpu-02"))
    with process:
        log, _ = process.communicate(timeout=60)
    return Job(process.returncode, log, repository.evidence)


def verdict(repository, step):
    path = repository.evidence / step / "precheck.json"
    return json.loads(path.read_text(encoding="utf-8"))["verdict"] if path.exists() else None


@pytest.fixture
def ollama():
    with OllamaStandIn({"a:1": Model()}) as server:
        yield server


def ran(repository, name):
    return f'echo ran > "{repository.evidence}/{name}"'


# gate.yml -------------------------------------------------------------------------------------------------------------


def test_gate_tests_and_verify_pass_on_a_machine_that_is_and_stays_ready(repository, ollama):
    repository.write("precheck.yml", SPEC.format(port=ollama.port))
    job = start(repository, "gate.yml", {"run-the-live-tests": ran(repository, "tests")})
    assert job.code == 0, job.log
    assert job.tests_ran
    assert (verdict(repository, "gate"), verdict(repository, "verify")) == ("ready", "ready")
    assert "nothing has changed since" in job.summary


def test_where_the_machine_is_not_ready_neither_tests_nor_verify_run(repository, closed):
    repository.write("precheck.yml", SPEC.format(port=closed))
    job = start(repository, "gate.yml", {"run-the-live-tests": ran(repository, "tests")})
    assert (job.code, job.tests_ran) == (1, False), job.log
    assert (verdict(repository, "gate"), verdict(repository, "verify")) == ("not-ready", None)


def test_tests_that_fail_are_verified_too(repository, ollama):
    repository.write("precheck.yml", SPEC.format(port=ollama.port))
    job = start(repository, "gate.yml", {"run-the-live-tests": "exit 1"})
    assert (job.code, verdict(repository, "verify")) == (1, "ready"), job.log


def test_a_machine_that_changes_during_the_tests_makes_green_tests_red(repository, ollama):
    repository.write("precheck.yml", SPEC.format(port=ollama.port))
    # The tests themselves change the machine: another Ollama answers on the port.
    lines = f"touch {repository.evidence}/tests; while [ ! -e {repository.evidence}/changed ]; do sleep 0.05; done"

    def change():
        while not (repository.evidence / "tests").exists() and not stop.wait(0.02):
            pass
        ollama.version = "0.33.0"
        (repository.evidence / "changed").touch()

    stop = threading.Event()
    changing = threading.Thread(target=change)
    changing.start()
    try:
        job = start(repository, "gate.yml", {"run-the-live-tests": lines})
    finally:
        stop.set()
        changing.join()
    assert (job.code, verdict(repository, "verify")) == (1, "not-ready"), job.log
    assert any("drift.version" in properties["title"] for _, properties, _ in job.annotations)


# warn.yml -------------------------------------------------------------------------------------------------------------


def test_with_warn_the_other_tests_run_and_the_job_is_red_all_the_same(repository, closed):
    repository.write("precheck.yml", SPEC.format(port=closed))
    scripts = {"run-the-unit-tests": ran(repository, "unit"), "run-the-live-tests": ran(repository, "tests")}
    job = start(repository, "warn.yml", scripts)
    assert (job.code, job.tests_ran, (repository.evidence / "unit").exists()) == (1, False, True), job.log
    assert "The live tests did not run: server: " in job.log


def test_with_warn_all_tests_run_on_a_machine_that_is_ready(repository, ollama):
    repository.write("precheck.yml", SPEC.format(port=ollama.port))
    scripts = {"run-the-unit-tests": ran(repository, "unit"), "run-the-live-tests": ran(repository, "tests")}
    job = start(repository, "warn.yml", scripts)
    assert (job.code, job.tests_ran, (repository.evidence / "unit").exists()) == (0, True, True), job.log


# nightly.yml ----------------------------------------------------------------------------------------------------------


def test_every_night_each_host_has_a_job_of_its_own(repository, ollama):
    repository.write("precheck.yml", SPEC.format(port=ollama.port))
    job = start(repository, "nightly.yml", {})
    assert job.code == 0, job.log
    assert len({line["job"] for line in job.told if "job" in line}) == 2


# All of them ----------------------------------------------------------------------------------------------------------


def test_there_are_these():
    assert [file.name for file in FILES] == ["gate.yml", "nightly.yml", "warn.yml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_names_its_rights_its_end_and_only_inputs_and_outputs_that_there_are(file):
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert document["permissions"] == {}
    for job in jobs_of(file).values():
        assert job["permissions"] == {"contents": "read"}
        assert 0 < job["timeout-minutes"] <= 60
    for step in steps_of(file):
        if step.get("uses", "").startswith("OWNER/precheck@"):
            assert set(step["with"]) <= set(ACTION["inputs"])
    named = set(re.findall(r"outputs\.([a-z-]+)", file.read_text(encoding="utf-8")))
    assert named <= set(ACTION["outputs"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_gate_and_tests_are_steps_of_one_job(file):
    for job in jobs_of(file).values():
        assert "needs" not in job
