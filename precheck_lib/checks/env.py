"""`env`: the environment variables that the tests need ("roles") are set and well formed. No network, no child.

A message names the role and what is wrong with it, never the value.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import pattern_problem, refuse_options
from precheck_lib.errors import DeadlineError
from precheck_lib.event import read_event
from precheck_lib.findings import NotReadyError, make
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.redact import SECRET_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.checks.kind import OptionProblem

_CONTROL = {
    "\0": "a NUL",
    "\t": "a tab",
    "\n": "a line feed",
    "\r": "a carriage return",
    "\x1b": "an escape character",
    "\x7f": "a delete character",
}
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)')
_JSONC = re.compile(r"//|/\*|,\s*[}\]]")
_WORD = re.compile(r"[A-Za-z0-9_-]+\Z")
_MOST_MATCHED = 4096
_MOST_NAMED = 20


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the value of one variable has to be; all that is given counts."""

    secret: Annotated[bool, Meta(description="Its value is never shown, nowhere.")] = False
    url: Annotated[
        list[str] | None,
        Meta(
            description="It is a URL of one of these schemes, with a host and without credentials, query or fragment."
        ),
    ] = None
    path_end: Annotated[str | None, Meta(description="How the path of the URL has to end, such as `/api`.")] = None
    word: Annotated[bool, Meta(description="It is one word of letters, digits, `-` and `_`.")] = False
    folder: Annotated[bool, Meta(description="It is the absolute path of a folder that is there.")] = False
    json: Annotated[bool, Meta(description="It is JSON, of any type.")] = False
    json_object: Annotated[
        list[str] | None,
        Meta(description="It is a JSON object with an object that is not empty at each of these JSON pointers."),
    ] = None
    key_of: Annotated[
        str | None, Meta(description="It is a key of the object at `NAME#/pointer`, in the JSON of another variable.")
    ] = None
    pattern: Annotated[
        str | None,
        Meta(
            description="A regular expression that matches all of it, taken as it is written (no `${}`). "
            "Of a value that does not fit only the pattern is shown."
        ),
    ] = None
    one_of: Annotated[
        list[str] | None, Meta(description="The values that it may have; of a secret one they are not shown.")
    ] = None
    without: Annotated[str, Meta(description="Characters that it must not hold.")] = ""


class EnvOptions(Options, frozen=True, kw_only=True):
    """Which environment variables there have to be, and what their values have to be."""

    required: Annotated[
        dict[str, Role], Meta(description="Variables that have to be set and not blank, each with what it has to be.")
    ] = msgspec.field(default_factory=dict)
    optional: Annotated[
        dict[str, Role], Meta(description="Variables that may be unset; where they are set they have to be right.")
    ] = msgspec.field(default_factory=dict)
    together: Annotated[list[list[str]], Meta(description="Lists of variables of which all are set, or none.")] = (
        msgspec.field(default_factory=list)
    )

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        for where, roles in (("required", self.required), ("optional", self.optional)):
            for name, role in roles.items():
                if role.pattern is not None and (why := pattern_problem(role.pattern)):
                    yield (where, name, "pattern"), f"{name}: pattern: {why}"
                if role.one_of is not None and not role.one_of:
                    yield (where, name, "one_of"), f"{name}: one_of: no value is allowed"


_WITHHELD = (
    "Run this job only where secrets are given (if: github.event.pull_request.head.repo.full_name == "
    "github.repository), and have a maintainer run it for such a change."
)


def run(options: EnvOptions, context: Context) -> list[Finding]:
    """Look at every role; all that is wrong is said at once."""
    env = context.env
    refuse_options(options)
    findings: list[Finding] = []
    missing = [name for name in options.required if not env.get(name, "").strip()]
    if missing:
        findings.append(_missing(missing, options, context))
    for group in options.together:
        unset = [name for name in group if not env.get(name, "").strip()]
        if unset and len(unset) < len(group):
            there = ", ".join(name for name in group if name not in unset)
            findings.append(make("roles.pair", f"{there} is set without {', '.join(unset)}"))
    late = 0
    for name, role in {**options.optional, **options.required}.items():
        value = env.get(name, "")
        if not value.strip():
            continue
        try:
            wrong = list(_wrong(value, role, context))
        except DeadlineError:
            late += 1
            wrong = ["its folder could not be looked at in time (a dead mount?)"]
        findings += [make("roles.malformed", f"{name}: {text}") for text in wrong]
    if findings:
        only_late = late == len(findings)
        raise NotReadyError(findings, word="error" if only_late else "failed", curl=28 if only_late else 1)
    return []


def _missing(names: list[str], options: EnvOptions, context: Context) -> Finding:
    """Name what is missing; where it is a secret, tell one that GitHub withholds from one that was forgotten."""
    text = f"missing or empty: {', '.join(names)}"
    secret = [name for name in names if options.required[name].secret or SECRET_NAME.search(name)]
    event = read_event(context.env) if secret else None
    if event is None:
        return make("roles.missing", text)
    if event.withheld:
        return make("roles.missing", text, evidence=f"{event.withheld}; no key was forgotten", remedy=_WITHHELD)
    given = "GitHub gives this run the secrets of its repository: one is not defined there, or not passed to this step"
    return make("roles.missing", text, evidence=given)


def _wrong(value: str, role: Role, context: Context) -> Iterator[str]:
    is_json = role.json or role.json_object is not None
    # Of JSON of any type a text in quotes is one.
    odd = list(_odd(value, json=is_json, quotes="'`" if role.json and role.json_object is None else "\"'`"))
    yield from odd
    if is_json:
        yield from _wrong_json(value, role.json_object)
    elif odd:
        return  # what else would be said follows from it
    if role.url is not None:
        yield from _wrong_url(value, role)
    if role.word and not _WORD.match(value):
        yield "it is not one word"
    if role.folder:
        yield from _wrong_folder(value, context)
    if role.key_of is not None:
        yield from _wrong_key(value, role.key_of, context)
    yield from _not_allowed(value, role, context)
    for character in role.without:
        if character in value:
            yield f"it must not hold {character!r}"


