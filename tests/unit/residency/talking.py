"""A server without sockets whose models answer tokens: each has its own state, session and time to leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.residency.keep_alive import keep_alive_seconds
from precheck_lib.residency.modes import Ensure, verify
from tests.unit.residency.fakes import Call, Ollama, World, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.bounded.budget import Budget
    from precheck_lib.residency.cycle import Model
    from precheck_lib.servers.ollama import Row

DIGEST = "d" * 64
FOREVER = 292 * 365 * 86400.0


def written(seconds: float) -> str:
    """A time of the server's as it writes it."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z")


@dataclass
class Resident:
    """A model in memory: what its row says beside what is right, its session, and when that ends."""

    values: dict[str, Any] = field(default_factory=dict)
    session: float = 300.0
    expires: float = 0.0
    twice: bool = False


class TalkingOllama(Ollama):
    """Keeps each model's session as Ollama does: a request without `keep_alive` renews it, one with it replaces it.

    By model: `refuses` is what a request for a token raises, `digests` what the rows say. `on_token` is called before a
    token is answered.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self.there: dict[str, Resident] = {}
        self.refuses: dict[str, BaseException] = {}
        self.after_load: dict[str, dict[str, Any]] = {}
        self.digests: dict[str, str] = {}
        self.on_token: Callable[[str], None] = lambda _: None
        self.token_seconds = 0.5

    def has(
        self, name: str, *, session: float = 300.0, left: float | None = None, twice: bool = False, **row: Any
    ) -> None:
        """Have a model resident: right, unless `row` says otherwise."""
        expires = self.clock.now + (session if left is None else left)
        self.there[name] = Resident(row, session, expires, twice)

    def token(self, model: str, budget: Budget, seconds: float) -> str | None:
        return self._call("token", model, budget.child(seconds), "", seconds)

    def answer(self, call: Call, budget: Budget) -> Any:
        self.before(call)
        mine = self.there.get(call.model)
        if call.kind == "inventory":
            return [each for name, one in self.there.items() for each in [self._row(name, one)] * (1 + one.twice)]
        if call.kind == "unload":
            self.there.pop(call.model, None)
            return None
        if call.kind == "token":
            self.on_token(call.model)
            if call.model in self.refuses:
                raise self.refuses[call.model]
            budget.sleep(self.token_seconds)
            mine = self.there.setdefault(call.model, Resident())
            mine.expires = self.clock.now + mine.session
            return written(self.clock.now)
        if self.load_fails is not None:
            raise self.load_fails
        if mine is None:
            budget.sleep(self.load_seconds)
            mine = self.there[call.model] = Resident(self.after_load.get(call.model, {}))
            self.refuses.pop(call.model, None)
        seconds = keep_alive_seconds(call.keep_alive)
        assert seconds is not None
        mine.session = min(seconds, FOREVER)
        mine.expires = self.clock.now + mine.session
        return None

    def _row(self, name: str, mine: Resident) -> Row:
        made = row(
            name, **{"digest": self.digests.get(name, DIGEST), "expires_at": written(mine.expires), **mine.values}
        )
        return msgspec.structs.replace(made)


class Room:
    """A world, its talking server, and both modes on it; `said` are the lines for a person, with the calls before."""

    def __init__(self, **rules: Any) -> None:
        self.world = World(rules=msgspec.structs.replace(World().rules, **rules))
        self.server = TalkingOllama(self.world)
        self.residency = self.world.server(self.server)
        self.said: list[tuple[int, str]] = []
        self.ensure = Ensure(
            self.residency,
            self.server,
            where="http://gpu:11434/api",
            say=lambda line: self.said.append((len(self.server.calls), line)),
            now=self.world.clock,
        )

    def ensures(self, *models: Model) -> None:
        self.ensure.run(models, self.world.budget)

    def verifies(self, *models: Model) -> None:
        verify(self.residency, models, self.world.budget)

    @property
    def kept(self) -> dict[str, bool]:
        return {record.model: record.kept for record in self.world.records}

    @property
    def lines(self) -> list[str]:
        return [line for _, line in self.said]
