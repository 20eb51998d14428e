"""A clock that only sleeping moves, a budget on it, and Ollama servers that need no socket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from precheck_lib.bounded.budget import Budget
from precheck_lib.errors import ConnectError, DeadlineError, ReceiveError, StatusError
from precheck_lib.residency.cleanup import clean_up
from precheck_lib.residency.cycle import Model, Residency, Rules
from precheck_lib.servers.ollama import InvalidInventoryError, NoInventoryError, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from precheck_lib.errors import Phase
    from precheck_lib.findings import NotReadyError
    from precheck_lib.outcome import CycleRecord

RULES = Rules(unload=30.0, removal=30.0, load=360.0, settle=2.0, hold=1.0, keep_alive="10m", context_length=65536)
READ_SECONDS = 10.0
GIB = 1 << 30


class Clock:
    """Seconds that pass only when they are spent."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ClockBudget(Budget):
    """A budget whose waits cost nothing but its clock's seconds."""

    def sleep(self, seconds: float, phase: Phase = "wait") -> None:
        clock = self.clock
        assert isinstance(clock, Clock)
        self.check(phase)
        until = clock.now + seconds
        clock.now = max(clock.now, min(until, self.end))
        self.check(phase)


class Flag:
    """A cancel flag without a descriptor: the clock's sleeps poll nothing."""

    def __init__(self) -> None:
        self.signum: int | None = None


@dataclass
class Call:
    """One request that a server got: `unload`, `load` or `inventory`, of which model, when it began and ended."""

    kind: str
    model: str
    at: float
    until: float
    bound: float
    keep_alive: str = ""

    @property
    def short(self) -> str:
        return f"{self.kind} {self.model}".strip()


