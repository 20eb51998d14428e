"""Everything that the strict precheck talks to, so that it passes: three servers, two commands, the roles."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.codex import CodexStandIn
from precheck_lib.simulate.commands import write_commands
from precheck_lib.simulate.ollama import OllamaStandIn
from precheck_lib.simulate.ollama_models import Model
from precheck_lib.simulate.opencode import OpenCodeStandIn
from precheck_lib.simulate.options import meant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from precheck_lib.simulate.commands import Command

SERVERS = ("codex", "opencode", "ollama")
"""What a strict run talks to."""

DEFAULT_MODELS: Mapping[str, Model] = {
    "qwen3:8b": Model(),
    "gpt-oss:20b": Model(size=96 * 1024 * 1024, context_length=131072),
}
"""Two models, the default one first."""


def strict_config(ollama: OllamaStandIn, models: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Give an OpenCode configuration whose provider offers what `ollama` has; the first is the default.

    `models` are the configured ones in place of those, as they stand in a configuration: key -> settings.
    """
    entries = {name: {"name": name} for name in ollama.models} if models is None else dict(models)
    options = {"baseURL": f"http://{ollama.authority}/v1", "apiKey": "stand-in-ollama-key"}
    return {
        "model": f"ollama/{next(iter(entries))}",
        "provider": {"ollama": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": entries}},
    }


def strict_environment(
    codex: CodexStandIn, opencode: OpenCodeStandIn, ollama: OllamaStandIn, commands_folder: str | Path
) -> dict[str, str]:
    """Give the environment of a strict run against these stand-ins: PATH and every role (CONTRACT B1, B2).

    The keys in it are made up. The optional pair is there where `opencode` has a password.
    """
    config = opencode.config if isinstance(opencode.config, str) else json.dumps(opencode.config)
    try:
        model = str(json.loads(config)["model"])
    except (ValueError, KeyError, TypeError):
        model = f"ollama/{next(iter(ollama.models))}"
    environment = {
        "PATH": f"{commands_folder}:/usr/bin:/bin",
        "TEST_CODEX_WS_URL": codex.url,
        "TEST_CODEX_HOME": codex.home,
        "TEST_CODEX_MODEL_DEFAULT": "gpt-6-luna",
        "TEST_CODEX_REASONING_EFFORT": "high",
        "TEST_OPENAI_API_KEY": "stand-in-openai-key",
        "TEST_OPENAI_BASE_URL": "https://openai.invalid/v1",
        "TEST_ANTHROPIC_API_KEY": "stand-in-anthropic-key",
        "TEST_ANTHROPIC_BASE_URL": "https://anthropic.invalid",
        "TEST_GEMINI_API_KEY": "stand-in-gemini-key",
        "TEST_CUSTOM_OPENAI_MODEL": "gpt-6-luna",
        "TEST_CUSTOM_ANTHROPIC_MODEL": "claude-sonnet-4-6",
        "TEST_OPENCODE_CLOUD_MODEL": "opencode/big-pickle",
        "TEST_OPENCODE_URL": opencode.url,
        "TEST_CUSTOM_OLLAMA_URL": ollama.url,
        "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": model.partition("/")[2] or model,
        "OPENCODE_CONFIG_CONTENT": config,
    }
    if opencode.password:
        environment["TEST_OPENCODE_USERNAME"] = opencode.username
        environment["TEST_OPENCODE_PASSWORD"] = opencode.password
    return environment


class Stage:
    """All three stand-ins and the commands below `folder` (made if missing), running until `close()`.

    `faults` has at most one fault for each server and `fault_options` its parameters. `models` are Ollama's,
    the default one first; `config` replaces OpenCode's configuration. `codex_command` and `opencode_command`
    are what `write_commands` takes.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        models: Mapping[str, Model] = DEFAULT_MODELS,
        config: Mapping[str, Any] | None = None,
        username: str = "opencode",
        password: str | None = None,
        faults: Mapping[str, str] | None = None,
        fault_options: Mapping[str, Mapping[str, Any]] | None = None,
        codex_command: str | Command = "0.171.0",
        opencode_command: str | Command = "1.18.33",
    ) -> None:
        faults, options = dict(faults or {}), dict(fault_options or {})
        if unknown := sorted((faults.keys() | options.keys()) - set(SERVERS)):
            near = meant(unknown[0], SERVERS)
            raise ValueError(f"there is no server {', '.join(unknown)} in it; it has {', '.join(SERVERS)}{near}")
        place = Path(folder).absolute()
        home = place / "codex-home"
        home.mkdir(parents=True, exist_ok=True)
        (home / "auth.json").write_text('{"OPENAI_API_KEY":"stand-in-openai-key"}', encoding="utf-8")
        self.commands = write_commands(place / "bin", codex=codex_command, opencode=opencode_command)
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            codex = CodexStandIn(str(home), fault=faults.get("codex"), fault_options=options.get("codex"))
            self.codex = stack.enter_context(codex)
            ollama = OllamaStandIn(models, fault=faults.get("ollama"), fault_options=options.get("ollama"))
            self.ollama = stack.enter_context(ollama)
            opencode = OpenCodeStandIn(
                strict_config(ollama) if config is None else config,
                username=username,
                password=password,
                fault=faults.get("opencode"),
                fault_options=options.get("opencode"),
            )
            self.opencode = stack.enter_context(opencode)
            self._stack = stack.pop_all()
        self.environment = strict_environment(codex, opencode, ollama, place / "bin")

    def close(self) -> None:
        """End all three servers; a second call does nothing."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
