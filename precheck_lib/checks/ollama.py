"""`ollama`: the server answers, in the right version, and the models are installed and run on this machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options, ollama_models, which_models
from precheck_lib.checks.look import literal, refuse, refuse_options, text_of
from precheck_lib.checks.serving import note_process, place_of
from precheck_lib.errors import TalkError
from precheck_lib.findings import NotReadyError, make, not_ready
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.units import Bytes, Seconds
from precheck_lib.versions import constraint_problem, parse_constraint, parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem
    from precheck_lib.servers.ollama import OllamaServer, Tag
    from precheck_lib.versions import Constraint

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-fA-F]{12,64})\Z")
_WANTED = ("id", "digest", "capabilities")


class OllamaOptions(Options, frozen=True, kw_only=True):
    """The server at `url`; without `models` and `version` it only has to answer."""

    url: Annotated[
        str, Meta(description="The URL of Ollama's API, with `/api` at its end; or what `OLLAMA_HOST` may hold.")
    ]
    version: Annotated[
        str | None, Meta(description="What the version of the running server has to be: `>=0.12,<1`, or exactly one.")
    ] = None
    models: Annotated[
        Any,
        Meta(
            description="The models that have to be installed: a list of names, text with commas between them, the "
            "`models` object of an OpenCode configuration, or a mapping of names to what they have to be: `digest` (12 "
            "of its hex digits at least), `capabilities` (a list of `completion`, `tools`, `vision`, `thinking`, "
            "`embedding`, …), `id` (the name, where the key is another)."
        ),
    ] = None
    connect: Annotated[Seconds, Meta(description="How long connecting may take.")] = Seconds(2)
    max_bytes: Annotated[Bytes, Meta(description="The most bytes that the body of an answer may have.")] = Bytes(
        2 << 20
    )

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        if (version := literal(self.version)) is not None and (why := constraint_problem(version)):
            yield ("version",), f"version: {why}"
        for key, written in self.models.items() if isinstance(self.models, dict) else ():
            where = ("models", key)
            if written is not None and not isinstance(written, dict):
                yield where, f"models: {key}: a mapping with {', '.join(_WANTED)} is needed"
            elif written is not None:
                for one in written:
                    if one not in _WANTED:
                        yield (*where, one), f"models: {key}: unknown key {one!r}"
                for name, text in _model_problems({one: written[one] for one in _WANTED if one in written}):
                    if literal(str(written[name])) is not None:
                        yield (*where, name), f"models: {key}: {text}"


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What one model has to be, beside installed."""

    digest: str | None = None
    capabilities: tuple[str, ...] = ()


def run(options: OllamaOptions, context: Context) -> list[Finding]:
    """Ask for the version and the installed models, and leave these for a residency check of the same server."""
    from precheck_lib.checks.installed import api_url, read_tags, refuse_missing
    from precheck_lib.servers.http_server import Bounds
    from precheck_lib.servers.names import canonical
    from precheck_lib.servers.ollama import OllamaServer

    refuse_options(options)
    url = api_url(context.text(options.url))
    constraint = _constraint(options, context)
    names = {} if options.models is None else ollama_models(context.expand(options.models))
    wanted = _wanted(options, context)
    server = OllamaServer(
        url,
        journal=context.journal,
        bounds=Bounds(connect=options.connect, total=context.budget.asked, max_bytes=options.max_bytes),
    )
    if options.version is not None or options.models is None:
        _judge_version(server, url, constraint, context)
    if options.models is None:
        note_process(context, url)
        return []
    installed = read_tags(server, url, context)
    refuse_missing(names.values(), installed)
    findings: list[Finding] = []
    for key, want in wanted.items():
        findings += _judge(names[key], installed[canonical(names[key])], want, server, context)
    if findings:
        raise NotReadyError(findings)
    note_process(context, url)
    return []


def _constraint(options: OllamaOptions, context: Context) -> Constraint | None:
    version = text_of(options.version, context)
    if version is None:
        return None
    refuse([f"version: {why}"] if (why := constraint_problem(version)) else [])
    return parse_constraint(version)


