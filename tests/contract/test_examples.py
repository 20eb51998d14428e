"""The specs that users begin with, built-in or to copy: each is run against what it is for, whole and with its faults.

An example is pointed at a stand-in by its variables, as its user would do it. What no variable can say (the ports of
`port`, how large a disk has to be) is replaced in a copy; nothing else ever is.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonschema
import pytest
import yaml

from precheck_lib.simulate import CodexStandIn, Model, OllamaStandIn, OpenAiStandIn, OpenCodeStandIn
from precheck_lib.simulate.commands import write_commands
from precheck_lib.spec import load_spec
from precheck_lib.spec.load import built_in_names
from precheck_lib.spec.schema import spec_schema
from precheck_lib.spec.variables import names
from tests.contract.harness import FORKING, ROOT, SPECS, Family, open_stage, run_precheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from precheck_lib.simulate.loopback import Connection, Seen
    from precheck_lib.simulate.web import Reply
    from tests.contract.harness import Ended

EXAMPLES = sorted(path.stem for path in (SPECS / "examples").iterdir())
SYSTEM = "/usr/bin:/bin"
KEY = "opaque-key-1234"


def path_of(name: str) -> Path:
    return SPECS / f"{name}.yml"


# The stacks -----------------------------------------------------------------------------------------------------------


class Laid(NamedTuple):
    """A stack that runs: the environment that points the spec at it, and what its text says in place of what."""

    env: dict[str, str]
    instead: Mapping[str, str] = {}


class Layer:
    """Starts servers that end with `stack`; `place` is a folder for their files."""

    def __init__(self, stack: contextlib.ExitStack, place: Path) -> None:
        self.stack = stack
        self.place = place

    def built_in_ollama(self, **more: Any) -> Laid:
        server = self.stack.enter_context(OllamaStandIn({"a": Model(), "b": Model()}, **more))
        return Laid({"OLLAMA_HOST": server.authority, "PRECHECK_MODELS": "a,b"})

    def built_in_openai(self, env: Mapping[str, str] | None = None, **more: Any) -> Laid:
        server = self.stack.enter_context(OpenAiStandIn(("a", "b"), api_key=KEY, **more))
        given = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "PRECHECK_MODELS": "a, b"}
        return Laid({**given, **(env or {})})

    def built_in_strict(self, **more: Any) -> Laid:
        return Laid(dict(self.stack.enter_context(open_stage(self.place, **more)).environment))

    def ollama(self, tools: tuple[str, ...] = ("tools",), room: str = "1MiB", **more: Any) -> Laid:
        models = {
            "qwen3:8b": Model(capabilities=("completion", *tools)),
            "nomic-embed-text": Model(capabilities=("embedding",)),
        }
        server = self.stack.enter_context(OllamaStandIn(models, **more))
        # What this machine has is not what the example is about.
        instead = {"free: 10GiB": f"free: {room}", "available: 4GiB": "available: 1MiB"}
        return Laid({"OLLAMA_HOST": server.authority, "OLLAMA_MODELS": str(self.place)}, instead)

    def openai_compatible(self, key: str = KEY, **more: Any) -> Laid:
        server = self.stack.enter_context(OpenAiStandIn(("Qwen/Qwen3-8B", "other"), api_key=KEY, **more))
        return Laid({"VLLM_URL": server.url.removesuffix("/v1"), "VLLM_API_KEY": key})

    def llama_cpp(self, alias: str = "qwen3-8b", key: str = "", **more: Any) -> Laid:
        given = {"flavour": "llama.cpp", "slots": 2, "context_length": 32768, **more}
        server = self.stack.enter_context(OpenAiStandIn((alias,), **given))
        return Laid({"LLAMA_URL": server.url.removesuffix("/v1"), "LLAMA_API_KEY": key})

    def two_ollama(
        self, first: Mapping[str, Any] | None = None, second: Mapping[str, Any] | None = None, *, taken: bool = False
    ) -> Laid:
        both = threading.Barrier(2)
        one = self.stack.enter_context(Meeting(both, {"qwen3:8b": Model()}, **(first or {})))
        two = self.stack.enter_context(Meeting(both, {"gpt-oss:20b": Model()}, **(second or {})))
        port = self.stack.enter_context(foreign_listener()) if taken else two.port
        instead = {"{port: 11434,": f"{{port: {one.port},", "{port: 11435,": f"{{port: {port},"}
        return Laid({"FIRST_OLLAMA": one.authority, "SECOND_OLLAMA": two.authority}, instead)

    def agents(
        self,
        codex: str | None = None,
        opencode: str | None = None,
        command: str = "0.171.0",
        password: str = KEY,
    ) -> Laid:
        with FORKING:
            write_commands(self.place / "bin", codex=command)
        server = self.stack.enter_context(CodexStandIn(str(self.place), fault=codex))
        other = self.stack.enter_context(OpenCodeStandIn({}, password=KEY, fault=opencode))
        env = {"CODEX_WS_URL": server.url, "CODEX_HOME": str(self.place), "OPENCODE_URL": other.url}
        return Laid({**env, "PATH": f"{self.place / 'bin'}:{SYSTEM}", "OPENCODE_SERVER_PASSWORD": password})


LAYS: dict[str, Callable[..., Laid]] = {
    "ollama": Layer.built_in_ollama,
    "openai": Layer.built_in_openai,
    "strict": Layer.built_in_strict,
    "examples/ollama": Layer.ollama,
    "examples/openai-compatible": Layer.openai_compatible,
    "examples/llama-cpp": Layer.llama_cpp,
    "examples/two-ollama": Layer.two_ollama,
    "examples/agents": Layer.agents,
}


class Meeting(OllamaStandIn):
    """An Ollama that does not load before as many others as `together` waits for are asked to; alone it fails."""

    def __init__(self, together: threading.Barrier, models: Mapping[str, Model], **more: Any) -> None:
        self.together = together
        super().__init__(models, **more)

    def answer(self, connection: Connection, request: Seen) -> Reply:
        if self.step(request) == "load":
            try:
                self.together.wait(5)
            except threading.BrokenBarrierError:
                return self.reply(500, b'{"error":"nobody else loads"}')
        return super().answer(connection, request)


@contextlib.contextmanager
def foreign_listener() -> Iterator[int]:
    """Give the port on which a process listens that is not this one."""
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with FORKING:
        child = subprocess.Popen([sys.executable, "-IS", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        yield int(child.stdout.readline())
        child.kill()


@contextlib.contextmanager
def called(name: str) -> Iterator[None]:
    """Have this process listed by that name, as that of its stand-ins would be."""
    comm = Path("/proc/self/comm")
    if not comm.exists():  # not Linux: `ps` tells the name of the program, and tests that need another are skipped
        yield
        return
    before = comm.read_text(encoding="utf-8")
    comm.write_text(name, encoding="utf-8")
    try:
        yield
    finally:
        comm.write_text(before, encoding="utf-8")


# What is run ----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One run: how its stack differs, and the check and finding that say so."""

    spec: str
    stack: Mapping[str, Any]
    check: str
    code: str


