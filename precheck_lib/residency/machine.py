"""The cycle and its cleanup as explicit state machines. No I/O, no clock: states, events, one table each.

A cycle, for one model (CONTRACT G2):

    UNLOADING ─accepted→ LEAVING ─absent→ SETTLING ─settled→ LOADING ─accepted→ JUDGING ─right→ RESIDENT
                         └listed, unreadable: LEAVING                                           │
                                      GONE ←absent─ DEPARTING ←accepted─ RETIRING ←─dismissed───┘
                                                    └listed, unreadable: DEPARTING
A cleanup, for one model that this run has loaded (G6):

    UNLOADING ─accepted→ WATCHING ─held→ GONE
                         ├listed→ WATCHING, or once UNLOADING again where the load had no answer
                         └absent, unreadable: WATCHING

Every other event, and every failure, ends in FAILED. There is no way to LOADING but through an absence that was read.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """Where a cycle or a cleanup is."""

    UNLOADING = auto()
    LEAVING = auto()
    SETTLING = auto()
    LOADING = auto()
    JUDGING = auto()
    RESIDENT = auto()
    RETIRING = auto()
    DEPARTING = auto()
    WATCHING = auto()
    GONE = auto()
    FAILED = auto()


class Event(Enum):
    """What was learned: of an unload or load (`ACCEPTED`), of an inventory, or of time (`SETTLED`, `HELD`)."""

    ACCEPTED = auto()
    LISTED = auto()
    ABSENT = auto()
    UNREADABLE = auto()
    SETTLED = auto()
    RIGHT = auto()
    DISMISSED = auto()
    HELD = auto()


CYCLE: dict[tuple[State, Event], State] = {
    (State.UNLOADING, Event.ACCEPTED): State.LEAVING,
    (State.LEAVING, Event.LISTED): State.LEAVING,
    (State.LEAVING, Event.UNREADABLE): State.LEAVING,
    (State.LEAVING, Event.ABSENT): State.SETTLING,
    (State.SETTLING, Event.SETTLED): State.LOADING,
    (State.LOADING, Event.ACCEPTED): State.JUDGING,
    (State.JUDGING, Event.RIGHT): State.RESIDENT,
    (State.RESIDENT, Event.DISMISSED): State.RETIRING,
    (State.RETIRING, Event.ACCEPTED): State.DEPARTING,
    (State.DEPARTING, Event.LISTED): State.DEPARTING,
    (State.DEPARTING, Event.UNREADABLE): State.DEPARTING,
    (State.DEPARTING, Event.ABSENT): State.GONE,
}


class IllegalStepError(Exception):
    """An event that cannot happen in a state: a fault of the caller, never of a server."""


class Cycle:
    """The cycle of one model: `state`, moved by `advance`."""

    def __init__(self) -> None:
        self.state = State.UNLOADING

    def advance(self, event: Event) -> State:
        """Take one step of the table and return the new state."""
        after = CYCLE.get((self.state, event))
        if after is None:
            raise IllegalStepError(f"{event.name} in {self.state.name}")
        self.state = after
        return after

    def fail(self) -> None:
        """End the cycle for good."""
        self.state = State.FAILED


class Cleanup:
    """The cleanup of one model. `answered` says whether its load had an answer.

    Without one, a loading model may not be listed yet and the unload may have been a no-op: an absence has to hold, and
    a model that is listed after all is unloaded once more, at most once.
    """

    def __init__(self, *, answered: bool) -> None:
        self.state = State.UNLOADING
        self.must_hold = not answered
        self._may_repeat = not answered

    def advance(self, event: Event) -> State:
        """Take one step and return the new state."""
        if (self.state, event) == (State.UNLOADING, Event.ACCEPTED):
            self.state = State.WATCHING
        elif (self.state, event) == (State.WATCHING, Event.LISTED):
            if self._may_repeat:
                self._may_repeat = False
                self.state = State.UNLOADING
        elif (self.state, event) == (State.WATCHING, Event.HELD):
            self.state = State.GONE
        elif self.state is not State.WATCHING or event not in (Event.ABSENT, Event.UNREADABLE):
            raise IllegalStepError(f"{event.name} in {self.state.name}")
        return self.state

    def fail(self) -> None:
        """End the cleanup for good."""
        self.state = State.FAILED
