"""What `python -m precheck_lib.simulate` is told, and what its help says."""

from __future__ import annotations

import argparse
import json
from typing import Any

from precheck_lib.simulate.faults import fault_named
from precheck_lib.simulate.hostile.tables import hostile_named
from precheck_lib.simulate.options import STEPS, count, flag, meant, seconds

_SYNOPSIS = "%(prog)s [options] [-- COMMAND [ARGUMENT...]]"

_EPILOG = f"""\
Without a COMMAND it prints an export line for each variable, then the line "ready", and serves until SIGTERM, SIGINT,
SIGHUP or the end of stdin (the null device does not count as one). Its files lie in a new folder, which is removed at
the end.

With a COMMAND it prints nothing of its own: the command has the variables in its environment and the stand-ins'
commands first on its PATH, and gets the signals that come here. The servers end with it, and its exit code is
returned (128 and the signal's number where a signal ended it, 127 where there is no such command, 126 where it cannot
be run):

    python -m precheck_lib.simulate --fault ollama=on-cpu -- precheck run strict

--env-file PATH is for what is started elsewhere. The file must not be there, only its owner can read it, and it is
removed at the end. Of its variables PATH has no effect where there is one already, so for a run that looks at the
commands (codex, opencode) put the first folder of that line in front of your own:

    python -m precheck_lib.simulate --env-file stage.env          # in one terminal; it is there when "ready" is printed
    PATH=FOLDER:$PATH precheck run strict --env-file stage.env    # in another

variables:
  HOSTILE_URL, HOSTILE_WS_URL   where a hostile server is (http and ws, or https and wss)
  HOSTILE_CA_FILE               the file of the authority whose certificates the TLS faults show: what a client has to
                                trust so that it meets the fault and not an unknown authority. It is there with
                                secure=true and for faults of TLS, and is removed at the end
  OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL
                                where the stand-in of OpenAI's API is, with a key and the name of its model
  all others                    the roles of a strict run

options of a --hostile fault:
  after=N        so many answers are right first (0)
  every=SECONDS  the pause of what drips or repeats (1.0)
  secure=true    speak TLS (which faults of TLS imply)
  Faults named ws-* act on an upgrade and what follows it: a plain GET is answered right.

options of a stand-in's --fault (`--list SERVER` shows which of them a fault takes, with their defaults):
  at=STEP        the one step it acts in:
                 codex      {", ".join(STEPS["codex"])}
                 opencode   {", ".join(STEPS["opencode"][:4])},
                            {", ".join(STEPS["opencode"][4:])}
                 ollama     {", ".join(STEPS["ollama"])}
                 openai     {", ".join(STEPS["openai"])}
  skip=N         so many pass first
  times=N        how often it acts then (always)
  model=NAME     the one model it concerns (all)
  after=WHAT     Ollama: the last thing asked of it: unload, load, always
  every=SECONDS  the pause of what drips or repeats
"""


def parsed(arguments: list[str]) -> tuple[argparse.ArgumentParser, argparse.Namespace, list[str] | None]:
    """Read the arguments; returns them with the parser and with what stands behind `--`, `None` without a `--`."""
    command = None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1 :]
    parser = _parser()
    given = parser.parse_args(arguments)
    if wrong := _contradiction(given, command):
        parser.error(wrong)
    return parser, given, command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m precheck_lib.simulate",
        usage=_SYNOPSIS,
        description="Stand-ins of all that the strict precheck talks to, with named faults.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        type=_fault,
        metavar="SERVER=NAME[,OPTION=VALUE]",
        help="let a stand-in (codex, opencode, ollama, openai) do something wrong; once for each",
    )
    parser.add_argument(
        "--openai",
        nargs="?",
        const="vllm",
        choices=("vllm", "llama.cpp"),
        help="serve a stand-in of OpenAI's API too, in the manner of vllm (the default) or llama.cpp; a fault of "
        "openai implies it",
    )
    parser.add_argument("--api-key", metavar="TEXT", help="let the stand-in of OpenAI's API ask for it")
    parser.add_argument("--password", metavar="TEXT", help="let OpenCode ask for it (user opencode)")
    parser.add_argument(
        "--hostile",
        type=_hostile,
        metavar="NAME[,OPTION=VALUE]",
        help="serve one hostile server in place of the stand-ins",
    )
    parser.add_argument(
        "--env-file", metavar="PATH", help="write the variables as `precheck run --env-file` reads them"
    )
    parser.add_argument("--folder", metavar="DIR", help="make the folder in here instead of the system's place")
    parser.add_argument(
        "--list",
        nargs="?",
        const="",
        metavar="WHAT",
        help="list the faults and end: all, or those of a server or a layer, or with this text in them",
    )
    return parser


def _fault(text: str) -> tuple[str, str, dict[str, Any]]:
    """Read `SERVER=NAME[,OPTION=VALUE...]`."""
    first, *pairs = text.split(",")
    server, equals, name = first.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not SERVER=NAME")
    try:
        fault = fault_named(server, name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    written = dict(_pair(pair) for pair in pairs)
    return server, name, {key: _value(value, fault.options.get(key)) for key, value in written.items()}


def _hostile(text: str) -> tuple[str, dict[str, Any]]:
    """Read `NAME[,OPTION=VALUE...]`."""
    name, *pairs = text.split(",")
    rules = {"after": count, "every": seconds, "secure": flag}
    options = {key: _value(value, 0) for key, value in map(_pair, pairs)}
    try:
        fault = hostile_named(name)
        for key, value in options.items():
            if key not in rules:
                known = ", ".join(rules)
                raise argparse.ArgumentTypeError(f"{key} is no option: there are {known}{meant(key, rules)}")
            rules[key](key, value)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if fault.layer == "name":
        raise argparse.ArgumentTypeError(f"{name} acts in the process of the client: use HostileServer in it")
    return name, options


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not OPTION=VALUE")
    return key, value


def _value(text: str, default: object) -> Any:
    """Read a value: JSON where it can be, else text; where text is wanted, only a quoted one is read as JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    wants_text = isinstance(default, str) or default is None
    return text if wants_text and not isinstance(value, str) and not _is_count(value, default) else value


def _is_count(value: object, default: object) -> bool:
    # Without a default a value may be a number (`times`) or none at all.
    return default is None and (value is None or isinstance(value, int))


def _contradiction(given: argparse.Namespace, command: list[str] | None) -> str:
    """Say what of the arguments would be dropped in silence."""
    if command is not None and not command:
        return "a command has to follow --"
    if given.list is not None:
        return "--list only lists: there is no command to run beside it" if command else ""
    servers = [server for server, _, _ in given.fault]
    twice = sorted({server for server in servers if servers.count(server) > 1})
    if twice:
        return f"--fault {twice[0]}=...: there are two, and a server has one fault at a time"
    if given.hostile is not None:
        return _beside_hostile(given)
    if given.api_key is not None and given.openai is None and "openai" not in servers:
        return "--api-key is for the stand-in of OpenAI's API: add --openai"
    return ""


def _beside_hostile(given: argparse.Namespace) -> str:
    others = [f"--fault {server}={name}" for server, name, _ in given.fault]
    others += ["--openai"] if given.openai is not None else []
    others += [f"--{name}" for name in ("password", "api-key") if getattr(given, name.replace("-", "_")) is not None]
    if not others:
        return ""
    return (
        f"--hostile serves one server in place of the stand-ins, and {' and '.join(others)} would be for them: leave "
        f"--hostile out, or give a stand-in that fault with --fault SERVER={given.hostile[0]}"
    )


__all__ = ["parsed"]
