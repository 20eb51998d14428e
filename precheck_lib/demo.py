"""The strict precheck against stand-ins on loopback: what it does, and how each kind of failure looks.

No configuration, no GPU, no network: three servers, two commands and every variable are made for the run and removed
with it. Faults are listed by the letter of the contract that they show.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.simulate import Command, Model, Stage
from precheck_lib.units import Seconds
from precheck_lib.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from precheck_lib.interrupt import Interrupts
    from precheck_lib.outcome import CheckResult
    from precheck_lib.spec.model import Spec

SHORT = 1.0
"""Seconds of a bound in the demo of a fault that uses it up: the real ones, up to six minutes, would be no demo."""

SLOW_SECONDS = 40.0


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """One fault to show: the `letter` of the contract it belongs to, what is wrong, and how the stage is set for it.

    `short` names the bounds that the fault uses up, by check: its `budget`, or options of it. They get `SHORT` seconds.
    """

    letter: str
    text: str
    faults: dict[str, str] = msgspec.field(default_factory=dict)
    options: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    env: dict[str, str | None] = msgspec.field(default_factory=dict)
    codex_command: Any = "0.171.0"
    opencode_command: Any = "1.18.33"
    password: str | None = None
    special: str = ""
    short: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


def _server(letter: str, text: str, server: str, fault: str, *short: str) -> Demo:
    return Demo(letter=letter, text=text, faults={server: fault}, short={short[0]: short[1:]} if short else {})


def _roles(text: str, **env: str | None) -> Demo:
    return Demo(letter="B", text=text, env=env)


DEMOS: dict[str, Demo] = {
    "report-unwritable": Demo(letter="A", text="all is right, but a report cannot be written", special="unwritable"),
    "cancelled": Demo(letter="A", text="the job is cancelled during a cold load", special="cancelled"),
    "role-missing": _roles(
        "a secret and a variable are not defined", TEST_GEMINI_API_KEY="", TEST_CODEX_MODEL_DEFAULT=None
    ),
    "role-alone": _roles("a user name without its password", TEST_OPENCODE_USERNAME="ci"),
    "role-carriage-return": _roles("a value was saved with Windows line ends", TEST_CODEX_REASONING_EFFORT="high\r"),
    "role-url": _roles("a URL has credentials in it", TEST_OPENCODE_URL="http://ci:hunter2hunter2@127.0.0.1:4096"),
    "role-jsonc": _roles(
        "the configuration has comments", OPENCODE_CONFIG_CONTENT='{\n  // models\n  "provider": {}\n}'
    ),
    "command-old": Demo(letter="C", text="another codex comes first on PATH", codex_command="0.170.2"),
    "command-hangs": Demo(
        letter="C",
        text="opencode --version never ends",
        opencode_command=Command("", sleep_seconds=60),
        short={"commands": ("budget",)},
    ),
    "command-broken": Demo(
        letter="C",
        text="opencode cannot start",
        opencode_command=Command("", stderr="opencode: cannot find module '../lib/cli.js'\n", exit_code=1),
    ),
    "codex-stale": _server("C", "a Codex server of last week answers", "codex", "wrong-version"),
    "opencode-stale": _server("C", "an OpenCode server of last week answers", "opencode", "wrong-version"),
    "opencode-down": _server("D", "a server is down: nothing after it is asked", "opencode", "refuse"),
    "codex-down": _server("E", "no Codex server is running", "codex", "refuse"),
    "codex-silent": _server(
        "E", "Codex takes connections and says nothing", "codex", "accept-and-silence", "codex", "budget"
    ),
    "codex-other-home": _server("E", "somebody else's Codex answers", "codex", "foreign-home"),
    "codex-no-account": _server("E", "nobody is logged in", "codex", "no-account"),
    "codex-mcp": _server("E", "MCP servers are configured", "codex", "mcp-configured"),
    "opencode-password": Demo(
        letter="F",
        text="the password is another",
        password="right-password",  # noqa: S106 - a made-up one of a stand-in
        env={"TEST_OPENCODE_PASSWORD": "wrong-password"},
    ),
    "opencode-unhealthy": _server("F", "OpenCode says it is not healthy", "opencode", "unhealthy"),
    "opencode-page": _server("F", "a web page answers with 200", "opencode", "html-200"),
    "opencode-subagents": _server("F", "background subagents are on", "opencode", "subagents-on"),
    "opencode-config-error": _server("F", "OpenCode cannot use its configuration", "opencode", "config-400"),
    "opencode-other-config": _server("F", "OpenCode runs with another base URL", "opencode", "config-leaf-differs"),
    "opencode-model-missing": _server("F", "a model is not offered", "opencode", "provider-missing-model"),
    "ollama-not-pulled": _server("G", "a model was never pulled", "ollama", "not-pulled"),
    "ollama-cloud": _server("G", "a model runs in the cloud", "ollama", "cloud-model"),
    "ollama-too-old": _server("G", "an Ollama of before 0.3.11", "ollama", "too-old"),
    "ollama-never-leaves": _server(
        "G", "another client keeps a model busy", "ollama", "never-leaves", "residency", "removal"
    ),
    "ollama-inventory": _server("G", "a proxy answers for Ollama", "ollama", "ps-invalid"),
    "ollama-load-fails": _server("G", "a model cannot be loaded", "ollama", "load-500"),
    "ollama-load-hangs": _server("G", "a load never ends", "ollama", "load-hangs", "residency", "load"),
    "gpu-partial": _server("G", "a quarter of a model is on the CPU", "ollama", "partly-on-cpu"),
    "gpu-lost": _server("G", "Ollama sees no GPU", "ollama", "on-cpu"),
    "context-short": _server("G", "the context is silently 4096", "ollama", "short-context"),
    "model-evicted": _server("G", "another client pushes the model out", "ollama", "evicted-after-load"),
    "opencode-drip": _server("H", "a byte a second", "opencode", "drip", "opencode-health", "budget"),
    "opencode-huge": _server("H", "an answer without end", "opencode", "huge"),
    "budget-small": Demo(letter="H", text="a budget that leaves no time for a load", special="budget"),
}


def list_lines() -> Iterator[str]:
    """Yield a line for each fault there is to show."""
    for name, demo in DEMOS.items():
        yield f"{demo.letter}  {name:<24} {demo.text}"


class Play:
    """A stage set for a demo, as a context manager. `environment`, `spec`, `budget` and `watcher` are for the run."""

    def __init__(
        self, spec: Spec, interrupts: Interrupts, *, runner: str = "", fault: str | None = None, slow: bool = False
    ) -> None:
        self.demo = DEMOS[fault] if fault is not None else Demo(letter="", text="")
        self.spec = shortened(spec, self.demo.short)
        self.budget = 5.0 if self.demo.special == "budget" else None
        self._interrupts = interrupts
        self._runner = runner
        self._folder = tempfile.TemporaryDirectory(prefix="precheck-demo-")
        models = {"qwen3:8b": Model(), "gpt-oss:20b": Model(size=96 << 20, context_length=131072)}
        if slow:
            models = {"qwen3:8b": Model(size=6 << 30, load_seconds=SLOW_SECONDS)}
        elif self.demo.special == "cancelled":
            models = {"qwen3:8b": Model(load_seconds=SLOW_SECONDS)}
        try:
            self.stage = Stage(
                self._folder.name,
                models=models,
                password=self.demo.password,
                faults=self.demo.faults,
                fault_options=self.demo.options,
                codex_command=self.demo.codex_command,
                opencode_command=self.demo.opencode_command,
            )
        except BaseException:
            self._folder.cleanup()
            raise
        self.environment = self._environment()

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stage.close()
        finally:
            self._folder.cleanup()

    def _environment(self) -> dict[str, str]:
        environment = {**self.stage.environment, "RUNNER_NAME": self._runner}
        for name, value in self.demo.env.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        return environment

    def unwritable(self) -> str | None:
        """Return a path that no report can be written to, where the demo is about that."""
        if self.demo.special != "unwritable":
            return None
        path = os.path.join(self._folder.name, "a-file")
        with open(path, "w", encoding="utf-8"):
            pass
        return os.path.join(path, "report.json")

    def memory(self) -> int | None:
        """Return the bytes that the stand-in's GPU holds, a loading model as far as it has come."""
        used = 0
        for name, state in self.stage.ollama.state().items():
            model = self.stage.ollama.models[name]
            share = 1.0 if state != "loading" else min(1.0, self._loading_share(model))
            used += int(model.size * share)
        return used

    def _loading_share(self, model: Model) -> float:
        loads = [seen.at for seen in self.stage.ollama.seen if b'"keep_alive":"' in seen.body]
        if not loads or not model.load_seconds:
            return 0.0
        import time

        return (time.monotonic() - loads[-1]) / model.load_seconds

    def watcher(self, face: Watcher) -> Watcher:
        """Wrap a face where the demo has to do something at a moment of the run."""
        return _CancelsTheLoad(face, self._interrupts) if self.demo.special == "cancelled" else face


