"""The catalogue of findings: what each code means, what usually causes it, what to do and who can do it.

One source for the messages of a run, for `explain` and for the documentation. Codes are stable: dashboards and scripts
match on them. A code's first part says where the fault was seen.
"""

from __future__ import annotations

from precheck_lib.catalogue import agents, drift, given, gpu, machine, models, run, transport
from precheck_lib.catalogue.entry import Entry

_PARTS = (given, machine, gpu, transport, agents, models, drift, run)

CATALOGUE: dict[str, Entry] = {code: entry for part in _PARTS for code, entry in part.ENTRIES.items()}

__all__ = ["CATALOGUE", "Entry"]
