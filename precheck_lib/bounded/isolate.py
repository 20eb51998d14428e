"""Calls that may block in the kernel (a hung driver, a dead mount), made in a child of their own session.

Decided here: the call runs in a fresh interpreter, because nothing in this process can end a thread that sleeps in C,
least of all one that holds the interpreter lock. The child is given up, not waited for, when its time is over: it gets
TERM, then KILL, and where the kernel holds it even then, its pid is named and the run goes on to its end. A fresh
interpreter instead of a fork: a fork of a process with threads may deadlock before it runs a single line.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

from precheck_lib.bounded.process import Command, run_children
from precheck_lib.bounded.strict_json import parse
from precheck_lib.errors import AnswerError, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.bounded.budget import Budget

_BOOT = "import sys,json;sys.path[:]=json.loads(sys.argv[1]);from precheck_lib.bounded.isolate import serve;serve()"


class HeldError(TransportError):
    """The call did not end in time and the kernel does not let its process go; `pids` are what it holds."""

    def __init__(self, message: str, pids: tuple[int, ...]) -> None:
        super().__init__(message, phase="child")
        self.pids = pids


def call_isolated(
    target: str, argument: Any, *, budget: Budget, env: Mapping[str, str], max_bytes: int = 1 << 20
) -> Any:
    """Call `target` (`package.module:function`) with one JSON value in a child and return its JSON value.

    Ends by the budget and 0.4 s, whatever the call does. `env` is the child's whole environment. Raises
    `DeadlineError` when the time is over, `HeldError` when the kernel holds the child beyond that, and `AnswerError` when
    the call raised (with its message) or died.
    """
    command = Command(
        argv=[sys.executable, "-I", "-c", _BOOT, json.dumps(sys.path), target, json.dumps(argument)], env=env
    )
    (result,) = run_children([command], budget=budget, max_stdout=max_bytes)
    if result.ended == "deadline":
        if result.held:
            pids = ", ".join(map(str, result.held))
            raise HeldError(f"{target} did not return, and the kernel holds its process (pid {pids})", result.held)
        raise budget.over("child")
    if result.ended == "signal":
        raise AnswerError(f"{target} was ended by signal {result.code}")
    try:
        answer = parse(result.stdout)
    except ValueError as error:
        raise AnswerError(f"{target} ended with {result.code} and no answer: {error}") from None
    if not isinstance(answer, dict) or "value" not in answer:
        raise AnswerError(f"{target}: {answer.get('error', 'no answer') if isinstance(answer, dict) else 'no answer'}")
    return answer["value"]


def serve() -> None:
    """Be the child: make the call that the arguments name and print its outcome as one JSON object."""
    module, _, function = sys.argv[2].partition(":")
    try:
        value = getattr(importlib.import_module(module), function)(json.loads(sys.argv[3]))
        answer = json.dumps({"value": value})
    except Exception as error:  # noqa: BLE001 - the parent says it
        answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
    sys.stdout.write(answer)
    sys.stdout.flush()
