"""B6: the example environment, sourced by bash as its head says, and in step with the pins."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from tests.contract.harness import SPECS, run_precheck
from tests.contract.test_b_roles import PAIR, REQUIRED

EXAMPLE = SPECS / "strict-tests.env.example"
KEYS = tuple(role for role in REQUIRED if role.endswith("_API_KEY"))
PATH = "/usr/bin:/bin"


@pytest.fixture
def workspace(tmp_path):
    place = tmp_path / "a work space"
    place.mkdir()
    return place


@pytest.fixture
def sourced(workspace):
    """Source the example by bash with nothing but PATH and LC_ALL, and give what it exports then."""
    bash = shutil.which("bash")
    assert bash
    script = f". '{EXAMPLE}' || exit 9; printf 'sourced\\n'; env -0"
    ended = subprocess.run(
        [bash, "--noprofile", "--norc", "-eu", "-c", script],
        env={"PATH": PATH, "LC_ALL": "C"},
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=10,
        check=True,
    )
    silence, _, variables = ended.stdout.partition(b"sourced\n")
    assert silence == b""
    assert ended.stderr == b""
    return dict(entry.decode().split("=", 1) for entry in variables.split(b"\0") if entry)


def pin(name: str) -> str:
    (version,) = re.findall(rf"(?m)^- {name}: `(?:rust-)?v(.+)`$", (SPECS / "SPECIFICATIONS.md").read_text())
    return version


def test_it_exports_every_required_role_but_the_keys(sourced):
    assert sorted(name for name in sourced if name.startswith(("TEST_", "OPENCODE_"))) == sorted(
        set(REQUIRED) - set(KEYS)
    )
    assert not sourced.keys() & {*KEYS, *PAIR}
    assert all(value.strip() for value in sourced.values())
    assert sourced["TEST_CODEX_MODEL_DEFAULT"] == "gpt-6-luna"
    assert sourced["TEST_CODEX_REASONING_EFFORT"] == "high"


def test_it_exports_nothing_else(sourced):
    by_bash = {"PATH", "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD"}
    assert sourced.keys() <= {*REQUIRED, *by_bash}
    assert sourced["LC_ALL"] == "C"


def test_its_configuration_has_two_models_or_more_and_no_key(sourced):
    config = json.loads(sourced["OPENCODE_CONFIG_CONTENT"])
    models = config["provider"]["ollama"]["models"]
    assert len(models) >= 2
    assert sourced["TEST_OLLAMA_MODEL_OPENCODE_DEFAULT"] in models
    assert not re.search("key|token|secret|password|bearer|sk-", sourced["OPENCODE_CONFIG_CONTENT"], re.IGNORECASE)


def test_it_makes_the_home_of_codex_absolute_below_the_working_folder_and_no_folder(sourced, workspace):
    home = sourced["TEST_CODEX_HOME"]
    assert home.startswith(f"{workspace}/")
    assert "/../" not in f"{home}/"
    assert list(workspace.iterdir()) == []


def test_it_puts_exactly_two_folders_in_front_of_path_codex_first(sourced, workspace):
    codex = f"{workspace}/target/codex-releases/rust-v{pin('Codex App Server')}/bin"
    opencode = f"{workspace}/target/opencode-releases/v{pin('OpenCode Server')}/bin"
    assert sourced["PATH"] == f"{codex}:{opencode}:{PATH}"


def test_with_keys_and_a_home_it_is_all_that_the_roles_need(sourced, workspace):
    (workspace / "target" / "codex-home").mkdir(parents=True)
    ended = run_precheck({**sourced, **dict.fromkeys(KEYS, "a-key-from-the-store")})
    assert ended.words["roles"] == "passed", ended
    assert ended.blockers == ["commands"]
