"""What is on this machine: listening ports, model servers, GPUs, programs. Values out, nothing judged, nothing changed.

A look is bounded in all that it does, and what it could not find out is left open in its value, never guessed.
"""

from __future__ import annotations

from precheck_lib.survey.around import SECONDS, survey
from precheck_lib.survey.machine import Machine, Ollama, OpenAi, Port, Resident, Room, Tag, Tool

__all__ = ["SECONDS", "Machine", "Ollama", "OpenAi", "Port", "Resident", "Room", "Tag", "Tool", "survey"]
