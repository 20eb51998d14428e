"""Whatever a server does, the cycle and its cleanup keep their promises (CONTRACT G2 to G7)."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import event, given, settings

from precheck_lib.errors import AnswerError, Cancelled, DeadlineError, TalkError
from precheck_lib.findings import NotReadyError
from precheck_lib.servers.names import canonical
from precheck_lib.servers.ollama import NoInventoryError
from tests.fuzz.any_server import BUSY_RUNS, RULES, RUNS, Run, Told

SLACK = 1e-6
MOST_READS = 120
"""In 5 s one reads 40 times in the first two and 12 times after; a budget of bytes and time is not all there is."""

REMARK = re.compile(
    r"Ollama cleanup unload/observation failed \(exit (\d+)\) of (.+?): .+; native residency remains unconfirmed"
)


class Story:
    """Reads what was asked of a server from the start, by the contract's rules and not by the code's.

    `armed` are the models that a failure has to undo, with whether their load was answered; `reached` is where the last
    request stands; `whole` says that nothing more had to be asked.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.left = list(run.told)
        self.armed: dict[str, bool] = {}
        self.reached = "nothing"
        self.whole = False
        self.wrong_row = False

    def read(self) -> Story:
        """Follow the run; the requests may end anywhere, but none may be where it does not belong."""
        try:
            for model in self.run.models:
                self._cycle(model)
            if any(model.stays for model in self.run.models):
                self._last()
        except IndexError:
            pass
        else:
            self.whole = True
        assert self.left == [], f"asked although the run had to end: {[told.call.short for told in self.left]}"
        return self

    def _next(self, kind: str, name: str, where: str) -> Told:
        told = self.left.pop(0)  # IndexError: the run has ended here
        self.reached = where
        assert told.call.kind == kind, f"{told.call.short} instead of {kind} {name}"
        assert told.call.model == (name if kind != "inventory" else "")
        if told.error is not None and not (where in ("absence", "departure") and told.unreadable):
            if kind == "load":
                self.armed[name] = isinstance(told.error, AnswerError)
            raise IndexError  # the first failure ends the run
        return told

    def _cycle(self, model):
        name = model.name
        absent = self._gone(name, "unload", "absence")
        before = len(self.run.told) - len(self.left)
        if self.left:
            self.armed[name] = False
        load = self._next("load", name, "load")
        self.armed[name] = True
        assert self.run.told[before - 1] is absent, "something stands between the absence and the load"
        assert load.call.keep_alive == "10m"
        if not model.small:
            assert load.call.at - absent.call.until >= RULES.settle - SLACK
        self._judged([name], self._next("inventory", "", "row"))
        if not model.stays:
            self._gone(name, "second unload", "departure")
            del self.armed[name]

    def _gone(self, name: str, asking: str, watching: str) -> Told:
        unload = self._next("unload", name, asking)
        for reads in range(1, MOST_READS):
            told = self._next("inventory", "", watching)
            assert told.call.at - unload.call.until <= RULES.removal + SLACK
            if told.rows is not None and not told.lists(name):
                return told
            self.reached = f"{watching}, {'unreadable' if told.rows is None else 'listed'}"
            assert reads < MOST_READS - 1, "it never ends"
        raise AssertionError

    def _judged(self, names: list[str], told: Told) -> None:
        assert told.rows is not None
        if not all(is_right(told, name) for name in names):
            self.wrong_row = True
            self.reached = f"wrong {self.reached}"
            raise IndexError

    def _last(self) -> None:
        models = self.run.models
        load = next(told for told in reversed(self.run.told) if told.call.kind == "load")
        told = self._next("inventory", "", "last inventory")
        if not models[-1].small:
            assert told.call.at - load.call.until >= RULES.hold - SLACK
        self._judged([model.name for model in models if model.stays], told)


