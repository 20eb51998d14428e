"""A spec and an environment to a Report: order, budgets, fail-fast, cancel, cleanup."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.checks import kind_named
from precheck_lib.checks.env import EnvOptions
from precheck_lib.checks.kind import Context, ollama_models
from precheck_lib.errors import Cancelled, DeadlineError, TalkError
from precheck_lib.findings import UNCONFIRMED, NotReadyError, make, not_ready_for
from precheck_lib.outcome import CheckResult, Finding, Host, Report, SpecIdentity, Verdict
from precheck_lib.redact import SECRET_NAME, Redactor, basic_token
from precheck_lib.spec.variables import expand, names
from precheck_lib.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.interrupt import Interrupts
    from precheck_lib.spec.model import CheckSpec, Spec

REPORT_SECONDS = 0.5
"""What the end of a run keeps for its reports."""

SIGNAL_SECONDS = 5.0
"""How long cleanup and reports may take after a signal: GitHub's runner kills 10 s after its first one."""

INTERNAL = 70
USAGE = 2


class BudgetTooSmallError(Exception):
    """A budget that leaves no time for a load; `smallest` is the least that works, in seconds."""

    def __init__(self, seconds: float, plan: Plan) -> None:
        super().__init__(
            f"a budget of {seconds:g}s leaves no time for a load: {plan.reserve:g}s of it are kept for cleanup and "
            f"reports; the smallest one that works is {plan.smallest}s"
        )
        self.smallest = plan.smallest


class Plan:
    """How long the checks of a spec may take: `parts` in seconds by check id, `reserve` for cleanup and reports.

    `models` is how many models each changing check cycles, `None` where the environment does not tell.
    """

    def __init__(self, spec: Spec, env: Mapping[str, str]) -> None:
        self.parts: dict[str, float] = {}
        self.models: dict[str, int | None] = {}
        self.reserve = 0.0
        self.waits = 0.0
        for check in spec.checks:
            of = kind_named(check.kind)
            models = of.models(check.options)
            count = None if models is None else _count(models, env, spec.pins)
            if models is not None:
                self.models[check.id] = count
            known = 1 if count is None else count
            self.parts[check.id] = check.budget if check.budget is not None else of.seconds(check.options, known)
            self.reserve += of.reserve(check.options, known)
            self.waits += of.waits(check.options, known)

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return sum(self.parts.values()) + self.reserve

    @property
    def smallest(self) -> int:
        """The least budget that works, in whole seconds: the reserve, the waits of each cycle, and a second or two.

        Small models need no waits, which only the server can tell: before it is asked, a budget below this one is
        refused only where it leaves nothing at all beside the reserve.
        """
        return int(self.reserve + self.waits) + 2 if self.reserve else 1


def _count(models: Any, env: Mapping[str, str], pins: Mapping[str, str]) -> int | None:
    from precheck_lib.servers.names import canonical

    try:
        return len({canonical(name) for name in ollama_models(expand(models, env, pins)).values()})
    except (TalkError, NotReadyError):
        return None


def this_host(env: Mapping[str, str]) -> Host:
    """Describe this machine."""
    system = os.uname()
    version = ".".join(map(str, sys.version_info[:3]))
    return Host(
        name=system.nodename,
        runner=env.get("RUNNER_NAME") or None,
        os=f"{system.sysname} {system.release} {system.machine}",
        python=version,
    )


def empty_report(env: Mapping[str, str], identity: SpecIdentity | None = None) -> Report:
    """Make the report of a run that is about to begin; it is an internal error until somebody says otherwise."""
    return Report(
        spec=identity or SpecIdentity(),
        verdict="error",
        exit_code=INTERNAL,
        started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        host=this_host(env),
    )


