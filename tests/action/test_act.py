"""The gate in a job: what runs after it, what the next steps are told, and what is written on the page of the job."""

from __future__ import annotations

import json
import signal
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest

from precheck_lib.simulate import Model, Stage

SPEC = """\
version: 1
name: mine
success: this machine is fit
checks:
  - id: roles
    title: what the tests need is set
    env:
      required:
        MY_ROLE: {{}}
  - id: server
    title: the server takes connections
    needs: [roles]
    tcp:
      url: http://127.0.0.1:{port}
"""


def reports(job):
    """Read the two reports where the outputs say that they are."""
    document = json.loads(Path(job.outputs["json"]).read_text())
    cases = {
        case.get("name"): [element.tag for element in case] for case in ET.parse(job.outputs["junit"]).iter("testcase")
    }
    return document, cases


def test_on_a_machine_that_is_ready_the_tests_run(repository, server):
    repository.write("precheck.yml", SPEC.format(port=server))
    job = repository.run(env={"MY_ROLE": "x"})
    assert (job.code, job.tests_ran, job.guarded_tests_ran) == (0, True, True), job.log
    assert job.outputs["status"] == "ready"
    assert job.outputs["exit-code"] == "0"
    assert job.outputs["retryable"] == "false"
    assert [job.outputs[name] for name in ("failed", "codes", "first")] == ["", "", ""]
    document, cases = reports(job)
    assert document["verdict"] == "ready"
    assert cases == {"roles": [], "server": []}
    assert job.annotations == []
    assert "✅ precheck mine: ready" in job.summary
    assert "this machine is fit" in job.log


def test_on_a_machine_that_is_not_the_tests_do_not_run_and_the_reason_is_known(repository, closed):
    repository.write("precheck.yml", SPEC.format(port=closed))
    job = repository.run(env={"MY_ROLE": "x", "RUNNER_NAME": "gpu-runner-1"})
    assert (job.code, job.tests_ran, job.guarded_tests_ran) == (1, False, False), job.log
    first = f"server: TCP readiness connection failed: 127.0.0.1 port {closed}: Connection refused"
    folder = f"{repository.evidence}/reports"
    assert job.outputs == {
        "status": "not-ready",
        "exit-code": "3",
        "failed": "server",
        "codes": "tcp.failed",
        "first": first,
        "retryable": "true",
        "host": "gpu-runner-1",
        "dir": folder,
        "json": f"{folder}/precheck.json",
        "junit": f"{folder}/junit.xml",
    }
    document, cases = reports(job)
    assert document["exit_code"] == 3
    assert cases == {"roles": [], "server": ["error"]}
    ((kind, properties, text),) = job.annotations
    assert kind == "error"
    assert properties == {
        "file": "precheck.yml",
        "line": "10",
        "title": "precheck: gpu-runner-1 not ready - tcp.failed",
    }
    assert text.startswith(f"Your code was not tested. {first}. Usual causes: ")
    assert "What to do (the host's owner): " in text
    assert text.endswith("A retry may pass, once the machine is mended or free again.")
    assert "❌ precheck mine: not-ready on gpu\\-runner\\-1" in job.summary


def test_with_warn_the_tests_run_and_a_condition_closes_the_hole(repository, closed):
    repository.write("precheck.yml", SPEC.format(port=closed))
    job = repository.run(env={"MY_ROLE": "x"}, on_not_ready="warn")
    assert (job.code, job.tests_ran, job.guarded_tests_ran) == (0, True, False), job.log
    assert (job.outputs["status"], job.outputs["exit-code"]) == ("not-ready", "3")
    ((kind, properties, text),) = job.annotations
    assert kind == "warning"
    assert properties["title"].endswith(" not ready - tcp.failed")
    assert text.startswith("The job goes on, on a machine that is not fit for it. server: ")
    assert reports(job)[1]["server"] == ["error"]


@pytest.mark.parametrize("on_not_ready", ["fail", "warn"])
def test_a_spec_that_cannot_be_used_ends_the_job_at_its_line(repository, server, on_not_ready):
    repository.write("gpu.yml", SPEC.format(port=server).replace("    tcp:", "    tpc:"))
    job = repository.run(spec="gpu.yml", on_not_ready=on_not_ready)
    assert (job.code, job.tests_ran) == (1, False), job.log
    assert (job.outputs["status"], job.outputs["exit-code"]) == ("error", "2")
    assert job.outputs["codes"] == "spec.invalid"
    kind, properties, text = job.annotations[0]
    assert (kind, properties["file"]) == ("error", "gpu.yml")
    assert int(properties["line"]) in range(10, 15)
    assert "tpc" in text
    assert reports(job)[1] == {"spec": ["error"]}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"on_not_ready": "ignore"}, "the input on-not-ready is 'ignore', not fail or warn"),
        ({"budget": "soon"}, "--budget: 'soon' is not a duration"),
        ({"spec": "--help"}, "--help"),
        ({"spec": "none.yml"}, "none.yml"),
    ],
)
def test_an_input_that_cannot_be_used_ends_the_job(repository, inputs, said):
    job = repository.run(**inputs)
    assert (job.code, job.tests_ran) == (1, False), job.log
    assert (job.outputs["status"], job.outputs["exit-code"]) == ("error", "2")
    assert said in job.annotations[0][2]