def is_right(told: Told, name: str) -> bool:
    """G4, in other words than the code's: exactly one row, wholly on the GPU, context enough."""
    found = [each for each in told.rows or () if canonical(each.name) == canonical(name)]
    if len(found) != 1 or found[0].missing:
        return False
    numbers = (found[0].size, found[0].size_vram, found[0].context_length)
    if any(number.__class__ is not int for number in numbers):
        return False
    size, size_vram, context_length = numbers
    return size == size_vram and size > 0 and context_length >= 65536


def ends_as_it_must(run: Run, story: Story) -> str:
    """The run ends by its budget, passes only with right rows, and else says what came first."""
    assert run.took <= run.seconds + SLACK
    error, last = run.error, run.told[-1] if run.told else None
    if error is None:
        assert story.whole, "it passed and had not asked all"
        assert not story.wrong_row
        assert list(story.armed) == [model.name for model in run.models if model.stays]
        return "ready"
    assert not story.whole, f"all was right, and it ended with {error}"
    if isinstance(error, Cancelled):
        assert run.signal_at < run.seconds + SLACK
        assert error.signum == 15
        return f"cancelled in {story.reached}"
    assert isinstance(error, NotReadyError)
    assert error.findings
    watching = story.reached.startswith(("absence,", "departure,"))  # there an unreadable read is no failure
    if last is not None and last.error is not None and not watching:
        return failed_as_it_was_told(run, error, last, story.reached)
    if story.wrong_row:
        assert (error.word, error.curl) == ("failed", 1)
        return story.reached
    assert error.curl == 28
    return out_of_time(run, error, story.reached)


def failed_as_it_was_told(run: Run, error: NotReadyError, last: Told, reached: str) -> str:
    """The last request had no answer or a wrong one: its code and its word are the run's."""
    if isinstance(last.error, NoInventoryError):
        assert error.curl in (22, 28)
        return f"{reached}: unreadable"
    assert isinstance(last.error, TalkError)
    assert error.curl == last.error.curl
    assert run.took >= run.seconds - SLACK or error.word == last.error.word or last.unreadable
    return f"{reached}: {'late' if isinstance(last.error, DeadlineError) else 'failed'}"


def out_of_time(run: Run, error: NotReadyError, reached: str) -> str:
    """The removal deadline, where a model was watched and there was time left; else the run's own end."""
    if run.took >= run.seconds - SLACK:
        return f"budget over in {reached}"
    assert reached.startswith(("absence", "departure"))
    assert error.findings[0].message.startswith("Ollama residency removal deadline elapsed")
    assert error.word == "failed"
    return f"never left in {reached}"


