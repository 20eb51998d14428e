"""`gpu`: the driver works, the cards that this runner has are there, whole and free enough, and CUDA itself begins.

Everything that enters the driver runs in a child that is given up where it hangs. What cannot hang is read first: it
says why, where nothing else can.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from precheck_lib.checks import gpu_judge as judge
from precheck_lib.checks.gpu_owners import Owners, find_owners
from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import literal, look, refuse, refuse_options, shown, size_text, text_of
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.gpu.reading import Card, CudaReading, Reading
from precheck_lib.gpu.system import pci_cards, stuck_processes
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes, Seconds, duration_text
from precheck_lib.versions import constraint_problem, parse_constraint, parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem

VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES")
"""What the driver's libraries look at: where they lie, and which cards are this runner's."""

_AGAIN_SECONDS = 1.0
_DRIVER = "NVIDIA's driver"


class GpuOptions(Options, frozen=True, kw_only=True):
    """What of the GPUs has to be so; without any option: at least one, and every one whole and usable by CUDA."""

    count: Annotated[
        int | None, Meta(description="How many this runner has to have, exactly; `0`: none may be there.")
    ] = None
    min: Annotated[int | None, Meta(description="How many it has to have at least (1 where nothing is said).")] = None
    name: Annotated[str | None, Meta(description="What every card's name has to contain, such as `H100`.")] = None
    total: Annotated[Bytes | None, Meta(description="Memory of each card, used or not, at least.")] = None
    free: Annotated[
        Bytes | None,
        Meta(description="Free memory of each card, at least; what tolerated programs hold counts as free."),
    ] = None
    driver: Annotated[str | None, Meta(description="A constraint on the driver's version, such as `>=550`.")] = None
    cuda: Annotated[
        str | None, Meta(description="A constraint on the newest CUDA that the driver runs, such as `>=12.4`.")
    ] = None
    exclusive: Annotated[
        bool, Meta(description="Nobody else may use the cards: what only warns otherwise is a failure then.")
    ] = False
    tolerate: Annotated[
        list[str],
        Meta(description="Programs that may use the cards: paths, or names of files, such as `ollama`."),
    ] = msgspec.field(default_factory=list)
    margin: Annotated[
        int | None, Meta(description="How many °C each card has to be below the temperature at which it slows down.")
    ] = None
    link_width: Annotated[int | None, Meta(description="How many PCIe lanes each card has to use at least.")] = None
    probe: Annotated[
        bool, Meta(description="Try CUDA itself on each card: make a context, take and give back a MiB of memory.")
    ] = True
    settle: Annotated[
        Seconds,
        Meta(description="How long to wait for memory that a job which has just ended still holds."),
    ] = Seconds(20.0)

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        if self.count is not None and self.min is not None:
            yield ("count",), "count says exactly how many; it does not go with min"
        for name, least in (("count", 0), ("min", 1), ("margin", 0), ("link_width", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                yield (name,), f"{name}: it has to be {least} or more"
        for name in ("driver", "cuda"):
            if (text := literal(getattr(self, name))) is not None and (why := constraint_problem(text)):
                yield (name,), f"{name}: {why}"
        if self.count == 0:
            for name in ("name", "total", "free", "driver", "cuda", "margin", "link_width"):
                if getattr(self, name) is not None:
                    yield (name,), f"{name}: count is 0, so there is no card that it could be asked of"


def run(options: GpuOptions, context: Context) -> list[Finding]:
    """Read, judge, and wait for what a job that has just ended still holds; raises with all that is wrong."""
    refuse_options(options)
    _constraints(options, context)
    return judged(options, context, read(context))


def judged(options: GpuOptions, context: Context, reading: Reading) -> list[Finding]:
    """Judge what was read, try CUDA, and see who holds the cards; returns warnings, raises with all that is wrong."""
    constraints = _constraints(options, context)
    wanted = judge.Wanted(
        count=options.count,
        at_least=options.min or 1,
        name=text_of(options.name, context),
        total=options.total,
        free=options.free,
        margin=options.margin,
        link_width=options.link_width,
    )
    if options.count == 0:
        return _none(reading)
    _end_with(list(judge.judge_driver(reading)), "failed" if _is_known(reading) else "error")
    cards = judge.visible(reading.cards, context.env.get("CUDA_VISIBLE_DEVICES"))
    if reading.cards and not cards:
        chosen = shown(context.env.get("CUDA_VISIBLE_DEVICES", ""))
        text = f"CUDA_VISIBLE_DEVICES leaves none of the {len(reading.cards)} cards: {chosen}"
        raise not_ready("gpu.hidden", text)
    if not reading.cards:
        _end_with(list(judge.judge_count(reading, cards, wanted)), "error")
    found = [*judge.judge_count(reading, cards, wanted), *_versions(reading, constraints, context)]
    for card in filter(judge.is_usable, cards):
        found += [*judge.judge_health(card), *judge.judge_wanted(card, wanted)]
        context.saw(judge.label(card), "digest", card.uuid)
    _end_with(found)
    found += judge.judge_speed(reading)
    if options.probe:
        found += judge.judge_cuda(probe(context), len(cards))
        _end_with(found)
    found += _settled(options, context, cards)
    _end_with(found)
    return found


def read(context: Context) -> Reading:
    """Read the cards in a child, and beside it what the kernel says without one."""
    pci = look(pci_cards, budget=context.budget, subject="the PCI bus of this machine", code="gpu.unknown")

    def why() -> str:
        held = ", ".join(f"{shown(name)} (pid {pid})" for pid, name in stuck_processes())
        return f"these hang in a driver and cannot be ended: {held}" if held else ""

    value = context.in_child("precheck_lib.gpu.nvml:read", None, _DRIVER, hung="gpu.hung", why=why, variables=VARIABLES)
    made = msgspec.convert(value, Reading)
    made.pci = pci
    return made


def probe(context: Context) -> CudaReading:
    """Try CUDA in a child of its own: what it does to a card is gone with it."""
    value = context.in_child("precheck_lib.gpu.cuda:probe", None, "CUDA", hung="gpu.hung", variables=VARIABLES)
    return msgspec.convert(value, CudaReading, strict=False)


def _end_with(found: list[Finding], word: str = "failed") -> None:
    """End the check where something is wrong; what only warns is told then too, behind it."""
    errors = [finding for finding in found if finding.severity == "error"]
    if errors:
        warned = [finding for finding in found if finding.severity != "error"]
        raise NotReadyError([*errors, *warned], word="error" if word == "error" else "failed")


def _is_known(reading: Reading) -> bool:
    """Whether what the library refused says what is wrong: versions that differ do, an unknown error does not."""
    return {trouble.code for trouble in reading.trouble} <= {18}


def _none(reading: Reading) -> list[Finding]:
    named = [judge.label(card) for card in reading.cards]
    named = named or [f"{card.vendor} at {card.address}" for card in reading.pci if card.vendor in ("NVIDIA", "AMD")]
    if named:
        raise not_ready("gpu.count", f"no GPU may be there, and there is {', '.join(named)}")
    return []


def _constraints(options: GpuOptions, context: Context) -> dict[str, str]:
    given = {name: text_of(getattr(options, name), context) for name in ("driver", "cuda")}
    found = {name: text for name, text in given.items() if text is not None}
    refuse([f"{name}: {why}" for name, text in found.items() if (why := constraint_problem(text))])
    return found


def _versions(reading: Reading, constraints: dict[str, str], context: Context) -> Iterator[Finding]:
    cuda = None if reading.cuda is None else f"{reading.cuda[0]}.{reading.cuda[1]}"
    for name, text, title in (("driver", reading.module, _DRIVER), ("cuda", cuda, "the newest CUDA that it runs")):
        wanted = constraints.get(name)
        if text is not None:
            context.saw(title, "version", text, wanted)
        if wanted is None:
            continue
        try:
            fits = text is not None and parse_constraint(wanted).holds(parse_version(text))
        except ValueError:
            fits = False
        if not fits:
            yield make(
                "gpu.version", f"{title} is {shown(text) if text else 'of an unknown version'}, wanted is {wanted}"
            )


# Whose memory is it? --------------------------------------------------------------------------------------------------


def _settled(options: GpuOptions, context: Context, cards: list[Card]) -> list[Finding]:
    """Judge who holds the cards, again and again for a while where that may still change."""
    end = min(time.monotonic() + options.settle, context.budget.end - _AGAIN_SECONDS)
    told = False
    while True:
        asked = partial(find_owners, cards)
        owners = look(asked, budget=context.budget, subject="the processes on the GPUs", code="gpu.unknown")
        found = list(_held(options, context, cards, owners))
        if all(finding.severity != "error" for finding in found) or time.monotonic() >= end:
            return found
        if not told:
            context.say(f"waiting up to {duration_text(options.settle)} for GPU memory that others still hold")
            told = True
        context.budget.sleep(_AGAIN_SECONDS)
        again = judge.visible(read(context).cards, context.env.get("CUDA_VISIBLE_DEVICES"))
        cards = again if len(again) == len(cards) else cards


def _held(options: GpuOptions, context: Context, cards: list[Card], owners: Owners) -> Iterator[Finding]:
    tolerated = [text_of(name, context) or "" for name in options.tolerate]
    severity: Literal["error", "warning"] = "error" if options.exclusive else "warning"
    if owners.elsewhere and options.exclusive:
        yield make("gpu.owners", "who uses the cards cannot be seen from this container", evidence=owners.elsewhere)
    for card in cards:
        foreign = owners.foreign(card, tolerated)
        free = judge.free_bytes(card)
        if options.free is not None and free + owners.lent(card, tolerated) < options.free:
            who = owners.text(foreign) or "nobody who can be seen from here holds any of it"
            total = f" of {size_text(card.total)}" if card.total else ""
            text = f"{judge.label(card)}: {size_text(free)}{total} are free, {size_text(options.free)} are needed"
            yield make("gpu.memory", text, evidence=who)
        elif foreign and (options.exclusive or not owners.are_usual(foreign)):
            text = f"{judge.label(card)} is used by others"
            yield make("gpu.foreign", text, evidence=owners.text(foreign), severity=severity)
        ownerless = 0 if owners.elsewhere else judge.ownerless_bytes(card, owners.seen)
        if ownerless:
            text = f"{judge.label(card)}: {size_text(ownerless)} are in use and belong to no process"
            yield make("gpu.ownerless", text, evidence=owners.gone(card), severity=severity)


def plan(options: GpuOptions) -> list[Deed]:
    """Say what would be done."""
    if options.count == 0:
        return [Deed("see that no GPU is there, on PCI or through its driver")]
    many = f"exactly {options.count}" if options.count is not None else f"at least {options.min or 1}"
    deeds = [Deed(f"read the GPUs of this machine, in a process of its own: {many}, each whole")]
    if options.probe:
        deeds.append(Deed("try CUDA on each: a context, and a MiB of memory that is given back"))
    if options.free is not None:
        deeds.append(
            Deed(f"see {size_text(options.free)} free on each ({duration_text(options.settle)} for what settles)")
        )
    if options.exclusive:
        deeds.append(Deed("see that nobody else uses them"))
    return deeds


KIND = Kind(
    name="gpu",
    options=GpuOptions,
    run=run,
    plan=plan,
    seconds=lambda options, _: 30.0 + options.settle,
    imports=("psutil",),
)