LOADS = {"at": "/health", "times": 1}
READY: dict[str, Case] = {
    **{name: Case(name, {}, "", "") for name in LAYS},
    "a llama-server with a key that still loads, and sleeps then": Case(
        "examples/llama-cpp",
        {"key": KEY, "api_key": KEY, "fault": "loading-503", "fault_options": LOADS, "sleeping": True},
        "",
        "",
    ),
}

HALF = {"fault": "partly-on-cpu"}
SHORT = {"fault": "short-context"}
DEAD = {"fault": "engine-dead-500"}
FAULTS: dict[str, Case] = {
    "built-in ollama, not pulled": Case(
        "ollama", {"fault": "not-pulled", "fault_options": {"model": "b"}}, "models", "ollama.not-pulled"
    ),
    "built-in ollama, half on the CPU": Case(
        "ollama", {**HALF, "fault_options": {"model": "b"}}, "residency", "residency.partial"
    ),
    "built-in openai, no URL": Case("openai", {"env": {"OPENAI_BASE_URL": ""}}, "roles", "roles.missing"),
    "built-in openai, another model": Case(
        "openai", {"fault": "model-missing", "fault_options": {"model": "b"}}, "server", "openai.model-missing"
    ),
    "built-in openai, dead engine": Case("openai", DEAD, "tokens", "openai.completion"),
    "ollama, last year's": Case("examples/ollama", {"version": "0.15.4"}, "server", "ollama.version"),
    "ollama, no tools": Case("examples/ollama", {"tools": ()}, "pulled", "ollama.capability"),
    "ollama, disk full": Case("examples/ollama", {"room": "9000TiB"}, "disk", "disk.full"),
    "ollama, half on the CPU": Case("examples/ollama", HALF, "loaded", "residency.partial"),
    "ollama, context 4096": Case("examples/ollama", SHORT, "loaded", "residency.context"),
    "openai, wrong key": Case("examples/openai-compatible", {"key": "other-key-1234"}, "model", "http.unauthorized"),
    "openai, context 4096": Case("examples/openai-compatible", {"context_length": 4096}, "model", "http.value"),
    "openai, dead engine": Case("examples/openai-compatible", DEAD, "token", "openai.completion"),
    "llama.cpp, another model": Case("examples/llama-cpp", {"alias": "other"}, "token", "openai.model-missing"),
    "llama.cpp, wrong key": Case("examples/llama-cpp", {"api_key": KEY}, "token", "openai.unauthorized"),
    "llama.cpp, context shared by slots": Case("examples/llama-cpp", {"context_length": 16384}, "props", "http.value"),
    "two Ollamas, the second down": Case(
        "examples/two-ollama", {"second": {"fault": "refuse"}}, "second-port", "port.closed"
    ),
    "two Ollamas, another program on the port": Case(
        "examples/two-ollama", {"taken": True}, "second-port", "port.owner"
    ),
    "two Ollamas, the first without its model": Case(
        "examples/two-ollama", {"first": {"fault": "not-pulled"}}, "first-models", "ollama.not-pulled"
    ),
    "two Ollamas, the second on the CPU": Case(
        "examples/two-ollama", {"second": {"fault": "on-cpu"}}, "second-loaded", "residency.partial"
    ),
    "agents, Codex of last week": Case("examples/agents", {"codex": "wrong-version"}, "codex", "codex.version"),
    "agents, OpenCode of last week": Case(
        "examples/agents", {"opencode": "wrong-version"}, "opencode", "opencode.version"
    ),
    "agents, another command": Case("examples/agents", {"command": "0.170.2"}, "commands", "command.version"),
    "agents, wrong password": Case(
        "examples/agents", {"password": "other-word-1234"}, "opencode", "opencode.unauthorized"
    ),
}
CASES = {**READY, **FAULTS}


