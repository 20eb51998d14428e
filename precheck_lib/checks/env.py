"""`env`: the environment variables that the tests need ("roles") are set and well formed. No network, no child.

A message names the role and what is wrong with it, never the value.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.errors import DeadlineError
from precheck_lib.findings import NotReadyError, make
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature

if TYPE_CHECKING:
    from collections.abc import Iterator

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


class Role(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one variable has to be.

    `secret`: never shown. `url`: the schemes it may have; then it needs a host and has no credentials, query or
    fragment; `path_end` is how its path has to end. `word`: one word. `folder`: an absolute path of an existing folder.
    `json_object`: a JSON object with a non-empty object at each of these JSON pointers. `key_of`: a key of the object
    at `NAME#/pointer`. `without`: characters that it must not hold.
    """

    secret: bool = False
    url: list[str] | None = None
    path_end: str | None = None
    word: bool = False
    folder: bool = False
    json_object: list[str] | None = None
    key_of: str | None = None
    without: str = ""


class EnvOptions(Options, frozen=True, kw_only=True):
    """`required` have to be set, `optional` are looked at where they are set; of each of `together` all or none are."""

    required: dict[str, Role] = msgspec.field(default_factory=dict)
    optional: dict[str, Role] = msgspec.field(default_factory=dict)
    together: list[list[str]] = msgspec.field(default_factory=list)


def run(options: EnvOptions, context: Context) -> list[Finding]:
    """Look at every role; all that is wrong is said at once."""
    env = context.env
    findings: list[Finding] = []
    missing = [name for name in options.required if not env.get(name, "").strip()]
    if missing:
        findings.append(make("roles.missing", f"missing or empty: {', '.join(missing)}"))
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


def _wrong(value: str, role: Role, context: Context) -> Iterator[str]:
    is_json = role.json_object is not None
    odd = list(_odd(value, json=is_json))
    yield from odd
    if is_json:
        yield from _wrong_json(value, role.json_object or [])
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
    for character in role.without:
        if character in value:
            yield f"it must not hold {character!r}"


def _odd(value: str, *, json: bool) -> Iterator[str]:
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
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
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


def _wrong_json(value: str, pointers: list[str]) -> Iterator[str]:
    from precheck_lib.bounded.strict_json import kind_of, parse

    try:
        document = parse(value)
    except ValueError as error:
        comments = _JSONC.search(_STRING.sub('""', value))
        hint = "; comments and trailing commas (JSONC) are not JSON" if comments else ""
        yield f"it cannot be read: {error}{hint}"
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
