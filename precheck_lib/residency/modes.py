"""What is done about models that may be right already: `ensure` keeps those that are, `verify` only looks.

`ensure` keeps a model that is resident under the right digest, fully on the GPU, with context enough, and that answers
one token; for any other it takes the cycle. What could not be found out (a broken connection, an inventory that says
nothing, a server that is busy or refuses the request) is no reason to unload anything: it ends the check.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from precheck_lib.bounded.budget import describe_seconds
from precheck_lib.errors import AnswerError, DeadlineError, StatusError, TalkError
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.residency.cycle import ModelServer, note_row
from precheck_lib.residency.inventory import failure, read_inventory, read_patiently
from precheck_lib.residency.judge import judge, listed
from precheck_lib.residency.keep_alive import at_least, keep_alive_seconds, left, moment, until_text
from precheck_lib.servers.words import short

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.outcome import Finding
    from precheck_lib.residency.cycle import Model, Residency
    from precheck_lib.servers.ollama import Row

_SUBJECT = "the inventory"


class TalkingServer(ModelServer, Protocol):
    """What `ensure` needs of a server beside the cycle."""

    def token(self, model: str, budget: Budget, seconds: float) -> str | None:
        """Have a resident model answer one token; returns the server's time of the answer."""


class _Wrong(NamedTuple):
    """Why a model is not kept; `row` is how it is listed, where it is."""

    why: str
    row: Row | None


