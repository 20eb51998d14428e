"""Whatever a server does, the cycle and its cleanup keep their promises (CONTRACT G2 to G7): random servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precheck_lib.errors import (
    AnswerError,
    Cancelled,
    ConnectError,
    EmptyReplyError,
    ReceiveError,
    StatusError,
    TooLargeError,
    TruncatedError,
)
from precheck_lib.findings import NotReadyError
from precheck_lib.residency.cycle import Loaded, Model, Rules
from precheck_lib.servers.names import canonical
from precheck_lib.servers.ollama import InvalidInventoryError, NoInventoryError, Row, TooOldError
from tests.unit.residency.fakes import Answering, Call, Flag, World, row

RULES = Rules(unload=4.0, removal=5.0, load=20.0, settle=2.0, hold=1.0, keep_alive="10m", context_length=65536)

FAULTS: dict[str, list[Any]] = {
    "unload": [
        StatusError("status 404 instead of 200", 404, refused_change=True),
        StatusError("status 500 instead of 200", 500, refused_change=True),
        TooOldError("it loaded the model"),
        AnswerError("an error"),
        ConnectError("refused", phase="connect"),
        EmptyReplyError("empty", phase="head"),
    ],
    "load": [
        StatusError("status 500 instead of 200", 500, refused_change=True),
        AnswerError("an error"),
        ReceiveError("reset", phase="head"),
        TruncatedError("cut", phase="body"),
        EmptyReplyError("empty", phase="head"),
    ],
    "inventory": [
        NoInventoryError("status 500 without a body"),
        InvalidInventoryError("no list"),
        StatusError("status 503 instead of 200", 503),
        StatusError("status 500 instead of 200: 'x'", 500),
        ConnectError("refused", phase="connect"),
        TooLargeError("too large", phase="body"),
    ],
}

WRONG: list[dict[str, Any]] = [
    {"size_vram": 0},
    {"size": True, "size_vram": True},
    {"size_vram": ...},
    {"context_length": 4096},
    {"context_length": "65536"},
]


@dataclass(frozen=True)
class Step:
    """What the server does with its next request: how long it takes, and what goes wrong with it."""

    seconds: float
    fault: int | None = None
    works_all_the_same: bool = False
    leaves_after: float | None = 0.0
    comes_after: float | None = None
    lies: int | None = None
    evicts: bool = False


@dataclass
class AnyServer(Answering):
    """Follows its steps, one a request, and behaves for the rest; `truth` is what is really resident.

    `stubborn` models never leave; a server with a `lie` tells it in every row.
    """

    clock: Any
    steps: list[Step]
    stubborn: frozenset[str] = frozenset()
    lie: int | None = None
    truth: dict[str, float] = field(default_factory=dict)
    coming: dict[str, float] = field(default_factory=dict)
    answers: list[tuple[Call, list[Row] | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.clock)

    def pass_time(self) -> None:
        now = self.clock.now
        for name, at in list(self.coming.items()):
            if at <= now:
                del self.coming[name]
                self.truth[name] = float("inf")
        self.truth = {name: until for name, until in self.truth.items() if until > now}

    def answer(self, call: Call, budget: Any) -> Any:
        step = self.steps.pop(0) if self.steps else Step(0.01)
        self.answers.append((call, None))
        self.pass_time()
        if step.evicts:
            self.truth.clear()
        seconds = step.seconds
        faults = FAULTS[call.kind]
        fault = None if step.fault is None else faults[step.fault % len(faults)]
        if call.kind == "load" and (fault is None or step.works_all_the_same):
            self.coming[call.model] = self.clock.now + (step.comes_after or seconds)
        if call.kind == "unload" and (fault is None or step.works_all_the_same) and call.model in self.truth:
            stays = step.leaves_after is None or call.model in self.stubborn
            self.truth[call.model] = float("inf") if stays else self.clock.now + (step.leaves_after or 0.0)
        if seconds:
            budget.sleep(seconds)
        self.pass_time()
        if fault is not None:
            raise fault
        if call.kind != "inventory":
            return None
        lie = self.lie if step.lies is None else step.lies
        wrong = {} if lie is None else WRONG[lie % len(WRONG)]
        rows = [row(name, **wrong) for name in self.truth]
        self.answers[-1] = (call, rows)
        return rows


SECONDS = st.one_of(st.just(0.0), st.just(0.01), st.floats(0.001, 0.5), st.floats(0.5, 12.0))
STEPS = st.builds(
    Step,
    seconds=SECONDS,
    fault=st.one_of(*[st.none()] * 5, st.integers(0, 5)),
    works_all_the_same=st.booleans(),
    leaves_after=st.one_of(st.just(0.0), st.floats(0.0, 8.0), st.none()),
    comes_after=st.one_of(st.none(), st.floats(0.0, 3.0)),
    lies=st.one_of(st.none(), st.none(), st.integers(0, 4)),
    evicts=st.one_of(st.just(False), st.just(False), st.just(False), st.booleans()),
)
NAMES = ["a", "b:7b", "C", "library/d"]
MODELS = st.lists(
    st.builds(Model, name=st.sampled_from(NAMES), stays=st.booleans(), small=st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda model: canonical(model.name),
).map(lambda models: sorted(models, key=lambda model: model.stays))


def ran(server: AnyServer, world: World, models: list[Model], ring: int | None) -> BaseException | None:
    """Run and give what ended it; at the request numbered `ring` a signal comes."""
    residency = world.server(server)
    answer = server.answer

    def ringing(call: Call, budget: Any) -> Any:
        if ring is not None and len(server.calls) == ring + 1:
            world.flag.signum = 15
        return answer(call, budget)

    server.answer = ringing  # type: ignore[method-assign]
    try:
        residency.run(models, world.budget)
    except (NotReadyError, Cancelled) as error:
        return error
    return None


def names_in(rows: list[Row]) -> set[str]:
    return {canonical(each.name) for each in rows}


def loads_were_authorised(server: AnyServer) -> None:
    """Before each load: an unload of that model, then only reads, the last of them valid and without the model."""
    for index, (call, _) in enumerate(server.answers):
        if call.kind != "load":
            continue
        before, rows = server.answers[index - 1]
        assert before.kind == "inventory", "a load followed something that is no inventory"
        assert rows is not None, "a load was authorised by what is no inventory"
        assert canonical(call.model) not in names_in(rows), "a load followed an inventory that lists the model"
        unloads = [
            number
            for number, (other, _) in enumerate(server.answers[:index])
            if other.kind == "unload" and other.model == call.model
        ]
        assert unloads, "a load without an unload"
        between = server.answers[unloads[-1] + 1 : index]
        assert {other.kind for other, _ in between} == {"inventory"}


@settings(max_examples=120, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    models=MODELS,
    steps=st.lists(STEPS, max_size=40),
    seconds=st.one_of(st.just(10_000.0), st.floats(0.0, 60.0)),
    ring=st.one_of(st.none(), st.none(), st.integers(0, 12)),
    cleanup_seconds=st.floats(0.0, 40.0),
    second_signal=st.one_of(st.none(), st.none(), st.integers(0, 3)),
    lie=st.one_of(*[st.none()] * 3, st.integers(0, 4)),
)
def test_whatever_a_server_does_every_promise_is_kept(
    models: list[Model],
    steps: list[Step],
    seconds: float,
    ring: int | None,
    cleanup_seconds: float,
    second_signal: int | None,
    lie: int | None,
) -> None:
    world = World(seconds, rules=RULES)
    server = AnyServer(world.clock, list(steps), lie=lie)
    began = world.clock.now
    error = ran(server, world, models, ring)

    # It ends by its budget, and each request is asked within it.
    assert world.clock.now - began <= seconds + 1e-6
    loads_were_authorised(server)
    # Before the first load at most one unload for each model; and never more than the cycle's two.
    for model in models:
        sent = [call for call in server.of("unload") if call.model == model.name]
        tried = [call for call in server.of("load") if call.model == model.name]
        assert len(sent) <= (1 if model.stays else 2)
        assert len(tried) <= 1
        if not tried:
            assert model.name not in world.armed
    if error is None:
        is_ready(server, world, models)
    elif isinstance(error, NotReadyError):
        assert error.findings
        assert error.curl > 0
    cleanup_keeps_its_promises(world, server, cleanup_seconds, second_signal)


def is_ready(server: AnyServer, world: World, models: list[Model]) -> None:
    """Ready means: every model was cycled, and the last inventory, read after the last load, is right."""
    assert [call.model for call in server.of("load")] == [model.name for model in models]
    staying = [model for model in models if model.stays]
    assert world.armed == [model.name for model in staying]
    if not staying:
        return
    call, rows = server.answers[-1]
    assert call.kind == "inventory"
    assert rows is not None
    for model in staying:
        assert is_right(rows, model.name)
    last = server.of("load")[-1]
    if not models[-1].small:
        assert call.at - last.until >= RULES.hold - 1e-6
    for model in models:
        (load,) = (call for call in server.of("load") if call.model == model.name)
        read = max(call.until for call in server.of("inventory") if call.until <= load.at)
        assert load.at - read >= (0 if model.small else RULES.settle - 1e-6)
        at = next(index for index, (call, _) in enumerate(server.answers) if call is load)
        call, judged = server.answers[at + 1]
        assert call.kind == "inventory"
        assert judged is not None
        assert is_right(judged, model.name)


def is_right(rows: list[Row], name: str) -> bool:
    """Said once more and in other words than the code's: exactly one row, wholly on the GPU, context enough."""
    found = [each for each in rows if canonical(each.name) == canonical(name)]
    if len(found) != 1 or found[0].missing:
        return False
    numbers = (found[0].size, found[0].size_vram, found[0].context_length)
    if any(number.__class__ is not int for number in numbers):
        return False
    size, size_vram, context_length = numbers
    return size == size_vram and size > 0 and context_length >= 65536


