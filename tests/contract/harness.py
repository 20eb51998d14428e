"""Runs the command as a user does, in a process of its own with an exact environment, and reads what it left."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import psutil
import yaml

from precheck_lib.simulate import Stage
from precheck_lib.simulate.loopback import Connection, Gone, LoopbackServer
from tests.contract.warm import WarmProcess, WarmServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pytest

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "specs"
SUCCESS = "strict live precheck passed"
SECRET_ROLES = (
    "TEST_OPENAI_API_KEY",
    "TEST_ANTHROPIC_API_KEY",
    "TEST_GEMINI_API_KEY",
    "TEST_OPENCODE_PASSWORD",
    "OPENCODE_CONFIG_CONTENT",
)
ORDER = (
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
)
"""The ids of the strict spec's checks in their order (CONTRACT D1)."""


FORKING = threading.RLock()
"""Held while a process is begun and while an executable is written: the kernel runs no file that is open for writing,
and a process that is forked meanwhile has it open."""


def open_stage(folder: str | Path, **arguments: Any) -> Stage:
    """Make a `Stage` where other threads may begin processes."""
    with FORKING:
        return Stage(folder, **arguments)


def command_of(root: Path) -> tuple[str, ...]:
    """Give `python -m precheck_lib` of the checkout at `root`: from any working folder, without a variable more."""
    launch = "runpy.run_module('precheck_lib', run_name='__main__', alter_sys=True)"
    return sys.executable, "-c", f"import sys, runpy; sys.path[0] = {str(root)!r}; {launch}"


COMMAND = command_of(ROOT)

server: WarmServer | None = None
"""What `begin` forks from, while there is one (`conftest.py`)."""

_STREAMS = frozenset({"stdin", "stdout", "stderr"})

READS = ("opencode-health", "opencode-capabilities", "opencode-config", "opencode-providers", "ollama-tags")

SMALL: Mapping[str, Mapping[str, Any]] = {
    "roles": {"budget": "2s"},
    "commands": {"budget": "3s"},
    "codex-tcp": {"budget": "1s"},
    "codex": {"budget": "2s", "connect": "1s"},
    **{check: {"budget": "2s", "connect": "1s"} for check in READS},
    "residency": {
        "connect": "1s",
        "read": "1s",
        "unload": "1s",
        "removal": "1s",
        "load": "1s",
        "settle": "100ms",
        "hold": "200ms",
        "reserve": "1s",
        "reserve_per_model": "1s",
    },
}
"""The bounds of `small_strict`: by check id, `budget` and the options of the check's kind."""

BRIEF: Mapping[str, Mapping[str, Any]] = {
    "commands": {"budget": "1s"},
    "codex-tcp": {"budget": "500ms"},
    "codex": {"budget": "1s", "connect": "500ms"},
    **{check: {"budget": "1s", "connect": "500ms"} for check in READS},
    "residency": {"connect": "500ms", "read": "500ms"},
}
"""What to change of `SMALL` where a bound is waited out: too little for a run that is to pass on a busy machine."""

_FRAME = ("id", "title", "needs", "budget")


def write_strict(
    folder: Path,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    small: bool = True,
    **head: Any,
) -> Path:
    """Write a copy of the strict spec and its pins into `folder`, with the bounds of `SMALL`; give the spec's path.

    `changes` are further ones in the form of `SMALL` (an option that is `None` is taken out); `head` replaces keys of
    the spec itself, such as `exit_codes`.
    """
    document = read_yaml(SPECS / "strict.yml")
    wanted: dict[str, dict[str, Any]] = {}
    for part in (SMALL if small else {}, changes or {}):
        for check_id, values in part.items():
            wanted.setdefault(check_id, {}).update(values)
    for check in document["checks"]:
        (kind,) = (key for key in check if key not in _FRAME)
        for name, value in wanted.pop(check["id"], {}).items():
            place = check if name in _FRAME else check[kind]
            place[name] = value
            if value is None:
                del place[name]
    assert not wanted, f"the strict spec has no check {', '.join(wanted)}"
    for name, value in head.items():
        document[name] = value
        if value is None:
            del document[name]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SPECS / "SPECIFICATIONS.md", folder / "SPECIFICATIONS.md")
    return write_yaml(folder / "strict.yml", document)