def file_for(spec: str, laid: Laid, place: Path) -> str | Path:
    """Give the spec as it is named on a command line: by name, by its path, or a copy that says what is meant here."""
    if not spec.startswith("examples/"):
        return spec
    if not laid.instead:
        return path_of(spec)
    text = path_of(spec).read_text(encoding="utf-8")
    for old, new in laid.instead.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    copy = place / "precheck.yml"
    copy.write_text(text, encoding="utf-8")
    return copy


def run_case(case: Case, place: Path) -> Ended:
    with contextlib.ExitStack() as stack:
        laid = LAYS[case.spec](Layer(stack, place), **case.stack)
        return run_precheck(laid.env, spec=file_for(case.spec, laid, place))


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    functions = (
        "test_a_spec_is_ready_where_its_stack_works",
        "test_a_fault_of_the_stack_is_said_by_the_check_that_is_for_it",
    )
    places = {name: tmp_path_factory.mktemp("example") for name in CASES}
    with called("ollama"):
        return Family(request, functions, CASES, lambda name: run_case(CASES[name], places[name]))


def needs_linux(case: str) -> None:
    if CASES[case].spec == "examples/two-ollama" and not sys.platform.startswith("linux"):
        pytest.skip("a process can be listed by another name on Linux only")


@pytest.mark.parametrize("case", READY)
def test_a_spec_is_ready_where_its_stack_works(ended, case):
    needs_linux(case)
    assert ended[case].code == 0, ended[case]
    assert set(ended[case].words.values()) == {"passed"}
    assert [check["findings"] for check in ended[case].json["checks"] if check["findings"]] == []


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_the_stack_is_said_by_the_check_that_is_for_it(ended, case):
    needs_linux(case)
    run, (_, _, check, code) = ended[case], FAULTS[case]
    assert run.code != 0
    assert run.blockers == [check], run
    assert [finding["code"] for finding in run.check(check)["findings"]] == [code]


# What they do ---------------------------------------------------------------------------------------------------------


def test_the_two_ollamas_load_at_the_same_time(ended):
    needs_linux("examples/two-ollama")
    run = ended["examples/two-ollama"]
    assert [run.check(f"{which}-loaded")["outcome"] for which in ("first", "second")] == ["passed", "passed"], run


def test_the_agents_example_asks_opencode_for_nothing_that_makes_an_instance(ended):
    run = ended["examples/agents"]
    asked = [url for _, url in run.requests if url.startswith(run.env["OPENCODE_URL"])]
    assert asked == [f"{run.env['OPENCODE_URL']}/global/health"]


# The files ------------------------------------------------------------------------------------------------------------


def test_every_built_in_spec_and_every_example_is_run_with_two_faults_or_more():
    every = {*built_in_names(), *(f"examples/{name}" for name in EXAMPLES)}
    assert every == set(LAYS)
    assert [path.suffix for path in (SPECS / "examples").iterdir()] == [".yml"] * len(EXAMPLES)
    for name in every - {"strict"}:  # whose faults are most of what stands beside this file
        assert len([case for case in FAULTS.values() if case.spec == name]) >= 2, name


def test_every_built_in_spec_and_every_example_is_in_the_documentation():
    page = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (?:\[`[^`]+`\]\(\.\./specs/(examples/[^)]+)\.yml\)|`([a-z]+)`) \| [^|]+ \|", page)
    told = {example or name for example, name in rows}
    assert told >= set(LAYS)
    assert {name for name in told if name.startswith("examples/")} <= set(LAYS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_spec_that_fits_the_schema_as_an_editor_reads_it(name):
    path = path_of(f"examples/{name}")
    assert load_spec(str(path)).checks
    validator = jsonschema.Draft202012Validator(spec_schema())
    assert [error.message for error in validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_its_head_explains_every_variable(name):
    text = path_of(f"examples/{name}").read_text(encoding="utf-8")
    assert 25 <= len(text.splitlines()) <= 70
    head = text.partition("\nversion: 1\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    explained = ", ".join(re.findall(r"(?m)^#   ([A-Z_]+(?:, [A-Z_]+)*)(?:  .*)?$", head)).split(", ")
    used = list(dict.fromkeys(names(yaml.safe_load(text)["checks"])))
    assert sorted(explained) == sorted(used)
    assert not [one for one in used if one.startswith("TEST_")]
