"""What every kind of check has, and what a check is given."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from precheck_lib.errors import AnswerError, DeadlineError
from precheck_lib.findings import not_ready
from precheck_lib.outcome import Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.journal import Journal
    from precheck_lib.findings import NotReadyError
    from precheck_lib.outcome import CycleRecord, Fact, Finding


_ALLOWED = re.compile(r"PATH|HOME|LANG|LC_.*|TMPDIR|XDG_.*")
"""What a child is given of the environment (CONTRACT C2): enough to run, and no secret."""


OptionProblem = tuple[tuple[Any, ...], str]
"""Where in the options of a check something cannot be meant, and what is wrong there."""


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a kind. Text in them may hold `${...}`; it is expanded when the check runs."""

    def problems(self) -> Iterator[OptionProblem]:
        """Say what no type can: what the options are together, and what values that no variable changes cannot be."""
        yield from ()


class Deed(msgspec.Struct, frozen=True):
    """One line of a plan: what would be done, and whether it changes a server's state."""

    text: str
    changes: bool = False


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of check.

    `seconds` is the time it may take with these options, `reserve` what a run has to keep back for its cleanup, `waits`
    what it waits in any case; all get the number of models where it is known. `changes` says that it alters a server's
    state: it runs only after every check that only reads has passed, and never beside another one that changes the same
    `server` (text with `${...}`); `changes_with` says with which options that is so (`checks.changes_server` asks
    both), and `looking` makes of them those with which it only looks (`None` where there are none). `imports` are the
    heavy modules it will need, to be loaded while a child runs.
    """

    name: str
    options: type[Options]
    run: Callable[[Any, Context], list[Finding]]
    plan: Callable[[Any], list[Deed]]
    seconds: Callable[[Any, int], float] = lambda _, __: 10.0
    reserve: Callable[[Any, int], float] = lambda _, __: 0.0
    waits: Callable[[Any, int], float] = lambda _, __: 0.0
    models: Callable[[Any], Any] = lambda _: None
    changes: bool = False
    changes_with: Callable[[Any], bool] = lambda _: True
    looking: Callable[[Any], Any] = lambda _: None
    server: Callable[[Any], str] = lambda _: ""
    imports: tuple[str, ...] = ()


class Earlier(Protocol):
    """An earlier run, of which this one asks whether what it saw is still so."""

    started: str

    def judge(self, check: str, observed: Sequence[Observed]) -> list[Finding]:
        """Compare what a check that passed has seen; returns warnings, raises `NotReadyError`."""

    def last_right(self, check: str) -> str:
        """Say when the check was seen right, as evidence; empty where it was not."""


class Context:
    """What a check is given: its environment, its budget, and where to leave what the engine needs.

    `expand` replaces `${...}` in text and whole values. `known` holds what earlier checks of the run have learned.
    `phase` tells whoever watches what begins now and how many seconds it may take, `say` a line that has to be shown
    at once. `hide` takes a secret that was made
    of others, so that it is never shown. `meanwhile` is work for a time of only waiting. `cleanups` are called, last
    first, when the run does not pass: each gets a budget and returns the lines that belong on stderr. `observed` are
    the facts that the check has seen; where `keeps_facts`, those that cost something are looked for too. `earlier` is
    the run that this one verifies.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        budget: Budget,
        journal: Journal,
        expand: Callable[[Any], Any],
        exit_code: Callable[[NotReadyError], int],
    ) -> None:
        self.env = env
        self.budget = budget
        self.journal = journal
        self.expand = expand
        self.exit_code = exit_code
        self.check = ""
        self.known: dict[str, Any] = {}
        self.observed: list[Observed] = []
        self.keeps_facts = False
        self.earlier: Earlier | None = None
        self.cycles: list[CycleRecord] = []
        self.cleanups: list[Callable[[Budget], list[str]]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.hide: Callable[[str], None] = lambda _secret: None
        self.phase: Callable[[str, float], None] = lambda _text, _seconds: None

    def for_check(self, check: str, budget: Budget) -> Context:
        """Make the context of one check: its own budget and place in the journal, all else shared."""
        made = copy.copy(self)
        made.budget = budget
        made.check = check
        made.observed = []
        made.journal = self.journal.part(check)
        return made

    def saw(self, subject: str, fact: Fact, value: object, wanted: str | int | None = None) -> None:
        """Keep a fact that was seen; one that is not there, or not of the type that it has to be, is none."""
        if type(value) in (str, int) and value != "":
            self.observed.append(
                Observed(check=self.check, subject=subject, fact=fact, value=value, wanted=wanted)  # type: ignore[arg-type]
            )

    def say(self, text: str) -> None:
        """Show a line now: what is about to be done, and what a person may want to know of it."""
        self.phase(text, -1.0)

    @property
    def child_env(self) -> dict[str, str]:
        """The environment of every child: an allow list, so that no secret is in it."""
        return {name: value for name, value in self.env.items() if _ALLOWED.fullmatch(name)}

    def in_child(
        self,
        target: str,
        argument: Any,
        subject: str,
        *,
        hung: str | None = None,
        why: Callable[[], str] = str,
        variables: Sequence[str] = (),
    ) -> Any:
        """Make a call that may block in the kernel (a driver, a dead mount), and give its value.

        The way for every kind that has such a call: nothing in this process can end one that sleeps in C. `target`
        (`package.module:function`) is called with one JSON value in a child of its own session and returns another;
        what it can say (no driver, no such device) it returns, and what it raises is a fault. Where it does not come
        back the check is an `error` by the end of its budget and 0.5 s: of the code `hung`, where that is given, with
        what `why` says as its evidence. `subject` says in words what is asked, `variables` are those of the environment
        that the child gets beside the usual ones.
        """
        from precheck_lib.bounded.isolate import HeldError, call_isolated

        env = {**self.child_env, **{name: self.env[name] for name in variables if name in self.env}}
        try:
            return call_isolated(target, argument, budget=self.budget, env=env)
        except HeldError as error:
            pids = ", ".join(map(str, error.pids))
            message = f"{subject}: no answer in time, and the kernel does not let the process go that asks (pid {pids})"
            raise not_ready(hung or "run.held", message, evidence=why(), word="error", curl=28) from error
        except DeadlineError as error:
            message = f"{subject}: {error}; the process that asks was ended"
            raise not_ready(hung or "run.stuck", message, evidence=why(), word="error", curl=error.curl) from error
        except AnswerError as error:
            raise not_ready("run.broken", f"{subject}: {error}", word="error") from error

    def text(self, value: str) -> str:
        """Expand an option that has to be text."""
        expanded = self.expand(value)
        if not isinstance(expanded, str):
            raise not_ready("roles.malformed", f"{value} is not text")
        return expanded


def which_models(value: Any) -> str:
    """Name the models that an option means, for a plan: a list as it is, a variable as what it will hold."""
    names = [*value] if isinstance(value, (list, dict)) else []
    return ", ".join(map(str, names)) if names else f"each model of {value}"


def ollama_models(value: Any) -> dict[str, str]:
    """Return the Ollama name of each configured model by its key (CONTRACT G0).

    `value` is a list of names, a text with commas or spaces between them (as a variable holds it), or an OpenCode
    configuration's `models`: an object whose entries may have an `id`.
    """
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if isinstance(value, list) and value and all(isinstance(name, str) and name.strip() for name in value):
        return {name: name for name in value}
    if not isinstance(value, dict) or not value:
        raise not_ready("ollama.models", "the configured models are neither a list of names nor an object of them")
    names = {}
    for key, entry in value.items():
        name = entry.get("id", key) if isinstance(entry, dict) else key
        if not isinstance(name, str) or not name.strip():
            raise not_ready("ollama.models", f"the id of the configured model {key!r} is not a name")
        names[key] = name
    return names