def test_an_input_is_data_and_never_a_command(repository):
    evil = f'$(touch {repository.evidence}/evil)`touch {repository.evidence}/evil`";touch {repository.evidence}/evil;"'
    job = repository.run(spec=evil, budget=evil, on_not_ready=evil)
    assert (job.code, job.outputs["status"]) == (1, "error")
    assert not (repository.evidence / "evil").exists()


def test_without_an_input_the_reports_are_in_a_folder_of_their_own(repository, server):
    repository.write("precheck.yml", SPEC.format(port=server))
    job = repository.run(env={"MY_ROLE": "x"}, out="")
    assert job.code == 0, job.log
    assert Path(job.outputs["dir"]).name.startswith("precheck-")
    assert job.outputs["json"] == f"{job.outputs['dir']}/precheck.json"


def test_a_python_that_is_not_there_is_named(repository):
    job = repository.run(python="/nowhere/python3")
    assert (job.code, job.tests_ran) == (1, False), job.log
    assert (job.outputs["status"], job.outputs["exit-code"]) == ("error", "70")
    ((kind, properties, text),) = job.annotations
    assert (kind, properties["title"]) == ("error", "precheck could not start")
    assert text.startswith("Your code was not tested. The Python that the input python names cannot be run.")


# The strict spec ------------------------------------------------------------------------------------------------------


def environment(stage):
    env = dict(stage.environment)
    return {**env, "COMMANDS": env.pop("PATH").partition(":")[0]}


def test_the_strict_spec_passes_against_what_is_right(repository, tmp_path):
    with Stage(tmp_path) as stage:
        job = repository.run(env=environment(stage), spec="strict")
    assert (job.code, job.tests_ran, job.outputs["status"]) == (0, True, "ready"), job.log
    assert "strict live precheck passed" in job.log
    assert set(stage.ollama.state()) == {"qwen3:8b"}
    secrets = [value for name, value in stage.environment.items() if name.endswith("_API_KEY")]
    assert secrets
    # The commands themselves are not in the log: act tells of them here, GitHub's runner nowhere.
    shown = "\n".join(line for line in job.log.splitlines() if '"command":"add-mask"' not in line)
    assert not [secret for secret in secrets if secret in shown]
    assert shown != job.log


def test_the_strict_spec_names_what_is_wrong(repository, tmp_path):
    with Stage(tmp_path, faults={"ollama": "partly-on-cpu"}) as stage:
        job = repository.run(env=environment(stage), spec="strict", budget="10m")
    assert (job.code, job.tests_ran) == (1, False), job.log
    assert (job.outputs["status"], job.outputs["codes"]) == ("not-ready", "residency.partial")
    ((_, properties, text),) = job.annotations
    assert "file" not in properties  # a built-in spec is no file of the job's
    assert "is not fully on the GPU" in text
    assert stage.ollama.state() == {}


def test_a_job_that_is_cancelled_unloads_what_it_was_loading(repository, tmp_path):
    # act kills its steps; GitHub's runner sends SIGINT first, to the process that it has started. That one is Python.
    models = {"qwen3:8b": Model(load_seconds=60)}
    with Stage(tmp_path, models=models) as stage:
        process = repository.popen({"spec": "strict"}, environment(stage))
        try:
            assert stage.ollama.wait_for(lambda: "loading" in stage.ollama.state().values(), 30)
            (step,) = psutil.Process(process.pid).children()
            assert step.cmdline()[-2:] == [f"{step.environ()['GITHUB_ACTION_PATH']}/entrypoint.py", "action"]
            step.send_signal(signal.SIGINT)
            job = repository.job(process)
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
        assert (job.code, job.tests_ran) == (1, False), job.log
        assert stage.ollama.state() == {}
    assert (job.outputs["status"], job.outputs["exit-code"]) == ("cancelled", "130")
    assert reports(job)[0]["verdict"] == "cancelled"
    ((kind, properties, _),) = job.annotations
    assert (kind, properties["title"].rpartition(" ")[2]) == ("error", "run.cancelled")
    assert "unconfirmed" not in job.log
