"""Which step may follow which: the cycle of CONTRACT G2 and the cleanup of G6 as tables, and nothing else."""

from __future__ import annotations

import pytest

from precheck_lib.residency.machine import Cleanup, Cycle, Event, IllegalStepError, State

# Written down a second time on purpose: a table that only equals itself proves nothing.
LEGAL = {
    ("UNLOADING", "ACCEPTED"): "LEAVING",
    ("LEAVING", "LISTED"): "LEAVING",
    ("LEAVING", "UNREADABLE"): "LEAVING",
    ("LEAVING", "ABSENT"): "SETTLING",
    ("SETTLING", "SETTLED"): "LOADING",
    ("LOADING", "ACCEPTED"): "JUDGING",
    ("JUDGING", "RIGHT"): "RESIDENT",
    ("RESIDENT", "DISMISSED"): "RETIRING",
    ("RETIRING", "ACCEPTED"): "DEPARTING",
    ("DEPARTING", "LISTED"): "DEPARTING",
    ("DEPARTING", "UNREADABLE"): "DEPARTING",
    ("DEPARTING", "ABSENT"): "GONE",
}

UNANSWERED = {
    ("UNLOADING", "ACCEPTED"): "WATCHING",
    ("WATCHING", "LISTED"): "UNLOADING",
    ("WATCHING", "ABSENT"): "WATCHING",
    ("WATCHING", "UNREADABLE"): "WATCHING",
    ("WATCHING", "HELD"): "GONE",
}
ANSWERED = {**UNANSWERED, ("WATCHING", "LISTED"): "WATCHING"}


def cycle_in(state: State) -> Cycle:
    cycle = Cycle()
    cycle.state = state
    return cycle


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
def test_a_cycle_takes_the_steps_of_its_table_and_no_other(state: State) -> None:
    for event in Event:
        cycle = cycle_in(state)
        after = LEGAL.get((state.name, event.name))
        if after is None:
            with pytest.raises(IllegalStepError, match=rf"{event.name} in {state.name}"):
                cycle.advance(event)
            assert cycle.state is state
        else:
            assert cycle.advance(event) is State[after]
            assert cycle.state is State[after]


def test_a_cycle_begins_with_an_unload() -> None:
    assert Cycle().state is State.UNLOADING


def test_every_way_to_a_load_leads_through_an_absence_that_was_read() -> None:
    # All paths without repetition from the start to LOADING.
    ways: list[list[str]] = []

    def walk(state: str, events: list[str], seen: frozenset[str]) -> None:
        if state == "LOADING":
            ways.append(events)
            return
        for event in Event:
            cycle = cycle_in(State[state])
            try:
                after = cycle.advance(event).name
            except IllegalStepError:
                continue
            if after not in seen:
                walk(after, [*events, event.name], seen | {after})

    walk("UNLOADING", [], frozenset({"UNLOADING"}))
    assert ways == [["ACCEPTED", "ABSENT", "SETTLED"]]


def test_a_failed_cycle_takes_no_step_any_more() -> None:
    cycle = Cycle()
    cycle.fail()
    assert cycle.state is State.FAILED
    for event in Event:
        with pytest.raises(IllegalStepError):
            cycle.advance(event)


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
def test_a_cleanup_takes_the_steps_of_its_table_and_no_other(answered: bool) -> None:
    for state in State:
        for event in Event:
            cleanup = Cleanup(answered=answered)
            cleanup.state = state
            after = (ANSWERED if answered else UNANSWERED).get((state.name, event.name))
            if after is None:
                with pytest.raises(IllegalStepError):
                    cleanup.advance(event)
                assert cleanup.state is state
            else:
                assert cleanup.advance(event) is State[after]


def test_the_cleanup_of_a_load_without_an_answer_unloads_once_more_and_then_never_again() -> None:
    cleanup = Cleanup(answered=False)
    assert cleanup.must_hold
    cleanup.advance(Event.ACCEPTED)
    assert cleanup.advance(Event.LISTED) is State.UNLOADING
    cleanup.advance(Event.ACCEPTED)
    for _ in range(3):
        assert cleanup.advance(Event.LISTED) is State.WATCHING
    assert cleanup.advance(Event.ABSENT) is State.WATCHING
    assert cleanup.advance(Event.HELD) is State.GONE


def test_the_cleanup_of_an_answered_load_never_unloads_twice_and_needs_no_hold() -> None:
    cleanup = Cleanup(answered=True)
    assert not cleanup.must_hold
    cleanup.advance(Event.ACCEPTED)
    assert cleanup.advance(Event.LISTED) is State.WATCHING
    assert cleanup.advance(Event.HELD) is State.GONE


def test_a_failed_cleanup_takes_no_step_any_more() -> None:
    cleanup = Cleanup(answered=False)
    cleanup.advance(Event.ACCEPTED)
    cleanup.fail()
    for event in Event:
        with pytest.raises(IllegalStepError):
            cleanup.advance(event)
