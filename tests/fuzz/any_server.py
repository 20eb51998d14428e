"""A model server that may do anything, on a clock of its own: what it does is drawn, one mood for each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from precheck_lib.errors import (
    AnswerError,
    Cancelled,
    ConnectError,
    DeadlineError,
    EmptyReplyError,
    ReceiveError,
    StatusError,
    TooLargeError,
    TruncatedError,
)
from precheck_lib.findings import NotReadyError
from precheck_lib.residency.cleanup import clean_up
from precheck_lib.residency.cycle import Model, Residency, Rules
from precheck_lib.servers.names import canonical
from precheck_lib.servers.ollama import InvalidInventoryError, NoInventoryError, Row, TooOldError
from tests.unit.residency.fakes import Answering, Call, Clock, ClockBudget, code_of, row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RULES = Rules(unload=4.0, removal=5.0, load=20.0, settle=2.0, hold=1.0, keep_alive="10m", context_length=65536)
NEVER = float("inf")

DROPPED = {
    "refused": lambda: ConnectError("refused", phase="connect"),
    "reset": lambda: ReceiveError("reset", phase="head"),
    "cut": lambda: TruncatedError("cut", phase="body"),
    "empty": lambda: EmptyReplyError("empty", phase="head"),
    "late": lambda: None,  # no error of the server's: it takes longer than anything is waited for
}
CHANGE_FAULTS: dict[str, Callable[[], Exception | None]] = {
    **DROPPED,
    "404": lambda: StatusError("status 404 instead of 200", 404, refused_change=True),
    "500": lambda: StatusError("status 500 instead of 200", 500, refused_change=True),
    "answer": lambda: AnswerError("an error"),
}
FAULTS: dict[str, dict[str, Callable[[], Exception | None]]] = {
    "unload": {**CHANGE_FAULTS, "old": lambda: TooOldError("it loaded the model")},
    "load": CHANGE_FAULTS,
    "inventory": {
        **DROPPED,
        "silent": lambda: NoInventoryError("status 500 without a body"),
        "invalid": lambda: InvalidInventoryError("no list"),
        "503": lambda: StatusError("status 503 instead of 200", 503),
        "500": lambda: StatusError("status 500 instead of 200: 'x'", 500),
        "large": lambda: TooLargeError("too large", phase="body"),
    },
}
WRONG: dict[str, dict[str, Any]] = {
    "cpu": {"size_vram": 0},
    "split": {"size_vram": (6 << 30) - 1},
    "overflow": {"size_vram": (6 << 30) + 1},
    "nothing": {"size": 0, "size_vram": 0},
    "negative": {"size": -5, "size_vram": -5},
    "bool": {"size": True, "size_vram": True},
    "float": {"size": 6.0, "size_vram": 6.0},
    "one float": {"size": 6.0, "size_vram": 6},
    "text": {"size": "6", "size_vram": "6"},
    "null": {"size": None, "size_vram": None},
    "missing": {"size_vram": ...},
    "short": {"context_length": 65535},
    "4096": {"context_length": 4096},
    "text context": {"context_length": "65536"},
    "float context": {"context_length": 65536.0},
    "no context": {"context_length": ...},
}
RIGHT: dict[str, dict[str, Any]] = {"least": {"size": 1, "size_vram": 1, "context_length": 65536}}
LIES = (*WRONG, "hides", "old news", "doubles", "phantoms")
HARMLESS = (*RIGHT, "stranger", "broken stranger", "other spelling")
DEEDS = ("evicts", "reloads", "re-arms", "vanishes")


@dataclass(frozen=True)
class Mood:
    """What the server does with one request.

    It takes `seconds` and then fails with `fault`, or does what it was asked (`acts`: in spite of the fault too).
    `after` is when that shows: a model leaves or appears so many seconds later, or never. `lie` is what it makes of an
    inventory, and `deed` what it does of its own accord before it answers.
    """

    seconds: float = 0.01
    fault: str | None = None
    acts: bool = True
    after: float | None = 0.0
    lie: str | None = None
    deed: str | None = None


@dataclass(frozen=True)
class Temper:
    """The moods of a server for each kind of request, in order; then `usual` ones. `stubborn` models never leave."""

    unload: tuple[Mood, ...] = ()
    load: tuple[Mood, ...] = ()
    inventory: tuple[Mood, ...] = ()
    usual: Mood = Mood()
    stubborn: frozenset[str] = frozenset()


@dataclass
class Told:
    """One request and what came of it: the rows of an inventory that said something, or the error."""

    call: Call
    rows: list[Row] | None = None
    error: BaseException | None = None

    @property
    def unreadable(self) -> bool:
        """A read that is no inventory (CONTRACT G2): not absent, not a failure."""
        return self.call.kind == "inventory" and isinstance(self.error, (NoInventoryError, DeadlineError))

    def lists(self, name: str) -> bool:
        return self.rows is not None and any(canonical(each.name) == canonical(name) for each in self.rows)


class Alarm:
    """A cancel flag that a clock sets: the signal comes at `at`."""

    def __init__(self, clock: Clock, at: float, signum: int = 15) -> None:
        self.clock = clock
        self.at = at
        self._signum = signum

    @property
    def signum(self) -> int | None:
        return self._signum if self.clock.now >= self.at else None


class AlarmBudget(ClockBudget):
    """A budget whose sleeps a signal ends at once."""

    def sleep(self, seconds: float, phase: Any = "wait") -> None:
        alarm: Any = self.cancel
        self.check(phase)
        self.clock.now = max(self.clock.now, min(self.clock.now + seconds, self.end, alarm.at))  # type: ignore[attr-defined]
        self.check(phase)


@dataclass
class AnyServer(Answering):
    """Does what its temper says, and keeps what was `told`; `there` is what is really resident, `coming` what loads."""

    clock: Clock
    temper: Temper
    there: dict[str, float] = field(default_factory=dict)
    coming: dict[str, float] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.clock)
        self.moods = {kind: list(getattr(self.temper, kind)) for kind in FAULTS}
        self.known: set[str] = set(self.there)
        self.last: list[Row] = []
        self.dead = False

    def pass_time(self) -> None:
        now = self.clock.now
        for name, at in list(self.coming.items()):
            if at <= now:
                del self.coming[name]
                self.there[name] = NEVER
        self.there = {name: until for name, until in self.there.items() if until > now}

    def answer(self, call: Call, budget: Any) -> Any:
        moods = self.moods[call.kind]
        mood = moods.pop(0) if moods else self.temper.usual
        told = Told(call)
        self.told.append(told)
        try:
            told.rows = self._answer(call, mood, budget)
        except BaseException as error:
            told.error = error
            raise
        return told.rows

    def _answer(self, call: Call, mood: Mood, budget: Any) -> list[Row] | None:
        self.pass_time()
        self._deed(mood, call)
        if self.dead:
            raise ConnectError("refused", phase="connect")
        makes = FAULTS[call.kind].get(mood.fault or "")
        fault = makes() if makes is not None else None
        late = mood.fault == "late"
        if call.kind != "inventory" and (mood.acts or not (late or fault)):
            self._change(call, mood)
        budget.sleep(1000.0 if late else mood.seconds)
        self.pass_time()
        if fault is not None:
            raise fault
        return self._rows(mood, call) if call.kind == "inventory" else None

    def _deed(self, mood: Mood, _call: Call) -> None:
        if mood.deed == "evicts":
            self.there.clear()
        elif mood.deed == "reloads":
            self.coming |= dict.fromkeys(self.known - set(self.there), self.clock.now + (mood.after or 0.0))
            self.pass_time()
        elif mood.deed == "re-arms":
            self.there = dict.fromkeys(self.there, NEVER)
        elif mood.deed == "vanishes":
            self.dead = True

    def _change(self, call: Call, mood: Mood) -> None:
        name = call.model
        self.known.add(name)
        if call.kind == "load":
            if name not in self.there:
                self.coming[name] = NEVER if mood.after is None else self.clock.now + mood.seconds + mood.after
        elif name in self.there:  # of one that is still loading it is a no-op
            stays = mood.after is None or name in self.temper.stubborn
            self.there[name] = NEVER if stays else self.clock.now + (mood.after or 0.0)

    def _rows(self, mood: Mood, _call: Call) -> list[Row]:
        lie = mood.lie or ""
        rows = [row(name, **{**WRONG, **RIGHT}.get(lie, {})) for name in self.there]
        if lie == "other spelling":
            rows = [_spelled(each) for each in rows]
        elif lie == "doubles":
            rows += [_spelled(each) for each in rows]
        elif lie == "stranger":
            rows.insert(0, row("stranger:1b", size_vram=0))
        elif lie == "broken stranger":
            rows.append(row("stranger:1b", size=..., size_vram="x", context_length=...))
        elif lie == "phantoms":
            rows += [row(name) for name in sorted(self.known - set(self.there))]
        elif lie == "hides":
            rows = []
        elif lie == "old news":
            return self.last
        self.last = rows
        return rows


def _spelled(each: Row) -> Row:
    name = f"registry.ollama.ai/{each.name}" if each.name.startswith("library/") else f"library/{each.name}"
    tagged = name if ":" in name else f"{name}:latest"
    values = {key: getattr(each, key) for key in each.__struct_fields__}
    return Row(**{**values, "name": tagged.upper() if len(tagged) % 2 else tagged})


@dataclass
class Run:
    """A run and its cleanup against a server; a signal comes at `signal_at` seconds, a second one into the cleanup."""

    models: Sequence[Model]
    temper: Temper
    seconds: float = 10_000.0
    signal_at: float = NEVER
    cleanup_seconds: float = 200.0
    second_at: float = NEVER
    there: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.server = AnyServer(self.clock, self.temper, there=dict.fromkeys(self.there, NEVER))
        self.residency = Residency(self.server, RULES, [])
        self.error: BaseException | None = None
        self.took = self.cleanup_took = 0.0
        self.told: list[Told] = []
        self.cleaned: list[Told] = []
        self.remarks: list[str] = []

    def go(self) -> Run:
        """Run to its end; where it failed, clean up."""
        began = self.clock.now
        alarm: Any = Alarm(self.clock, began + self.signal_at)
        try:
            self.residency.run(self.models, AlarmBudget(self.seconds, clock=self.clock, cancel=alarm))
        except (NotReadyError, Cancelled) as error:
            self.error = error
        self.took = self.clock.now - began
        self.told = list(self.server.told)
        self.armed = [(entry.name, entry.answered) for entry in self.residency.loaded]
        if self.error is not None:
            self._clean_up()
        return self

    def _clean_up(self) -> None:
        began = self.clock.now
        alarm: Any = Alarm(self.clock, began + self.second_at, signum=2)
        budget = AlarmBudget(self.cleanup_seconds, clock=self.clock, cancel=alarm)
        self.remarks = clean_up(self.residency, budget, code_of)
        self.cleanup_took = self.clock.now - began
        self.cleaned = self.server.told[len(self.told) :]


# What is drawn --------------------------------------------------------------------------------------------------------


def _up_to(seconds: float) -> st.SearchStrategy[float]:
    """Any time, evenly: `st.floats` draws its ends too often to reach what lies between."""
    return st.integers(0, 997).map(lambda part: part * seconds / 997)


_SECONDS = st.one_of(st.sampled_from([0.0, 0.01, 0.01]), _up_to(0.5), _up_to(12.0))
_AFTER = st.one_of(st.just(0.0), st.just(0.0), _up_to(8.0), st.none())


def _seldom(values: Sequence[str], in_how_many: int) -> st.SearchStrategy[str | None]:
    return st.integers(0, in_how_many - 1).flatmap(
        lambda number: st.sampled_from(list(values)) if number == in_how_many - 1 else st.none()
    )


def _moods(kind: str, *, faults: int = 6, lies: int = 6) -> st.SearchStrategy[Mood]:
    return st.builds(
        Mood,
        seconds=_SECONDS,
        fault=_seldom([*FAULTS[kind], *["silent"] * 3 * (kind == "inventory")], faults),
        acts=st.booleans(),
        after=_AFTER,
        lie=_seldom([*LIES, *HARMLESS], lies) if kind == "inventory" else st.none(),
        deed=_seldom(DEEDS, 12),
    )


NAMES = ["a", "b:7b", "C", "library/d"]

_USUAL = st.one_of(
    st.just(Mood()),
    st.just(Mood()),
    st.builds(Mood, seconds=_up_to(2.0), after=_AFTER, lie=_seldom([*LIES, *HARMLESS], 3)),
    st.builds(Mood, seconds=_up_to(2.0), after=_AFTER, fault=st.sampled_from(["silent", "late"])),
)
_STUBBORN = st.one_of(st.just(frozenset()), st.just(frozenset()), st.frozensets(st.sampled_from(NAMES), max_size=2))

_ANY = st.builds(
    Temper,
    unload=st.lists(_moods("unload"), max_size=5).map(tuple),
    load=st.lists(_moods("load"), max_size=3).map(tuple),
    inventory=st.lists(_moods("inventory", faults=9, lies=9), max_size=16).map(tuple),
    usual=_USUAL,
    stubborn=_STUBBORN,
)
# A load whose client got no answer, and which ends all the same a moment later.
_UNANSWERED = st.builds(Mood, fault=st.sampled_from([*DROPPED]), after=st.one_of(_up_to(3.0), st.none()))
# Nothing is loaded, and wrong things begin with the first load: those are the runs with much to clean up.
_LATER = st.builds(
    Temper,
    unload=st.lists(_moods("unload", faults=2), max_size=4).map(lambda moods: (Mood(after=0.0), *moods)),
    load=st.lists(st.one_of(_moods("load", faults=2), _UNANSWERED), min_size=1, max_size=3).map(tuple),
    inventory=st.lists(_moods("inventory", faults=4, lies=5), max_size=12).map(lambda moods: (Mood(), *moods)),
    usual=_USUAL,
    stubborn=_STUBBORN,
)
# Nothing ever leaves.
_STUCK = st.builds(Temper, stubborn=st.just(frozenset(NAMES)), usual=st.builds(Mood, seconds=_up_to(1.0)))
# A load without an answer, whose absence has to hold, and reads of little use meanwhile.
_HELD = st.builds(
    Temper,
    load=st.tuples(_UNANSWERED),
    inventory=st.lists(
        st.builds(Mood, seconds=_up_to(0.4), fault=_seldom(["silent"], 4), lie=_seldom(["hides", "phantoms"], 9)),
        min_size=2,
        max_size=12,
    ).map(lambda moods: (Mood(), *moods)),
)
TEMPERS = st.one_of(_ANY, _ANY, _LATER, _LATER, _HELD, _STUCK)

MODELS = st.lists(
    st.builds(Model, name=st.sampled_from(NAMES), stays=st.booleans(), small=st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda model: canonical(model.name),
).map(lambda models: sorted(models, key=lambda model: model.stays))

_TIMES = st.one_of(_up_to(2.0), _up_to(12.0), _up_to(60.0))

_ANY_RUNS = st.builds(
    Run,
    models=MODELS,
    temper=TEMPERS,
    seconds=st.one_of(st.just(10_000.0), st.just(10_000.0), st.just(10_000.0), _TIMES),
    signal_at=st.one_of(st.just(NEVER), st.just(NEVER), st.just(NEVER), _TIMES),
    cleanup_seconds=st.one_of(st.just(200.0), st.just(200.0), _TIMES),
    second_at=st.one_of(st.just(NEVER), st.just(NEVER), st.just(NEVER), _TIMES),
    there=st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
)
# All is well up to the read in which all that stay are looked at together.
_AT_LAST = st.builds(
    lambda count, odd, usual: Run(
        models=[Model(name=name, stays=True) for name in NAMES[:count]],
        temper=Temper(inventory=(*[Mood()] * (2 * count), odd), usual=usual),
    ),
    st.integers(1, 2),
    st.one_of(_moods("inventory", faults=2, lies=99), _moods("inventory", faults=99, lies=2)),
    st.one_of(st.just(Mood()), _USUAL),
)
RUNS = st.one_of(*[_ANY_RUNS] * 7, _AT_LAST)
"""Servers that may do anything, with any budget, and signals at any time."""

_QUICK = st.sampled_from([0.0, 0.01, 0.3])
_BUSY_READS = st.builds(
    Mood,
    seconds=_QUICK,
    lie=_seldom(HARMLESS, 2),
)

BUSY_RUNS = st.builds(
    Run,
    models=MODELS,
    temper=st.builds(
        Temper,
        unload=st.lists(st.builds(Mood, seconds=_up_to(3.9), after=_up_to(4.0)), max_size=6).map(tuple),
        load=st.lists(st.builds(Mood, seconds=_up_to(19.9)), max_size=3).map(tuple),
        inventory=st.lists(_BUSY_READS, max_size=12).map(tuple),
    ),
    there=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
)
"""Healthy servers that are slow, busy and shared, but within every bound."""
