"""The command line: arguments in, exit code out."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from precheck_lib import __version__
from precheck_lib.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from precheck_lib.interrupt import Interrupts
    from precheck_lib.outcome import Report
    from precheck_lib.spec.model import Spec
    from precheck_lib.watcher import Watcher

USAGE = 2
INTERNAL = 70

_EPILOG = """\
exit codes: 0 ready, 1 a requirement is not met, 2 spec or usage, 3 it could not be found out, 70 internal,
128 + n ended by signal n. The strict spec has curl's exit codes for faults of transport (7, 22, 28, ...)."""


class UsageError(Exception):
    """Arguments that cannot be used."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="precheck",
        description="Decide whether this machine is fit for an expensive job.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"precheck {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    run = commands.add_parser("run", help="run a spec (the default command)", allow_abbrev=False)
    _spec_argument(run)
    _report_arguments(run)
    plan = commands.add_parser("plan", help="say what a run would do, touching nothing", allow_abbrev=False)
    _spec_argument(plan)
    plan.add_argument("--budget", metavar="TIME", help="the budget to plan with")
    demo = commands.add_parser(
        "demo", help="run the strict spec on stand-ins: no configuration, no GPU, no network", allow_abbrev=False
    )
    demo.add_argument("--fault", metavar="NAME", help="show one failure (its bounds are shortened to a second)")
    demo.add_argument("--list", action="store_true", help="list the faults there are")
    demo.add_argument("--slow", action="store_true", help="show a long cold load")
    _report_arguments(demo)
    explain = commands.add_parser("explain", help="say what a finding means and what to do", allow_abbrev=False)
    explain.add_argument("code", help="the code of a finding, such as residency.partial")
    return parser


def _spec_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", nargs="?", help="the name of a built-in spec, or else a path (default: ./precheck.yml)")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", metavar="TIME", help="what the whole run may take, such as 15m or 90s")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument("--out", metavar="DIR", help="write all reports into a folder (precheck.json, precheck.xml)")


def run_command_line(arguments: Sequence[str], interrupts: Interrupts) -> int:
    """Carry out a command and return its exit code; every ending of `run` writes its reports."""
    terminal = Terminal()
    command = _Command(list(arguments), os.environ, terminal, interrupts)
    try:
        code = command.main()
    except SystemExit as error:  # argparse, after --help or --version
        code = error.code if isinstance(error.code, int) else 0
    except Exception as error:  # noqa: BLE001 - never a bare traceback
        code = command.internal(error)
    # From here on nothing is left to be done that a signal could undo.
    interrupts.final = True
    return code


class _Command:
    def __init__(
        self, arguments: list[str], env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts
    ) -> None:
        self.arguments = arguments
        self.env = env
        self.terminal = terminal
        self.interrupts = interrupts
        self.targets: dict[str, str] = {}

    def main(self) -> int:
        try:
            options = _parser().parse_args(self._with_default_command())
            self._find_targets(options)
            commands = {"plan": self._plan, "demo": self._demo, "explain": self._explain, "run": self._run}
            return commands[options.command](options)
        except UsageError as error:
            self._find_targets_anyhow()
            return self._unusable("usage", [str(error)])

    # Which command -----------------------------------------------------------------------------------------------

    def _with_default_command(self) -> list[str]:
        first = self.arguments[0] if self.arguments else ""
        if first in ("-h", "--help", "--version"):
            return self.arguments
        # Anything else is a command, or argparse says that it is none.
        return ["run", *self.arguments] if first.startswith("-") or not first else self.arguments

    def _spec_name(self, given: str | None) -> str:
        if given is not None:
            return given
        if os.path.exists("precheck.yml"):
            return "./precheck.yml"
        if self.env.get("TEST_CODEX_WS_URL"):
            return "strict"
        raise UsageError(
            "there is no ./precheck.yml here and nothing says which spec to run; `precheck demo` shows what precheck "
            "does, `precheck init` writes a spec for this machine, `precheck run strict` runs the strict precheck"
        )

    # run ---------------------------------------------------------------------------------------------------------

    def _run(self, options: argparse.Namespace) -> int:
        from precheck_lib.spec import SpecError, load_spec

        budget = self._budget(options.budget)
        try:
            spec = load_spec(self._spec_name(options.spec))
        except SpecError as error:
            return self._unusable("spec.invalid", [str(problem) for problem in error.problems], error.identity)
        return self._carry_out(spec, self.env, budget, self._face())

    def _carry_out(self, spec: Spec, env: Mapping[str, str], budget: float | None, face: Watcher) -> int:
        from precheck_lib import engine

        preload: tuple[str, ...] = ("precheck_lib.report.deliver", "precheck_lib.report.json_report")
        if "junit" in self.targets:
            preload += ("precheck_lib.report.junit", "junit_xml")
        try:
            report = engine.run(
                spec,
                env=env,
                budget=budget,
                interrupts=self.interrupts,
                watcher=face,
                preload=preload if self.targets else (),
            )
        except engine.BudgetTooSmallError as error:
            return self._unusable("run.budget", [str(error)], spec.identity)
        return self._finish(report, spec.success)

    def _demo(self, options: argparse.Namespace) -> int:
        from precheck_lib.demo import DEMOS, Play, list_lines
        from precheck_lib.spec import load_spec

        if options.list:
            for line in list_lines():
                self.terminal.out(line)
            return 0
        if options.fault is not None and options.fault not in DEMOS:
            raise UsageError(f"there is no fault {options.fault!r} to show; `demo --list` names them")
        budget = self._budget(options.budget)
        with Play(load_spec("strict"), self.interrupts, fault=options.fault, slow=options.slow) as play:
            broken = play.unwritable()
            if broken is not None:
                self.targets["json"] = broken
            face = play.watcher(self._face(play.memory))
            return self._carry_out(play.spec, play.environment, budget or play.budget, face)

    def _explain(self, options: argparse.Namespace) -> int:
        from precheck_lib.catalogue import CATALOGUE
        from precheck_lib.report.explain import explain_lines

        if options.code not in CATALOGUE:
            import difflib

            near = difflib.get_close_matches(options.code, CATALOGUE, n=3, cutoff=0.4)
            hint = f"; near are {', '.join(near)}" if near else ""
            raise UsageError(f"there is no finding {options.code!r}{hint}")
        for line in explain_lines(options.code):
            self.terminal.out(line)
        return 0

    def _face(self, memory: Callable[[], int | None] = lambda: None) -> Watcher:
        from precheck_lib.face import face_for

        return face_for(self.terminal, self.env, memory)

    def _budget(self, text: str | None) -> float | None:
        if text is None:
            return None
        from precheck_lib.units import parse_duration

        try:
            return float(parse_duration(text if not text.replace(".", "", 1).isdigit() else f"{text}s"))
        except ValueError as error:
            raise UsageError(f"--budget: {error}") from None

    def _plan(self, options: argparse.Namespace) -> int:
        from precheck_lib.plan import plan_lines
        from precheck_lib.spec import SpecError, load_spec

        try:
            spec = load_spec(self._spec_name(options.spec))
        except SpecError as error:
            for problem in error.problems:
                self.terminal.err(f"precheck: {problem}")
            return USAGE
        for line in plan_lines(spec, self.env, self._budget(options.budget)):
            self.terminal.out(line)
        return 0

    # Endings -----------------------------------------------------------------------------------------------------

    def _unusable(self, code: str, texts: list[str], identity: Any = None) -> int:
        """End with a spec or command line that cannot be used; that is a report too."""
        from precheck_lib import engine
        from precheck_lib.findings import make
        from precheck_lib.outcome import CheckResult

        report = engine.empty_report(self.env, identity)
        findings = [make(code, text, retryable=False) for text in texts]
        name = "spec" if code == "spec.invalid" else "usage"
        report.checks = [CheckResult(id=name, title=f"the {name}", kind=name, outcome="error", findings=findings)]
        report.exit_code = USAGE
        return self._finish(report, "")

    def internal(self, error: Exception) -> int:
        """End with a failure of precheck itself."""
        try:
            from precheck_lib import engine

            report = engine.empty_report(self.env)
            report.checks = [engine.internal_result(error)]
            return self._finish(report, "")
        except Exception as again:  # noqa: BLE001 - nothing else can be relied on any more
            self.terminal.err(f"precheck: internal error: {type(error).__name__}, then {type(again).__name__}")
            return INTERNAL

    def _finish(self, report: Report, success: str) -> int:
        """Write the reports, then say how it ended; the success line comes last, and only after everything else."""
        from precheck_lib.report import finding_lines

        self.interrupts.final = True
        if self.interrupts.stop.is_set and report.verdict != "cancelled":
            # Before the run began, or after it could not: still a cancelled one.
            report.verdict, report.exit_code = "cancelled", 128 + (self.interrupts.stop.signum or 0)
        for line in self._deliver(report):
            self.terminal.err(f"precheck: {line}")
        for line in finding_lines(report):
            self.terminal.err(line)
        if report.exit_code == 0:
            self.terminal.out(success)
            if self.terminal.broken:
                self.terminal.err("precheck: stdout cannot be written, so nobody can see that this passed")
                return INTERNAL
        return report.exit_code

    def _deliver(self, report: Report) -> list[str]:
        """Write all reports; where one cannot be, a pass becomes an error, which the others say then."""
        if not self.targets:
            return []
        from precheck_lib.report.deliver import Document, deliver

        said: list[str] = []
        left = dict(self.targets)
        while left:
            failed = deliver([Document(path, self._render(form, report)) for form, path in left.items()])
            if not failed:
                break
            if report.exit_code == 0:
                self._unwritten(report, [one.message for one in failed])
            elif report.checks[-1].id != "reports":
                said += [one.message for one in failed]
            lost = {one.path for one in failed}
            left = {form: path for form, path in left.items() if path not in lost}
        return said

    def _render(self, form: str, report: Report) -> bytes:
        if form == "json":
            from precheck_lib.report.json_report import json_bytes

            return json_bytes(report)
        from precheck_lib.report.junit import junit_bytes

        return junit_bytes(report, workspace=self._workspace(report))

    def _workspace(self, report: Report) -> str | None:
        from precheck_lib.spec.load import built_in_folder

        path = report.spec.path
        if path is None or os.path.dirname(os.path.abspath(path)) == built_in_folder():
            return None  # a built-in spec is no file of the job's
        try:
            return self.env.get("GITHUB_WORKSPACE") or os.getcwd()
        except OSError:
            return None  # the working folder is gone

    @staticmethod
    def _unwritten(report: Report, texts: list[str]) -> None:
        from precheck_lib.findings import make
        from precheck_lib.outcome import CheckResult

        report.verdict, report.exit_code = "error", INTERNAL
        findings = [make("report.unwritable", text) for text in texts]
        report.checks.append(
            CheckResult(id="reports", title="the reports", kind="reports", outcome="error", findings=findings)
        )

    # Where the reports go ----------------------------------------------------------------------------------------

    def _find_targets(self, options: argparse.Namespace) -> None:
        self._set_targets(
            getattr(options, "json", None), getattr(options, "junit", None), getattr(options, "out", None)
        )

    def _find_targets_anyhow(self) -> None:
        """Find the report options of a command line that cannot be used otherwise."""
        parser = _Parser(add_help=False, allow_abbrev=False)
        _report_arguments(parser)
        with contextlib.suppress(UsageError):
            options, _ = parser.parse_known_args(self.arguments)
            self._find_targets(options)

    def _set_targets(self, json: str | None, junit: str | None, out: str | None) -> None:
        if out is not None:
            self.targets = {
                "json": os.path.join(out, "precheck.json"),
                "junit": os.path.join(out, "precheck.xml"),
            }
        if json is not None:
            self.targets["json"] = json
        if junit is not None:
            self.targets["junit"] = junit
        if len(self.targets) > len({os.path.abspath(path) for path in self.targets.values()}):
            same = self.targets.pop("junit")
            raise UsageError(f"--json and --junit both name {same}; give each report a file of its own")


__all__ = ["UsageError", "run_command_line"]

if __name__ == "__main__":
    sys.exit("run `python -m precheck_lib`")
