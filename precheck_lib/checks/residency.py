"""`residency`: models are resident, fully on the GPU, with the context they need; what is not so is loaded cold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options, ollama_models, which_models
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes, Seconds, duration_text

if TYPE_CHECKING:
    from precheck_lib.outcome import CycleRecord
    from precheck_lib.residency.cycle import Model, Residency
    from precheck_lib.servers.ollama import Tag


class ResidencyOptions(Options, frozen=True, kw_only=True):
    """`models` on the Ollama server at `url` are seen to one after the other, those named by `stay` last.

    Those that are loaded and are not to stay are unloaded again and proven absent before the next.
    """

    url: Annotated[
        str, Meta(description="The URL of Ollama's API, with `/api` at its end; or what `OLLAMA_HOST` may hold.")
    ]
    models: Annotated[
        Any,
        Meta(description="Names in a list or with commas between them, or the `models` object of an OpenCode config."),
    ]
    mode: Annotated[
        Literal["ensure", "cycle", "verify"],
        Meta(
            description="`ensure` keeps a model that is right and cycles any other (unload, prove it absent, load it, "
            "judge it); `cycle` does so with every model; `verify` only looks and never changes anything."
        ),
    ] = "ensure"
    stay: Annotated[
        list[str] | None,
        Meta(description="The models that have to be resident at the end; all where it is not given."),
    ] = None
    context_length: Annotated[
        int | None,
        Meta(description="The context that a model has to have at least, in tokens; none is needed without it."),
    ] = None
    keep_alive: Annotated[
        str,
        Meta(description="How long a model is to stay after its last use, as Ollama writes it; a longer one is kept."),
    ] = "10m"
    connect: Annotated[Seconds, Meta(description="The most that a connection may take.")] = Seconds(2)
    read: Annotated[Seconds, Meta(description="The most that one read (of the inventory) may take.")] = Seconds(10)
    answer: Annotated[
        Seconds, Meta(description="The most that the one token may take which `ensure` asks of a resident model.")
    ] = Seconds(30)
    unload: Annotated[Seconds, Meta(description="The most that a request to unload may take.")] = Seconds(30)
    removal: Annotated[Seconds, Meta(description="How long a model may stay listed after its unload.")] = Seconds(30)
    load: Annotated[Seconds, Meta(description="The most that a load may take.")] = Seconds(360)
    settle: Annotated[Seconds, Meta(description="What is waited between absence and load.")] = Seconds(2)
    hold: Annotated[
        Seconds,
        Meta(description="What is waited after the last load, and how long absence holds after a load without answer."),
    ] = Seconds(1)
    small: Annotated[Bytes, Meta(description="Models below this size need neither of the two waits.")] = Bytes(
        256 << 20
    )
    max_bytes: Annotated[Bytes, Meta(description="The most that is read of one answer.")] = Bytes(2 << 20)
    reserve: Annotated[Seconds, Meta(description="What is kept back of the run's budget for cleanup and reports.")] = (
        Seconds(30)
    )
    reserve_per_model: Annotated[Seconds, Meta(description="The same for each model, beside `reserve`.")] = Seconds(30)


def run(options: ResidencyOptions, context: Context) -> list[Finding]:
    """See to the models; on a failure of the run what it has loaded is unloaded again."""
    from precheck_lib.checks.installed import api_url, known_tags, read_tags, refuse_missing
    from precheck_lib.redact import without_url_credentials
    from precheck_lib.residency.cleanup import clean_up
    from precheck_lib.residency.cycle import Residency, Rules
    from precheck_lib.residency.modes import Ensure, verify
    from precheck_lib.servers.http_server import Bounds
    from precheck_lib.servers.ollama import OllamaServer

    url = api_url(context.text(options.url))
    names, staying = _names(options, context)
    server = OllamaServer(
        url,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=options.read, max_bytes=options.max_bytes),
    )
    tags = known_tags(url, context)
    if options.mode != "cycle":
        tags = read_tags(server, url, context) if tags is None else tags
        # What is not installed could not be loaded again: that is said before anything is unloaded.
        refuse_missing(names.values(), tags)
    models = _models(options, names, staying, tags or {})
    rules = Rules(
        unload=options.unload,
        removal=options.removal,
        load=options.load,
        answer=options.answer,
        settle=options.settle,
        hold=options.hold,
        keep_alive=context.text(options.keep_alive),
        context_length=options.context_length,
    )
    residency = Residency(server, rules, context.cycles, context.phase)
    if options.mode == "verify":
        verify(residency, models, context.budget)
        _keep_facts(residency, models, url, context)
        return []
    warnings: list[Finding] = []
    if options.mode == "cycle":
        _enough_time(models, options, context)
        context.cleanups.append(lambda budget: clean_up(residency, budget, context.exit_code))
        residency.run(models, context.budget)
    else:
        context.cleanups.append(lambda budget: clean_up(residency, budget, context.exit_code))
        ensure = Ensure(
            residency,
            server,
            where=without_url_credentials(url),
            say=context.say,
            before=lambda model: _enough_time([model], options, context),
        )
        ensure.run(models, context.budget)
        warnings = ensure.warnings
    if options.context_length is None:
        for record in residency.made:
            context.say(_given(record))
    _keep_facts(residency, models, url, context)
    return warnings


def _keep_facts(residency: Residency, models: list[Model], url: str, context: Context) -> None:
    """Keep what the models that stay were proven to be."""
    from precheck_lib.checks.serving import note_process, place_of

    records = {record.model: record for record in residency.made}
    for model in models:
        record = records.get(model.name)
        if not model.stays or record is None:
            continue
        subject = f"{model.name} at {place_of(url)}"
        context.saw(subject, "digest", (model.digest or "")[:12])
        context.saw(subject, "context length", record.context_length, residency.rules.context_length)
        context.saw(subject, "GPU memory", record.size_vram, record.size)
    note_process(context, url)


def _names(options: ResidencyOptions, context: Context) -> tuple[dict[str, str], list[str]]:
    """Return the names of the models by their keys, and the keys of those that stay."""
    names = ollama_models(context.expand(options.models))
    staying = list(names) if options.stay is None else [context.text(key) for key in options.stay]
    unknown = [key for key in staying if key not in names]
    if unknown:
        raise not_ready("ollama.models", f"{', '.join(unknown)} is to stay, but is not among the configured models")
    return names, staying


def _models(options: ResidencyOptions, names: dict[str, str], staying: list[str], tags: dict[str, Tag]) -> list[Model]:
    from precheck_lib.residency.cycle import Model
    from precheck_lib.servers.names import canonical

    # Two keys may name one model: it is seen to once, and stays if either is to stay.
    kept = {canonical(names[key]): names[key] for key in staying}
    others = {canonical(name): name for name in names.values() if canonical(name) not in kept}
    models = []
    for spelling, name in (*others.items(), *kept.items()):
        tag = tags.get(spelling)
        small = tag is not None and tag.size is not None and tag.size < options.small
        models.append(
            Model(name=name, stays=spelling in kept, small=small, digest=tag.digest if tag is not None else None)
        )
    return models


def _given(record: CycleRecord) -> str:
    """Say what a model has been given, where the spec asks for no context."""
    context = "an unknown" if record.context_length is None else f"a context length of {record.context_length}"
    how = "kept as it was" if record.kept else "loaded"
    return f"{record.model} is {how}: {record.size_vram} bytes on the GPU, {context}"


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
    if options.mode == "verify":
        return 2 * options.read
    departing = 0 if options.stay is None else max(0, models - len(options.stay))
    away = options.unload + options.removal
    each = away + options.settle + options.load + options.read
    total = models * each + departing * away + options.hold + options.read
    if options.mode == "ensure":
        # Two reads and a token, each of which may first be waited for while the server unloads something.
        total += options.read + models * (2 * options.removal + 2 * options.answer)
    return total


def plan(options: ResidencyOptions) -> list[Deed]:
    """Say what would be done."""
    url = options.url
    context = f" with a context length of at least {options.context_length}" if options.context_length else ""
    last = f", {', '.join(options.stay)} last" if options.stay is not None else ""
    if options.mode == "verify":
        which = ", ".join(options.stay) if options.stay is not None else which_models(options.models)
        return [
            Deed(f"GET {url}/tags, unless an earlier check has read it"),
            Deed(f"GET {url}/ps: {which} must be resident, fully on the GPU{context}"),
        ]
    cycle = [
        Deed(f"POST {url}/generate: unload it ({duration_text(options.unload)})", changes=True),
        Deed(f"GET {url}/ps until it is absent ({duration_text(options.removal)})"),
        Deed(
            f"POST {url}/generate: load it for {options.keep_alive} ({duration_text(options.load)})",
            changes=True,
        ),
        Deed(f"GET {url}/ps: it must be fully on the GPU{context}"),
    ]
    if last:
        cycle.append(Deed(f"POST {url}/generate: unload it again, unless it is to stay", changes=True))
    if options.mode == "ensure":
        token = f"one token from it ({duration_text(options.answer)}), and GET {url}/ps again"
        first = [
            Deed(f"GET {url}/tags, unless an earlier check has read it"),
            Deed(f"{which_models(options.models)}{last}:"),
            Deed(f"GET {url}/ps: is it fully on the GPU{context}?"),
            Deed(f"POST {url}/generate: {token}: then it is kept, for {options.keep_alive} at least"),
            Deed("only where it is not right so, or not resident:"),
        ]
    else:
        first = [Deed(f"{which_models(options.models)}{last}:")]
    return [
        *first,
        *cycle,
        Deed(f"GET {url}/ps once more: what is to stay must be right"),
        Deed("when the run fails: unload what it has loaded, and see it gone", changes=True),
    ]


def _reserve(options: ResidencyOptions, models: int) -> float:
    return 0.0 if options.mode == "verify" else options.reserve + models * options.reserve_per_model


def _waits(options: ResidencyOptions, models: int) -> float:
    return options.settle * models + options.hold if options.mode == "cycle" else 0.0


KIND = Kind(
    name="residency",
    options=ResidencyOptions,
    run=run,
    plan=plan,
    seconds=_seconds,
    reserve=_reserve,
    waits=_waits,
    models=lambda options: options.models,
    changes=True,
    changes_with=lambda options: options.mode != "verify",
    looking=lambda options: msgspec.structs.replace(options, mode="verify"),
    server=lambda options: options.url,
    imports=("precheck_lib.residency.cleanup", "precheck_lib.residency.modes"),
)
