"""A look around a machine: everything at the same time, all of it over in five seconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from precheck_lib.bounded.thread import call_bounded
from precheck_lib.errors import Cancelled, TalkError
from precheck_lib.gpu.system import pci_cards
from precheck_lib.survey import ollama, openai, ports, tools
from precheck_lib.survey.machine import Machine, Ollama, OpenAi, Port, Room, Tool
from precheck_lib.survey.together import together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.gpu.reading import PciCard

T = TypeVar("T")

SECONDS = 5.0
"""The most that a survey takes; what did not answer by then is not known."""

KEYS = (
    "ANTHROPIC_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "MISTRAL_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "WANDB_API_KEY",
)
"""Variables that hold the keys of services which jobs with models use."""

_TABLE_SECONDS, _FOLDER_SECONDS, _TOOL_SECONDS = 2.0, 1.0, 4.0


def survey(env: Mapping[str, str], budget: Budget) -> Machine:
    """Look around this machine; of `env` the names of keys are told, never a value. Raises `Cancelled`."""
    whole = budget.child(SECONDS)
    seen: list[tuple[Port, ...] | None] = []
    servers: list[OpenAi] = []
    ollamas: list[Ollama | None] = []
    found: list[Tool] = []
    cards: list[PciCard] = []
    free: list[int | None] = []
    where = ollama.place(env)
    folder = _work_folder(env)

    def look_at_ports() -> None:
        there = _bounded(ports.listening, whole.child(_TABLE_SECONDS), None)
        seen.append(there)
        asked = [one for one in there or () if one.port != where.port]
        servers.extend(openai.servers(asked, whole))

    together(
        [
            look_at_ports,
            lambda: ollamas.append(ollama.ask(where, whole)),
            lambda: found.extend(tools.tools(env, whole.child(_TOOL_SECONDS))),
            lambda: cards.extend(_bounded(pci_cards, whole.child(_FOLDER_SECONDS), [])),
            lambda: free.append(_bounded(lambda: _free(folder), whole.child(_FOLDER_SECONDS), None)),
        ]
    )
    if budget.cancel is not None and budget.cancel.signum is not None:
        raise Cancelled(budget.cancel.signum)
    server = ollamas[0] if ollamas else None
    # None answers, none was named, and no program of it is here: then nothing says that there should be one.
    if server is not None and server.trouble is not None and not server.given:
        server = server if any(tool.name == "ollama" for tool in found) else None
    return Machine(
        room=Room(path=folder, free=free[0] if free else None),
        ports=seen[0] if seen else None,
        ollama=server,
        openai=tuple(servers),
        gpus=tuple(cards),
        tools=tuple(found),
        keys=tuple(name for name in KEYS if env.get(name, "").strip()),
    )


def _bounded(call: Callable[[], T], budget: Budget, otherwise: T) -> T:
    try:
        return call_bounded(call, budget=budget, phase="folder")
    except (TalkError, OSError, ValueError):
        return otherwise


def _work_folder(env: Mapping[str, str]) -> str:
    """Return the folder that a runner's jobs work in, else the working folder."""
    for name in ("RUNNER_WORKSPACE", "GITHUB_WORKSPACE"):
        if os.path.isabs(env.get(name, "")):
            return env[name]
    try:
        return os.getcwd()
    except OSError:  # it has been removed
        return "/"


def _free(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


__all__ = ["KEYS", "SECONDS", "survey"]
