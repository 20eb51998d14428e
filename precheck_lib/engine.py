"""A spec and an environment to a Report: order, budgets, fail-fast, cancel, cleanup."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from typing import TYPE_CHECKING

from precheck_lib.attempt import Ended, cancelled, carry_out, internal
from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.budgets import BudgetTooSmallError, Plan
from precheck_lib.checks import changes_server, kind_named
from precheck_lib.checks.kind import Context
from precheck_lib.crew import MOST, Crew
from precheck_lib.errors import Cancelled
from precheck_lib.exits import INTERNAL, USAGE
from precheck_lib.findings import UNCONFIRMED, NotReadyError, make
from precheck_lib.hiding import as_warning, hide_names, secret_values, shown, with_evidence
from precheck_lib.interrupt import signal_name
from precheck_lib.outcome import CheckResult, Host, Observed, OutcomeWord, Report, SpecIdentity, Verdict, is_fine
from precheck_lib.redact import Redactor
from precheck_lib.spec.variables import expand
from precheck_lib.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.checks.kind import Earlier
    from precheck_lib.interrupt import Interrupts
    from precheck_lib.spec.model import CheckSpec, Spec

REPORT_SECONDS = 0.5
"""What the end of a run keeps for its reports."""

SIGNAL_SECONDS = 5.0
"""How long cleanup and reports may take after a signal: GitHub's runner kills 10 s after its first one."""


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
    env: Mapping[str, str] | None = None,
    budget: float | None = None,
    interrupts: Interrupts | None = None,
    watcher: Watcher | None = None,
    preload: tuple[str, ...] = (),
    keep_facts: bool = False,
    earlier: Earlier | None = None,
) -> Report:
    """Run every check of a spec and return the report; it ends by the budget (seconds) whatever the servers do.

    `env` are the variables that the spec may ask for, this process's own where it is not given. Without `budget` the
    spec's own counts, else the sum of its parts. `watcher` is told what goes on.
    `interrupts` turns signals into an orderly end. `preload` names modules to import while a child runs. With
    `keep_facts` the report has what a later run needs to verify this one; `earlier` is one that this run verifies.
    Raises `BudgetTooSmallError` before anything is done.
    """
    env = os.environ if env is None else env
    plan = Plan(spec, env)
    seconds = budget if budget is not None else spec.budget if spec.budget is not None else plan.total
    if plan.reserve and seconds <= plan.reserve:
        raise BudgetTooSmallError(seconds, plan)
    made = _Run(spec, plan, env, seconds, interrupts, watcher or Watcher(), preload)
    made.context.keeps_facts = keep_facts
    made.context.earlier = earlier
    return made.report()


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
        self.observed: list[Observed] = []
        self.context = Context(
            env=env,
            budget=self.budget,
            journal=Journal(),
            expand=lambda value: expand(value, env, spec.pins),
            exit_code=self._exit_code,
        )
        self.context.meanwhile = self._meanwhile
        self.context.hide = lambda secret: self.redactor.add([secret])
        self.running: set[str] = set()

    def report(self) -> Report:
        report = empty_report(self.env, self.spec.identity)
        self.watcher.begin(self.budget)
        try:
            self._check_all()
        except BaseException:
            # A watcher that fails, or a fault of this engine: what was loaded is still for us to unload.
            self._clean_up()
            raise
        if not all(is_fine(result) for result in self.results.values()):
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
        reading = [check for check in self.spec.checks if not changes_server(check)]
        changing = [check for check in self.spec.checks if changes_server(check)]
        for checks in (reading, changing):
            self._check_each(checks)

    # The checks ------------------------------------------------------------------------------------------------------

    def _check_each(self, checks: list[CheckSpec]) -> None:
        """Carry out checks as soon as those that they need have ended: at the same time where nothing forbids it."""
        waiting = list(checks)
        crew = Crew(self.watcher.waiting)
        try:
            while waiting or crew.busy:
                ready = self._take_ready(waiting, crew.busy)
                if len(ready) == 1 and not crew.busy:
                    # Nothing runs beside it, and nothing else could: no thread is needed.
                    self._carry_out(ready[0])
                    continue
                for check in ready:
                    self._carry_out_beside_others(check, crew)
                if crew.busy:
                    crew.next()
        finally:
            while crew.busy:  # a watcher that fails must not leave threads behind
                with contextlib.suppress(Exception):
                    crew.next()

    def _take_ready(self, waiting: list[CheckSpec], busy: int) -> list[CheckSpec]:
        """Take out what can begin now; what is not to be reached is settled here."""
        ready: list[CheckSpec] = []
        # With `fail_fast` nothing more is contacted after a failure; at the end of a run one check says that it came.
        one_at_a_time = self.spec.fail_fast or self._is_over
        undecided = self.running.union(check.id for check in waiting)
        for check in list(waiting):
            if one_at_a_time and (busy or ready):
                break
            if busy + len(ready) >= MOST:
                break
            if undecided.intersection(check.needs):
                continue
            if self._is_settled(check):
                waiting.remove(check)
                undecided.discard(check.id)
            elif self._has_its_server(check, ready):
                waiting.remove(check)
                ready.append(check)
        return ready

    def _has_its_server(self, check: CheckSpec, ready: list[CheckSpec]) -> bool:
        """Say whether nothing else that is at work changes the server that this check changes."""
        if not changes_server(check):
            return True
        beside = [other for other in self.spec.checks if other.id in self.running or other in ready]
        return all(self._server(other) != self._server(check) for other in beside)

    def _server(self, check: CheckSpec) -> str:
        named = kind_named(check.kind).server(check.options)
        with contextlib.suppress(NotReadyError):  # for the check itself to say
            return str(expand(named, self.env, self.spec.pins)).rstrip("/").lower()
        return named

    @property
    def _is_over(self) -> bool:
        """Whether the run has to come to its end: a signal came, or its time is over."""
        return (self.interrupts is not None and self.interrupts.stop.is_set) or self.budget.left() <= 0

    def _is_settled(self, check: CheckSpec) -> bool:
        """Settle a check that is not to be carried out: it is blocked, or not meant for this machine."""
        blocker = self._blocker(check)
        unmet = check.left_out
        if unmet is None and check.when is not None and not check.when.holds(self.env.get(check.when.env, "")):
            unmet = f"only when {check.when}"
        if blocker is None and unmet is None:
            return False
        result = self._result(check, "skipped")
        result.skipped_for = blocker if check.left_out is None else None
        result.unmet = unmet if result.skipped_for is None else None
        self.watcher.ended(result)
        return True

    def _result(self, check: CheckSpec, word: OutcomeWord) -> CheckResult:
        made = CheckResult(id=check.id, title=check.title, kind=check.kind, outcome=word, source=check.source)
        self.results[check.id] = made
        return made

    def _blocker(self, check: CheckSpec) -> str | None:
        bad = [id_ for id_, result in self.results.items() if id_ not in self.running and not is_fine(result)]
        if not bad:
            return None
        everything = self.spec.fail_fast or changes_server(check) or self._is_over
        for id_ in bad if everything else [need for need in check.needs if need in bad]:
            return self.results[id_].skipped_for or id_
        return None

    # One check -------------------------------------------------------------------------------------------------------

    def _carry_out(self, check: CheckSpec) -> None:
        """Carry out a check in this thread."""
        context = self._context(check)
        context.phase = lambda text, seconds: self.watcher.phase(check.id, self.redactor.text(text), seconds)
        result = self._begin(check, context)
        self._end(check, result, carry_out(check, kind_named(check.kind), context, self.budget))

    def _carry_out_beside_others(self, check: CheckSpec, crew: Crew) -> None:
        """Carry out a check in a thread; whoever watches hears of it in this one, and so does the redactor."""
        context = self._context(check)
        context.budget.tick = None

        def phase(text: str, seconds: float) -> None:
            # A note is shown before what it is about begins: a model is about to be unloaded.
            post = crew.tell if seconds < 0 else crew.post
            post(lambda: self.watcher.phase(check.id, self.redactor.text(text), seconds))

        context.phase = phase
        context.hide = lambda secret: crew.post(lambda: self.redactor.add([secret]))
        result = self._begin(check, context)

        def work() -> Callable[[], None]:
            ended = carry_out(check, kind_named(check.kind), context, self.budget)
            return lambda: self._end(check, result, ended)

        crew.begin(check.id, work)

    def _context(self, check: CheckSpec) -> Context:
        # A changing check ends before the reserve, so that what it has loaded can still be unloaded.
        usable = self.budget
        if changes_server(check):
            usable = self.budget.child(max(0.0, self.budget.left() - self.plan.reserve))
        return self.context.for_check(check.id, usable.child(self.plan.parts[check.id]))

    def _begin(self, check: CheckSpec, context: Context) -> CheckResult:
        result = self._result(check, "error")
        self.running.add(check.id)
        result.started_s = round(self.budget.elapsed(), 3)
        result.budget_s = round(context.budget.seconds, 3)
        if changes_server(check) and self.interrupts is not None:
            self.interrupts.may_hold_models = True
        context.phase(check.title, context.budget.seconds)
        return result

    def _end(self, check: CheckSpec, result: CheckResult, ended: Ended) -> None:
        self.running.discard(check.id)
        self.observed += ended.observed
        # Its start was rounded, upwards perhaps.
        result.elapsed_s = max(0.0, round(self.budget.elapsed() - (result.started_s or 0.0), 3))
        result.attempts = ended.attempts
        if check.severity == "warning" and ended.error is not None:
            result.outcome = "passed"
            result.findings = [as_warning(shown(finding, self.redactor)) for finding in ended.findings]
        elif ended.word == "passed":
            result.outcome = "passed"
            result.findings = [shown(finding, self.redactor) for finding in ended.findings]
        else:
            self._fail(result, ended)
        self.watcher.ended(result)

    def _fail(self, result: CheckResult, ended: Ended) -> None:
        result.outcome = ended.word
        self.exit_codes[result.id] = ended.code if ended.error is None else self._exit_code(ended.error)
        curl = 1 if ended.error is None else ended.error.curl
        suffix = f" [curl: ({curl})]" if self.spec.exit_codes == "curl" and curl > 1 else ""
        for number, finding in enumerate(ended.findings):
            made = shown(finding, self.redactor, suffix if number == 0 else "")
            if number == 0 and curl == 28 and self.budget.left() <= 0:
                over = f"the run's own budget of {self.budget.seconds:g} s is over"
                made = with_evidence(made, over)
            earlier = self.context.earlier
            if number == 0 and earlier is not None and (since := earlier.last_right(result.id)):
                made = with_evidence(made, since)
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
            self.remarks.append(f"the run was ended by {signal_name(signum)} after its first failure")
            return
        last = list(self.results.values())[-1]
        self._fail(last, Ended("error", [cancelled(signum)], code=128 + signum))

    def _clean_up(self) -> None:
        cleanups = self.context.cleanups
        if not cleanups:
            return
        self.context.journal.relabel("cleanup")
        budget = Budget(
            max(0.0, min(self.budget.left(), self.plan.reserve) - REPORT_SECONDS),
            cancel=self.interrupts.abandon if self.interrupts is not None else None,
            tick=self.watcher.waiting,
        )
        self.watcher.phase("cleanup", "unloading what this run has loaded", budget.seconds)
        if self.interrupts is not None:
            self.interrupts.on_stop(lambda since: budget.cut(SIGNAL_SECONDS - REPORT_SECONDS - since))
        while cleanups:
            cleanup = cleanups.pop()
            try:
                self.remarks += [self.redactor.text(line) for line in cleanup(budget)]
            except Cancelled:
                self.remarks.append(f"a second signal ended the cleanup; {UNCONFIRMED}")
            except Exception as error:  # noqa: BLE001 - cleanup adds to the verdict and never replaces it
                self.remarks.append(self.redactor.text(f"the cleanup failed: {internal(error).message}; {UNCONFIRMED}"))
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
        report.observed = self.observed
        if self.context.earlier is not None:
            report.verifies = self.context.earlier.started
        hide_names(report, self.redactor)
        report.budget_s = self.budget.seconds
        report.elapsed_s = round(self.budget.elapsed(), 3)
        report.remarks = self.remarks
        left_out = [check.id for check in self.spec.checks if check.left_out is not None]
        if left_out:
            report.notes.append(f"only a part of the spec was run; left out: {', '.join(left_out)}")
        report.verdict, report.exit_code = self._verdict(report)

    def _verdict(self, report: Report) -> tuple[Verdict, int]:
        if self.interrupts is not None and self.interrupts.stop.is_set:
            return "cancelled", 128 + (self.interrupts.stop.signum or 0)
        for result in report.checks:
            if result.outcome in ("failed", "error"):
                code = self.exit_codes[result.id]
                return ("error" if code in (INTERNAL, USAGE) else "not-ready"), code
        if not any(result.outcome == "passed" for result in report.checks):
            return self._nothing_checked(report), USAGE
        return "ready", 0

    def _nothing_checked(self, report: Report) -> Verdict:
        """Refuse to call a machine right of which nothing was looked at."""
        last = report.checks[-1]
        last.outcome = "error"
        conditions = "no `when` of this spec holds here, so nothing was checked"
        if any(check.left_out is not None for check in self.spec.checks):
            conditions = "all that could run here was left out, so nothing was checked"
        last.findings.append(make("spec.nothing-checked", conditions, evidence=last.unmet or ""))
        last.unmet = None
        return "error"

    def _meanwhile(self) -> None:
        left = [check for check in self.spec.checks if check.id not in self.results]
        modules = [module for check in left for module in kind_named(check.kind).imports]
        for module in ("psutil", *modules, *self.preload):
            # Where one is missing, the check that needs it will say so.
            with contextlib.suppress(ImportError):
                importlib.import_module(module)


def internal_result(error: BaseException, redactor: Redactor) -> CheckResult:
    """Make the one check of a report about a failure of precheck itself."""
    finding = shown(internal(error), redactor)
    return CheckResult(id="precheck", title="precheck itself", kind="internal", outcome="error", findings=[finding])