def _model_problems(given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say what is wrong with what one model has to be, by its key."""
    digest, capabilities = given.get("digest"), given.get("capabilities", [])
    if digest is not None and not (isinstance(digest, str) and _DIGEST.match(digest)):
        yield "digest", "digest: 12 to 64 hex digits are needed; in quotes, so that they are text"
    if not isinstance(capabilities, list) or not all(isinstance(one, str) for one in capabilities):
        yield "capabilities", "capabilities: a list of text is needed"


def _wanted(options: OllamaOptions, context: Context) -> dict[str, _Wanted]:
    """Return what the models have to be, by their keys, where the spec itself says so.

    A configuration that is taken from a variable is another program's, and its keys mean other things.
    """
    if not isinstance(options.models, dict):
        return {}
    problems: list[str] = []
    wanted = {}
    for key, written in options.models.items():
        if written is None:
            continue
        given = context.expand({one: written[one] for one in _WANTED if one in written})
        wrong = [f"models: {key}: {text}" for _, text in _model_problems(given)]
        problems += wrong
        if not wrong:
            match = _DIGEST.match(given["digest"]) if given.get("digest") is not None else None
            wanted[key] = _Wanted(
                digest=match[1].lower() if match else None, capabilities=tuple(given.get("capabilities", ()))
            )
    refuse(problems)
    return wanted


def _judge_version(server: OllamaServer, url: str, constraint: Any, context: Context) -> None:
    from precheck_lib.checks.installed import unusable
    from precheck_lib.servers.words import plain

    try:
        found = server.version(context.budget)
    except TalkError as error:
        raise unusable(error, "Ollama /version") from error
    if found is None:
        raise not_ready("ollama.inventory", "Ollama /version: the answer has no `version`")
    wanted = None if constraint is None else constraint.text
    context.saw(f"Ollama at {place_of(url)}", "version", plain(found), wanted)
    if constraint is None:
        return
    try:
        holds = constraint.holds(parse_version(found))
    except ValueError:
        holds = False
    if not holds:
        text = f"the running Ollama is {plain(found)}, needed is {constraint.text}"
        evidence = "it is the running server that is off, whatever the command `ollama` on PATH says"
        raise not_ready("ollama.version", text, evidence=evidence)


def _judge(name: str, tag: Tag, wanted: _Wanted, server: OllamaServer, context: Context) -> list[Finding]:
    from precheck_lib.checks.installed import unusable
    from precheck_lib.servers.words import named, short

    findings = []
    if wanted.digest is not None and not (tag.digest or "").lower().startswith(wanted.digest):
        found = "an unknown digest" if tag.digest is None else f"the digest {short(tag.digest[:12])}"
        findings.append(make("ollama.digest", f"{name} is installed with {found}, pinned is {wanted.digest[:12]}"))
    if wanted.capabilities:
        capabilities = tag.capabilities
        if capabilities is None:
            try:
                capabilities = server.capabilities(name, context.budget)
            except TalkError as error:
                raise unusable(error, f"Ollama /show of {name}") from error
        if capabilities is None:
            raise not_ready("ollama.capability-unknown", f"Ollama does not say what {name} can do", word="error")
        lacking = [one for one in wanted.capabilities if one not in capabilities]
        if lacking:
            can = ", ".join(named(one, 40) for one in capabilities[:12]) or "nothing"
            text = f"{name} lacks the capabilities {', '.join(lacking)}"
            findings.append(make("ollama.capability", text, evidence=f"it has {can}"))
    return findings


def plan(options: OllamaOptions) -> list[Deed]:
    """Say what would be done."""
    deeds = []
    if options.version is not None or options.models is None:
        needed = f"; it must be {options.version}" if options.version is not None else ""
        deeds.append(Deed(f"GET {options.url}/version{needed}"))
    if isinstance(options.models, dict):
        deeds.append(Deed(f"GET {options.url}/tags; it must list {', '.join(options.models)} as they are written"))
        deeds.append(Deed(f"POST {options.url}/show, where the list does not tell the capabilities"))
    elif options.models is not None:
        deeds.append(Deed(f"GET {options.url}/tags; it must list {which_models(options.models)}"))
    return deeds


KIND = Kind(name="ollama", options=OllamaOptions, run=run, plan=plan, imports=("precheck_lib.servers.ollama",))
