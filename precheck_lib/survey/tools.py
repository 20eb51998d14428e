"""Programs on PATH that jobs with models use, and their versions: each is asked for it, in a bounded child."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from precheck_lib.bounded.journal import Journal
from precheck_lib.bounded.thread import call_bounded
from precheck_lib.checks.kind import Context
from precheck_lib.survey.machine import Tool
from precheck_lib.versions import first_version, parse_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.process import ChildResult

KNOWN = ("python3", "git", "docker", "node", "uv", "codex", "opencode", "ollama")
"""Programs whose version is asked for."""

NOT_RUN = ("nvidia-smi",)
"""Programs that are only looked for: one that enters a driver may never come back."""

_CLIENT = re.compile(r"client version is (\S{1,64})")


def tools(env: Mapping[str, str], budget: Budget) -> list[Tool]:
    """Return those of the known programs that are on PATH, by the end of the budget and half a second."""
    from precheck_lib.bounded.process import Command, find_program, run_children

    allowed = Context(
        env=env, budget=budget, journal=Journal(), expand=lambda value: value, exit_code=lambda _: 0
    ).child_env
    path = allowed.get("PATH", "")

    def look() -> list[str]:
        return [name for name in (*KNOWN, *NOT_RUN) if path and find_program(name, path)[0] == "exit"]

    there = call_bounded(look, budget=budget, phase="folder")
    asked = [name for name in there if name in KNOWN]
    results = run_children([Command(argv=[name, "--version"], env=allowed) for name in asked], budget=budget)
    found = [_tool(name, result, budget.asked) for name, result in zip(asked, results, strict=True)]
    return found + [Tool(name=name, run=False) for name in there if name in NOT_RUN]


def _tool(name: str, result: ChildResult, seconds: float) -> Tool:
    if result.ended == "deadline":
        return Tool(name=name, trouble=f"it did not end in {seconds:g} s")
    if result.ended != "exit":
        return Tool(name=name, trouble="it could not be run to its end")
    if result.code != 0:
        return Tool(name=name, trouble=f"it ended with exit status {result.code}")
    version = _version(name, (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace"))
    return Tool(name=name, version=version)


def _version(name: str, printed: str) -> str | None:
    """Find the version in what a program has printed; that of the program, where it tells its server's first."""
    own = _CLIENT.search(printed) if name == "ollama" else None
    version = first_version(own[1] if own is not None else printed)
    if version is None:
        return None
    try:
        parse_version(version)
    except ValueError:
        return None
    return version.removeprefix("v")


__all__ = ["KNOWN", "NOT_RUN", "tools"]
