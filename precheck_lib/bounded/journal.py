"""What was asked of servers, in order."""

from __future__ import annotations

import msgspec


class RequestRecord(msgspec.Struct, kw_only=True):
    """One HTTP request (or the WebSocket handshake) as CONTRACT H2 lists it.

    Times are seconds, `bytes` were received on the wire. `connect_timeout_s` and `total_timeout_s` are the configured
    bounds, `allowed_s` is what the budgets above had left for it. `status` is `None` where no answer came.
    """

    check: str
    method: str
    url: str
    connect_timeout_s: float
    total_timeout_s: float
    allowed_s: float
    retries: int = 0
    status: int | None = None
    elapsed_s: float = 0.0
    bytes: int = 0


class Journal:
    """The requests of a run, each under the check that made it."""

    def __init__(self, check: str = "", records: list[RequestRecord] | None = None) -> None:
        self.check = check
        self.records: list[RequestRecord] = [] if records is None else records
        self._parts: list[Journal] = []

    def part(self, check: str) -> Journal:
        """Make the part of one check; all parts have one list, in the order of the requests."""
        made = Journal(check, self.records)
        self._parts.append(made)
        return made

    def relabel(self, check: str) -> None:
        """From now on all parts note their requests under this name: what follows is the cleanup, say."""
        for part in self._parts:
            part.check = check

    def open(
        self, method: str, url: str, *, connect_seconds: float, total_seconds: float, allowed_seconds: float
    ) -> RequestRecord:
        """Note a request that is about to be made; the caller fills in how it ended."""
        record = RequestRecord(
            check=self.check,
            method=method,
            url=url,
            connect_timeout_s=connect_seconds,
            total_timeout_s=total_seconds,
            allowed_s=round(allowed_seconds, 3),
        )
        self.records.append(record)
        return record
