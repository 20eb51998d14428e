"""The strict precheck against the real Codex and OpenCode servers, with a stand-in of Ollama.

Each test but the first few has one thing wrong and names what is told of it. Commands that print the pinned versions
at once take the place of the real ones where those do not matter (`opencode --version` takes a second or two).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.simulate import Model, OllamaStandIn, write_commands
from tests.live.servers import (
    KEY_IN_IT,
    ROOT,
    SHARED_CONTENT,
    SHARED_ENVIRONMENT,
    SHARED_MODELS,
    CodexServer,
    Commands,
    OpenCodeServer,
    lines_of,
    poll,
    reserved_port,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PASSED = "strict live precheck passed"
DEFAULT = "gpt-oss:20b"
SECRETS = {
    "TEST_OPENAI_API_KEY": "sk-openai-of-the-live-tests",
    "TEST_ANTHROPIC_API_KEY": "sk-anthropic-of-the-live-tests",
    "TEST_GEMINI_API_KEY": "gemini-of-the-live-tests",
}
NEVER_SHOWN = (*SECRETS.values(), *SHARED_ENVIRONMENT.values(), KEY_IN_IT, "pä:ss wörd", "cMOkOnNzIHfDtnJk")
"""Secrets of the tests: keys, what is put in for `{env:…}`, and the password, as it is and in Base64."""


@dataclass(frozen=True)
class Ended:
    """How a run ended: its code, what it printed, its reports, and how long it took."""

    code: int
    stdout: str
    stderr: str
    report: dict[str, Any]
    junit: ET.Element
    seconds: float

    @property
    def outcomes(self) -> dict[str, str]:
        return {check["id"]: check["outcome"] for check in self.report["checks"]}

    def findings(self, check: str) -> list[dict[str, Any]]:
        (found,) = [one["findings"] for one in self.report["checks"] if one["id"] == check]
        return list(found)


def run_strict(environment: Mapping[str, str], folder: Path, spec: str = "strict") -> Ended:
    """Run precheck in a folder of its own with just that environment, and hold it to what is true of every run."""
    work = folder / "run"
    work.mkdir(parents=True)
    arguments = ["run", spec, "--json", "report.json", "--junit", "junit.xml"]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "precheck_lib", *arguments],
        env={"PYTHONPATH": str(ROOT), **environment},
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    seconds = time.monotonic() - began
    stdout, stderr = ended.stdout.decode(), ended.stderr.decode()
    texts = {"stdout": stdout, "stderr": stderr}
    texts.update({path.name: path.read_text(encoding="utf-8") for path in work.iterdir()})
    assert texts.keys() == {"stdout", "stderr", "report.json", "junit.xml"}, texts
    for name, text in texts.items():
        assert [secret for secret in NEVER_SHOWN if secret in text] == [], f"{name}:\n{text}"
        assert "Traceback" not in text, f"{name}:\n{text}"
    assert stdout.endswith(f"{PASSED}\n") == (ended.returncode == 0), stdout + stderr
    report = json.loads(texts["report.json"])
    assert report["exit_code"] == ended.returncode
    junit = ET.fromstring(texts["junit.xml"])
    return Ended(ended.returncode, stdout, stderr, report, junit, seconds)


CHECKS = [
    "roles",
    "commands",
    "codex-tcp",
    "codex",
    "opencode-health",
    "opencode-capabilities",
    "opencode-config",
    "opencode-providers",
    "ollama-tags",
    "residency",
]


def assert_passed(ended: Ended, ollama: OllamaStandIn) -> None:
    """Hold a run to having passed with Ollama's default model resident, and only it."""
    assert ended.code == 0, ended.stdout + ended.stderr
    assert ended.outcomes == dict.fromkeys(CHECKS, "passed")
    assert ended.junit.findall(".//failure") + ended.junit.findall(".//error") == []
    assert ollama.resident == [DEFAULT]