def read_yaml(path: Path) -> Any:
    """Read a YAML file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def write_yaml(path: Path, document: Any) -> Path:
    """Write a YAML file, and give its path back."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
    return path


@dataclass(frozen=True)
class Case:
    """One test case of a JUnit document: `word` is passed, failed, error or skipped."""

    word: str
    type: str = ""
    message: str = ""
    text: str = ""
    system_out: str = ""


@dataclass(frozen=True)
class Ended:
    """A run that has ended: exit code (negative: by that signal), both streams, both reports, seconds."""

    code: int
    out: str
    err: str
    json: Any
    junit: ET.Element | None
    elapsed: float
    raw: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def cases(self) -> dict[str, Case]:
        """The test cases of the JUnit document by name, in order."""
        assert self.junit is not None, self
        return {case.get("name", ""): _case(case) for case in self.junit.iter("testcase")}

    @property
    def words(self) -> dict[str, str]:
        """How each check ended, by id, as JUnit has it."""
        return {name: case.word for name, case in self.cases.items()}

    @property
    def blockers(self) -> list[str]:
        """The checks that failed or could not be found out."""
        return [name for name, word in self.words.items() if word in ("failed", "error")]

    @property
    def messages(self) -> list[str]:
        """The messages of all findings, in order, warnings too."""
        return [finding["message"] for check in self.json["checks"] for finding in check["findings"]]

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and URL of each request of the JSON report."""
        return [(request["method"], request["url"]) for request in self.json["requests"]]

    def check(self, check_id: str) -> dict[str, Any]:
        """Give one check of the JSON report."""
        (found,) = (check for check in self.json["checks"] if check["id"] == check_id)
        return found

    def __str__(self) -> str:
        return f"exit {self.code} after {self.elapsed:.2f} s\n--- stdout\n{self.out}--- stderr\n{self.err}"


def _case(element: ET.Element) -> Case:
    out = element.findtext("system-out") or ""
    for tag, word in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
        found = element.find(tag)
        if found is not None:
            return Case(word, found.get("type", ""), found.get("message", ""), found.text or "", out)
    return Case("passed", system_out=out)


def begin(arguments: list[str], *, env: Mapping[str, str], cwd: str | Path, **popen: Any) -> subprocess.Popen[bytes]:
    """Begin a process: `COMMAND` on a server that has imported it already, where nothing decides about its start.

    The caller holds `FORKING`, and gives all three streams.
    """
    fixed = any(name.startswith("PYTHON") or name in ("LANG", "LC_CTYPE") for name in env)
    if server is None or fixed or not popen.keys() <= _STREAMS or tuple(arguments[: len(COMMAND)]) != COMMAND:
        return subprocess.Popen(arguments, env=env, cwd=cwd, **popen)
    return WarmProcess(server, arguments[len(COMMAND) :], env=env, cwd=cwd, **popen)


class Running:
    """A run that goes on: `process`, its report files `json` and `junit`, and `finish` to wait for its end."""

    def __init__(
        self,
        stage: Stage | Mapping[str, str],
        *args: str,
        spec: str | Path | None = "strict",
        cwd: str | Path | None = None,
        reports: bool = True,
        command: Sequence[str] = COMMAND,
        **popen: Any,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="contract-")
        place = Path(self._folder.name)
        self.json, self.junit = place / "report.json", place / "report.xml"
        self.env = dict(stage.environment if isinstance(stage, Stage) else stage)
        (place / "cwd").mkdir()
        arguments = [*command, *(["run", str(spec)] if spec is not None else []), *args]
        if reports:
            arguments += ["--json", str(self.json), "--junit", str(self.junit)]
        self.started = time.monotonic()
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            with FORKING:
                self.process = begin(
                    arguments,
                    env=self.env,
                    cwd=place / "cwd" if cwd is None else cwd,
                    **{**streams, **popen},
                )
        except BaseException:
            self._folder.cleanup()
            raise

    def signal(self, number: int) -> None:
        """Send a signal to it (and to nothing that it has started)."""
        os.kill(self.process.pid, number)

    def finish(self, timeout: float = 20.0) -> Ended:
        """Wait for its end and read what it left; one that does not end in time is killed, and the test fails."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"not ended after {timeout} s\n{_text(out)}\n{_text(err)}") from None
        elapsed = time.monotonic() - self.started
        raw = self.json.read_bytes() if self.json.is_file() else b""
        xml = self.junit.read_bytes() if self.junit.is_file() else b""
        return Ended(
            code=self.process.returncode,
            out=_text(out),
            err=_text(err),
            json=json.loads(raw) if raw else None,
            junit=ET.fromstring(xml) if xml else None,
            elapsed=elapsed,
            raw=raw + xml,
            env=self.env,
        )

    def close(self) -> None:
        """End it if it has not ended, and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.wait()
        self._folder.cleanup()


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def start_precheck(
    stage: Stage | Mapping[str, str], *args: str, spec: str | Path | None = "strict", **more: Any
) -> Iterator[Running]:
    """Start `precheck run SPEC ARGS --json F --junit F` with exactly that environment; it is ended with the block.

    The working folder is an empty one of its own. `more` is for `Running` and for `Popen`.
    """
    running = Running(stage, *args, spec=spec, **more)
    try:
        yield running
    finally:
        running.close()


def run_precheck(
    stage: Stage | Mapping[str, str],
    *args: str,
    spec: str | Path | None = "strict",
    timeout: float = 20.0,
    verify: bool = True,
    **more: Any,
) -> Ended:
    """Run it to its end; what must hold of every run is asserted right away (`verify`)."""
    with start_precheck(stage, *args, spec=spec, **more) as running:
        ended = running.finish(timeout)
    if verify:
        assert_sound(ended)
    return ended


def run_all(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make the calls on as many threads as there are processors, and give their results in order."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def read_fifo(path: Path, seconds: float = 10.0) -> bytes:
    """Be the reader that a FIFO waits for, and give all that is written to it; fails when nobody writes in time."""
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        end, parts = time.monotonic() + seconds, []
        while True:
            ready = poll.poll(max(0.0, end - time.monotonic()) * 1000)
            assert ready, f"nobody has written to {path} within {seconds} s"
            part = os.read(reader, 65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        os.close(reader)


class Family(Mapping[str, Any]):
    """What `run` gives for each case, by name; the cases of the chosen tests are run a few at a time, when made.

    `functions` names the tests that have a case's name for their only parameter: a single case can be chosen and no
    other one is run then. What a case has raised is raised when it is asked for. No case may leave a process.
    """

    def __init__(
        self,
        request: pytest.FixtureRequest,
        functions: str | tuple[str, ...],
        cases: Iterable[str],
        run: Callable[[str], Any],
        *,
        at_a_time: int = 3,
    ) -> None:
        functions = (functions,) if isinstance(functions, str) else functions
        items = [item for item in request.session.items if item.path == request.path]
        chosen = {item.name.partition("[")[2][:-1] for item in items if item.originalname in functions}
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        with ThreadPoolExecutor(at_a_time) as pool:
            self._futures = {name: pool.submit(run, name) for name in cases if name in chosen}
        left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
        _gone, alive = psutil.wait_procs(left, timeout=2)
        assert not alive, f"left behind: {alive}"

    def __getitem__(self, name: str) -> Any:
        return self._futures[name].result()

    def __iter__(self) -> Iterator[str]:
        return iter(self._futures)

    def __len__(self) -> int:
        return len(self._futures)


def assert_sound(ended: Ended) -> None:
    """Assert what holds of every run that wrote its reports, whatever happened (CONTRACT A4, A6, B5, C2)."""
    assert ended.json is not None, ended
    assert ended.junit is not None, ended
    assert ended.code == ended.json["exit_code"], ended
    words = [check["outcome"] for check in ended.json["checks"]]
    assert list(ended.words.values()) == words, ended
    assert (ended.code == 0) == (not ended.blockers), ended
    assert (ended.json["verdict"] == "ready") == (ended.code == 0), ended
    assert (SUCCESS in ended.out) == (ended.code == 0 and ended.json["spec"]["name"] == "strict"), ended
    if ended.code == 0:
        assert not ended.out.rstrip("\n").endswith("\n"), ended
    for check in ended.json["checks"]:
        assert (check["outcome"] == "skipped") == (check["skipped_for"] is not None), ended
        if check["outcome"] == "skipped":
            assert check["skipped_for"] in ended.blockers, ended
            assert check["skipped_for"] in ended.cases[check["id"]].message, ended
    for text in ended.messages:
        assert text.strip(), ended
    assert not [line for line in ended.err.splitlines() if line.startswith("Traceback")], ended
    out = ended.out
    if ended.env.get("GITHUB_ACTIONS") == "true":  # what the runner is told to mask is what is secret
        out = "".join(line for line in out.splitlines(keepends=True) if not line.startswith("::add-mask::"))
    for secret in secrets_of(ended.env):
        for where in (out, ended.err, ended.raw.decode("utf-8")):
            assert secret not in where, f"a secret is shown: {ended}"


def secrets_of(env: Mapping[str, str]) -> list[str]:
    """Give the values in an environment that must not be seen anywhere: those of 8 characters or more."""
    found = [os.fsdecode(env[name]) for name in SECRET_ROLES if len(env.get(name, "")) >= 8]
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        key = json.loads(env["OPENCODE_CONFIG_CONTENT"])["provider"]["ollama"]["options"]["apiKey"]
        if len(key) >= 8 and "{" not in key:
            found.append(key)
    return found


def nothing_was_contacted(stage: Stage) -> bool:
    """Say whether no stand-in was even connected to."""
    return not (stage.codex.connections or stage.opencode.connections or stage.ollama.connections)


def everything_seen(stage: Stage) -> list[str]:
    """Give all that arrived at the three stand-ins in the order of its arrival, each as a few words.

    `codex TCP` (a connection without a request), `codex GET /`, `codex initialize`, `opencode GET /config`,
    `ollama GET /api/ps`, `ollama unload qwen3:8b`, ...
    """
    found: list[tuple[float, int, str]] = []
    for name, server in (("codex", stage.codex), ("opencode", stage.opencode), ("ollama", stage.ollama)):
        silent = len(server.connections) - len(server.seen)
        found += [(connection.at, 0, f"{name} TCP") for connection in server.connections[: max(0, silent)]]
        for request in server.seen:
            step = server.step(request)
            what = f"{request.method} {request.path}"
            if name == "ollama" and step in ("load", "unload"):
                what = f"{step} {json.loads(request.body)['model']}"
            found.append((request.at, 1, f"{name} {what}"))
    found += [(call.at, 2, f"codex {call.method}") for call in stage.codex.calls]
    return [what for _, _, what in sorted(found)]


def write_script(path: Path, *lines: str) -> Path:
    """Write an executable shell script."""
    with FORKING:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
        path.chmod(0o755)
    return path


def ignoring(*numbers: int) -> Callable[[], None]:
    """Give a `preexec_fn` that ignores these signals, as nohup does."""

    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    return ignore


class Scripted(LoopbackServer):
    """A loopback server that does on each connection what `talk` says; it only listens where that is `None`."""

    scheme = "http"

    def __init__(self, talk: Callable[[Connection], None] | None = None) -> None:
        self._talk = talk or Connection.hold
        super().__init__()
        self.start()

    def serve(self, connection: Connection) -> None:
        self._talk(connection)


SELF_SIGNED = Path(__file__).parent / "data" / "self-signed.pem"
"""A certificate for 127.0.0.1 and localhost that no authority vouches for, valid from 2020 to 2120, and its key."""


class SelfSigned(Scripted):
    """An HTTPS server with the self-signed certificate; `trusted` says how many clients took it."""

    scheme = "https"
    subject_hash = "fdd01258"
    """What OpenSSL looks for in a folder of certificates."""

    def __init__(self) -> None:
        self.trusted = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(SELF_SIGNED)
        super().__init__(self._shake_hands)

    @staticmethod
    def certificate() -> str:
        """Give the certificate alone."""
        return SELF_SIGNED.read_text(encoding="utf-8").partition("-----BEGIN PRIVATE KEY-----")[0]

    def _shake_hands(self, connection: Connection) -> None:
        try:
            with self._context.wrap_socket(connection._sock, server_side=True) as secure:
                if not secure.recv(65536):  # in TLS 1.3 a refused certificate is told only here
                    raise Gone
                with self.changed:
                    self.trusted += 1
                secure.sendall(b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n")
        except OSError as error:
            raise Gone from error


@contextlib.contextmanager
def full_listener() -> Iterator[str]:
    """Give host and port of a listener whose queue is full: a connection to it neither succeeds nor fails."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"
