"""Starting what was asked for: the stage of a strict run, OpenAI's API beside it, or one hostile server."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from precheck_lib.simulate.hostile.server import HostileServer
from precheck_lib.simulate.openai import OpenAiStandIn
from precheck_lib.simulate.stage import Stage

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

_KEY = "stand-in-openai-key"


@contextlib.contextmanager
def serving(given: argparse.Namespace, folder: str) -> Iterator[dict[str, str]]:
    """Serve, and give the variables that say where."""
    with contextlib.ExitStack() as stack:
        if given.hostile is not None:
            yield _hostile(given, stack)
            return
        faults = {server: name for server, name, _ in given.fault}
        options = {server: told for server, _, told in given.fault}
        openai = faults.pop("openai", None), options.pop("openai", None)
        stage = Stage(folder, password=given.password, faults=faults, fault_options=options)
        environment = dict(stack.enter_context(stage).environment)
        if given.openai is not None or openai[0] is not None:
            server = OpenAiStandIn(
                flavour=given.openai or "vllm", api_key=given.api_key, fault=openai[0], fault_options=openai[1]
            )
            environment["OPENAI_BASE_URL"] = stack.enter_context(server).url
            environment["OPENAI_API_KEY"] = given.api_key or _KEY
            environment["OPENAI_MODEL"] = "Qwen/Qwen3-8B"
        yield environment


def for_a_command(environment: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of a command: ours with these variables, the stand-ins' commands first on our own PATH."""
    made = {**os.environ, **environment}
    if "PATH" in environment and os.environ.get("PATH"):
        made["PATH"] = f"{environment['PATH'].partition(':')[0]}:{os.environ['PATH']}"
    return made


def _hostile(given: argparse.Namespace, stack: contextlib.ExitStack) -> dict[str, str]:
    name, options = given.hostile
    server = stack.enter_context(HostileServer(name, **options))
    where = {"HOSTILE_URL": server.url, "HOSTILE_WS_URL": server.ws_url}
    if server.certificates is not None:
        where["HOSTILE_CA_FILE"] = str(server.certificates.certificate)
    return where


__all__ = ["for_a_command", "serving"]
