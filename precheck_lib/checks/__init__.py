"""One file a kind of check: its options, what it will do (for `plan`), and `run(options, context)`.

A check returns warnings where it passed and raises `NotReadyError` (or a `TalkError`) where it did not. It never
prints.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from precheck_lib.checks.kind import Kind
    from precheck_lib.spec.model import CheckSpec

KINDS = (
    "codex",
    "command",
    "disk",
    "env",
    "file",
    "gpu",
    "http",
    "memory",
    "ollama",
    "openai",
    "opencode",
    "port",
    "process",
    "residency",
    "tcp",
)
"""The kinds there are, each in the module of its name."""


def kind_named(name: str) -> Kind:
    """Return the kind of that name, imported now."""
    module = importlib.import_module(f"precheck_lib.checks.{name}")
    found: Kind = module.KIND
    return found


def changes_server(check: CheckSpec) -> bool:
    """Say whether a check alters a server's state, with the options that it has."""
    of = kind_named(check.kind)
    return of.changes and of.changes_with(check.options)