def run(
    spec: Spec,
    *,
    env: Mapping[str, str],
    budget: float | None = None,
    interrupts: Interrupts | None = None,
    watcher: Watcher | None = None,
    preload: tuple[str, ...] = (),
) -> Report:
    """Run every check of a spec and return the report; it ends by the budget (seconds) whatever the servers do.

    Without `budget` the spec's own counts, else the sum of its parts. `watcher` is told what goes on.
    `interrupts` turns signals into an orderly end. `preload` names modules to import while a child runs. Raises
    `BudgetTooSmallError` before anything is done.
    """
    plan = Plan(spec, env)
    seconds = budget if budget is not None else spec.budget if spec.budget is not None else plan.total
    if plan.reserve and seconds <= plan.reserve:
        raise BudgetTooSmallError(seconds, plan)
    return _Run(spec, plan, env, seconds, interrupts, watcher or Watcher(), preload).report()


class _Run:
    def __init__(
        self,
        spec: Spec,
        plan: Plan,
        env: Mapping[str, str],
        seconds: float,
        interrupts: Interrupts | None,
        watcher: Watcher,
        preload: tuple[str, ...],
    ) -> None:
        self.spec = spec
        self.plan = plan
        self.env = env
        self.interrupts = interrupts
        self.watcher = watcher
        self.preload = preload
        self.budget = Budget(seconds, cancel=interrupts.stop if interrupts is not None else None, tick=watcher.waiting)
        self.redactor = Redactor(secret_values(spec, env))
        self.results: dict[str, CheckResult] = {}
        self.exit_codes: dict[str, int] = {}
        self.remarks: list[str] = []
        self.context = Context(
            env=env,
            budget=self.budget,
            journal=Journal(),
            expand=lambda value: expand(value, env, spec.pins),
            exit_code=self._exit_code,
        )
        self.context.meanwhile = self._meanwhile
        self.context.hide = lambda secret: self.redactor.add([secret])
        self.context.phase = lambda text, seconds: watcher.phase(
            self.context.journal.check, self.redactor.text(text), seconds
        )

    def report(self) -> Report:
        report = empty_report(self.env, self.spec.identity)
        try:
            self._check_all()
        except BaseException:
            # A watcher that fails, or a fault of this engine: what was loaded is still for us to unload.
            self._clean_up()
            raise
        if not all(result.outcome == "passed" for result in self.results.values()):
            self._clean_up()
        if self.interrupts is not None:
            self.interrupts.final = True
            if self.interrupts.stop.is_set:
                self._note_signal(self.interrupts.stop.signum or 0)
                self._clean_up()
        self._finish(report)
        return report

    def _check_all(self) -> None:
        # What only reads comes first: nothing changes a server before all that can be read is right (D3).
        changing = {check.id for check in self.spec.checks if kind_named(check.kind).changes}
        for check in sorted(self.spec.checks, key=lambda check: check.id in changing):
            self._check(check, changes=check.id in changing)

    # One check -----------------------------------------------------------------------------------------------------

    def _check(self, check: CheckSpec, *, changes: bool) -> None:
        started = self.budget.elapsed()
        result = CheckResult(id=check.id, title=check.title, kind=check.kind, outcome="error", source=check.source)
        self.results[check.id] = result
        blocker = self._blocker(check, changes=changes)
        if blocker is not None:
            result.outcome = "skipped"
            result.skipped_for = blocker
        else:
            result.started_s = round(started, 3)
            self._carry_out(check, result, changes=changes)
            result.elapsed_s = round(self.budget.elapsed() - started, 3)
        self.watcher.ended(result)

    def _blocker(self, check: CheckSpec, *, changes: bool) -> str | None:
        bad = [id_ for id_, result in self.results.items() if result.outcome in ("failed", "error", "skipped")]
        bad = [id_ for id_ in bad if id_ != check.id]
        if not bad:
            return None
        ended = self.interrupts is not None and self.interrupts.stop.is_set
        everything = self.spec.fail_fast or changes or ended or self.budget.left() <= 0
        for id_ in bad if everything else [need for need in check.needs if need in bad]:
            return self.results[id_].skipped_for or id_
        return None

    def _carry_out(self, check: CheckSpec, result: CheckResult, *, changes: bool) -> None:
        of = kind_named(check.kind)
        # A changing check ends before the reserve, so that what it has loaded can still be unloaded.
        usable = self.budget.child(max(0.0, self.budget.left() - self.plan.reserve)) if changes else self.budget
        self.context.budget = usable.child(self.plan.parts[check.id])
        result.budget_s = round(self.context.budget.seconds, 3)
        self.context.journal.check = check.id
        self.context.phase(check.title, self.context.budget.seconds)
        if changes and self.interrupts is not None:
            self.interrupts.may_hold_models = True
        try:
            self.budget.check("wait")
            findings = of.run(check.options, self.context)
        except Cancelled as error:
            self._end(result, "error", 128 + error.signum, [_cancelled(error.signum)])
        except NotReadyError as error:
            self._end(result, error.word, self._exit_code(error), error.findings, curl=error.curl)
        except TalkError as error:
            over = isinstance(error, DeadlineError) and self.budget.left() <= 0
            ended = not_ready_for(error, check.title, code="run.budget" if over else None)
            self._end(result, ended.word, self._exit_code(ended), ended.findings, curl=ended.curl)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an internal error is reported, whatever it is
            self._end(result, "error", INTERNAL, [_internal(error)])
        else:
            result.outcome = "passed"
            result.findings = [_shown(finding, self.redactor) for finding in findings]

    def _end(self, result: CheckResult, word: Any, code: int, findings: list[Finding], *, curl: int = 1) -> None:
        result.outcome = word
        self.exit_codes[result.id] = code
        suffix = f" [curl: ({curl})]" if self.spec.exit_codes == "curl" and curl > 1 else ""
        for number, finding in enumerate(findings):
            made = _shown(finding, self.redactor, suffix if number == 0 else "")
            if number == 0 and curl == 28 and self.budget.left() <= 0:
                over = f"the run's own budget of {self.budget.seconds:g} s is over"
                made = _with_evidence(made, over)
            result.findings.append(made)

    def _exit_code(self, error: NotReadyError) -> int:
        if error.usage:
            return USAGE
        if self.spec.exit_codes == "curl":
            return error.curl
        return 1 if error.word == "failed" else 3

    # The end ---------------------------------------------------------------------------------------------------------

    def _note_signal(self, signum: int) -> None:
        """Make sure that a check says that the run was cancelled, also where the signal came between two of them."""
        if any(finding.code == "run.cancelled" for result in self.results.values() for finding in result.findings):
            return
        if any(result.outcome in ("failed", "error") for result in self.results.values()):
            # The first failure stays the verdict of its check; the run's is `cancelled` all the same.
            self.remarks.append(f"the run was ended by {_signal_name(signum)} after its first failure")
            return
        last = list(self.results.values())[-1]
        self._end(last, "error", 128 + signum, [_cancelled(signum)])

    def _clean_up(self) -> None:
        cleanups = self.context.cleanups
        if not cleanups:
            return
        self.context.journal.check = "cleanup"
        budget = Budget(
            max(0.0, min(self.budget.left(), self.plan.reserve) - REPORT_SECONDS),
            cancel=self.interrupts.abandon if self.interrupts is not None else None,
            tick=self.watcher.waiting,
        )
        self.context.phase("unloading what this run has loaded", budget.seconds)
        if self.interrupts is not None:
            self.interrupts.on_stop(lambda since: budget.cut(SIGNAL_SECONDS - REPORT_SECONDS - since))
        while cleanups:
            cleanup = cleanups.pop()
            try:
                self.remarks += [self.redactor.text(line) for line in cleanup(budget)]
            except Cancelled:
                self.remarks.append(f"a second signal ended the cleanup; {UNCONFIRMED}")
            except Exception as error:  # noqa: BLE001 - cleanup adds to the verdict and never replaces it
                self.remarks.append(
                    self.redactor.text(f"the cleanup failed: {_internal(error).message}; {UNCONFIRMED}")
                )
        if self.interrupts is not None:
            self.interrupts.may_hold_models = False

    def _finish(self, report: Report) -> None:
        report.checks = [self.results[check.id] for check in self.spec.checks]
        report.requests = self.context.journal.records
        report.cycles = self.context.cycles
        for request in report.requests:
            request.url = self.redactor.text(request.url)
        for cycle in report.cycles:
            cycle.model = self.redactor.text(cycle.model)
        report.budget_s = self.budget.seconds
        report.elapsed_s = round(self.budget.elapsed(), 3)
        report.remarks = self.remarks
        report.verdict, report.exit_code = self._verdict(report)

    def _verdict(self, report: Report) -> tuple[Verdict, int]:
        if self.interrupts is not None and self.interrupts.stop.is_set:
            return "cancelled", 128 + (self.interrupts.stop.signum or 0)
        for result in report.checks:
            if result.outcome in ("failed", "error"):
                code = self.exit_codes[result.id]
                return ("error" if code in (INTERNAL, USAGE) else "not-ready"), code
        return "ready", 0

    def _meanwhile(self) -> None:
        left = [check for check in self.spec.checks if check.id not in self.results]
        modules = [module for check in left for module in kind_named(check.kind).imports]
        for module in ("psutil", *modules, *self.preload):
            # Where one is missing, the check that needs it will say so.
            with contextlib.suppress(ImportError):
                importlib.import_module(module)


