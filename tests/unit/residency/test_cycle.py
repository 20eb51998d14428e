"""The cycle on a server without sockets (CONTRACT G2, G3, G5, G7, G8, H3), on a clock that only waiting moves."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.errors import AnswerError, Cancelled, ConnectError, DeadlineError, ReceiveError, StatusError
from precheck_lib.findings import NotReadyError
from precheck_lib.residency.cycle import Rules
from precheck_lib.residency.inventory import REMOVAL_OVER
from precheck_lib.servers.ollama import NoInventoryError, Row, TooOldError
from tests.unit.residency.fakes import (
    NOT_INVENTORY,
    READ_SECONDS,
    UNREADABLE,
    Does,
    Ollama,
    Scripted,
    World,
    big,
    row,
    tiny,
)

if TYPE_CHECKING:
    from precheck_lib.residency.cycle import Model
    from tests.unit.residency.fakes import Answering, Call


def run(world: World, server: Answering, *models: Model) -> None:
    world.server(server).run(models, world.budget)


def failed(world: World, server: Answering, *models: Model) -> NotReadyError:
    with pytest.raises(NotReadyError) as caught:
        run(world, server, *models)
    assert len(caught.value.findings) == 1
    return caught.value


# The order of things ------------------------------------------------------------------------------------------------


def test_one_model_is_unloaded_seen_gone_loaded_and_judged() -> None:
    world = World()
    server = Ollama(world.clock)
    run(world, server, big("m"))
    assert server.story == ["unload m", "ps", "load m", "ps", "ps"]
    assert world.armed == ["m"]


def test_a_model_that_need_not_stay_is_unloaded_and_seen_gone_before_the_next() -> None:
    world = World()
    server = Ollama(world.clock, resident=["b"])
    run(world, server, big("a", stays=False), big("b"))
    assert server.story == [
        *("unload a", "ps", "load a", "ps", "unload a", "ps"),
        *("unload b", "ps", "load b", "ps"),
        "ps",
    ]
    assert world.armed == ["b"]


def test_where_nothing_stays_nothing_is_read_again() -> None:
    world = World()
    server = Ollama(world.clock)
    run(world, server, big("a", stays=False))
    assert server.story == ["unload a", "ps", "load a", "ps", "unload a", "ps"]
    assert world.armed == []


def test_requests_carry_the_name_as_configured() -> None:
    world = World()
    server = Ollama(world.clock)
    server.rows = lambda rows: [row("m:latest") for _ in rows]
    run(world, server, big("registry.ollama.ai/library/M"))
    assert {call.model for call in server.calls if call.model} == {"registry.ollama.ai/library/M"}


def test_each_request_has_its_own_bound_and_the_load_its_keep_alive() -> None:
    world = World(rules=Rules(unload=1.5, load=2.5, keep_alive="7m"))
    server = Ollama(world.clock)
    server.load_seconds = 2.0
    run(world, server, big("m"))
    assert [(call.kind, call.bound) for call in server.calls] == [
        ("unload", 1.5),
        ("inventory", READ_SECONDS),
        ("load", 2.5),
        ("inventory", READ_SECONDS),
        ("inventory", READ_SECONDS),
    ]
    assert server.of("load")[0].keep_alive == "7m"


def test_the_record_of_a_cycle_tells_its_times_and_its_row() -> None:
    world = World()
    server = Ollama(world.clock, resident=["m"])
    server.leaves_after = 0.4
    server.rows = lambda rows: [row(each.name, size=7, size_vram=7, context_length=65536) for each in rows]
    run(world, server, big("m"))
    (record,) = world.records
    assert record.model == "m"
    assert record.unload_s == 0
    assert record.absent_s == pytest.approx(0.4, abs=0.06)
    assert record.load_s == pytest.approx(5.0)
    assert (record.size, record.size_vram, record.context_length) == (7, 7, 65536)
    assert record.reads == len(server.of("inventory")) - 1


def test_the_record_of_a_wrong_row_holds_only_integers() -> None:
    world = World()
    server = Ollama(world.clock)
    server.rows = lambda rows: [row(each.name, size=True, size_vram="7", context_length=1.5) for each in rows]
    failed(world, server, big("m"))
    (record,) = world.records
    assert (record.size, record.size_vram, record.context_length) == (None, None, None)


def test_the_record_of_a_row_holds_no_number_that_has_more_than_63_bits() -> None:
    world = World()
    server = Ollama(world.clock)
    server.rows = lambda rows: [row(each.name, size=1 << 63, size_vram=1 << 63, context_length=65536) for each in rows]
    run(world, server, big("m"))
    (record,) = world.records
    assert (record.size, record.size_vram, record.context_length) == (None, None, 65536)


# Leaving ------------------------------------------------------------------------------------------------------------


def test_absence_is_asked_every_50_ms_for_2_s_and_then_every_250_ms() -> None:
    world = World()
    server = Ollama(world.clock, resident=["m"])
    server.leaves_after = 4.9
    run(world, server, big("m"))
    began = server.of("unload")[0].until
    reads = [call.at - began for call in server.of("inventory") if call.until <= server.of("load")[0].at]
    assert reads[0] == 0
    gaps = [round(later - earlier, 6) for earlier, later in itertools.pairwise(reads)]
    early = [gap for gap, at in zip(gaps, reads, strict=False) if at < 1.99]
    late = [gap for gap, at in zip(gaps, reads, strict=False) if at > 2.01]
    assert set(early) == {0.05}
    assert set(late) == {0.25}
    assert reads[-1] >= 4.9


def test_one_absence_is_enough_to_load() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[row("m")], [], [row("m")]])
    run(world, server, tiny("m"))
    assert server.story == ["unload m", "ps", "ps", "load m", "ps", "ps"]


@pytest.mark.parametrize("listed", ["m", "M:LATEST", "library/m:latest", "registry.ollama.ai/library/m"])
def test_a_model_is_not_absent_while_any_spelling_of_it_is_listed(listed: str) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[row(listed)], [row("m:7b")], [row("m")]])
    run(world, server, tiny("m"))
    assert server.story[:4] == ["unload m", "ps", "ps", "load m"]


def test_a_row_that_is_wrong_in_every_number_still_lists_its_model() -> None:
    world = World()
    wrong = row("m", size="x", size_vram=..., context_length=True)
    server = Scripted(world.clock, inventory=[[wrong], [wrong], [], [row("m")]])
    run(world, server, tiny("m"))
    assert server.story == ["unload m", "ps", "ps", "ps", "load m", "ps", "ps"]


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_read_that_says_nothing_is_asked_again_and_is_no_absence(unreadable: Any) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[unreadable, [row("m")], unreadable, [], [row("m")]])
    run(world, server, tiny("m"))
    assert server.story == ["unload m", *["ps"] * 4, "load m", "ps", "ps"]


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_t6_reads_that_never_say_anything_end_with_the_removal_deadline_and_without_a_load(
    unreadable: Any,
) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[unreadable])
    error = failed(world, server, big("m"))
    assert error.findings[0].code == "ollama.removal"
    assert error.findings[0].message.startswith(f"{REMOVAL_OVER}: m")
    assert "no readable inventory" in error.findings[0].evidence
    assert (error.word, error.curl) == ("failed", 28)
    assert world.clock.now - 1000 == pytest.approx(30.0, abs=0.01)
    assert server.changes == ["unload m"]
    assert world.armed == []


@pytest.mark.parametrize("wrong", NOT_INVENTORY.values(), ids=NOT_INVENTORY.keys())
@pytest.mark.parametrize("after", [0, 3])
def test_a_read_that_fails_ends_the_cycle_at_once_and_authorises_no_load(wrong: Any, after: int) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[*[[row("m")]] * after, wrong, []])
    error = failed(world, server, big("m"))
    assert server.story == ["unload m", *["ps"] * (after + 1)]
    assert error.curl == wrong.curl
    assert error.word == wrong.word
    assert "m" in error.findings[0].message
    assert world.armed == []


def test_an_invalid_inventory_is_named_as_one() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[NOT_INVENTORY["invalid"]])
    error = failed(world, server, big("m"))
    assert error.findings[0].code == "ollama.inventory"
    assert (error.word, error.curl) == ("failed", 1)


def test_g5_t5_a_model_that_never_leaves_was_sent_one_unload_and_no_load() -> None:
    world = World()
    stuck = Row(name="m", size=1, size_vram=1, context_length=65536, expires_at="2026-08-21T10:00:00.1+02:00")
    server = Scripted(world.clock, inventory=[[stuck]])
    error = failed(world, server, big("m"), big("n"))
    found = error.findings[0]
    assert found.code == "ollama.removal"
    assert found.message.startswith(REMOVAL_OVER)
    assert "30 s" in found.message
    assert "2026-08-21T10:00:00.1+02:00" in found.evidence
    assert (error.word, error.curl) == ("failed", 28)
    assert server.changes == ["unload m"]
    assert world.armed == []
    assert world.clean_up() == []
    assert server.changes == ["unload m"]
    assert world.clock.now - 1000 == pytest.approx(30.0, abs=0.3)


def test_the_removal_deadline_counts_from_the_unloads_answer() -> None:
    world = World()
    server = Scripted(world.clock, unload=[Does(seconds=29.0)], inventory=[[row("m")]])
    failed(world, server, big("m"))
    assert world.clock.now - 1000 == pytest.approx(59.0, abs=0.3)


def test_a_read_at_the_end_of_the_removal_deadline_is_cut_by_it() -> None:
    world = World(rules=Rules(removal=3.0))
    server = Scripted(world.clock, inventory=[Does([row("m")], seconds=2.5), Does([], seconds=9.0)])
    error = failed(world, server, big("m"))
    assert error.findings[0].code == "ollama.removal"
    assert world.clock.now - 1000 == pytest.approx(3.0, abs=0.01)
    assert server.changes == ["unload m"]


# Unload and load ----------------------------------------------------------------------------------------------------

REFUSALS = {
    "status-404": StatusError("status 404 instead of 200", 404, refused_change=True),
    "status-500": StatusError("status 500 instead of 200", 500, refused_change=True),
    "error-200": AnswerError("the server answered with an error: 'no'"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_an_unload_that_is_refused_ends_the_cycle_before_any_read(refusal: AnswerError) -> None:
    world = World()
    server = Scripted(world.clock, unload=[refusal])
    error = failed(world, server, big("m"))
    assert server.story == ["unload m"]
    assert (error.findings[0].code, error.word, error.curl) == ("ollama.unload", "failed", refusal.curl)
    assert world.armed == []


def test_a_server_that_loads_when_told_to_unload_is_named_as_too_old() -> None:
    world = World()
    server = Scripted(world.clock, unload=[TooOldError("it loaded the model when it was told to unload it")])
    error = failed(world, server, big("m"))
    assert (error.findings[0].code, error.word, error.curl) == ("ollama.too-old", "failed", 1)
    assert server.story == ["unload m"]
    assert world.clean_up() == []
    assert server.story == ["unload m"]


def test_an_unload_without_an_answer_could_not_be_found_out() -> None:
    for wrong, curl in (
        (Does(seconds=100), 28),
        (ReceiveError("the connection broke", phase="head"), 56),
        (ConnectError("refused", phase="connect"), 7),
    ):
        world = World()
        server = Scripted(world.clock, unload=[wrong])
        error = failed(world, server, big("m"))
        assert (error.word, error.curl) == ("error", curl)
        assert error.findings[0].code != "ollama.removal"
        assert server.story == ["unload m"]
        assert world.clock.now - 1000 <= 30.0
        assert world.armed == []


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_load_that_is_refused_was_answered_and_arms_the_cleanup(refusal: AnswerError) -> None:
    world = World()
    server = Scripted(world.clock, load=[refusal])
    error = failed(world, server, big("m"))
    assert server.story == ["unload m", "ps", "load m"]
    assert (error.findings[0].code, error.word, error.curl) == ("ollama.load", "failed", refusal.curl)
    assert [(entry.name, entry.answered) for entry in world.residency.loaded] == [("m", True)]


@pytest.mark.parametrize(
    "wrong",
    [
        Does(seconds=1000),
        ReceiveError("the connection broke", phase="head"),
        ConnectError("refused", phase="connect"),
        Cancelled(15),
    ],
    ids=["deadline", "reset", "refused", "signal"],
)
def test_a_load_without_an_answer_arms_the_cleanup_as_one(wrong: Any) -> None:
    world = World()
    server = Scripted(world.clock, load=[wrong])
    with pytest.raises((NotReadyError, Cancelled)) as caught:
        run(world, server, big("m"))
    if isinstance(caught.value, NotReadyError):
        assert caught.value.word == "error"
        expected = {"Does": 28, "ReceiveError": 56, "ConnectError": 7}
        assert caught.value.curl == expected[type(wrong).__name__]
    assert [(entry.name, entry.answered) for entry in world.residency.loaded] == [("m", False)]
    assert server.story == ["unload m", "ps", "load m"]


# The row check ------------------------------------------------------------------------------------------------------


def test_the_row_is_read_once_and_a_wrong_one_is_not_asked_again() -> None:
    world = World()
    server = Ollama(world.clock)
    server.rows = lambda rows: [row(each.name, size_vram=1) for each in rows]
    error = failed(world, server, big("m"))
    assert server.story == ["unload m", "ps", "load m", "ps"]
    assert error.findings[0].code == "residency.partial"
    assert world.armed == ["m"]


@pytest.mark.parametrize(
    ("wrong", "code", "word", "curl"),
    [
        (Does(seconds=100), "transport.deadline", "error", 28),
        (NoInventoryError("status 500 without a body"), "http.status", "error", 22),
        (NOT_INVENTORY["status-503"], "http.status", "error", 22),
        (NOT_INVENTORY["invalid"], "ollama.inventory", "failed", 1),
        (NOT_INVENTORY["reset"], "transport.receive", "error", 56),
    ],
    ids=["own-bound", "500-empty", "status-503", "invalid", "reset"],
)
@pytest.mark.parametrize("at_the_end", [False, True], ids=["row-check", "last-read"])
def test_what_is_tolerated_while_a_model_leaves_is_a_failure_after_its_load(
    wrong: Any, code: str, word: str, curl: int, at_the_end: bool
) -> None:
    world = World()
    reads = [[], [row("m")], wrong] if at_the_end else [[], wrong]
    server = Scripted(world.clock, inventory=[*reads, [row("m")]])
    error = failed(world, server, big("m"))
    assert (error.findings[0].code, error.word, error.curl) == (code, word, curl)
    assert server.story == ["unload m", "ps", "load m", *["ps"] * (len(reads) - 1)]
    assert world.armed == ["m"]


@pytest.mark.parametrize("wrong", NOT_INVENTORY.values(), ids=NOT_INVENTORY.keys())
def test_a_model_whose_departure_cannot_be_seen_stays_armed(wrong: Any) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[], [row("a")], wrong])
    failed(world, server, tiny("a", stays=False), tiny("b"))
    assert server.changes == ["unload a", "load a", "unload a"]
    assert world.armed == ["a"]


def test_a_model_that_does_not_depart_stops_the_run_before_the_next_cycle() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[], [row("a")]])
    error = failed(world, server, tiny("a", stays=False), tiny("b"))
    assert (error.findings[0].code, error.curl) == ("ollama.removal", 28)
    assert server.changes == ["unload a", "load a", "unload a"]
    assert world.armed == ["a"]


def test_a_retiring_unload_that_is_refused_leaves_the_model_armed() -> None:
    world = World()
    server = Scripted(world.clock, unload=[None, REFUSALS["status-500"]], inventory=[[], [row("a")]])
    failed(world, server, tiny("a", stays=False), tiny("b"))
    assert world.armed == ["a"]


def test_extra_rows_of_other_models_are_fine() -> None:
    world = World()
    other = row("theirs:70b", size=5, size_vram=0, context_length=1)
    server = Ollama(world.clock)
    server.rows = lambda rows: [other, *rows, other]
    run(world, server, big("m"))
    assert server.changes == ["unload m", "load m"]


# G7 and G8 ----------------------------------------------------------------------------------------------------------


def waits(server: Answering) -> tuple[float, float]:
    """Seconds from the last absence to the load, and from the load to the last read."""
    (load,) = server.of("load")
    before = max(call.until for call in server.of("inventory") if call.until <= load.at)
    return load.at - before, server.of("inventory")[-1].at - load.until


def test_a_big_model_is_settled_for_and_read_once_more_a_second_after_its_load() -> None:
    world = World()
    server = Ollama(world.clock)
    run(world, server, big("m"))
    settled, held = waits(server)
    assert settled == pytest.approx(2.0)
    assert held >= 1.0


def test_a_small_model_is_neither_settled_for_nor_waited_for() -> None:
    world = World()
    server = Ollama(world.clock)
    server.load_seconds = 0.0
    run(world, server, tiny("m"))
    assert waits(server) == (0.0, 0.0)
    assert server.story == ["unload m", "ps", "load m", "ps", "ps"]
    assert world.clock.now == 1000.0


def test_each_model_of_a_run_is_settled_for_by_its_own_size() -> None:
    world = World()
    server = Ollama(world.clock)
    run(world, server, tiny("a", stays=False), big("b"))
    first, second = server.of("load")
    reads = [call.until for call in server.of("inventory")]
    assert first.at - max(at for at in reads if at <= first.at) == 0
    assert second.at - max(at for at in reads if at <= second.at) == pytest.approx(2.0)


def test_no_request_is_made_between_the_last_absence_and_the_load() -> None:
    world = World()
    server = Ollama(world.clock)
    run(world, server, big("m"))
    assert server.story[1:3] == ["ps", "load m"]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([], "not resident"),
        ([row("m", size_vram=1)], "not fully on the GPU"),
        ([row("m", context_length=4096)], "4096"),
        ([row("m"), row("m")], "2 times"),
        ([row("other:1b")], "not resident"),
    ],
    ids=["gone", "split", "short", "twice", "replaced"],
)
def test_g7_a_model_that_is_right_and_then_not_any_more_was_evicted(last: list[Row], said: str) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[], [row("m")], last])
    error = failed(world, server, big("m"))
    assert (error.findings[0].code, error.word, error.curl) == ("residency.evicted", "failed", 1)
    assert said in error.findings[0].message
    assert world.armed == ["m"]


def test_g7_t8_all_that_stay_are_read_in_one_inventory_and_the_missing_one_is_named() -> None:
    world = World()
    server = Ollama(world.clock)

    def push_out(call: Call) -> None:
        if call.short == "load b":
            server.listed.pop("a")

    server.before = push_out
    error = failed(world, server, big("a"), big("b"))
    assert error.findings[0].code == "residency.evicted"
    assert error.findings[0].message.startswith("a ")
    assert server.story[-2:] == ["ps", "ps"]
    assert world.armed == ["a", "b"]
    assert world.clean_up() == []
    assert server.changes[-2:] == ["unload b", "unload a"]


def test_g7_several_models_that_stay_are_right_together() -> None:
    world = World()
    server = Ollama(world.clock)
    run(world, server, big("a"), big("b"))
    assert server.story == [
        *("unload a", "ps", "load a", "ps"),
        *("unload b", "ps", "load b", "ps"),
        "ps",
    ]
    assert world.armed == ["a", "b"]


# The budget and the signal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "seconds", "story"),
    [
        ({"unload": [Does(seconds=20)]}, 10, ["unload m"]),
        ({"inventory": [[row("m")]]}, 10, None),
        ({"inventory": [Does(seconds=9.5)]}, 9, ["unload m", "ps"]),
        ({"inventory": [[]]}, 1, ["unload m", "ps"]),
        ({"load": [Does(seconds=200)]}, 100, ["unload m", "ps", "load m"]),
        ({"inventory": [[], Does([], seconds=9)]}, 8, ["unload m", "ps", "load m", "ps"]),
        ({"inventory": [[], [row("m")]]}, 2.5, ["unload m", "ps", "load m", "ps"]),
    ],
    ids=["unload", "polling", "read", "settling", "load", "row-check", "before-the-last-read"],
)
def test_where_the_budget_ends_that_is_what_is_said(
    script: dict[str, Any], seconds: float, story: list[str] | None
) -> None:
    world = World(seconds)
    server = Scripted(world.clock, **script)
    error = failed(world, server, big("m"))
    assert error.findings[0].code == "run.budget"
    assert (error.word, error.curl) == ("error", 28)
    assert world.clock.now - 1000 == pytest.approx(seconds, abs=0.01)
    if story is not None:
        assert server.story == story
    assert world.armed == (["m"] if "load m" in server.story else [])


def test_a_load_is_not_begun_when_the_budget_has_just_ended() -> None:
    world = World(10)
    server = Scripted(world.clock, inventory=[Does([], meanwhile=lambda: _to(world, 1010.0))])
    error = failed(world, server, tiny("m"))
    assert error.findings[0].code == "run.budget"
    assert server.changes == ["unload m"]
    assert world.armed == []


def _to(world: World, now: float) -> None:
    world.clock.now = now


def test_a_bound_of_its_own_is_not_blamed_on_the_budget() -> None:
    world = World(1000)
    error = failed(world, Scripted(world.clock, load=[Does(seconds=400)]), big("m"))
    assert error.findings[0].code != "run.budget"
    assert (error.word, error.curl) == ("error", 28)
    assert "360 s" in error.findings[0].message


@pytest.mark.parametrize("at", ["unload m", "ps", "load m"])
def test_a_signal_passes_through_every_step(at: str) -> None:
    world = World()
    server = Ollama(world.clock)

    def ring(call: Call) -> None:
        if (call.short if call.model else "ps") == at:
            world.flag.signum = 15
            world.budget.check("wait")

    server.before = ring
    with pytest.raises(Cancelled) as caught:
        run(world, server, big("m"))
    assert caught.value.signum == 15
    assert server.story[-1] == at
    assert world.armed == (["m"] if at == "load m" else [])


def test_a_signal_while_settling_arms_nothing() -> None:
    world = World()
    server = Ollama(world.clock)
    sleep = world.budget.sleep

    def ring(seconds: float, phase: Any = "wait") -> None:
        world.flag.signum = 2
        sleep(seconds, phase)

    world.budget.sleep = ring  # type: ignore[method-assign]
    with pytest.raises(Cancelled):
        run(world, server, big("m"))
    assert server.story == ["unload m", "ps"]
    assert world.armed == []


def test_no_two_requests_are_ever_in_flight() -> None:
    # `Answering` refuses it in every test of this folder; this one shows that it would notice.
    world = World()
    server = Ollama(world.clock)
    server.before = lambda call: (server.inventory(world.budget), None)[1] if call.kind == "load" else None
    with pytest.raises(AssertionError, match="in flight"):
        run(world, server, big("m"))


def test_the_deadline_error_of_a_load_is_the_one_of_the_load() -> None:
    world = World(5000)
    error = failed(world, Scripted(world.clock, load=[Does(seconds=361)]), big("m"))
    assert isinstance(error.__cause__, DeadlineError)
    assert world.clock.now - 1000 == pytest.approx(362.0, abs=0.1)
