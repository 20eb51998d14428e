"""Calls that may block in the kernel (a hung driver, a dead mount), made in a child of their own session.

Decided here: the call runs in a fresh interpreter, because nothing in this process can end a thread that sleeps in C,
least of all one that holds the interpreter lock. The child is given up, not waited for, when its time is over: it gets
TERM, then KILL, and where the kernel holds it even then, its pid is named and the run goes on to its end. A fresh
interpreter instead of a fork: a fork of a process with threads may deadlock before it runs a single line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from precheck_lib.bounded.process import ChildResult, Command, run_children
from precheck_lib.bounded.strict_json import parse_object
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

    Ends by the budget and 0.5 s, whatever the call does. `env` is the child's whole environment. Raises
    `DeadlineError` when the time is over, `HeldError` when the kernel holds the child beyond that, and `AnswerError`
    when the call raised (with its message) or died.
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
    if result.ended != "exit":
        raise AnswerError(f"{target} {_how(result, max_bytes)}")
    try:
        answer = parse_object(result.stdout, f"the answer of {target}")
    except AnswerError as error:
        raise AnswerError(f"{target} ended with {result.code} and no answer: {error}") from None
    if "value" not in answer:
        raise AnswerError(f"{target}: {answer.get('error', 'no answer')}")
    return answer["value"]


def _how(result: ChildResult, max_bytes: int) -> str:
    if result.ended == "signal":
        return f"was ended by signal {result.code}"
    if result.ended == "flood":
        return f"answered with more than {max_bytes} bytes"
    return f"could not be started: {result.stderr.decode('utf-8', 'replace')}"


def serve() -> None:
    """Be the child: make the call that the arguments name and print its outcome as one JSON object."""
    # The answer has the pipe for itself: a library that prints (they do, about drivers) must not garble it.
    pipe = os.dup(1)
    os.dup2(2, 1)
    module, _, function = sys.argv[2].partition(":")
    try:
        value = getattr(importlib.import_module(module), function)(json.loads(sys.argv[3]))
        answer = json.dumps({"value": value})
    except BaseException as error:  # noqa: BLE001 - the parent says it
        answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
    with open(pipe, "w", encoding="utf-8") as file:
        file.write(answer)