def _shown(finding: Finding, redactor: Redactor, suffix: str = "") -> Finding:
    return Finding(
        code=finding.code,
        message=redactor.text(finding.message) + suffix,
        evidence=redactor.text(finding.evidence),
        remedy=redactor.text(finding.remedy),
        who=finding.who,
        retryable=finding.retryable,
        severity=finding.severity,
    )


def _with_evidence(finding: Finding, more: str) -> Finding:
    evidence = f"{finding.evidence}; {more}" if finding.evidence else more
    return make(
        finding.code,
        finding.message,
        evidence=evidence,
        remedy=finding.remedy,
        who=finding.who,
        retryable=finding.retryable,
    )


def _cancelled(signum: int) -> Finding:
    return make("run.cancelled", f"the run was ended by {_signal_name(signum)} during this check")


def _signal_name(signum: int) -> str:
    import signal

    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def _internal(error: BaseException) -> Finding:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return make(
        "run.internal",
        f"internal error: {type(error).__name__}: {error}",
        evidence=" | ".join("".join(lines).strip().splitlines()[-12:]),
    )


def internal_result(error: BaseException, redactor: Redactor) -> CheckResult:
    """Make the one check of a report about a failure of precheck itself."""
    finding = _shown(_internal(error), redactor)
    return CheckResult(id="precheck", title="precheck itself", kind="internal", outcome="error", findings=[finding])


def secret_values(spec: Spec, env: Mapping[str, str]) -> list[str]:
    """Return the values that must not be shown: of roles that the spec calls secret, or whose names say it.

    And what Basic authentication makes of them, where a check has the options for it.
    """
    secret: set[str] = set()
    made: list[str] = []
    for check in spec.checks:
        if isinstance(check.options, EnvOptions):
            roles = {**check.options.required, **check.options.optional}
            secret |= {name for name, role in roles.items() if role.secret or SECRET_NAME.search(name)}
        fields = {field: getattr(check.options, field) for field in check.options.__struct_fields__}
        secret |= {name for name in names(list(fields.values())) if SECRET_NAME.search(name)}
        if fields.get("password"):
            # What is missing or malformed is for the check itself to say.
            with contextlib.suppress(NotReadyError):
                username, password = expand([fields.get("username", ""), fields["password"]], env, spec.pins)
                made += [password, basic_token(username, password)] if password else []
    return list(dict.fromkeys([env[name] for name in sorted(secret) if env.get(name)] + made))