class Undoing:
    """Reads what was asked in a cleanup: each model that is armed, in reverse; `seen` are the interesting places."""

    def __init__(self, run: Run, armed: list[tuple[str, bool]]) -> None:
        self.run = run
        self.left = list(run.cleaned)
        self.armed = armed
        self.failed = {}
        for line in run.remarks:
            match = REMARK.fullmatch(line)
            assert match is not None, line
            self.failed[match[2]] = int(match[1])
        assert len(self.failed) == len(run.remarks)
        self.seen: Counter[str] = Counter()

    def read(self) -> Counter[str]:
        for name, answered in reversed(self.armed):
            code = self._undo(name, answered)
            assert code == self.failed.pop(name, None), f"{name}: {code}"
            self.seen["cleaned" if code is None else f"cleanup failed with {code}"] += 1
        assert self.left == [], "asked after the last model was undone"
        assert self.failed == {}, "a model that was not armed is said to be unconfirmed"
        assert self.run.residency.loaded == []
        assert self.run.cleanup_took <= self.run.cleanup_seconds + SLACK
        return self.seen

    @property
    def _cut_short(self) -> int | None:
        """The code where the budget or a second signal can have ended the cleanup."""
        if self.run.second_at <= self.run.cleanup_took + SLACK:
            return 130
        return 28 if self.run.cleanup_seconds <= self.run.cleanup_took + SLACK else None

    def _undo(self, name: str, answered: bool) -> int | None:
        """Read how one model was undone; returns the code of its failure, `None` where it is gone."""
        for attempt in (1, 2):
            if not self.left or self.left[0].call.model != name:
                assert self._cut_short, f"{name} was not unloaded{' again' if attempt == 2 else ''}"
                return self._cut_short
            unload = self.left.pop(0)
            assert unload.call.kind == "unload", f"{unload.call.short} in a cleanup"
            if attempt == 2:
                self.seen["unloaded again"] += 1
            if unload.error is not None:
                return self._code(unload)
            reads = []
            while self.left and self.left[0].call.kind == "inventory":
                reads.append(self.left.pop(0))
                if reads[-1].lists(name) and not answered and attempt == 1:
                    break
            if not reads:
                assert self._cut_short
                return self._cut_short
            last = reads[-1]
            if last.error is not None and not last.unreadable:
                return self._code(last)
            if not (last.lists(name) and not answered and attempt == 1):
                return self._watched(name, answered, unload, reads)
        raise AssertionError

    def _watched(self, name: str, answered: bool, unload: Told, reads: list[Told]) -> int | None:
        assert all(told.error is None or told.unreadable for told in reads), "watched on after a failure"
        assert len(reads) < MOST_READS
        absent = [told for told in reads if told.rows is not None and not told.lists(name)]
        if answered and absent:
            assert absent == [reads[-1]], "read on after it was gone"
            return None
        held = []
        for told in reversed(reads):
            if told not in absent:
                break
            held.append(told)
        if held and not answered:
            self.seen["absence held" if len(held) == len(absent) else "absence interrupted"] += 1
        if held and held[0].call.at - held[-1].call.until >= RULES.hold - SLACK and name not in self.failed:
            return None
        assert name in self.failed, f"{name} is said to be gone and was not seen so for long enough"
        ended = self.run.clock.now if not self.left else self.left[0].call.at
        if self._cut_short and not self.left:
            return self._cut_short
        assert ended - unload.call.until >= RULES.removal - SLACK, "given up before its time"
        return 28

    def _code(self, told: Told) -> int:
        return 130 if isinstance(told.error, Cancelled) else told.error.curl  # type: ignore[union-attr]


MANY = settings(max_examples=10 * settings.default.max_examples)
PLACES = [
    *("ready", "cancelled in unload", "cancelled in absence", "cancelled in load", "cancelled in row"),
    *("unload: failed", "unload: late", "load: failed", "load: late", "absence: failed", "row: "),
    *("never left in absence, listed", "never left in absence, unreadable", "never left in departure"),
    *("wrong row", "wrong last inventory", "last inventory: ", "second unload: ", "budget over in absence"),
    *("cleaned", "unloaded again", "absence held", "absence interrupted", "cleanup failed with 22"),
    *("cleanup failed with 28", "cleanup failed with 7", "cleanup failed with 1", "cleanup failed with 130"),
]
"""Where a run has to come to be of interest. Which of the rare ones a run reaches changes with every version."""


def test_whatever_a_server_does_every_promise_is_kept(repeatable) -> None:
    reached: Counter[str] = Counter()

    @MANY
    @given(RUNS)
    def check(run: Run) -> None:
        run.go()
        story = Story(run).read()
        end = ends_as_it_must(run, story)
        event(end)
        reached[end] += 1
        armed = list(story.armed.items())
        assert run.armed == armed
        if run.error is None:
            assert run.cleaned == []
            return
        reached.update(Undoing(run, armed).read())

    check()
    if repeatable:
        missed = [place for place in PLACES if not any(key.startswith(place) for key in reached)]
        assert len(missed) <= 6, missed


@given(BUSY_RUNS)
def test_a_healthy_server_that_is_slow_busy_and_shared_is_ready(run: Run) -> None:
    run.go()
    assert run.error is None
    assert ends_as_it_must(run, Story(run).read()) == "ready"