def _not_allowed(value: str, role: Role, context: Context) -> Iterator[str]:
    """Compare with the pattern and with the allowed values; what the value is stays unsaid."""
    if role.pattern is not None:
        if len(value) > _MOST_MATCHED:
            # Nothing ends a match from outside, and with its square a long value would take very long.
            yield f"it is longer than the {_MOST_MATCHED} characters that a pattern is tried on"
        elif re.fullmatch(role.pattern, value) is None:
            yield f"it does not match the pattern {role.pattern!r}"
    if role.one_of is not None and value not in [context.text(allowed) for allowed in role.one_of]:
        hidden = role.secret or len(role.one_of) > _MOST_NAMED
        allowed = (
            f"{len(role.one_of)} allowed values" if hidden else "allowed values " + ", ".join(map(repr, role.one_of))
        )
        yield f"it is not one of the {allowed}"


def _odd(value: str, *, json: bool, quotes: str) -> Iterator[str]:
    """Name in words what cannot be seen: control and invisible characters, white space at an end, quotes around it."""
    seen: dict[str, str] = {}
    for place, character in enumerate(value):
        category = unicodedata.category(character)
        if category not in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs") or character == " ":
            continue
        if json and (character in "\t\n\r" or 0 < place < len(value) - 1):
            continue  # white space of JSON; inside of it the parser judges
        where = " at its end" if place == len(value) - 1 else " at its start" if place == 0 else ""
        seen.setdefault(character, f"it holds {_name(character, category)}{where}")
    yield from seen.values()
    text = value.strip()
    if not json and text != value and not seen:
        yield "it has white space at its " + ("start" if value[0].isspace() else "end")
    if len(text) > 1 and text[0] == text[-1] and text[0] in quotes:
        yield "the whole value is in quotes"


def _name(character: str, category: str) -> str:
    if character in _CONTROL:
        return _CONTROL[character]
    if category == "Cs":
        return "bytes that are not UTF-8"
    name = unicodedata.name(character, f"control character {ord(character):#04x}").lower()
    return f"an invisible character ({name}, U+{ord(character):04X})" if category != "Cc" else f"a {name}"


def _wrong_url(value: str, role: Role) -> Iterator[str]:
    from urllib.parse import urlsplit

    schemes = role.url or []
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        yield "it is not a URL" + (": its port is not a number from 1 to 65535" if "ort" in str(error) else "")
        return
    if parts.scheme not in schemes or "://" not in value:
        yield f"it is not a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}"
        return
    if "%" in parts.netloc or not re.fullmatch(r"(?:.*@)?(?:\[[^\]]+\]|[^:\[\]*]+)(?::\d*)?", parts.netloc):
        yield "it is a URL without a usable host and port"
        return
    if not parts.hostname or re.search(r"[\s\\<>\"^`{|}]", value) or port == 0:
        yield "it is a URL without a usable host and port"
    if "@" in parts.netloc:
        yield "it has a user name or password in it"
    if "?" in value:
        yield "it has a query (?...) in it"
    if "#" in value:
        yield "it has a fragment (#...) in it"
    if role.path_end is not None and not parts.path.rstrip("/").endswith(role.path_end):
        yield f"its path does not end in {role.path_end}"


def _wrong_folder(value: str, context: Context) -> Iterator[str]:
    from precheck_lib.bounded.thread import call_bounded

    if not os.path.isabs(value):
        yield "it is not an absolute path"
    elif not call_bounded(lambda: os.path.isdir(value), budget=context.budget, phase="folder"):
        yield "it is not an existing folder (seen from this user)"


def _wrong_json(value: str, pointers: list[str] | None) -> Iterator[str]:
    """Judge JSON; without pointers it may be of any type."""
    from precheck_lib.bounded.strict_json import kind_of, parse

    try:
        document = parse(value)
    except ValueError as error:
        comments = _JSONC.search(_STRING.sub('""', value))
        hint = "; comments and trailing commas (JSONC) are not JSON" if comments else ""
        yield f"it cannot be read: {error}{hint}"
        return
    if pointers is None:
        return
    if not isinstance(document, dict):
        yield f"it is not a JSON object but {kind_of(document)}"
        return
    for pointer in pointers:
        found = at_pointer(document, pointer)
        if not isinstance(found, dict) or not found:
            place = ".".join(pointer.strip("/").split("/"))
            yield f"it has no non-empty object at {place}"


def _wrong_key(value: str, reference: str, context: Context) -> Iterator[str]:
    from precheck_lib.bounded.strict_json import parse

    name, _, pointer = reference.partition("#")
    try:
        found = at_pointer(parse(context.env.get(name, "")), pointer)
    except ValueError:
        return  # said of that variable itself
    if isinstance(found, dict) and found and value not in found:
        yield f"it is not one of the keys of {'.'.join(pointer.strip('/').split('/'))} in {name}"


def at_pointer(document: Any, pointer: str) -> Any:
    """Return what is at a JSON pointer (RFC 6901), `None` where nothing is."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and _INDEX.match(key) and int(key) < len(document):
            document = document[int(key)]
        else:
            return None
    return document


def plan(options: EnvOptions) -> list[Deed]:
    """Say what would be done."""
    return [
        Deed(f"look at {len(options.required)} required and {len(options.optional)} optional environment variables")
    ]


KIND = Kind(name="env", options=EnvOptions, run=run, plan=plan, seconds=lambda _, __: 2.0)