class Answering:
    """Keeps the calls in order and refuses a second one while another is in flight; subclasses answer them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls: list[Call] = []
        self.busy = False

    @property
    def story(self) -> list[str]:
        """The calls in order, reads of the inventory as `ps`."""
        return ["ps" if call.kind == "inventory" else call.short for call in self.calls]

    @property
    def changes(self) -> list[str]:
        """The unloads and loads alone."""
        return [call.short for call in self.calls if call.kind != "inventory"]

    def of(self, kind: str) -> list[Call]:
        return [call for call in self.calls if call.kind == kind]

    def unload(self, model: str, budget: Budget, seconds: float) -> None:
        self._call("unload", model, budget.child(seconds), "", seconds)

    def load(self, model: str, keep_alive: str, budget: Budget, seconds: float) -> None:
        self._call("load", model, budget.child(seconds), keep_alive, seconds)

    def inventory(self, budget: Budget) -> list[Row]:
        try:
            rows = self._call("inventory", "", budget.child(READ_SECONDS), "", READ_SECONDS)
        except DeadlineError as error:
            raise NoInventoryError(str(error)) from error
        assert isinstance(rows, list)
        return rows

    def answer(self, call: Call, budget: Budget) -> Any:
        """Take the time it takes on `budget`, then return or raise."""
        raise NotImplementedError

    def _call(self, kind: str, model: str, budget: Budget, keep_alive: str, bound: float) -> Any:
        assert not self.busy, f"{kind} was asked while another request was in flight"
        budget.check("connect")
        call = Call(kind, model, self.clock.now, self.clock.now, bound, keep_alive)
        self.calls.append(call)
        self.busy = True
        try:
            return self.answer(call, budget)
        finally:
            self.busy = False
            call.until = self.clock.now


@dataclass(frozen=True)
class Does:
    """One scripted answer: it takes `seconds`, then `value` is returned, or raised where it is an exception."""

    value: Any = None
    seconds: float = 0.0
    meanwhile: Callable[[], None] = field(default=lambda: None)


class Scripted(Answering):
    """Answers each kind of request from a list of its own; the last answer of a list is given for ever."""

    def __init__(self, clock: Clock, *, unload: Any = None, load: Any = None, inventory: Any = None) -> None:
        super().__init__(clock)
        given = {"unload": unload, "load": load, "inventory": inventory}
        self.script = {kind: _steps(value, kind) for kind, value in given.items()}

    def answer(self, call: Call, budget: Budget) -> Any:
        steps = self.script[call.kind]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        step.meanwhile()
        if step.seconds:
            budget.sleep(step.seconds)
        if isinstance(step.value, BaseException):
            raise step.value
        return list(step.value) if call.kind == "inventory" else None


def _steps(value: Any, kind: str) -> list[Does]:
    if value is None:
        value = [[]] if kind == "inventory" else [None]
    assert isinstance(value, list)
    return [step if isinstance(step, Does) else Does(step) for step in value]


class Ollama(Answering):
    """A server as it should be: what is loaded is listed until `leaves_after` seconds after its unload.

    `rows` may change the rows before they are listed; `load_seconds` is how long a load takes. `appears` makes a load
    whose client got no answer end all the same that many seconds after it began.
    """

    def __init__(self, clock: Clock, resident: Iterable[str] = ()) -> None:
        super().__init__(clock)
        self.listed: dict[str, float] = dict.fromkeys(resident, float("inf"))
        self.coming: dict[str, float] = {}
        self.leaves_after: float = 0.0
        self.read_seconds = 0.0
        self.load_seconds = 5.0
        self.load_fails: BaseException | None = None
        self.appears: float | None = None
        self.rows: Callable[[list[Row]], list[Row]] = lambda rows: rows
        self.before: Callable[[Call], None] = lambda call: None

    def pass_time(self) -> None:
        now = self.clock.now
        for name, at in list(self.coming.items()):
            if at <= now:
                del self.coming[name]
                self.listed[name] = float("inf")
        self.listed = {name: until for name, until in self.listed.items() if until > now}

    @property
    def resident(self) -> list[str]:
        self.pass_time()
        return list(self.listed)

    def answer(self, call: Call, budget: Budget) -> Any:
        self.before(call)
        self.pass_time()
        if call.kind == "unload":
            if call.model in self.listed:
                self.listed[call.model] = self.clock.now + self.leaves_after
                self.pass_time()
            return None
        if call.kind == "load":
            if self.appears is not None:
                self.coming[call.model] = self.clock.now + self.appears
            if self.load_fails is not None:
                raise self.load_fails
            budget.sleep(self.load_seconds)
            self.listed[call.model] = float("inf")
            return None
        found = self.rows([row(name) for name in self.listed])
        if self.read_seconds:
            budget.sleep(self.read_seconds)
        return found


def row(name: str, **values: Any) -> Row:
    """Give a right row: fully on the GPU, with context enough; `values` replace what it says."""
    right: dict[str, Any] = {"size": 6 * GIB, "size_vram": 6 * GIB, "context_length": 131072}
    missing = tuple(key for key, value in values.items() if value is ...)
    kept = {key: value for key, value in {**right, **values}.items() if value is not ...}
    return Row(name=name, missing=missing, **kept)


def big(name: str, *, stays: bool = True) -> Model:
    return Model(name=name, stays=stays)


def tiny(name: str, *, stays: bool = True) -> Model:
    return Model(name=name, stays=stays, small=True)


class World:
    """A clock, a budget on it, and a residency of one server: what a test of the cycle works with."""

    def __init__(self, seconds: float = 100_000.0, rules: Rules = RULES) -> None:
        self.clock = Clock()
        self.flag = Flag()
        self.budget = ClockBudget(seconds, clock=self.clock, cancel=self.flag)  # type: ignore[arg-type]
        self.rules = rules
        self.records: list[CycleRecord] = []
        self.residency: Residency = None  # type: ignore[assignment]

    def server(self, server: Answering) -> Residency:
        self.residency = Residency(server, self.rules, self.records)
        return self.residency

    @property
    def armed(self) -> list[str]:
        """The models that a failure would have to undo, in the order of their loads."""
        return [entry.name for entry in self.residency.loaded]

    def clean_up(self, seconds: float = 90.0, flag: Flag | None = None) -> list[str]:
        budget = ClockBudget(seconds, clock=self.clock, cancel=flag)  # type: ignore[arg-type]
        return clean_up(self.residency, budget, code_of)


def code_of(error: NotReadyError) -> int:
    """The vocabulary of the strict spec."""
    return error.curl


NOT_INVENTORY = {
    "invalid": InvalidInventoryError("the inventory has no list of `models` but null"),
    "status-503": StatusError("status 503 instead of 200", 503),
    "status-500-with-body": StatusError("status 500 instead of 200: 'x'", 500),
    "status-404": StatusError("status 404 instead of 200", 404),
    "refused": ConnectError("127.0.0.1 port 1: Connection refused", phase="connect"),
    "reset": ReceiveError("the connection broke: Connection reset by peer", phase="head"),
}
"""Reads that fail a cycle at once."""

UNREADABLE = {
    "500-empty": NoInventoryError("status 500 without a body"),
    "own-bound": Does(seconds=READ_SECONDS + 1),
}
"""Reads that say nothing."""
