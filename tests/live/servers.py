"""The real Codex and OpenCode servers, each in a home of its own, for the live tests.

A server is a context manager: entering starts it, leaving kills its whole process group with SIGKILL, always
(the `codex` command may be a Node program with the server as its child, and OpenCode can swallow SIGTERM).
`ready()` waits until it answers. Nothing is inherited from the environment of the tests but `PATH`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
import websocket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

ROOT = Path(__file__).resolve().parents[2]
START_S = 45.0
"""How long a server may take until it answers; an OpenCode server takes 1 to 6 s on two busy cores."""
ATTEMPT_S = 1.0
"""One try of a server that is starting: a request that it took too early is never answered."""

SHARED_MODELS = {
    "qwen3-coder:30b": {"name": "Qwen3 Coder 30B", "limit": {"context": 65536, "output": 8192}},
    "gpt-oss:20b": {"name": "gpt-oss 20B", "limit": {"context": 65536, "output": 8192}},
}
SHARED_CONTENT = json.dumps(
    {
        "model": "ollama/gpt-oss:20b",
        "provider": {
            "ollama": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Ollama",
                "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "{env:LIVE_TEST_KEY}"},
                "models": SHARED_MODELS,
            }
        },
    }
)
"""The configuration of the OpenCode servers that tests share; `SHARED_ENVIRONMENT` has the variable in it."""
SHARED_ENVIRONMENT = {"LIVE_TEST_KEY": "the value of LIVE_TEST_KEY"}
KEY_IN_IT = "sk-a-key-in-the-configuration"
NO_JSON = '{"provider": {"ollama": {"options": {"apiKey": "' + KEY_IN_IT + '"}}},, }'
WRONG_SHAPE = json.dumps(
    {
        "model": 5,
        "provider": {
            "ollama": {
                "options": {"apiKey": KEY_IN_IT},
                "models": {"m": {"name": 1, "limit": {"context": "x"}}},
            },
            "other": KEY_IN_IT,
        },
    }
)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The installed `codex` and `opencode` commands, and the versions they are pinned to."""

    folder: Path
    codex_version: str
    opencode_version: str

    @property
    def path(self) -> str:
        """`PATH` with the commands in front."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"


def pins() -> tuple[str, str]:
    """Read the versions of Codex and OpenCode that `specs/SPECIFICATIONS.md` pins."""
    text = (ROOT / "specs" / "SPECIFICATIONS.md").read_text(encoding="utf-8")
    (codex,) = re.findall(r"^- Codex App Server: `rust-v(.+)`$", text, re.MULTILINE)
    (opencode,) = re.findall(r"^- OpenCode Server: `v(.+)`$", text, re.MULTILINE)
    return codex, opencode


def poll(what: str, probe: Callable[[], bool], *, seconds: float = START_S, every: float = 0.05) -> None:
    """Ask `probe` until it says yes; an `AssertionError` that names `what` when `seconds` are over."""
    end = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(every)


def reserved_port() -> int:
    """Return a loopback port that a server can bind to and that the kernel gives to nobody else for a minute.

    One connection of it stays behind in TIME_WAIT: no such port is picked for somebody who asks for any port.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = listener.accept()
            accepted.close()  # this side closes first, so that TIME_WAIT is the server's
            client.recv(1)
    return port


