"""Stand-ins of Codex, OpenCode, Ollama and servers of OpenAI's API with their manners and named faults."""

from __future__ import annotations

from precheck_lib.simulate.codex import Call, CodexStandIn
from precheck_lib.simulate.commands import Command, write_commands
from precheck_lib.simulate.faults import FAULTS, HOSTILE_FAULTS, INVALID_INVENTORIES, OPENAI_FAULTS, Fault, fault_named
from precheck_lib.simulate.hostile import HOSTILE, HostileFault, HostileServer, hostile_named
from precheck_lib.simulate.loopback import ConnectionSeen, Seen
from precheck_lib.simulate.ollama import OllamaStandIn
from precheck_lib.simulate.ollama_models import Model
from precheck_lib.simulate.openai import OpenAiStandIn
from precheck_lib.simulate.opencode import OpenCodeStandIn
from precheck_lib.simulate.stage import DEFAULT_MODELS, Stage, strict_config, strict_environment

__all__ = [
    "DEFAULT_MODELS",
    "FAULTS",
    "HOSTILE",
    "HOSTILE_FAULTS",
    "INVALID_INVENTORIES",
    "OPENAI_FAULTS",
    "Call",
    "CodexStandIn",
    "Command",
    "ConnectionSeen",
    "Fault",
    "HostileFault",
    "HostileServer",
    "Model",
    "OllamaStandIn",
    "OpenAiStandIn",
    "OpenCodeStandIn",
    "Seen",
    "Stage",
    "fault_named",
    "hostile_named",
    "strict_config",
    "strict_environment",
    "write_commands",
]