CLEANUP_STEPS = st.builds(
    Step,
    seconds=st.one_of(st.just(0.0), st.floats(0.01, 0.7), st.floats(3.5, 12.0)),
    fault=st.one_of(*[st.none()] * 8, st.just(0), st.integers(0, 5)),
    leaves_after=st.one_of(st.just(0.0), st.floats(0.0, 3.0), st.none()),
)


@settings(max_examples=120, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    answered=st.lists(st.booleans(), min_size=1, max_size=3),
    there=st.sets(st.integers(0, 2)),
    coming=st.dictionaries(st.integers(0, 2), st.floats(0.0, 4.0)),
    steps=st.lists(CLEANUP_STEPS, max_size=30),
    seconds=st.one_of(st.just(200.0), st.floats(0.0, 20.0)),
    second_signal=st.one_of(*[st.none()] * 4, st.integers(0, 6)),
    stubborn=st.sets(st.integers(0, 2)),
)
def test_whatever_a_server_does_the_cleanup_keeps_its_promises(
    answered: list[bool],
    there: set[int],
    coming: dict[int, float],
    steps: list[Step],
    seconds: float,
    second_signal: int | None,
    stubborn: set[int],
) -> None:
    world = World(rules=RULES)
    names = NAMES[: len(answered)]
    server = AnyServer(world.clock, list(steps), stubborn=frozenset(NAMES[number] for number in stubborn))
    server.truth = {NAMES[number]: float("inf") for number in there}
    server.coming = {NAMES[number]: world.clock.now + at for number, at in coming.items()}
    world.server(server).loaded = [Loaded(name, answered=known) for name, known in zip(names, answered, strict=True)]
    cleanup_keeps_its_promises(world, server, seconds, second_signal)