class Server:
    """A child in a session of its own with a home below `folder`; what it prints is in `log`."""

    def __init__(self, commands: Commands, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """Say where it lives and what its environment has beyond the least."""
        self.commands = commands
        self.folder = folder
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self._more = dict(environment or {})

    def arguments(self) -> list[str]:
        """Return the command line."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Lay out what the server finds in its home."""

    def environment(self) -> dict[str, str]:
        """Return all that the server has as environment."""
        home = self.folder / "home"
        return {
            "PATH": self.commands.path,
            "HOME": str(home),
            "TMPDIR": str(self.folder / "tmp"),
            **{
                f"XDG_{name}_HOME": str(home / below)
                for name, below in (
                    ("CACHE", ".cache"),
                    ("CONFIG", ".config"),
                    ("DATA", ".local/share"),
                    ("STATE", ".local/state"),
                )
            },
            **self._more,
        }

    def __enter__(self) -> Self:
        """Start it, and do not wait."""
        for name in ("home", "tmp", "work"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.prepare()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.arguments(),
                cwd=self.folder / "work",
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it and all that it started."""
        if self.process is None:
            return
        # The leader has not been waited for, so its process group is still there, and still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)
        self.process = None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it, and what it started, for a while: it keeps its sockets and does nothing."""
        assert self.process is not None, "the server has not been started"
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)

    def said(self) -> str:
        """Return what it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        """Tell whether it still runs."""
        # Not Popen.poll(): that reaps the leader, and then nobody knows whose process group that number is.
        assert self.process is not None, "the server has not been started"
        seen = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return seen is None

    def until(self, what: str, probe: Callable[[], bool]) -> None:
        """Poll as long as it lives, until `probe` says yes."""

        def step() -> bool:
            assert self.alive(), f"the server ended before it was {what}:\n{self.said()}"
            return probe()

        try:
            poll(what, step)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None


@dataclass
class CodexClient:
    """One WebSocket connection to a Codex App Server; `notified` has the notifications that came by."""

    socket: websocket.WebSocket
    notified: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    _last: int = 0

    def send(self, method: str, params: Any) -> int:
        """Send a request and return its id."""
        self._last += 1
        self.socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        return self._last

    def answer(self, number: int | str, *, seconds: float = 10.0) -> dict[str, Any]:
        """Return the whole answer to the request with that id."""

        def found() -> list[dict[str, Any]]:
            return [seen for seen in self.answers if seen["id"] == number]

        self.listen(lambda: bool(found()), f"an answer to request {number}", seconds=seconds)
        return found()[0]

    def listen(self, enough: Callable[[], bool], what: str, *, seconds: float = 10.0) -> None:
        """Take what comes until it is `enough`; `what` names it where it does not come within `seconds`."""
        end = time.monotonic() + seconds
        while not enough():
            left = end - time.monotonic()
            assert left > 0, f"not within {seconds:g} s: {what}"
            self.socket.settimeout(left)
            try:
                frame = json.loads(self.socket.recv())
            except websocket.WebSocketTimeoutException:
                continue
            (self.notified if "method" in frame else self.answers).append(frame)

    def ask(self, method: str, params: Any, *, seconds: float = 10.0) -> dict[str, Any]:
        """Send a request and return the whole answer to it."""
        return self.answer(self.send(method, params), seconds=seconds)

    def initialize(self, name: str, version: str = "1.2.3") -> dict[str, Any]:
        """Introduce the client and return the result."""
        answer = self.ask("initialize", {"clientInfo": {"name": name, "version": version}})
        result: dict[str, Any] = answer["result"]
        return result


class CodexServer(Server):
    """`codex app-server` on a loopback port; `config` is its config.toml, `auth` its auth.json."""

    def __init__(
        self,
        commands: Commands,
        folder: Path,
        *,
        config: str | None = None,
        auth: str | None = None,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Say how it is configured; `home` is its CODEX_HOME, by default a folder below its own."""
        super().__init__(commands, folder, environment)
        self.home = home or folder / "codex-home"
        self._config = config
        self._auth = auth

    def arguments(self) -> list[str]:
        return [str(self.commands.folder / "codex"), "app-server", "--listen", "ws://127.0.0.1:0"]

    def prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        for name, text in (("config.toml", self._config), ("auth.json", self._auth)):
            if text is not None:
                (self.home / name).write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        return {"CODEX_HOME": str(self.home), **super().environment()}

    def find_port(self) -> int:
        """Wait until it says where it listens, which is all that can be known of the port."""
        self.until("listening", lambda: self._said_port() is not None)
        port = self._said_port()
        assert port is not None
        return port

    def _said_port(self) -> int | None:
        # With its line end: a line may be half written.
        match = re.search(r"listening on: ws://127\.0\.0\.1:([0-9]+)\s*\n", self.said())
        return int(match[1]) if match else None

    @property
    def url(self) -> str:
        """Return its address as clients of the protocol need it."""
        return f"ws://127.0.0.1:{self.find_port()}"

    @property
    def http_url(self) -> str:
        """Return its address for plain HTTP."""
        return f"http://127.0.0.1:{self.find_port()}"

    def ready(self) -> Self:
        """Wait until it says that it is ready; no client introduces itself for that."""
        url = f"{self.http_url}/readyz"

        def probe() -> bool:
            with contextlib.suppress(requests.RequestException):
                return bool(get(url, seconds=ATTEMPT_S).status_code == requests.codes.ok)
            return False

        self.until("ready", probe)
        return self

    def connect(self) -> contextlib.AbstractContextManager[CodexClient]:
        """Open one WebSocket connection."""
        return codex_client(self.url)


@contextlib.contextmanager
def codex_client(url: str) -> Iterator[CodexClient]:
    """Open one WebSocket connection, without an Origin header."""
    connection = websocket.create_connection(url, timeout=10, suppress_origin=True)
    try:
        yield CodexClient(connection)
    finally:
        connection.close()


class OpenCodeServer(Server):
    """`opencode serve` on a loopback port; `content` is its OPENCODE_CONFIG_CONTENT."""

    def __init__(
        self,
        commands: Commands,
        folder: Path,
        *,
        content: str | None = None,
        username: str | None = None,
        password: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Say how it is configured."""
        super().__init__(commands, folder, environment)
        self._content = content
        self.username = username
        self.password = password
        self.port = reserved_port()

    def arguments(self) -> list[str]:
        command = str(self.commands.folder / "opencode")
        return [command, "serve", "--hostname", "127.0.0.1", "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        made = {
            **super().environment(),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            # The first request that makes an instance also starts an installation of a plugin from the npm
            # registry (64 MB into XDG_CONFIG_HOME). npm's own settings count there: offline, it is given up.
            "npm_config_offline": "true",
        }
        options = {
            "OPENCODE_CONFIG_CONTENT": self._content,
            "OPENCODE_SERVER_USERNAME": self.username,
            "OPENCODE_SERVER_PASSWORD": self.password,
        }
        made.update({name: value for name, value in options.items() if value is not None})
        return made

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"

    def authorization(self) -> dict[str, str]:
        """Return the header that its password asks for."""
        if self.password is None:
            return {}
        return {"Authorization": basic(self.username or "opencode", self.password)}

    def ready(self) -> Self:
        """Wait until it is healthy: a new connection for each try, which may not take long (`ATTEMPT_S`)."""

        def probe() -> bool:
            with contextlib.suppress(requests.RequestException, ValueError):
                answer = get(f"{self.url}/global/health", self.authorization(), seconds=ATTEMPT_S)
                body = answer.json()
                return isinstance(body, dict) and body.get("healthy") is True
            return False

        self.until("healthy", probe)
        return self

    def get(self, path: str, headers: Mapping[str, str] | None = None, *, seconds: float = 20.0) -> requests.Response:
        """Ask for `path` with the right password."""
        return get(f"{self.url}{path}", {**self.authorization(), **(headers or {})}, seconds=seconds)


def basic(username: str, password: str, encoding: str = "utf-8") -> str:
    """Return the value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode(encoding)).decode("ascii")


def get(url: str, headers: Mapping[str, str] | None = None, *, seconds: float = 10.0) -> requests.Response:
    """GET over a new connection, without proxies, redirects, netrc or credentials of the environment."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, headers=headers, timeout=seconds, allow_redirects=False)


def lines_of(path: Path) -> Sequence[str]:
    """Return the lines of a file that may not be there yet."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