def assert_stopped(
    ended: Ended, ollama: OllamaStandIn, check: str, code: int, finding: str, *words: str, outcome: str = "failed"
) -> None:
    """Hold a run to having ended at that check with that finding: Ollama was never asked anything."""
    at = CHECKS.index(check)
    wanted = dict.fromkeys(CHECKS[:at], "passed") | {check: outcome} | dict.fromkeys(CHECKS[at + 1 :], "skipped")
    assert ended.outcomes == wanted, ended.stdout + ended.stderr
    assert ended.code == code, ended.stdout + ended.stderr
    first = ended.findings(check)[0]
    assert first["code"] == finding
    assert [word for word in words if word not in first["message"]] == [], first["message"]
    assert [word for word in words if word not in ended.stderr] == [], ended.stderr
    assert PASSED not in ended.stdout
    # (a `failed` check is JUnit's failure, an `error` its error)
    assert len(ended.junit.findall(".//failure")) == (outcome == "failed")
    assert len(ended.junit.findall(".//error")) == (outcome == "error")
    assert len(ended.junit.findall(".//skipped")) == len(CHECKS) - at - 1
    assert ollama.seen == []


@pytest.fixture
def ollama() -> Iterator[OllamaStandIn]:
    with OllamaStandIn({name: Model() for name in SHARED_MODELS}) as stand_in:
        yield stand_in


