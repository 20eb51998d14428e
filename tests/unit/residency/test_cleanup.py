"""Undoing what a failed run has loaded (CONTRACT G6): what is unloaded, how often, how it is watched, what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.errors import AnswerError, Cancelled, ConnectError, ReceiveError, StatusError
from precheck_lib.residency.cycle import Loaded
from precheck_lib.servers.ollama import TooOldError
from tests.unit.residency.fakes import (
    NOT_INVENTORY,
    READ_SECONDS,
    UNREADABLE,
    Does,
    Flag,
    Ollama,
    Scripted,
    World,
    row,
    tiny,
)

if TYPE_CHECKING:
    from tests.unit.residency.fakes import Answering, Call

REFUSED = StatusError("status 500 instead of 200: 'unload failed'", 500, refused_change=True)


def loaded(world: World, server: Answering, *names: str, answered: bool = True) -> None:
    """Stand where a run has loaded these models and then failed."""
    world.server(server)
    world.residency.loaded = [Loaded(name, answered=answered) for name in names]


def remark(code: int, name: str, said: str) -> str:
    return (
        f"Ollama cleanup unload/observation failed (exit {code}) of {name}: {said}; "
        "native residency remains unconfirmed"
    )


# What is armed ------------------------------------------------------------------------------------------------------


def test_nothing_loaded_is_nothing_to_undo() -> None:
    world = World()
    server = Scripted(world.clock)
    loaded(world, server)
    assert world.clean_up() == []
    assert server.calls == []


def test_a_model_proven_absent_again_is_not_unloaded_a_second_time() -> None:
    world = World()
    server = Ollama(world.clock)

    def refuse(call: Call) -> None:
        if call.short == "load b":
            raise StatusError("status 500 instead of 200", 500, refused_change=True)

    server.before = refuse
    with pytest.raises(Exception, match="the load of b"):
        world.server(server).run([tiny("a", stays=False), tiny("b")], world.budget)
    assert world.armed == ["b"]
    before = len(server.changes)
    assert world.clean_up() == []
    assert server.changes[before:] == ["unload b"]


def test_a_model_that_was_told_to_leave_but_not_seen_gone_is_unloaded_once_more() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[], [row("a")], NOT_INVENTORY["invalid"], []])
    with pytest.raises(Exception, match="a"):
        world.server(server).run([tiny("a", stays=False), tiny("b")], world.budget)
    assert world.clean_up() == []
    assert server.changes == ["unload a", "load a", "unload a", "unload a"]


def test_several_models_are_unloaded_in_reverse_each_seen_gone_before_the_next() -> None:
    world = World()
    server = Ollama(world.clock, resident=["a", "b", "c"])
    server.leaves_after = 0.12
    loaded(world, server, "a", "b", "c")
    assert world.clean_up() == []
    assert server.changes == ["unload c", "unload b", "unload a"]
    first, second, third = (call.at for call in server.of("unload"))
    assert second - first >= 0.12
    assert third - second >= 0.12
    assert world.armed == []


# A load that was answered -------------------------------------------------------------------------------------------


def test_after_an_answered_load_the_first_absence_is_enough() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[row("m")], [row("m")], []])
    loaded(world, server, "m")
    assert world.clean_up() == []
    assert server.story == ["unload m", "ps", "ps", "ps"]
    assert world.clock.now - 1000 == pytest.approx(0.1)


def test_after_an_answered_load_a_model_that_stays_is_not_unloaded_twice() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[row("m")]])
    loaded(world, server, "m")
    (said,) = world.clean_up()
    assert server.changes == ["unload m"]
    assert said.startswith("Ollama cleanup unload/observation failed (exit 28) of m: ")
    assert said.endswith("; native residency remains unconfirmed")
    assert world.clock.now - 1000 == pytest.approx(30.0, abs=0.3)


def test_other_models_that_are_resident_do_not_matter() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[row("theirs:70b"), row("m:7b")]])
    loaded(world, server, "m")
    assert world.clean_up() == []
    assert server.story == ["unload m", "ps"]


@pytest.mark.parametrize("spelling", ["M:latest", "library/m"])
def test_the_model_is_watched_under_any_spelling(spelling: str) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[row(spelling)], []])
    loaded(world, server, "m")
    assert world.clean_up() == []
    assert server.story == ["unload m", "ps", "ps"]


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_read_is_asked_again(unreadable: Any) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[unreadable, []])
    loaded(world, server, "m")
    assert world.clean_up() == []
    assert server.story == ["unload m", "ps", "ps"]


# A load without an answer -------------------------------------------------------------------------------------------


def test_after_an_unanswered_load_absence_has_to_hold_for_a_second() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[[]])
    loaded(world, server, "m", answered=False)
    assert world.clean_up() == []
    reads = server.of("inventory")
    assert reads[-1].at - reads[0].until >= 1.0
    assert reads[-2].at - reads[0].until < 1.0
    assert server.changes == ["unload m"]


def test_a_model_that_comes_late_is_unloaded_once_more() -> None:
    world = World()
    server = Ollama(world.clock)
    server.coming["m"] = world.clock.now + 0.7
    loaded(world, server, "m", answered=False)
    assert world.clean_up() == []
    assert server.changes == ["unload m", "unload m"]
    assert server.of("unload")[1].at - 1000 == pytest.approx(0.7, abs=0.06)
    reads = [call for call in server.of("inventory") if call.at >= server.of("unload")[1].until]
    assert reads[-1].at - reads[0].until >= 1.0
    assert server.resident == []


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_model_that_is_listed_after_the_first_unload_is_unloaded_once_more_and_no_third_time(
    after: int,
) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[*[[]] * after, [row("m")]])
    loaded(world, server, "m", answered=False)
    (said,) = world.clean_up()
    assert server.changes == ["unload m", "unload m"]
    assert server.story[: after + 3] == ["unload m", *["ps"] * (after + 1), "unload m"]
    assert "(exit 28)" in said


def test_a_listing_between_two_absences_begins_the_hold_again() -> None:
    world = World()
    # Gone for 0.5 s, there for one read (the second unload is spent by then), gone again.
    reads = [[row("m")], *[[]] * 10, [row("m")], []]
    server = Scripted(world.clock, inventory=reads)
    loaded(world, server, "m", answered=False)
    assert world.clean_up() == []
    calls = server.of("inventory")
    assert calls[-1].at - calls[12].until >= 1.0
    assert server.changes == ["unload m", "unload m"]


@pytest.mark.parametrize("unreadable", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_read_begins_the_hold_again(unreadable: Any) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[*[[]] * 10, unreadable, []])
    loaded(world, server, "m", answered=False)
    assert world.clean_up() == []
    calls = server.of("inventory")
    assert calls[-1].at - calls[11].until >= 1.0
    assert server.changes == ["unload m"]


def test_the_hold_counts_only_what_the_server_was_asked_after_it_began() -> None:
    """An inventory that takes long tells of the time when it was asked for, not of that when it arrived."""
    world = World()
    server = Ollama(world.clock)
    server.read_seconds = 2.0
    # Absent when it is asked at 0 and at 2.05 s; the first answer is there at 2, the second at 4.05 s.
    server.coming["m"] = world.clock.now + 2.5
    loaded(world, server, "m", answered=False)
    assert world.clean_up() == []
    assert server.changes == ["unload m", "unload m"]
    assert server.resident == []


def test_the_hold_is_the_one_of_the_rules() -> None:
    from precheck_lib.residency.cycle import Rules

    world = World(rules=Rules(hold=0.3))
    server = Scripted(world.clock, inventory=[[]])
    loaded(world, server, "m", answered=False)
    assert world.clean_up() == []
    assert world.clock.now - 1000 == pytest.approx(0.3, abs=0.06)


def test_each_model_has_a_hold_and_a_second_unload_of_its_own() -> None:
    world = World()
    server = Ollama(world.clock, resident=["a", "b"])
    world.server(server)
    world.residency.loaded = [Loaded("a", answered=True), Loaded("b", answered=False)]
    server.leaves_after = 0.03
    assert world.clean_up() == []
    # b was still listed when it was read first, so it is unloaded again; a, whose load was answered, is not.
    assert server.changes == ["unload b", "unload b", "unload a"]


# A cleanup that fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (REFUSED, 22),
        (StatusError("status 404 instead of 200", 404, refused_change=True), 22),
        (ConnectError("127.0.0.1 port 1: Connection refused", phase="connect"), 7),
        (ReceiveError("the connection broke", phase="head"), 56),
        (AnswerError("the server answered with an error: 'no'"), 1),
        (TooOldError("it loaded the model when it was told to unload it"), 1),
        (Does(seconds=31), 28),
    ],
    ids=["500", "404", "refused", "reset", "error-200", "too-old", "deadline"],
)
def test_after_a_failed_cleanup_unload_nothing_is_observed(wrong: Any, code: int, answered: bool) -> None:
    world = World()
    server = Scripted(world.clock, unload=[wrong])
    loaded(world, server, "m", answered=answered)
    (said,) = world.clean_up()
    assert server.story == ["unload m"]
    assert said.startswith(f"Ollama cleanup unload/observation failed (exit {code}) of m: the unload")
    assert said.endswith("; native residency remains unconfirmed")
    assert world.armed == []


def test_what_a_failed_cleanup_says_is_exact() -> None:
    world = World()
    loaded(world, Scripted(world.clock, unload=[REFUSED]), "qwen3:8b")
    assert world.clean_up() == [remark(22, "qwen3:8b", "the unload: status 500 instead of 200: 'unload failed'")]


def test_a_second_unload_that_fails_is_a_failed_cleanup_too() -> None:
    world = World()
    server = Scripted(world.clock, unload=[None, REFUSED], inventory=[[row("m")]])
    loaded(world, server, "m", answered=False)
    (said,) = world.clean_up()
    assert server.story == ["unload m", "ps", "unload m"]
    assert "(exit 22)" in said


@pytest.mark.parametrize("wrong", NOT_INVENTORY.values(), ids=NOT_INVENTORY.keys())
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
def test_an_observation_that_fails_is_a_failed_cleanup(wrong: Any, answered: bool) -> None:
    world = World()
    server = Scripted(world.clock, inventory=[wrong, []])
    loaded(world, server, "m", answered=answered)
    (said,) = world.clean_up()
    assert server.story == ["unload m", "ps"]
    assert said.startswith(f"Ollama cleanup unload/observation failed (exit {wrong.curl}) of m: ")
    assert said.endswith("; native residency remains unconfirmed")


def test_one_failed_cleanup_does_not_keep_the_others_from_being_unloaded() -> None:
    world = World()
    server = Ollama(world.clock, resident=["a", "b", "c"])

    def refuse(call: Call) -> None:
        if call.short == "unload b":
            raise REFUSED

    server.before = refuse
    loaded(world, server, "a", "b", "c")
    said = world.clean_up()
    assert server.changes == ["unload c", "unload b", "unload a"]
    assert [line.partition(":")[0] for line in said] == ["Ollama cleanup unload/observation failed (exit 22) of b"]
    assert world.armed == []


def test_every_model_that_stays_unconfirmed_is_named() -> None:
    world = World()
    loaded(world, Scripted(world.clock, unload=[REFUSED]), "a", "b")
    said = world.clean_up()
    assert [line.split(" of ")[1].split(":")[0] for line in said] == ["b", "a"]


# Time and signals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
@pytest.mark.parametrize("seconds", [0.0, 0.5, 3.0, 12.0])
def test_the_cleanup_ends_by_its_budget(seconds: float, answered: bool) -> None:
    world = World()
    server = Scripted(
        world.clock, unload=[Does(seconds=seconds / 3)], inventory=[Does([row("a"), row("b")], seconds=0.2)]
    )
    loaded(world, server, "a", "b", answered=answered)
    world.clock.now = 5000.0
    said = world.clean_up(seconds)
    assert world.clock.now - 5000 <= seconds + 0.001
    assert len(said) == 2
    assert all("(exit 28)" in line and line.endswith("native residency remains unconfirmed") for line in said)


def test_a_hanging_inventory_ends_the_observation_at_the_removal_bound() -> None:
    world = World()
    server = Scripted(world.clock, inventory=[Does(seconds=READ_SECONDS * 2)])
    loaded(world, server, "m")
    (said,) = world.clean_up(1000)
    assert "(exit 28)" in said
    assert world.clock.now - 1000 == pytest.approx(30.0, abs=0.01)


@pytest.mark.parametrize("at", ["unload b", "ps"])
def test_a_second_signal_ends_the_cleanup_at_once_and_names_all_that_is_left(at: str) -> None:
    world = World()
    server = Ollama(world.clock, resident=["a", "b", "c"])
    flag = Flag()

    def ring(call: Call) -> None:
        if len(server.of("unload")) == 2 and (call.short if call.model else "ps") == at:
            flag.signum = 15
            raise Cancelled(15)

    server.before = ring
    loaded(world, server, "a", "b", "c")
    said = world.clean_up(90.0, flag)
    assert server.changes == ["unload c", "unload b"]
    assert said == [
        remark(143, "b", "a second signal ended the cleanup"),
        remark(143, "a", "a second signal ended the cleanup"),
    ]
    assert world.armed == []


def test_a_second_cleanup_has_nothing_left_to_do() -> None:
    world = World()
    server = Scripted(world.clock, unload=[REFUSED])
    loaded(world, server, "m")
    assert len(world.clean_up()) == 1
    assert world.clean_up() == []
    assert server.changes == ["unload m"]