def cleanup_keeps_its_promises(world: World, server: AnyServer, seconds: float, second_signal: int | None) -> None:
    """Each armed model once or twice, in reverse, all by the budget; silence only where every one was seen gone."""
    armed = list(world.residency.loaded)
    before = len(server.answers)
    began = world.clock.now
    flag = Flag()
    world.flag.signum = None
    answer = server.answer

    def ringing(call: Call, budget: Any) -> Any:
        if second_signal is not None and len(server.answers) == before + second_signal:
            flag.signum = 2
            raise Cancelled(2)
        return answer(call, budget)

    server.answer = ringing  # type: ignore[method-assign]
    said = world.clean_up(seconds, flag)
    assert world.clock.now - began <= seconds + 1e-6
    assert world.residency.loaded == []
    done = server.answers[before:]
    assert all(call.kind != "load" for call, _ in done)
    unloads = [call.model for call, _ in done if call.kind == "unload"]
    expected = [entry.name for entry in reversed(armed)]
    assert list(dict.fromkeys(unloads)) == expected[: len(set(unloads))]
    for entry in armed:
        assert unloads.count(entry.name) <= (1 if entry.answered else 2)
    assert len(said) == len([entry for entry in armed if any(f" of {entry.name}: " in line for line in said)])
    for line in said:
        assert line.startswith("Ollama cleanup unload/observation failed (exit ")
        assert line.endswith("native residency remains unconfirmed")
    for entry in armed:
        if any(f" of {entry.name}: " in line for line in said):
            continue
        seen_gone(done, entry.name, hold=0.0 if entry.answered else RULES.hold)


def seen_gone(done: list[tuple[Call, list[Row] | None]], name: str, *, hold: float) -> None:
    """The last reads about this model show it absent, for as long as it has to hold and without a break."""
    last = max(index for index, (call, _) in enumerate(done) if call.kind == "unload" and call.model == name)
    reads = []
    for call, rows in done[last + 1 :]:
        if call.kind != "inventory":
            break
        reads.append((call, rows))
    held: list[Call] = []
    for call, rows in reversed(reads):
        if rows is None or canonical(name) in names_in(rows):
            break
        held.append(call)
    assert held, f"{name} is said to be gone and was not seen so"
    assert held[0].until - held[-1].until >= hold - 1e-6
