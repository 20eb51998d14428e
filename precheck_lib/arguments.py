"""What the command line takes."""

from __future__ import annotations

import argparse
from typing import NoReturn

from precheck_lib import __version__
from precheck_lib.exits import UsageError

_EPILOG = """\
exit codes: 0 ready, 1 a requirement is not met, 2 spec or usage, 3 it could not be found out, 70 internal,
128 + n ended by signal n. The strict spec has curl's exit codes for faults of transport (7, 22, 28, ...)."""

ON_NOT_READY = ("fail", "warn")


class Parser(argparse.ArgumentParser):
    """A parser that raises `UsageError` where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(message)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line."""
    parser = Parser(
        prog="precheck",
        description="Decide whether this machine is fit for an expensive job.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"precheck {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, required=True)
    run = commands.add_parser("run", help="run a spec (the default command)", allow_abbrev=False)
    _spec_argument(run)
    _budget_argument(run)
    report_arguments(run)
    _ending_argument(run)
    _part_arguments(run)
    run.add_argument(
        "--spec-ref",
        choices=("base",),
        help="base: for a pull request take the spec from its base commit (git has to have that)",
    )
    verify = commands.add_parser(
        "verify", help="say what has changed since a run was ready, changing nothing", allow_abbrev=False
    )
    verify.add_argument("report", help="the JSON report of that run, or the folder with its precheck.json")
    _budget_argument(verify)
    report_arguments(verify)
    _ending_argument(verify)
    _variables_argument(verify)
    plan = commands.add_parser("plan", help="say what a run would do, touching nothing", allow_abbrev=False)
    _spec_argument(plan)
    _budget_argument(plan)
    plan.add_argument("--json", dest="as_json", action="store_true", help="print it as JSON")
    validate = commands.add_parser(
        "validate", help="say all that is wrong with a spec, with line and column", allow_abbrev=False
    )
    _spec_argument(validate)
    init = commands.add_parser("init", help="write a spec for this machine, from what is on it now", allow_abbrev=False)
    init.add_argument(
        "file", nargs="?", default="precheck.yml", help="a new file (default: precheck.yml), or - for stdout"
    )
    commands.add_parser("schema", help="print the JSON Schema of a spec, for editors", allow_abbrev=False)
    commands.add_parser("list", help="list the built-in specs and the kinds of checks", allow_abbrev=False)
    demo = commands.add_parser(
        "demo", help="run the strict spec on stand-ins: no configuration, no GPU, no network", allow_abbrev=False
    )
    demo.add_argument("--fault", metavar="NAME", help="show one failure (its bounds are shortened to a second)")
    demo.add_argument("--list", action="store_true", help="list the faults there are")
    demo.add_argument("--slow", action="store_true", help="show a long cold load")
    _budget_argument(demo)
    report_arguments(demo)
    cards = commands.add_parser(
        "gpu", help="show the GPUs of this machine and what is wrong with them", allow_abbrev=False
    )
    cards.add_argument("--expect", metavar="N", help="end with 1 where there are not exactly so many whole ones")
    cards.add_argument("--json", dest="as_json", action="store_true", help="print all that was read as JSON")
    cards.add_argument("--record", metavar="FILE", help="write what was read to a new file")
    cards.add_argument("--replay", metavar="FILE", help="judge what another run has recorded, asking no driver")
    explain = commands.add_parser("explain", help="say what a finding means and what to do", allow_abbrev=False)
    explain.add_argument("code", nargs="?", help="the code of a finding, such as residency.partial (none lists all)")
    commands.add_parser("action", help="what action.yml runs: its inputs are PRECHECK_* variables")
    return parser


def report_parser() -> argparse.ArgumentParser:
    """Make a parser of the report options alone, for a command line that cannot be used otherwise."""
    parser = Parser(add_help=False, allow_abbrev=False)
    report_arguments(parser)
    return parser


def _spec_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "spec",
        nargs="?",
        help="the name of a built-in spec, or else a path (default: ./precheck.yml, else strict where it is set up)",
    )


def _part_arguments(parser: argparse.ArgumentParser) -> None:
    for option, text in (
        ("--only", "run only these checks and what they need"),
        ("--skip", "leave these checks out; those that need them run all the same"),
    ):
        parser.add_argument(option, metavar="ID[,ID]", action="append", help=text)
    parser.add_argument("--read-only", action="store_true", help="leave out every check that changes a server")
    _variables_argument(parser)


def _variables_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env-file", metavar="FILE", help="take variables from a file of NAME=VALUE lines (the environment wins)"
    )


def _ending_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-not-ready",
        choices=ON_NOT_READY,
        default="fail",
        help="warn ends with 0 where the machine is not ready, and says so",
    )


def _budget_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", metavar="TIME", help="what the whole run may take, such as 15m or 90s")


def report_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the reports go."""
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument(
        "--out", metavar="DIR", help="write all reports into a folder (precheck.json, junit.xml, summary.md)"
    )