class _CancelsTheLoad(Watcher):
    """Sends the run the signal that GitHub's runner sends, as soon as the first load has begun."""

    def __init__(self, face: Watcher, interrupts: Interrupts) -> None:
        self._face = face
        self._interrupts = interrupts
        self._loading = False

    def phase(self, check: str, text: str, seconds: float) -> None:
        """Note that the load begins."""
        self._loading = text.startswith("loading")
        self._face.phase(check, text, seconds)

    def waiting(self) -> None:
        """Cancel once the load is waited for."""
        if self._loading and not self._interrupts.stop.is_set:
            import signal

            os.kill(os.getpid(), signal.SIGINT)
        self._face.waiting()

    def ended(self, result: CheckResult) -> None:
        """Pass it on."""
        self._face.ended(result)


def shortened(spec: Spec, short: Mapping[str, tuple[str, ...]]) -> Spec:
    """Return the spec with the bounds that `short` names at a second, so that faults which use them up can be shown."""
    checks = []
    for check in spec.checks:
        names = short.get(check.id, ())
        options: Any = check.options
        options = msgspec.structs.replace(options, **{name: Seconds(SHORT) for name in names if name != "budget"})
        budget = SHORT if "budget" in names else check.budget
        checks.append(msgspec.structs.replace(check, options=options, budget=budget))
    return msgspec.structs.replace(spec, checks=tuple(checks))