class Ensure:
    """Keeps what is right on `server` and takes the cycle of `residency` for the rest.

    `say` gets a line for a person before anything is unloaded, and `where` is the server in it. `before` may refuse a
    cycle (for want of time). `warnings` are the findings about models that were resident and not right.
    """

    def __init__(
        self,
        residency: Residency,
        server: TalkingServer,
        *,
        where: str,
        say: Callable[[str], None],
        before: Callable[[Model], None] = lambda _: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.residency = residency
        self.server = server
        self.warnings: list[Finding] = []
        self._where = where
        self._say = say
        self._before = before
        self._now = now

    def run(self, models: Sequence[Model], budget: Budget) -> None:
        """See to each model in order, then that all that stay are right together; raises `NotReadyError`."""
        rest = False
        for model in models:
            rows = read_patiently(self.server, self.residency.rules.removal, budget, _SUBJECT)
            wrong = self._keep(model, rows, budget)
            if wrong is not None:
                self._change(model, wrong, rows, budget)
                rest = not model.small
        self.residency.see_together(models, budget, rest=rest)

    def _keep(self, model: Model, rows: list[Row], budget: Budget) -> _Wrong | None:
        """Keep a model where it is right; returns why it is not."""
        rules = self.residency.rules
        row = next(iter(listed(rows, model.name)), None)
        try:
            before = right(rows, model, context_length=rules.context_length)
        except NotReadyError as error:
            return _Wrong(error.findings[0].message, row)
        self.residency.tell(f"having one token from {model.name}", rules.answer)
        try:
            answered = self.server.token(model.name, budget, rules.answer)
        except TalkError as error:
            if not _speaks_against_it(error, budget):
                raise failure(error, f"one token from {model.name}", budget) from error
            late = isinstance(error, DeadlineError)
            why = f"it gave no token within {describe_seconds(rules.answer)}" if late else str(error)
            return _Wrong(f"{model.name} does not answer: {why}", row)
        # A runner that has crashed stays listed until it is asked; and whoever asks may have another one loaded.
        rows = read_patiently(self.server, rules.removal, budget, _SUBJECT)
        row = next(iter(listed(rows, model.name)), None)
        try:
            after = right(rows, model, context_length=rules.context_length)
        except NotReadyError as error:
            return _Wrong(f"after one token: {error.findings[0].message}", row)
        if after.expires_at != before.expires_at:
            self._lengthen(model, left(after.expires_at, moment(answered)), budget)
        record = self.residency.record(model, kept=True)
        record.reads = 2
        note_row(record, after)
        return None

    def _lengthen(self, model: Model, had: float | None, budget: Budget) -> None:
        """Give a kept model the `keep_alive` of the spec where its own is shorter, and never a shorter one.

        `had` is what its use has just renewed, measured on the server's clock: only then is it what the model has.
        """
        rules = self.residency.rules
        wanted = keep_alive_seconds(rules.keep_alive)
        # A second of slack: between answer and renewal a busy server takes its time.
        if had is None or wanted is None or had >= wanted - 1:
            return
        try:
            self.server.load(model.name, rules.keep_alive, budget, rules.answer)
        except TalkError as error:
            raise failure(error, f"the longer keep_alive of {model.name}", budget) from error

    def _change(self, model: Model, wrong: _Wrong, rows: Sequence[Row], budget: Budget) -> None:
        self._before(model)
        now, row = self._now(), wrong.row
        beside = _beside(rows, model)
        if row is not None:
            text = f"about to unload {model.name} at {self._where} and load it again: {wrong.why}"
            self._say(f"{text}; {until_text(row.expires_at, now)}{beside}")
            finding = make("residency.replaced", f"{model.name} was unloaded and loaded again: {wrong.why}")
            self.warnings.append(msgspec.structs.replace(finding, severity="warning"))
        else:
            alias = _alias(rows, model)
            if alias is not None:
                until = until_text(alias.expires_at, now)
                text = (
                    f"about to unload {short(alias.name)} at {self._where}, the same weights as {model.name}; {until}"
                )
                self._say(f"{text}; it will be loaded as {model.name}{beside}")
            else:
                self._say(f"about to load {model.name} at {self._where}: it is not resident{beside}")
        had = None if row is None else left(row.expires_at, now)
        keep_alive = at_least(self.residency.rules.keep_alive, had)
        self.residency.cycle(msgspec.structs.replace(model, keep_alive=keep_alive), budget)


def verify(residency: Residency, models: Sequence[Model], budget: Budget) -> None:
    """Look whether all models that stay are resident and right, with one read; raises `NotReadyError` with each fault.

    No token is asked for: a request to a model that has just left would load it.
    """
    rows = read_inventory(residency.server, budget, _SUBJECT)
    findings: list[Finding] = []
    for model in models:
        if not model.stays:
            continue
        record = residency.record(model, kept=True)
        record.reads = 1
        for row in listed(rows, model.name)[:1]:
            note_row(record, row)
        try:
            right(rows, model, context_length=residency.rules.context_length)
        except NotReadyError as error:
            record.kept = False
            findings += error.findings
    if findings:
        raise NotReadyError(findings)


def right(rows: Sequence[Row], model: Model, *, context_length: int | None) -> Row:
    """Return the row of a model that is right as it is; raises `NotReadyError` where it is not."""
    row = judge(rows, model.name, context_length=context_length, digest=model.digest, loaded=False)
    if model.digest is not None and row.digest is not None and row.digest != model.digest:
        raise not_ready(
            "residency.digest",
            f"{model.name} is resident with digest {short(row.digest[:12])}, installed is {short(model.digest[:12])}",
            evidence="it was pulled or made anew while it was loaded; the old one still answers",
        )
    return row


def _speaks_against_it(error: TalkError, budget: Budget) -> bool:
    """Say whether a request that failed shows that the model does not work, though its server does.

    Not so where the server could not be reached, is busy (503) or refuses such requests: a cycle would mend nothing.
    """
    if isinstance(error, DeadlineError):
        return error.phase in ("head", "body") and budget.left() > 0
    if isinstance(error, StatusError):
        return error.status >= 500 and error.status != 503
    return isinstance(error, AnswerError)


def _alias(rows: Sequence[Row], model: Model) -> Row | None:
    if model.digest is None:
        return None
    return next((row for row in rows if row.digest == model.digest), None)


def _beside(rows: Sequence[Row], model: Model) -> str:
    """Name what else is resident: Ollama may push it out to make room, and that is no choice of this run."""
    mine = listed(rows, model.name)
    others = [short(row.name) for row in rows if row not in mine and row.digest != (model.digest or "")]
    if not others:
        return ""
    return f" (resident beside it: {', '.join(others[:5])}{', …' if len(others) > 5 else ''})"
