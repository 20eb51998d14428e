"""What self-hosted runners are: a checkout that means ill, four runners on one host, a repository made a minute ago."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest
import yaml

from precheck_lib.history import FILE
from precheck_lib.simulate import Stage
from tests.action.conftest import Job, Repository
from tests.action.test_act import SPEC, environment

ROOT = Path(__file__).resolve().parents[2]

HOSTILE = (
    *("sitecustomize.py", "usercustomize.py", "precheck_lib/__init__.py", "precheck_lib/__main__.py"),
    *("requests.py", "urllib3.py", "yaml.py", "msgspec.py", "psutil.py", "junit_xml.py", "websocket.py"),
    *("json.py", "os.py", "re.py", "ssl.py", "typing.py", "argparse.py", "hashlib.py", "subprocess.py", "encodings.py"),
    *("entrypoint.py", "pip/__init__.py", "pip/__main__.py", "__main__.py", "evil.pth"),
)
"""Files of a checkout that Python would import, or that have the name of something that is run."""


def test_nothing_of_the_checkout_is_run(repository, server):
    repository.write("precheck.yml", SPEC.format(port=server))
    hit = repository.evidence / "hit"
    for name in HOSTILE:
        file = repository.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"import os; os.close(os.open({str(hit)!r} + '-' + {file.stem!r}, os.O_CREAT))\n")
    for name in ("python3", "python", "git", "timeout", "env"):
        repository.write(name, f"#!/bin/sh\n: > {hit}-{name}\nexit 42\n")
        (repository.folder / name).chmod(0o755)
    for name in ("pip.conf", "uv.toml", "pyvenv.cfg", "setup.cfg", ".python-version"):
        repository.write(name, "[global]\nindex-url = http://127.0.0.1:1/\nhome = /nowhere\n")
    here = str(repository.folder)
    env = {"PYTHONPATH": here, "PYTHONSTARTUP": f"{here}/evil.pth", "PYTHONHOME": here, "PYTHONUSERBASE": here}
    # Without the variables first: a home that is none is the end of any Python that reads it.
    for more in ({}, env):
        job = repository.run(env={"MY_ROLE": "x", **more})
        assert (job.code, job.outputs["status"]) == (0, "ready"), job.log
        assert [file.name for file in repository.evidence.iterdir() if file.name.startswith("hit")] == []


@pytest.fixture
def runner_cache(tmp_path):
    """Where act's runners keep their tool cache, and nothing is in it yet: not the dependencies either."""
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def kept(runner_cache):
    """What precheck keeps in the tool cache of those runners."""
    (folder,) = runner_cache.rglob("precheck")
    return list(folder.iterdir())


@pytest.mark.usefixtures("repository")  # skips where there is no act
def test_four_runners_of_one_host_begin_at_once_with_one_install(server, runner_cache):
    with tempfile.TemporaryDirectory(prefix="action-") as place:
        made = [Repository(Path(place) / str(number), runner_cache) for number in range(4)]
        running = []
        try:
            for one in made:
                one.write("precheck.yml", SPEC.format(port=server))
                running.append(one.popen({}, {"MY_ROLE": "x", "XDG_CACHE_HOME": "", "TMPDIR": str(one.home)}))
            jobs = [one.job(process, 240) for one, process in zip(made, running, strict=True)]
        finally:
            for process in running:
                process.kill()
                process.stdout.close()
                process.wait()
    assert [job.code for job in jobs] == [0] * 4, "\n".join(job.log for job in jobs if job.code)
    assert [job.outputs["status"] for job in jobs] == ["ready"] * 4
    assert sum("installing its dependencies into" in job.log for job in jobs) == 1
    assert len([folder for folder in kept(runner_cache) if folder.is_dir()]) == 1
    (history,) = (file for file in kept(runner_cache) if file.name == FILE)
    assert len(history.read_text().splitlines()) == 4


def test_a_machine_that_was_not_ready_before_is_told_to_be_so(repository, closed, cache):
    repository.write("precheck.yml", SPEC.format(port=closed))
    used = cache / "act" / "tool_cache" / "precheck"  # as act names it
    used.mkdir(parents=True)
    try:
        first = repository.run(env={"MY_ROLE": "x"})
        second = repository.run(env={"MY_ROLE": "x", "GITHUB_RUN_ATTEMPT": "2"})
    finally:
        shutil.rmtree(used)  # other jobs of these tests have no history
    told = [job.annotations[0][2].partition("On this host: ")[2] for job in (first, second)]
    assert told[0] == ""
    assert told[1].startswith("the one earlier run of the last 24 h had it too.")


def test_the_workflow_of_the_readme_works_in_an_empty_repository_at_the_first_try(repository, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.search(r"^```yaml\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[1]
    # As its reader does: the action's place, the names of their own variables, and when it is to run.
    text = re.sub(r"OWNER/precheck@FULL_COMMIT_SHA", "./precheck", text)
    workflow = {"on": "workflow_dispatch", **yaml.safe_load(text)}
    with Stage(tmp_path) as stage:
        given = environment(stage)
        path = given.pop("COMMANDS")
        (job,) = workflow["jobs"].values()
        job["env"] = given
        job["steps"].insert(1, {"run": f'echo "{path}" >> "$GITHUB_PATH"'})
        repository.write("run-the-live-tests", f"#!/bin/sh\n: > {repository.evidence}/tests\n")
        (repository.folder / "run-the-live-tests").chmod(0o755)
        process = repository.start(json.dumps(workflow))
        with process:
            log, _ = process.communicate(timeout=60)
    ended = Job(process.returncode, log, repository.evidence)
    assert (ended.code, ended.tests_ran) == (0, True), log
    assert "strict live precheck passed" in log
    assert "nothing has changed since" in ended.summary
