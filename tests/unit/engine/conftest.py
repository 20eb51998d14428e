"""Runs of specs whose checks do what a test says: no socket, no child, no real kind."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib import engine
from precheck_lib.checks.kind import Kind, Options
from precheck_lib.interrupt import Interrupts
from precheck_lib.outcome import CheckResult, Report, Source, SpecIdentity
from precheck_lib.spec import CheckSpec, Spec
from precheck_lib.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FakeOptions(Options, frozen=True, kw_only=True):
    """`do` is called with the context; `text` is looked through for variables as any option is."""

    do: Any = None
    seconds: float = 10.0
    reserve: float = 0.0
    models: Any = None
    settle: float = 0.0
    text: Any = ""
    server: str = ""


def _run(options: FakeOptions, context: Any) -> list[Any]:
    return (options.do(context) if options.do is not None else None) or []


def _kind(name: str, *, changes: bool) -> Kind:
    return Kind(
        name=name,
        options=FakeOptions,
        run=_run,
        plan=lambda _: [],
        seconds=lambda options, models: options.seconds * models,
        reserve=lambda options, models: options.reserve * models,
        waits=lambda options, models: options.settle * models,
        models=lambda options: options.models,
        changes=changes,
        server=lambda options: options.server,
        imports=("colorsys",) if changes else (),
    )


class Bench(Watcher):
    """Makes checks, runs them and watches: `results` in the order in which they ended, `phases` what was announced."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, str, float]] = []
        self.ticks = 0
        self.results: list[CheckResult] = []
        self.began: list[str] = []

    def phase(self, check: str, text: str, seconds: float) -> None:
        self.phases.append((check, text, seconds))

    def waiting(self) -> None:
        self.ticks += 1

    def ended(self, result: CheckResult) -> None:
        self.results.append(result)

    def reads(self, id_: str, do: Callable[[Any], Any] | None = None, **more: Any) -> CheckSpec:
        """A check that only reads."""
        return self._check(id_, "fake-reads", do, **more)

    def changes(self, id_: str, do: Callable[[Any], Any] | None = None, **more: Any) -> CheckSpec:
        """A check that changes a server, with a reserve of 2 s."""
        return self._check(id_, "fake-changes", do, **{"reserve": 2.0, **more})

    def _check(self, id_: str, kind: str, do: Any, needs: tuple[str, ...] = (), budget: Any = None, **more: Any) -> Any:
        frame = {key: more.pop(key) for key in ("wait", "severity", "when") if key in more}

        def begin(context: Any) -> Any:
            self.began.append(id_)
            return do(context) if do is not None else None

        return CheckSpec(
            id=id_,
            title=f"title of {id_}",
            kind=kind,
            options=FakeOptions(do=begin, **more),
            source=Source("it.yml", 7),
            needs=needs,
            budget=budget,
            **frame,
        )

    def run(self, *checks: CheckSpec, env: Any = None, **more: Any) -> Report:
        """Run them; of `more` what a spec has goes there, the rest to the engine."""
        head = {key: more.pop(key) for key in ("exit_codes", "fail_fast", "pins") if key in more}
        spec = Spec(
            identity=more.pop("identity", SpecIdentity(name="it", path="it.yml", digest="d")),
            checks=checks,
            success="ok",
            budget=more.pop("spec_budget", None),
            **{"pins": {}, **head},
        )
        return engine.run(spec, env=env or {}, **{"watcher": self, **more})


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name in ("reads", "changes"):
        module = SimpleNamespace(KIND=_kind(f"fake-{name}", changes=name == "changes"))
        monkeypatch.setitem(sys.modules, f"precheck_lib.checks.fake-{name}", module)
    return Bench()


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    """Interrupts that no signal sets: a test calls `signal_now`."""
    made = Interrupts()
    yield made
    made.restore()


@pytest.fixture
def signal_now(interrupts: Interrupts) -> Callable[..., None]:
    """Do what the handler does at a signal."""

    def now(number: int = 15) -> None:
        interrupts._handle(number, None)

    return now


def outcomes(report: Report) -> dict[str, str]:
    """How each check ended, by id, in the order of the report."""
    return {
        check.id: check.outcome if check.skipped_for is None else f"{check.outcome} for {check.skipped_for}"
        for check in report.checks
    }