@pytest.fixture(scope="session")
def quick_path(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A `PATH` with commands that print the pinned versions at once."""
    folder = tmp_path_factory.mktemp("quick-commands")
    write_commands(folder, codex=commands.codex_version, opencode=commands.opencode_version)
    return f"{folder}:/usr/bin:/bin"


def roles(
    path: str,
    codex: CodexServer,
    opencode: OpenCodeServer,
    ollama: OllamaStandIn,
    *,
    content: str = SHARED_CONTENT,
    **more: str,
) -> dict[str, str]:
    """Return the whole environment of a run against these three."""
    environment = {
        "PATH": path,
        **SECRETS,
        "TEST_CODEX_WS_URL": codex.url,
        "TEST_CODEX_HOME": str(codex.home),
        "TEST_CODEX_MODEL_DEFAULT": "gpt-6-luna",
        "TEST_CODEX_REASONING_EFFORT": "high",
        "TEST_OPENAI_BASE_URL": "https://openai.invalid/v1",
        "TEST_ANTHROPIC_BASE_URL": "https://anthropic.invalid/v1",
        "TEST_CUSTOM_OPENAI_MODEL": "gpt-6-luna",
        "TEST_CUSTOM_ANTHROPIC_MODEL": "claude-sonnet-4-6",
        "TEST_OPENCODE_CLOUD_MODEL": "opencode/big-pickle",
        "TEST_OPENCODE_URL": opencode.url,
        "TEST_CUSTOM_OLLAMA_URL": ollama.url,
        "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": DEFAULT,
        "OPENCODE_CONFIG_CONTENT": content,
    }
    if opencode.password:
        environment["TEST_OPENCODE_USERNAME"] = opencode.username or "opencode"
        environment["TEST_OPENCODE_PASSWORD"] = opencode.password
    return {**environment, **more}


def changed(content: str, path: str, value: Any) -> str:
    """Return the configuration with another value at that place; `None` takes it out."""
    config = json.loads(content)
    *parents, last = path.split("/")
    at = config
    for key in parents:
        at = at.setdefault(key, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return json.dumps(config)


# --- it passes ---


def test_it_passes_with_the_real_commands_and_servers(
    commands: Commands, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    ended = run_strict(roles(commands.path, signed_in_codex, opencode, ollama), tmp_path)
    assert_passed(ended, ollama)
    asked = [(request["method"], request["url"]) for request in ended.report["requests"]]
    assert asked[:5] == [
        ("GET", signed_in_codex.url),
        ("GET", f"{opencode.url}/global/health"),
        ("GET", f"{opencode.url}/experimental/capabilities"),
        ("GET", f"{opencode.url}/config"),
        ("GET", f"{opencode.url}/config/providers"),
    ]
    assert all(url.startswith(ollama.url) for _, url in asked[5:])
    assert ended.seconds < 20


def test_it_passes_where_the_server_has_a_password_and_nothing_shows_it(
    quick_path: str,
    signed_in_codex: CodexServer,
    locked_opencode: OpenCodeServer,
    ollama: OllamaStandIn,
    tmp_path: Path,
) -> None:
    ended = run_strict(roles(quick_path, signed_in_codex, locked_opencode, ollama), tmp_path)
    assert_passed(ended, ollama)


def test_it_passes_with_the_example_of_the_environment_as_it_stands(commands: Commands, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(ROOT / "specs", workspace / "specs")
    script = ". specs/strict-tests.env.example >&2 && env -0"
    sourced = subprocess.run(
        ["bash", "-euc", script],
        env={"PATH": commands.path, "LC_ALL": "C"},
        cwd=workspace,
        capture_output=True,
        timeout=10,
        check=True,
    )
    assert sourced.stderr == b""
    example = dict(entry.split("=", 1) for entry in sourced.stdout.decode().split("\0") if entry)
    # What the user does: install the pinned commands where it says, sign in, start the servers, add the keys.
    for release in (
        f"codex-releases/rust-v{commands.codex_version}",
        f"opencode-releases/v{commands.opencode_version}",
    ):
        (workspace / "target" / release).mkdir(parents=True)
        (workspace / "target" / release / "bin").symlink_to(commands.folder)
    assert not (workspace / "target" / "codex-home").exists()
    content = example["OPENCODE_CONFIG_CONTENT"]
    auth = '{"OPENAI_API_KEY": "sk-made-up-for-a-test"}'
    home = workspace / "target" / "codex-home"
    with (
        CodexServer(commands, tmp_path / "codex", auth=auth, home=home) as codex,
        OpenCodeServer(commands, tmp_path / "opencode", content=content) as opencode,
        OllamaStandIn({name: Model() for name in json.loads(content)["provider"]["ollama"]["models"]}) as ollama,
    ):
        codex.ready()
        opencode.ready()
        addresses = {
            "TEST_CODEX_WS_URL": codex.url,
            "TEST_OPENCODE_URL": opencode.url,
            "TEST_CUSTOM_OLLAMA_URL": ollama.url,
        }
        assert addresses.keys() <= example.keys()
        ended = run_strict({**example, **SECRETS, **addresses}, tmp_path)
        assert_passed(ended, ollama)


def test_after_it_a_later_client_still_heads_its_own_user_agent(
    commands: Commands, quick_path: str, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    with CodexServer(commands, tmp_path / "codex", auth='{"OPENAI_API_KEY": "sk-made-up"}') as codex:
        codex.ready()
        assert_passed(run_strict(roles(quick_path, codex, opencode, ollama), tmp_path), ollama)
        with codex.connect() as client:
            agent = client.initialize("their-agent", "4.5.6")["userAgent"]
    assert agent.startswith(f"their-agent/{commands.codex_version} (")


def test_it_passes_after_another_client_on_a_server_that_was_started_in_a_terminal_with_a_version(
    commands: Commands, quick_path: str, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    with CodexServer(
        commands,
        tmp_path / "codex",
        auth='{"OPENAI_API_KEY": "sk-made-up"}',
        environment={"TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "1.99.0"},
    ) as codex:
        with codex.ready().connect() as client:
            client.initialize("their-agent", "4.5.6")
        # Its user agent is now, for us too: their-agent/X (OS; ARCH) vscode/1.99.0 (their-agent; 4.5.6)
        assert_passed(run_strict(roles(quick_path, codex, opencode, ollama), tmp_path), ollama)


def test_it_passes_where_the_home_is_a_link_and_a_local_provider_needs_no_account(
    commands: Commands, quick_path: str, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    with CodexServer(commands, tmp_path / "codex", config='model_provider = "ollama"\n') as codex:
        codex.ready()
        link.symlink_to(codex.home)
        environment = roles(quick_path, codex, opencode, ollama, TEST_CODEX_HOME=str(link))
        assert_passed(run_strict(environment, tmp_path), ollama)


def test_a_key_that_the_server_does_not_know_is_a_warning(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    content = changed(SHARED_CONTENT, f"provider/ollama/models/{DEFAULT}/no_such_key", 1)
    ended = run_strict(roles(quick_path, signed_in_codex, opencode, ollama, content=content), tmp_path)
    assert_passed(ended, ollama)
    (finding,) = ended.findings("opencode-config")
    assert (finding["code"], finding["severity"]) == ("opencode.config-dropped", "warning")
    assert "no_such_key" in finding["message"]


# --- versions ---


def test_another_version_of_a_command_stops_it_before_any_server_is_asked(
    commands: Commands, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    write_commands(tmp_path / "old", codex=commands.codex_version, opencode="1.18.32")
    ended = run_strict(roles(f"{tmp_path}/old:/usr/bin:/bin", signed_in_codex, opencode, ollama), tmp_path)
    words = ("opencode --version", "1.18.32", commands.opencode_version)
    assert_stopped(ended, ollama, "commands", 1, "command.version", *words)
    assert ended.report["requests"] == []


def moved_pin(folder: Path, old: str, new: str) -> str:
    """Return the path of a copy of the strict spec beside pins one of which is another."""
    shutil.copytree(ROOT / "specs", folder / "specs")
    pins = folder / "specs" / "SPECIFICATIONS.md"
    text = pins.read_text(encoding="utf-8")
    assert text.count(old) == 1
    pins.write_text(text.replace(old, new), encoding="utf-8")
    return str(folder / "specs" / "strict.yml")


def test_with_a_moved_pin_the_real_commands_are_off(
    commands: Commands, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    spec = moved_pin(tmp_path, f"rust-v{commands.codex_version}", "rust-v0.999.0")
    ended = run_strict(roles(commands.path, signed_in_codex, opencode, ollama), tmp_path, spec)
    words = ("codex --version", "0.999.0", commands.codex_version, "command")
    assert_stopped(ended, ollama, "commands", 1, "command.version", *words)


def test_a_running_codex_server_that_is_not_the_pinned_one_is_named(
    commands: Commands, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    spec = moved_pin(tmp_path, f"rust-v{commands.codex_version}", "rust-v0.999.0")
    write_commands(tmp_path / "new", codex="0.999.0", opencode=commands.opencode_version)
    environment = roles(f"{tmp_path}/new:/usr/bin:/bin", signed_in_codex, opencode, ollama)
    ended = run_strict(environment, tmp_path, spec)
    words = ("running Codex App Server", "0.999.0", commands.codex_version)
    assert_stopped(ended, ollama, "codex", 1, "codex.version", *words)


def test_a_running_opencode_server_that_is_not_the_pinned_one_is_named(
    commands: Commands, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    spec = moved_pin(tmp_path, f"`v{commands.opencode_version}`", "`v1.99.0`")
    write_commands(tmp_path / "new", codex=commands.codex_version, opencode="1.99.0")
    environment = roles(f"{tmp_path}/new:/usr/bin:/bin", signed_in_codex, opencode, ollama)
    ended = run_strict(environment, tmp_path, spec)
    words = ("running OpenCode Server", "1.99.0", commands.opencode_version)
    assert_stopped(ended, ollama, "opencode-health", 1, "opencode.version", *words)


# --- Codex ---


def test_another_home_is_a_failure_that_names_both(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    other = tmp_path / "other-home"
    other.mkdir()
    environment = roles(quick_path, signed_in_codex, opencode, ollama, TEST_CODEX_HOME=str(other))
    ended = run_strict(environment, tmp_path)
    assert_stopped(ended, ollama, "codex", 1, "codex.home", str(other), str(signed_in_codex.home))


def test_no_account_is_a_failure_that_says_where_none_is(
    quick_path: str, codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    ended = run_strict(roles(quick_path, codex, opencode, ollama), tmp_path)
    assert_stopped(ended, ollama, "codex", 1, "codex.account", "no account")
    assert "auth.json" in ended.findings("codex")[0]["evidence"]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_configured_mcp_server_is_a_failure_at_once_and_is_not_started(
    commands: Commands, quick_path: str, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path, enabled: str
) -> None:
    mark = tmp_path / "mark"
    script = f"echo started >>'{mark}'; while read -r line; do :; done"
    config = f'[mcp_servers.hangs]\ncommand = "/bin/sh"\nargs = ["-c", {json.dumps(script)}]\nenabled = {enabled}\n'
    auth = '{"OPENAI_API_KEY": "sk-made-up"}'
    with CodexServer(commands, tmp_path / "codex", config=config, auth=auth) as codex:
        codex.ready()
        ended = run_strict(roles(quick_path, codex, opencode, ollama), tmp_path)
        assert_stopped(ended, ollama, "codex", 1, "codex.mcp", "1 MCP server")
        assert ended.seconds < 5  # starting it would have taken until the check's own 10 s were over
        with codex.connect() as client:
            # The next list starts an enabled one: a run that had started it would have left a line before.
            client.initialize("codex_app_server_daemon")
            late = client.send("mcpServerStatus/list", {})
            if enabled == "true":
                poll("the MCP server was started", lambda: bool(lines_of(mark)), seconds=15)
            else:
                client.answer(late)
        assert lines_of(mark) == (["started"] if enabled == "true" else ())


def test_an_unreadable_account_of_codex_is_told(
    commands: Commands, quick_path: str, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    with CodexServer(commands, tmp_path / "codex", auth="{}") as codex:
        codex.ready()
        ended = run_strict(roles(quick_path, codex, opencode, ollama), tmp_path)
    assert ended.code == 1
    assert ended.outcomes["codex"] == "failed"
    assert ended.outcomes["opencode-health"] == "skipped"
    assert "account/read" in ended.findings("codex")[0]["message"]


# --- OpenCode ---


@pytest.mark.parametrize("given", ["another password", "another user", "no password"])
def test_wrong_credentials_are_a_failure_with_22(
    quick_path: str,
    signed_in_codex: CodexServer,
    locked_opencode: OpenCodeServer,
    ollama: OllamaStandIn,
    tmp_path: Path,
    given: str,
) -> None:
    environment = roles(quick_path, signed_in_codex, locked_opencode, ollama)
    if given == "another password":
        environment["TEST_OPENCODE_PASSWORD"] = "not the password of it"
    elif given == "another user":
        environment["TEST_OPENCODE_USERNAME"] = "opencode"
    else:
        del environment["TEST_OPENCODE_USERNAME"], environment["TEST_OPENCODE_PASSWORD"]
    ended = run_strict(environment, tmp_path)
    assert_stopped(ended, ollama, "opencode-health", 22, "opencode.unauthorized", "401")
    assert "curl: (22)" in ended.stderr
    assert "not the password of it" not in ended.stdout + ended.stderr + json.dumps(ended.report)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model", "ollama/qwen3-coder:30b", ["`model`"]),
        ("provider/ollama/models/another:1b", {}, ["another:1b"]),
        ("provider/ollama/options/baseURL", "http://127.0.0.1:8/v1", ["provider.ollama.options.baseURL"]),
        (f"provider/ollama/models/{DEFAULT}/limit/context", 131072, [f"{DEFAULT}.limit.context"]),
        ("provider/ollama/options/apiKey", "sk-openai-of-the-live-tests", ["provider.ollama.options.apiKey"]),
    ],
)
def test_another_configuration_is_a_failure_that_names_the_place_and_no_value(
    quick_path: str,
    signed_in_codex: CodexServer,
    opencode: OpenCodeServer,
    ollama: OllamaStandIn,
    tmp_path: Path,
    path: str,
    value: Any,
    words: list[str],
) -> None:
    content = changed(SHARED_CONTENT, path, value)
    ended = run_strict(roles(quick_path, signed_in_codex, opencode, ollama, content=content), tmp_path)
    assert_stopped(ended, ollama, "opencode-config", 1, "opencode.config", *words)


def test_more_models_than_configured_are_fine(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    content = changed(SHARED_CONTENT, "provider/ollama/models/qwen3-coder:30b", None)
    ended = run_strict(roles(quick_path, signed_in_codex, opencode, ollama, content=content), tmp_path)
    assert_passed(ended, ollama)


def test_a_configuration_of_the_wrong_shape_is_22_and_names_the_place(
    quick_path: str,
    signed_in_codex: CodexServer,
    opencode_of_wrong_shape: OpenCodeServer,
    ollama: OllamaStandIn,
    tmp_path: Path,
) -> None:
    ended = run_strict(roles(quick_path, signed_in_codex, opencode_of_wrong_shape, ollama), tmp_path)
    words = ("400", "ConfigInvalidError", "OPENCODE_CONFIG_CONTENT", "model")
    assert_stopped(ended, ollama, "opencode-capabilities", 22, "opencode.config-error", *words, outcome="error")
    assert "curl: (22)" in ended.stderr


def test_a_configuration_that_is_no_json_is_22_and_nothing_of_it_is_shown(
    quick_path: str,
    signed_in_codex: CodexServer,
    opencode_without_json: OpenCodeServer,
    ollama: OllamaStandIn,
    tmp_path: Path,
) -> None:
    ended = run_strict(roles(quick_path, signed_in_codex, opencode_without_json, ollama), tmp_path)
    words = ("400", "ConfigJsonError", "OPENCODE_CONFIG_CONTENT")
    assert_stopped(ended, ollama, "opencode-capabilities", 22, "opencode.config-error", *words, outcome="error")


def test_a_disabled_provider_is_not_connected(
    commands: Commands, quick_path: str, signed_in_codex: CodexServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    content = changed(SHARED_CONTENT, "disabled_providers", ["ollama"])
    with OpenCodeServer(commands, tmp_path / "opencode", content=content, environment=SHARED_ENVIRONMENT) as opencode:
        opencode.ready()
        ended = run_strict(roles(quick_path, signed_in_codex, opencode, ollama), tmp_path)
    assert_stopped(ended, ollama, "opencode-providers", 1, "opencode.provider", "ollama")


# --- nobody there, not yet there, and somebody else ---


def smaller_bound(folder: Path, check: str) -> str:
    """Return the path of a copy of the strict spec in which that check has 2 s."""
    shutil.copytree(ROOT / "specs", folder / "specs")
    spec = folder / "specs" / "strict.yml"
    old = spec.read_text(encoding="utf-8")
    new, count = re.subn(rf"(  - id: {check}\n(?:    .*\n)*?    budget: )10s\n", r"\g<1>2s\n", old)
    assert count == 1
    spec.write_text(new, encoding="utf-8")
    return str(spec)


def test_a_codex_server_that_is_not_there_is_7(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    url = f"ws://127.0.0.1:{reserved_port()}"
    ended = run_strict(roles(quick_path, signed_in_codex, opencode, ollama, TEST_CODEX_WS_URL=url), tmp_path)
    words = ("TCP readiness connection failed", "refused")
    assert_stopped(ended, ollama, "codex-tcp", 7, "tcp.failed", *words, outcome="error")
    assert "curl: (7)" in ended.stderr
    assert ended.report["requests"] == []


def test_an_opencode_server_that_has_only_just_been_started_is_7_and_passes_once_it_is_ready(
    commands: Commands, quick_path: str, signed_in_codex: CodexServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    with OpenCodeServer(
        commands, tmp_path / "opencode", content=SHARED_CONTENT, environment=SHARED_ENVIRONMENT
    ) as opencode:
        environment = roles(quick_path, signed_in_codex, opencode, ollama)
        with opencode.paused():  # it takes a second until it listens
            early = run_strict(environment, tmp_path / "early")
        words = ("OpenCode Server /global/health", "refused")
        assert_stopped(early, ollama, "opencode-health", 7, "transport.connect", *words, outcome="error")
        assert early.findings("opencode-health")[0]["retryable"] is True
        assert "curl: (7)" in early.stderr
        opencode.ready()
        assert_passed(run_strict(environment, tmp_path / "late"), ollama)


def test_an_opencode_server_that_takes_a_connection_and_says_nothing_is_28(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    environment = roles(quick_path, signed_in_codex, opencode, ollama)
    with opencode.paused():
        ended = run_strict(environment, tmp_path, smaller_bound(tmp_path, "opencode-health"))
    words = ("OpenCode Server /global/health", "deadline of 2 s elapsed")
    assert_stopped(ended, ollama, "opencode-health", 28, "transport.deadline", *words, outcome="error")
    assert "curl: (28)" in ended.stderr
    assert 2 < ended.seconds < 6


def test_a_codex_server_at_the_address_of_opencode_is_not_taken_for_it(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    environment = roles(quick_path, signed_in_codex, opencode, ollama, TEST_OPENCODE_URL=signed_in_codex.http_url)
    ended = run_strict(environment, tmp_path)
    assert_stopped(ended, ollama, "opencode-health", 22, "http.status", "400", outcome="error")


def test_an_opencode_server_at_the_address_of_codex_is_given_up_in_time(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    environment = roles(quick_path, signed_in_codex, opencode, ollama)
    environment["TEST_CODEX_WS_URL"] = opencode.url.replace("http:", "ws:")
    # Such a handshake is never answered.
    ended = run_strict(environment, tmp_path, smaller_bound(tmp_path, "codex"))
    assert_stopped(ended, ollama, "codex", 28, "transport.deadline", "Codex", outcome="error")
    assert "curl: (28)" in ended.stderr
    assert ended.seconds < 6


def test_the_page_of_opencode_for_an_unknown_path_is_not_taken_for_health(
    quick_path: str, signed_in_codex: CodexServer, opencode: OpenCodeServer, ollama: OllamaStandIn, tmp_path: Path
) -> None:
    environment = roles(quick_path, signed_in_codex, opencode, ollama, TEST_OPENCODE_URL=f"{opencode.url}/v1")
    ended = run_strict(environment, tmp_path)
    assert_stopped(ended, ollama, "opencode-health", 1, "opencode.unhealthy", "text/html")
