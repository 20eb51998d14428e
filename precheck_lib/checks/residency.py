"""`residency`: unload each model, prove it gone, load it cold, prove it fully on the GPU with the context it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precheck_lib.checks.kind import Context, Deed, Kind, Options, ollama_models
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes, Seconds, duration_text

if TYPE_CHECKING:
    from precheck_lib.residency.cycle import Model


class ResidencyOptions(Options, frozen=True, kw_only=True):
    """`models` are cycled one after the other on the Ollama server at `url`; those named by `stay` last, and they stay.

    The others are unloaded again and proven absent before the next cycle. Bounds: `connect` and `read` for a read of
    the inventory, `unload`, `removal` (until the model is absent), `load`. `settle` is waited between absence and load,
    `hold` after the last load and for an absence after a load without an answer; models below `small` need neither.
    `reserve` and `reserve_per_model` are kept back of the run's budget for cleanup and reports.
    """

    url: str
    models: Any
    stay: list[str]
    context_length: int | None = None
    keep_alive: str = "10m"
    connect: Seconds = Seconds(2)
    read: Seconds = Seconds(10)
    unload: Seconds = Seconds(30)
    removal: Seconds = Seconds(30)
    load: Seconds = Seconds(360)
    settle: Seconds = Seconds(2)
    hold: Seconds = Seconds(1)
    small: Bytes = Bytes(256 << 20)
    max_bytes: Bytes = Bytes(2 << 20)
    reserve: Seconds = Seconds(30)
    reserve_per_model: Seconds = Seconds(30)


def run(options: ResidencyOptions, context: Context) -> list[Finding]:
    """Cycle the models; on a failure of the run what was loaded is unloaded again."""
    from precheck_lib.residency.cleanup import clean_up
    from precheck_lib.residency.cycle import Model, Residency, Rules
    from precheck_lib.servers.http_server import Bounds
    from precheck_lib.servers.names import canonical
    from precheck_lib.servers.ollama import OllamaServer

    url = context.text(options.url)
    names = ollama_models(context.expand(options.models))
    staying = [context.text(key) for key in options.stay]
    unknown = [key for key in staying if key not in names]
    if unknown:
        raise not_ready("ollama.models", f"{', '.join(unknown)} is to stay, but is not among the configured models")
    tags = context.known.get(f"tags of {url.rstrip('/')}", {})
    # Two keys may name one model: it is cycled once, and stays if either is to stay.
    kept = {canonical(names[key]): names[key] for key in staying}
    others = {canonical(name): name for name in names.values() if canonical(name) not in kept}
    models = []
    for spelling, name in (*others.items(), *kept.items()):
        tag = tags.get(spelling)
        small = tag is not None and tag.size is not None and tag.size < options.small
        models.append(
            Model(name=name, stays=spelling in kept, small=small, digest=tag.digest if tag is not None else None)
        )
    rules = Rules(
        unload=options.unload,
        removal=options.removal,
        load=options.load,
        settle=options.settle,
        hold=options.hold,
        keep_alive=context.text(options.keep_alive),
        context_length=options.context_length,
    )
    server = OllamaServer(
        url,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=options.read, max_bytes=options.max_bytes),
    )
    residency = Residency(server, rules, context.cycles, context.phase)
    _enough_time(models, options, context)
    context.cleanups.append(lambda budget: clean_up(residency, budget, context.exit_code))
    residency.run(models, context.budget)
    return []


def _enough_time(models: list[Model], options: ResidencyOptions, context: Context) -> None:
    """Refuse a budget that leaves no time for the loads before anything is changed, now that the sizes are known."""
    waits = float(sum(options.settle for model in models if not model.small))
    waits += options.hold if models and not models[-1].small else 0.0
    left = context.budget.left()
    if waits and left <= waits:
        text = (
            f"the budget leaves no time for a load: {left:.1f}s are left beside the reserve, and the waits of "
            f"{len(models)} cycles alone take {waits:g}s; the smallest one that works is {int(waits - left) + 2}s more"
        )
        finding = make("run.budget", text, retryable=False)
        raise NotReadyError([finding], word="error", usage=True)


def _seconds(options: ResidencyOptions, models: int) -> float:
    departing = max(0, models - len(options.stay))
    away = options.unload + options.removal
    each = away + options.settle + options.load + options.read
    return models * each + departing * away + options.hold + options.read


def plan(options: ResidencyOptions) -> list[Deed]:
    """Say what would be done."""
    url = options.url
    context = f" with a context length of at least {options.context_length}" if options.context_length else ""
    return [
        Deed(f"each model of {options.models}, {', '.join(options.stay)} last:"),
        Deed(f"POST {url}/generate: unload it ({duration_text(options.unload)})", changes=True),
        Deed(f"GET {url}/ps until it is absent ({duration_text(options.removal)})"),
        Deed(
            f"POST {url}/generate: load it for {options.keep_alive} ({duration_text(options.load)})",
            changes=True,
        ),
        Deed(f"GET {url}/ps: it must be fully on the GPU{context}"),
        Deed(f"POST {url}/generate: unload it again, unless it is to stay", changes=True),
        Deed(f"GET {url}/ps once more: what is to stay must be right"),
        Deed("when the run fails: unload what it has loaded, and see it gone", changes=True),
    ]


KIND = Kind(
    name="residency",
    options=ResidencyOptions,
    run=run,
    plan=plan,
    seconds=_seconds,
    reserve=lambda options, models: options.reserve + models * options.reserve_per_model,
    waits=lambda options, models: options.settle * models + options.hold,
    models=lambda options: options.models,
    changes=True,
    server=lambda options: options.url,
    imports=("precheck_lib.residency.cleanup",),
)
