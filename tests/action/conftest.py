"""The action, run by act (no Docker, no GitHub) in a repository that is made for each test."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("action.yml", "entrypoint.py", "precheck_lib", "specs", "scripts/requirements.lock")
NEEDED = "this needs act and git: run scripts/test-action"

WORKFLOW = """\
name: gate
on: workflow_dispatch
permissions: {{}}
jobs:
  gpu:
    runs-on: [self-hosted, linux, gpu]
    steps:
      - uses: actions/checkout@8e8c483db84b4bee98b60c0593521ed34d9990e8 # v6.0.1
        with:
          persist-credentials: false
      - run: if [ -n "$COMMANDS" ]; then echo "$COMMANDS" >> "$GITHUB_PATH"; fi
      - id: gate
        uses: ./precheck
        with: {inputs}
      - name: tests
        run: echo ran > "$EVIDENCE/tests"
      - name: tests that close the hole
        if: steps.gate.outputs.status == 'ready'
        run: echo ran > "$EVIDENCE/guarded"
      - if: always()
        run: printf '%s' "$OUTPUTS" > "$EVIDENCE/outputs.json"
        env:
          OUTPUTS: ${{{{ toJSON(steps.gate.outputs) }}}}
"""


def act():
    """Find act, where scripts/test-action has said that it is to be used."""
    return os.environ.get("PRECHECK_ACT") or None


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder for caches in which the dependencies are installed: once, and for real, by the first start of all."""
    folder = tmp_path_factory.mktemp("cache")
    env = {name: os.environ[name] for name in os.environ if name == "PATH" or name.startswith(("PIP_", "SSL_"))}
    command = [sys.executable, str(ROOT / "entrypoint.py"), "--version"]
    ended = subprocess.run(
        command,
        env={**env, "XDG_CACHE_HOME": str(folder), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "installing its dependencies into" in ended.stderr
    return folder


class Job:
    """A job that act has run: how it ended, what its steps left, and what the runner was told."""

    def __init__(self, code, log, evidence):
        self.code = code
        self.told = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        self.log = log
        outputs = evidence / "outputs.json"
        self.outputs = json.loads(outputs.read_text()) if outputs.exists() else None
        self.tests_ran = (evidence / "tests").exists()
        self.guarded_tests_ran = (evidence / "guarded").exists()

    def commands(self, name):
        """Give the workflow commands of that name that act has understood, each once."""
        found = [line for line in self.told if line.get("command") == name]
        return list({line.get("raw", line.get("content")): line for line in found}.values())

    @property
    def annotations(self):
        return [
            (line["command"], line["kvPairs"], line["arg"])
            for kind in ("error", "warning", "notice")
            for line in self.commands(kind)
        ]

    @property
    def summary(self):
        return "\n".join(line["content"] for line in self.commands("summary"))


class Repository:
    """A repository that uses the action, which lies in its folder `precheck`."""

    def __init__(self, place, cache):
        self.folder, self.evidence, self.home = place / "repository", place / "evidence", place / "home"
        for folder in (self.folder / ".github" / "workflows", self.evidence, self.home):
            folder.mkdir(parents=True)
        for part in PARTS:
            target = self.folder / "precheck" / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / part, target)
        self.cache = cache

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def popen(self, inputs, env=()):
        """Start the job; `env` is what the job finds in its environment, by act's --env-file."""
        given = {"python": sys.executable, "out": f"{self.evidence}/reports", **inputs}
        given = {name: value for name, value in given.items() if value is not None}
        return self.start(WORKFLOW.format(inputs=json.dumps(given)), env)

    def start(self, workflow, env=(), platforms=("self-hosted",)):
        """Start a workflow; `platforms` are the labels that this machine has."""
        self.write(".github/workflows/gate.yml", workflow)
        variables = {"EVIDENCE": str(self.evidence), "COMMANDS": "", **dict(env)}
        lines = [f"{name}='{value}'" for name, value in variables.items()]
        assert not any("'" in value or "\n" in value for value in variables.values())
        self.write("variables.env", "\n".join(lines) + "\n")
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
        for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=x"]):
            subprocess.run(
                [*git, *command], cwd=self.folder, env={"PATH": os.environ["PATH"], "HOME": str(self.home)}, check=True
            )
        command = [act(), "workflow_dispatch", "--workflows", ".github/workflows/gate.yml"]
        command += [word for label in platforms for word in ("--platform", f"{label}=-self-hosted")]
        command += ["--no-cache-server", "--rm", "--json"]
        command += ["--env-file", "variables.env"]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "XDG_CACHE_HOME": str(self.cache)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, env=(), **inputs):
        inputs = {name.replace("_", "-"): value for name, value in inputs.items()}
        with self.popen(inputs, env) as process:
            log, _ = process.communicate(timeout=60)
        return Job(process.returncode, log, self.evidence)

    def job(self, process, timeout=60):
        """Wait for the end of a job that was started."""
        log, _ = process.communicate(timeout=timeout)
        return Job(process.returncode, log, self.evidence)


@pytest.fixture
def repository(request):
    if act() is None or shutil.which("git") is None:
        pytest.skip(NEEDED)
    cache = request.getfixturevalue("cache")
    with tempfile.TemporaryDirectory(prefix="action-") as folder:
        yield Repository(Path(folder), cache)


@pytest.fixture
def server():
    """Something that takes TCP connections: its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


@pytest.fixture
def closed(server):
    """A port that nothing listens on: one above the server's is another's, so one that was just given back."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
