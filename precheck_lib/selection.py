"""Running a part of a spec: `--only`, `--skip`, `--read-only`. What is left out is skipped, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from precheck_lib.checks import changes_server
from precheck_lib.exits import UsageError
from precheck_lib.spec.typed import guess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from precheck_lib.spec.model import CheckSpec, Spec


def select(spec: Spec, *, only: Sequence[str] = (), skip: Sequence[str] = (), read_only: bool = False) -> Spec:
    """Return the spec with what is not to run left out; raises `UsageError` for an id that no check has.

    `only` takes what its checks need with them; `skip` counts before it.
    """
    checks = {check.id: check for check in spec.checks}
    for option, ids in (("--only", only), ("--skip", skip)):
        for id_ in ids:
            if id_ not in checks:
                raise UsageError(f"{option}: there is no check {id_!r} in this spec{guess(id_, checks)}")
    kept = _with_needs(only, checks) if only else set(checks)

    def reason(check: CheckSpec) -> str | None:
        if check.id in skip:
            return "left out by --skip"
        if check.id not in kept:
            return "left out by --only"
        if read_only and changes_server(check):
            return "left out by --read-only: it changes a server"
        return check.left_out

    return msgspec.structs.replace(
        spec, checks=tuple(msgspec.structs.replace(check, left_out=reason(check)) for check in spec.checks)
    )


def _with_needs(ids: Sequence[str], checks: dict[str, CheckSpec]) -> set[str]:
    kept: set[str] = set()
    left = list(ids)
    while left:
        id_ = left.pop()
        if id_ not in kept:
            kept.add(id_)
            left += checks[id_].needs
    return kept


def ids_of(texts: Sequence[str] | None) -> list[str]:
    """Split `a,b` as the options take it, as often as they are given."""
    return [id_.strip() for text in texts or () for id_ in text.split(",") if id_.strip()]
