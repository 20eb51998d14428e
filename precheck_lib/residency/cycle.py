"""The cycle on a server: one model after the other, never two requests in flight, every step with its own bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from precheck_lib.errors import AnswerError, DeadlineError, TalkError
from precheck_lib.findings import NotReadyError, not_ready
from precheck_lib.outcome import CycleRecord
from precheck_lib.residency.inventory import Inventory, failure, read_inventory, watch, why_it_stays
from precheck_lib.residency.judge import judge, listed
from precheck_lib.residency.machine import Cycle, Event, State
from precheck_lib.servers.ollama import TooOldError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.servers.ollama import Row


class ModelServer(Inventory, Protocol):
    """What a cycle needs of a server; `servers.ollama.OllamaServer` is one, tests bring their own."""

    def unload(self, model: str, budget: Budget, seconds: float) -> None:
        """Ask to unload; returns when the server has accepted."""

    def load(self, model: str, keep_alive: str, budget: Budget, seconds: float) -> None:
        """Load and wait until it is done."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a cycle, in seconds and tokens (CONTRACT G and H1 say what strict has)."""

    unload: float = 30.0
    removal: float = 30.0
    load: float = 360.0
    answer: float = 30.0
    settle: float = 2.0
    hold: float = 1.0
    keep_alive: str = "10m"
    context_length: int | None = 65536


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model to cycle: its name as configured, whether it stays, and whether it is `small` (no settling, G8).

    `digest` is that of the installed model, where it is known. `keep_alive` replaces that of the rules.
    """

    name: str
    stays: bool
    small: bool = False
    digest: str | None = None
    keep_alive: str | None = None


class Loaded(msgspec.Struct):
    """A model that this run has tried to load and not yet proven absent again; `answered`: the load had an answer."""

    name: str
    answered: bool = False


class Residency:
    """Cycles models on `server`.

    `loaded` is what a failure has to undo, in the order of loading: a model enters it with the load attempt and leaves
    it when it is proven absent. `records` tells each cycle's times and row, and `made` those of this residency alone;
    `tell` hears of each step that may take long, with the seconds it may take.
    """

    def __init__(
        self,
        server: ModelServer,
        rules: Rules,
        records: list[CycleRecord],
        tell: Callable[[str, float], None] = lambda _text, _seconds: None,
    ) -> None:
        self.tell = tell
        self.server = server
        self.rules = rules
        self.records = records
        self.made: list[CycleRecord] = []
        self.loaded: list[Loaded] = []

    def run(self, models: Sequence[Model], budget: Budget) -> None:
        """Cycle each model in order, then read once more that all that stay are right together.

        Raises `NotReadyError` for the first failure; what is in `loaded` is then for `cleanup` to undo.
        """
        for model in models:
            self.cycle(model, budget)
        self.see_together(models, budget, rest=not models[-1].small)

    def see_together(self, models: Sequence[Model], budget: Budget, *, rest: bool) -> None:
        """Read once more that all models that stay are right together; `rest` before it where one was just loaded."""
        staying = [model for model in models if model.stays]
        if not staying:
            return
        if rest:
            # An unload that was queued before the load may still be carried out now (Ollama's scheduler).
            self._in_time(lambda: budget.sleep(self.rules.hold), budget, "waiting after the last load")
        rows = self._read(budget, staying[-1].name)
        for model in staying:
            try:
                judge(rows, model.name, context_length=self.rules.context_length, digest=model.digest)
            except NotReadyError as error:
                first = error.findings[0]
                raise not_ready(
                    "residency.evicted",
                    f"{model.name} was proven right, and a moment later it is not: {first.message}",
                    evidence=first.evidence,
                ) from None

    def record(self, model: Model, *, kept: bool = False) -> CycleRecord:
        """Begin the record of a model."""
        record = CycleRecord(model=model.name, kept=kept)
        self.records.append(record)
        self.made.append(record)
        return record

    def cycle(self, model: Model, budget: Budget) -> None:
        """Unload one model, prove it absent, load it, judge it; unload it again where it does not stay."""
        record = self.record(model)
        cycle = Cycle()
        try:
            while cycle.state not in (State.RESIDENT, State.GONE):
                self._step(cycle, model, record, budget)
            if not model.stays:
                cycle.advance(Event.DISMISSED)
                while cycle.state is not State.GONE:
                    self._step(cycle, model, record, budget)
        except BaseException:
            cycle.fail()
            raise

    def _step(self, cycle: Cycle, model: Model, record: CycleRecord, budget: Budget) -> None:
        """Do what the state asks for, and move on by what it showed."""
        state, started = cycle.state, budget.clock()
        what, seconds = self._told[state]
        self.tell(f"{what} {model.name}", seconds)
        action = self._actions[state]
        try:
            event = action(cycle, model, record, budget)
        finally:
            took = round(budget.clock() - started, 3)
            if state is State.LOADING:
                record.load_s = took
        if state is State.UNLOADING:
            record.unload_s = took
        elif state is State.LEAVING:
            record.absent_s = took
        cycle.advance(event)

    @property
    def _told(self) -> dict[State, tuple[str, float]]:
        rules = self.rules
        return {
            State.UNLOADING: ("unloading", rules.unload),
            State.LEAVING: ("waiting for the absence of", rules.removal),
            State.SETTLING: ("settling before the load of", rules.settle),
            State.LOADING: ("loading", rules.load),
            State.JUDGING: ("judging", rules.hold),
            State.RETIRING: ("unloading again", rules.unload),
            State.DEPARTING: ("waiting for the absence of", rules.removal),
        }

    @property
    def _actions(self) -> dict[State, Callable[[Cycle, Model, CycleRecord, Budget], Event]]:
        return {
            State.UNLOADING: self._unload,
            State.LEAVING: self._leave,
            State.SETTLING: self._settle,
            State.LOADING: self._load,
            State.JUDGING: self._judge,
            State.RETIRING: self._unload,
            State.DEPARTING: self._leave,
        }

    def _unload(self, _cycle: Cycle, model: Model, _record: CycleRecord, budget: Budget) -> Event:
        subject = f"the unload of {model.name}"
        try:
            self.server.unload(model.name, budget, self.rules.unload)
        except TooOldError as error:
            raise not_ready("ollama.too-old", f"{subject}: {error}") from error
        except TalkError as error:
            code = "ollama.unload" if isinstance(error, AnswerError) else None
            raise failure(error, subject, budget, code=code, deadline_code="ollama.unload") from error
        return Event.ACCEPTED

    def _leave(self, cycle: Cycle, model: Model, record: CycleRecord, budget: Budget) -> Event:
        last: list[Row] = []

        def look(rows: list[Row] | None, _asked: float) -> bool:
            nonlocal last
            record.reads += 1
            if rows is None:
                cycle.advance(Event.UNREADABLE)
                return False
            last = listed(rows, model.name)
            if last:
                cycle.advance(Event.LISTED)
            return not last

        watch(self.server, model.name, self.rules.removal, budget, look, lambda: why_it_stays(last))
        self.loaded = [entry for entry in self.loaded if entry.name != model.name]
        return Event.ABSENT

    def _settle(self, _cycle: Cycle, model: Model, _record: CycleRecord, budget: Budget) -> Event:
        if not model.small:
            # Absence is the runner's exit, not free memory: a load at once may be sized against the old figure.
            self._in_time(lambda: budget.sleep(self.rules.settle), budget, "waiting before the load")
        return Event.SETTLED

    def _load(self, _cycle: Cycle, model: Model, _record: CycleRecord, budget: Budget) -> Event:
        subject = f"the load of {model.name}"
        self._in_time(lambda: budget.check("wait"), budget, f"the cycle of {model.name}, before its load")
        entry = Loaded(model.name)
        self.loaded.append(entry)
        try:
            self.server.load(model.name, model.keep_alive or self.rules.keep_alive, budget, self.rules.load)
        except AnswerError as error:
            entry.answered = True
            raise failure(error, subject, budget, code="ollama.load") from error
        except TalkError as error:
            raise failure(error, subject, budget, deadline_code="ollama.load-deadline") from error
        entry.answered = True
        return Event.ACCEPTED

    def _judge(self, _cycle: Cycle, model: Model, record: CycleRecord, budget: Budget) -> Event:
        rows = self._read(budget, model.name)
        record.reads += 1
        for row in listed(rows, model.name)[:1]:
            note_row(record, row)
        judge(rows, model.name, context_length=self.rules.context_length, digest=model.digest)
        return Event.RIGHT

    def _read(self, budget: Budget, name: str) -> list[Row]:
        return read_inventory(self.server, budget, f"the inventory after the load of {name}")

    @staticmethod
    def _in_time(wait: Callable[[], None], budget: Budget, what: str) -> None:
        try:
            wait()
        except DeadlineError as error:
            raise failure(error, what, budget) from error


def note_row(record: CycleRecord, row: Row) -> None:
    """Keep the numbers of a row that are numbers."""
    record.size, record.size_vram, record.context_length = (
        # What has more bits could not be written into every report.
        value if type(value) is int and abs(value) < 1 << 63 else None
        for value in (row.size, row.size_vram, row.context_length)
    )
