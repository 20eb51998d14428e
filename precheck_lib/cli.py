"""The command line: arguments in, exit code out."""

from __future__ import annotations

import contextlib
import os

from precheck_lib import __version__
from precheck_lib.ending import Ending
from precheck_lib.exits import INTERNAL, UsageError
from precheck_lib.terminal import Terminal

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from precheck_lib.earlier import EarlierRun
    from precheck_lib.interrupt import Interrupts
    from precheck_lib.outcome import SpecIdentity
    from precheck_lib.redact import Redactor
    from precheck_lib.spec.model import Spec
    from precheck_lib.watcher import Watcher

_QUIET = ("explain", "gpu", "init", "list", "plan", "schema", "validate")
"""The commands that write no reports."""


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
    if code == 0 and terminal.broken:
        # Nobody can have seen it.
        terminal.err("precheck: stdout cannot be written")
        code = INTERNAL
    interrupts.finish()
    return code


class _Command:
    def __init__(
        self, arguments: list[str], env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts
    ) -> None:
        self.arguments = arguments
        self.env = env
        self.terminal = terminal
        self.interrupts = interrupts
        self.ending = Ending(env, terminal, interrupts)
        self._secrets: list[str] = []
        self._changed_here: bool | None = False

    def main(self) -> int:
        if self.arguments == ["--version"]:  # scripts ask it often; to import a parser would take longer than the rest
            self.terminal.out(f"precheck {__version__}")
            return 0
        from precheck_lib.arguments import make_parser, report_parser

        try:
            options = make_parser().parse_args(self._with_default_command())
            if options.command == "action":
                options = make_parser().parse_args(self._action_arguments())
            self._take_report_options(options)
            self.ending.only_warn = getattr(options, "on_not_ready", "fail") == "warn"
            return self._commands[options.command](options)
        except UsageError as error:
            # Where the reports go is looked for all the same: a command line that cannot be used is a report too. Not
            # with a command that writes none: what follows `plan --json` may be the spec itself.
            if self._with_default_command()[0] not in _QUIET:
                with contextlib.suppress(UsageError):
                    self._take_report_options(report_parser().parse_known_args(self.arguments)[0])
            return self._unusable("usage", list(map(str, error.args)))

    @property
    def _commands(self) -> dict[str, Callable[[argparse.Namespace], int]]:
        return {
            "demo": self._demo,
            "explain": self._explain,
            "gpu": self._gpu,
            "init": self._init,
            "list": self._list,
            "plan": self._plan,
            "run": self._run,
            "schema": self._schema,
            "validate": self._validate,
            "verify": self._verify,
        }

    # Which command -----------------------------------------------------------------------------------------------

    def _with_default_command(self) -> list[str]:
        first = self.arguments[0] if self.arguments else ""
        if first in ("-h", "--help", "--version"):
            return self.arguments
        # Anything else is a command, or argparse says that it is none.
        return ["run", *self.arguments] if first.startswith("-") or not first else self.arguments

    def _action_arguments(self) -> list[str]:
        """Turn the action's inputs into arguments."""
        from precheck_lib.action_inputs import Inputs

        out = self.env.get("PRECHECK_OUT", "").strip() or self._new_folder()
        self.ending.set_targets(json=None, junit=None, out=out)  # an input that cannot be used is a report too
        inputs = Inputs(self.env)
        self.ending.shows_summary = inputs.summary
        return inputs.arguments(out)

    def _new_folder(self) -> str:
        import tempfile

        place = self.env.get("RUNNER_TEMP") or None
        try:
            return tempfile.mkdtemp(prefix="precheck-", dir=place)
        except OSError as error:
            named = "RUNNER_TEMP" if place else "the system's temporary folder"
            text = f"no folder for the reports can be made in {named}: {error.strerror}; name one with the input `out`"
            raise UsageError(text) from None

    def _spec_name(self, given: str | None) -> str:
        if given is not None:
            return given
        if os.path.exists("precheck.yml"):
            return "precheck.yml"
        if self.env.get("TEST_CODEX_WS_URL"):
            return "strict"
        raise UsageError(
            "there is no ./precheck.yml here, and the variables of the strict spec are not set; `precheck demo` shows "
            "what precheck does, `precheck run strict` runs the strict precheck, `precheck plan strict` says what that "
            "would do, `precheck init` writes a spec for this machine"
        )

    # run ---------------------------------------------------------------------------------------------------------

    def _run(self, options: argparse.Namespace) -> int:
        from precheck_lib.selection import ids_of, select
        from precheck_lib.spec import SpecError

        budget = self._budget(options.budget)
        self._take_variables(options.env_file)
        try:
            spec = self._spec_of_the_run(self._spec_name(options.spec), options.spec_ref)
        except SpecError as error:
            return self._unusable("spec.invalid", [str(problem) for problem in error.problems], error.identity)
        spec = select(spec, only=ids_of(options.only), skip=ids_of(options.skip), read_only=options.read_only)
        self._mask(spec)
        return self._carry_out(spec, self.env, budget, self._face())

    def _spec_of_the_run(self, name: str, ref: str | None) -> Spec:
        """Load the spec; for a pull request look whether it is its author's own, or take that of the base commit."""
        from precheck_lib.event import read_event
        from precheck_lib.spec import load_spec
        from precheck_lib.spec.load import is_built_in

        event = read_event(self.env)
        if event is None or event.base is None:
            return load_spec(name)
        from precheck_lib.base_spec import BaseFiles, changed_here

        if ref == "base":
            return load_spec(name, read=BaseFiles(event, self.env, self.interrupts.stop).read)
        spec = load_spec(name)
        path = spec.identity.path
        if path is not None and not is_built_in(path):
            self._changed_here = changed_here(path, event, self.env, self.interrupts.stop)
        return spec

    def _verify(self, options: argparse.Namespace) -> int:
        from precheck_lib.earlier import looking_only, read_earlier
        from precheck_lib.spec import SpecError, load_spec

        budget = self._budget(options.budget)
        self._take_variables(options.env_file)
        earlier = read_earlier(options.report)
        if self.ending.goes_to(earlier.path):
            self.ending.spared = earlier.path  # what says so is a report as well
            raise UsageError(
                f"the report of this run would replace {earlier.path!r}, which it verifies; name another place"
            )
        try:
            spec = load_spec(earlier.spec.path or "")
        except SpecError as error:
            return self._unusable("spec.invalid", [str(problem) for problem in error.problems], error.identity)
        if spec.identity.digest != earlier.spec.digest:
            raise UsageError(f"the spec {spec.identity.path!r} is not the one that was run then: its text has changed")
        spec = looking_only(spec, earlier)
        self._mask(spec)
        return self._carry_out(spec, self.env, budget, self._face(), earlier)

    def _take_variables(self, file: str | None) -> None:
        if file is not None:
            from precheck_lib.env_file import with_env_file
            from precheck_lib.spec import SpecError

            try:
                self.env = with_env_file(self.env, file)
            except SpecError as error:
                raise UsageError(*map(str, error.problems)) from None

    def _mask(self, spec: Spec) -> None:
        """Have the runner hide the secrets of this run in the log of the whole job, before anything else is said."""
        from precheck_lib.hiding import secret_values

        self._secrets += secret_values(spec, self.env)
        if self.ending.on_github:
            from precheck_lib.report.github import mask_lines

            for line in mask_lines(self._secrets):
                self.terminal.out(line)
        self.ending.redact = self._redactor().text

    def _redactor(self) -> Redactor:
        """Make what hides secrets in texts that did not come through a run."""
        from precheck_lib.redact import Redactor, secrets_by_name

        return Redactor([*self._secrets, *secrets_by_name(self.env)])

    def _carry_out(
        self,
        spec: Spec,
        env: Mapping[str, str],
        budget: float | None,
        face: Watcher,
        earlier: EarlierRun | None = None,
    ) -> int:
        from precheck_lib import engine
        from precheck_lib.budgets import BudgetTooSmallError

        preload: tuple[str, ...] = ("precheck_lib.report.deliver", "precheck_lib.report.json_report")
        if "junit" in self.ending.targets:
            preload += ("precheck_lib.report.junit", "junit_xml")
        try:
            report = engine.run(
                spec,
                env=env,
                budget=budget,
                interrupts=self.interrupts,
                watcher=face,
                preload=preload if self.ending.targets else (),
                keep_facts="json" in self.ending.targets or earlier is not None,
                earlier=earlier,
            )
        except BudgetTooSmallError as error:
            return self._unusable("run.budget", [str(error)], spec.identity)
        if self._changed_here is not False:
            from precheck_lib.base_spec import note_change

            note_change(report, self._changed_here)
        return self.ending.finish(report, spec.success)

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
        runner = self.env.get("RUNNER_NAME", "")
        strict = load_spec("strict")
        with Play(strict, self.interrupts, runner=runner, fault=options.fault, slow=options.slow) as play:
            broken = play.unwritable()
            if broken is not None:
                self.ending.targets["json"] = broken
            face = play.watcher(self._face(play.memory))
            return self._carry_out(play.spec, play.environment, budget or play.budget, face)

    def _explain(self, options: argparse.Namespace) -> int:
        from precheck_lib.catalogue import CATALOGUE
        from precheck_lib.report.explain import explain_lines

        if options.code is None:
            for code, entry in CATALOGUE.items():
                self.terminal.out(f"{code:<24} {entry.meaning}")
            return 0
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

    # Writing specs -----------------------------------------------------------------------------------------------

    def _plan(self, options: argparse.Namespace) -> int:
        from precheck_lib.authoring import plan

        budget = self._budget(options.budget)
        name = self._spec_name(options.spec)
        return plan(name, self.ending, self._redactor(), budget=budget, as_json=options.as_json)

    def _validate(self, options: argparse.Namespace) -> int:
        from precheck_lib.authoring import validate

        return validate(self._spec_name(options.spec), self.ending, self._redactor())

    def _init(self, options: argparse.Namespace) -> int:
        from precheck_lib.init_command import init

        return init(options.file, self.ending, self._redactor().text)

    def _gpu(self, options: argparse.Namespace) -> int:
        from precheck_lib.gpu_command import show

        expect = options.expect
        if expect is not None and not (expect.isascii() and expect.isdigit() and len(expect) <= 4):
            raise UsageError(f"--expect {expect}: that is no number of GPUs")
        return show(
            self.ending,
            expect=None if expect is None else int(expect),
            as_json=options.as_json,
            record=options.record,
            replay=options.replay,
            hide=self._redactor().text,
        )

    def _schema(self, _: argparse.Namespace) -> int:
        from precheck_lib.authoring import schema

        return schema(self.ending)

    def _list(self, _: argparse.Namespace) -> int:
        from precheck_lib.authoring import list_all

        return list_all(self.ending)

    # Endings -----------------------------------------------------------------------------------------------------

    def _unusable(self, code: str, texts: list[str], identity: SpecIdentity | None = None) -> int:
        """End with a spec or command line that cannot be used; that is a report too."""
        from precheck_lib.authoring import unusable_report

        report = unusable_report(texts, code=code, env=self.env, redactor=self._redactor(), of=identity)
        return self.ending.finish(report)

    def internal(self, error: Exception) -> int:
        """End with a failure of precheck itself."""
        try:
            from precheck_lib import engine
            from precheck_lib.hiding import hide_names

            redactor = self._redactor()
            report = engine.empty_report(self.env)
            hide_names(report, redactor)
            report.checks = [engine.internal_result(error, redactor)]
            return self.ending.finish(report)
        except Exception as again:  # noqa: BLE001 - nothing else can be relied on any more
            self.terminal.err(f"precheck: internal error: {type(error).__name__}, then {type(again).__name__}")
            return INTERNAL

    def _take_report_options(self, options: argparse.Namespace) -> None:
        self.ending.set_targets(
            json=getattr(options, "json", None),
            junit=getattr(options, "junit", None),
            out=getattr(options, "out", None),
        )
