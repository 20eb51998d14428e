"""`memory`: this machine has memory for the job, and so has the control group that the job runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import look, refuse_options, size_text
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes  # noqa: TC001 - read when the struct is made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem

_MACHINE = "this machine"


class MemoryOptions(Options, frozen=True, kw_only=True):
    """What there has to be at least; on Linux the limits of the job's control group (a container) count too."""

    available: Annotated[
        Bytes | None,
        Meta(description="What programs can still get without swapping, such as `16GiB`; caches count as available."),
    ] = None
    total: Annotated[Bytes | None, Meta(description="What there is in all, used or not.")] = None
    swap_free: Annotated[Bytes | None, Meta(description="How much swap is not used.")] = None

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        if self.available is None and self.total is None and self.swap_free is None:
            yield (), "a memory check needs available, total or swap_free"


class Amount(msgspec.Struct, frozen=True):
    """An amount of memory and what bounds it: this machine, or a control group by its path."""

    size: int
    bound: str


def run(options: MemoryOptions, context: Context) -> list[Finding]:
    """Read what there is and compare; of the machine's and the control group's amounts the least counts."""
    refuse_options(options)
    found = look(_amounts, budget=context.budget, subject="the memory of this machine", code="memory.deadline")
    if isinstance(found, OSError):
        where = f" ({found.filename})" if found.filename else ""
        raise not_ready(
            "memory.unknown", f"the memory of this job cannot be read: {found.strerror or found}{where}", word="error"
        )
    unmet = list(_short(options, found))
    if unmet:
        raise NotReadyError(unmet)
    return []


def _wanted(options: MemoryOptions) -> dict[str, Bytes]:
    given = {"available": options.available, "total": options.total, "swap_free": options.swap_free}
    return {name: size for name, size in given.items() if size is not None}


_WORDS = {"available": "memory available", "total": "memory in all", "swap_free": "swap free"}


def _amounts() -> dict[str, list[Amount]] | OSError:
    """Return every amount that bounds the job, of each sort; or the error that keeps one from being known."""
    import psutil

    from precheck_lib.checks.cgroup import limits

    try:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        found = {
            "available": [Amount(memory.available, _MACHINE)],
            "total": [Amount(memory.total, _MACHINE)],
            "swap_free": [Amount(swap.free, _MACHINE)],
        }
        for limit in limits():
            found[limit.sort].append(Amount(limit.size, f"the control group {limit.path}"))
    except OSError as error:
        return error
    except (psutil.Error, ValueError, RuntimeError) as error:  # what a kernel says that psutil cannot read
        return OSError(str(error))
    return found


def _short(options: MemoryOptions, found: dict[str, list[Amount]]) -> Iterator[Finding]:
    for name, size in _wanted(options).items():
        least = min(found[name], key=lambda amount: amount.size)
        if least.size >= size:
            continue
        said = f"{_WORDS[name]}: {size_text(least.size)} on {_MACHINE}"
        evidence = ""
        if least.bound != _MACHINE:
            said = f"{_WORDS[name]}: {size_text(least.size)} within the limit of {least.bound}"
            evidence = f"{_MACHINE} itself has {size_text(found[name][0].size)}"
        elif name == "available":
            evidence = f"of {size_text(found['total'][0].size)} that it has"
        code = "memory.limit" if least.bound != _MACHINE else "memory.low"
        yield make(code, f"{said}, at least {size_text(size)} are needed", evidence=evidence)


def plan(options: MemoryOptions) -> list[Deed]:
    """Say what would be done."""
    wanted = [f"{size_text(size)} of {_WORDS[name]}" for name, size in _wanted(options).items()]
    return [Deed(f"read the memory of this machine and of the job's control group: {', '.join(wanted)}")]


KIND = Kind(name="memory", options=MemoryOptions, run=run, plan=plan, imports=("psutil",))
