"""Whatever a server holds: `ensure` unloads nothing that is right, `verify` only reads, and neither passes wrongly."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precheck_lib.errors import AnswerError, ConnectError, DeadlineError, StatusError
from precheck_lib.findings import NotReadyError
from precheck_lib.residency.keep_alive import keep_alive_seconds
from tests.unit.residency.fakes import GIB, big, tiny
from tests.unit.residency.talking import FOREVER, Room

MANY = settings(
    max_examples=150,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NAMES = ("a", "b", "c")
ROWS = {
    "right": {},
    "partial": {"size_vram": 5 * GIB},
    "cpu": {"size_vram": 0},
    "short": {"context_length": 4096},
    "old": {"digest": "e" * 64},
    "text": {"size": "6"},
}
TOKENS = {
    "answers": None,
    "500": StatusError("status 500 instead of 200", 500),
    "none": AnswerError("it answered without a token"),
    "late": DeadlineError("deadline elapsed", phase="head", seconds=30.0),
    "busy": StatusError("status 503 instead of 200", 503),
    "refused": ConnectError("refused", phase="connect"),
}
AGAINST = ("500", "none", "late")
"""What a model answers that does not work; the others say nothing of it."""


@dataclass(frozen=True)
class Holding:
    """One model of a server: how its row looks now and after a load, and what comes of a request for a token."""

    row: str | None
    token: str
    after: str
    session: float
    left: float
    stays: bool
    small: bool
    pushes_out: bool


@dataclass
class Play:
    """A server with these models, the spec's `keep_alive`, and what became of a run on it."""

    held: dict[str, Holding]
    keep_alive: str
    room: Room = field(init=False)
    error: NotReadyError | None = None

    def __post_init__(self) -> None:
        self.room = Room(keep_alive=self.keep_alive)
        server = self.room.server
        for name, one in self.held.items():
            server.digests[name] = name * 64
            if one.row is not None:
                server.has(name, session=one.session, left=min(one.left, one.session), **ROWS[one.row])
            refusal = TOKENS[one.token]
            if refusal is not None:
                server.refuses[name] = refusal
            server.after_load[name] = ROWS[one.after]
        server.before = self._push_out

    def _push_out(self, call):
        if call.kind == "load" and self.held[call.model].pushes_out and call.model not in self.room.server.there:
            self.room.server.there.clear()

    @property
    def models(self):
        made = [(tiny if one.small else big)(name, stays=one.stays) for name, one in self.held.items()]
        return [
            msgspec.structs.replace(each, digest=each.name * 64) for each in sorted(made, key=lambda each: each.stays)
        ]

    def go(self, mode: str) -> Play:
        try:
            getattr(self.room, mode)(*self.models)
        except NotReadyError as error:
            self.error = error
        return self


HOLDINGS = st.builds(
    Holding,
    row=st.sampled_from([None, *ROWS, *["right"] * 5]),
    token=st.sampled_from([*TOKENS, *["answers"] * 6]),
    after=st.sampled_from([*["right"] * 8, "cpu"]),
    session=st.sampled_from([30.0, 300.0, 3600.0, FOREVER]),
    left=st.sampled_from([1.0, 200.0, FOREVER]),
    stays=st.booleans(),
    small=st.booleans(),
    pushes_out=st.sampled_from([False, False, True]),
)
PLAYS = st.builds(
    Play,
    held=st.dictionaries(st.sampled_from(NAMES), HOLDINGS, min_size=1, max_size=3),
    keep_alive=st.sampled_from(["10m", "20s", "2h", "-1m"]),
)


def is_right(play: Play, name: str) -> bool:
    """In other words than the code's: what a server holds now is as it has to be."""
    mine = play.room.server.there.get(name)
    return mine is not None and mine.values == {} and not mine.twice


def test_ensure_never_unloads_what_is_right_and_passes_only_on_what_is_right():
    reached: Counter[str] = Counter()

    @MANY
    @given(PLAYS)
    def check(play):
        held, server = play.held, play.room.server
        play.go("ensures")
        unloads = [call.model for call in server.of("unload")]
        pushed = any(held[call.model].pushes_out for call in server.of("load"))
        for name, one in held.items():
            works = one.row == "right" and one.token not in AGAINST
            if works and not pushed:
                assert name not in unloads, f"{name} was right and is unloaded"
            if name in unloads:
                first = next(i for i, call in enumerate(server.calls) if call.short == f"unload {name}")
                assert any(at <= first and f" {name} at " in line for at, line in play.room.said), (
                    "it was not announced"
                )
            if play.room.kept.get(name) and name in server.there:
                wanted = keep_alive_seconds(play.keep_alive)
                assert server.there[name].session >= max(one.session, min(wanted, FOREVER)) - 1
        for call in server.of("load"):
            at_least = min(keep_alive_seconds(play.keep_alive), FOREVER)
            assert keep_alive_seconds(call.keep_alive) >= at_least
        if play.error is None:
            assert all(is_right(play, name) for name, one in held.items() if one.stays)
        reached["ready" if play.error is None else play.error.findings[0].code] += 1
        reached["all kept" if all(play.room.kept.values()) and play.error is None else "changed"] += 1
        if play.error is not None:
            before = len(server.calls)
            cycled = {call.model for call in server.of("load")} & set(unloads)
            play.room.world.clean_up()
            assert {call.model for call in server.calls[before:] if call.kind == "unload"} <= cycled
            assert all(call.kind != "load" for call in server.calls[before:])

    check()
    for place in ("ready", "all kept", "changed", "http.status", "transport.connect", "residency.evicted"):
        assert reached[place] > 3, reached


def test_verify_sends_nothing_but_reads_and_passes_exactly_where_all_that_stay_are_right():
    @MANY
    @given(PLAYS)
    def check(play):
        right = all(is_right(play, name) for name, one in play.held.items() if one.stays)
        play.go("verifies")
        assert {call.kind for call in play.room.server.calls} == {"inventory"}
        assert (play.error is None) == right
        assert play.room.world.armed == []

    check()


def test_ensure_run_twice_changes_nothing_the_second_time():
    @MANY
    @given(PLAYS)
    def check(play):
        play.go("ensures")
        if play.error is not None or not all(one.stays for one in play.held.values()):
            return
        before = len(play.room.server.calls)
        play.go("ensures")
        assert play.error is None
        assert {call.kind for call in play.room.server.calls[before:]} == {"token", "inventory"}

    check()
