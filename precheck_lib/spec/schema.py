"""The JSON Schema (draft 2020-12) of a spec, made from the types that load it: for editors, and for docs/spec.md.

It knows the shape: keys, types, what is needed, what may be chosen. What one check says of another (`needs`, ids that
stand twice), pins and `${...}` are for `precheck validate`.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from precheck_lib.checks import KINDS, kind_named
from precheck_lib.spec.shape import Frame, Head
from precheck_lib.units import DURATION_PATTERN, SIZE_PATTERN, Bytes, Seconds, duration_text, exact_size_text

_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Seconds: {"$ref": "#/$defs/duration"},
    Bytes: {"$ref": "#/$defs/size"},
}
_NAMES = {str: "string", bool: "boolean", int: "integer"}
_CONSTRAINTS = {"pattern": "pattern", "ge": "minimum", "le": "maximum", "min_length": "minItems"}
"""What a description may hold besides (`min_length` of lists only); the loader says these things in its own words."""


def spec_schema() -> dict[str, Any]:
    """Return the schema of a spec file."""
    head = _struct(Head)
    head["properties"]["checks"]["items"] = {"$ref": "#/$defs/check"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "precheck spec",
        **head,
        "$defs": {
            "duration": {
                "description": "A time with its unit, such as `2s`, `1m30s` or `500ms`.",
                "type": "string",
                "pattern": DURATION_PATTERN,
            },
            "size": {
                "description": "A size with its unit, such as `20GiB` or `256MiB`.",
                "type": "string",
                "pattern": SIZE_PATTERN,
            },
            "check": _check(),
            **{name: _options(name) for name in KINDS},
        },
    }


def schema_text() -> str:
    """Return the schema as the text of specs/precheck.schema.json."""
    return json.dumps(spec_schema(), indent=2, ensure_ascii=False) + "\n"


def about_kind(name: str) -> str:
    """Say in one sentence what a kind proves: the first line of its module."""
    module = sys.modules[kind_named(name).run.__module__]
    text = (module.__doc__ or "").strip().partition("\n")[0]
    return text.removeprefix(f"`{name}`:").strip()


def _check() -> dict[str, Any]:
    check = _struct(Frame)
    for name in KINDS:
        check["properties"][name] = {"description": about_kind(name), "$ref": f"#/$defs/{name}"}
    check["oneOf"] = [{"required": [name]} for name in KINDS]
    return check


def _options(name: str) -> dict[str, Any]:
    made = _struct(kind_named(name).options)
    if not made["required"]:
        made["type"] = ["object", "null"]  # `env:` and nothing more is all its defaults
    return made


def _struct(type_: type[msgspec.Struct]) -> dict[str, Any]:
    fields = msgspec.structs.fields(type_)
    return {
        "description": _first_sentence(type_.__doc__ or ""),
        "type": "object",
        "properties": {field.encode_name: _field(field) for field in fields},
        "required": [field.encode_name for field in fields if field.required],
        "additionalProperties": False,
    }


def _field(field: Any) -> dict[str, Any]:
    made = _schema(field.type)
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if default is not msgspec.NODEFAULT and default is not None:
        made["default"] = _plain(default)
    return made


def _schema(type_: Any) -> dict[str, Any]:
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _with_meta(_schema(arguments[0]), arguments[1:])
    if type_ is Any:
        return {}
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return _choice(arguments)
    if origin in (list, dict):
        of = _schema(arguments[-1])
        return {"type": "array", "items": of} if origin is list else {"type": "object", "additionalProperties": of}
    return _struct(type_) if issubclass(type_, msgspec.Struct) else dict(_SCALARS[type_])


def _with_meta(made: dict[str, Any], metas: tuple[Any, ...]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for meta in metas:
        if meta.description is not None:
            said["description"] = meta.description
        for name, keyword in _CONSTRAINTS.items():
            if getattr(meta, name) is not None:
                made[keyword] = getattr(meta, name)
    return {**said, **{key: value for key, value in made.items() if key not in said}}


def _union(arguments: tuple[Any, ...]) -> dict[str, Any]:
    made = [_schema(argument) for argument in arguments if argument is not type(None)]
    if len(made) < len(arguments):
        if len(made) == 1 and isinstance(made[0].get("type"), str):
            made[0]["type"] = [made[0]["type"], "null"]
            if "enum" in made[0]:
                made[0]["enum"].append(None)
        else:
            made.append({"type": "null"})
    return made[0] if len(made) == 1 else {"anyOf": made}


def _choice(choices: tuple[Any, ...]) -> dict[str, Any]:
    kinds = list(dict.fromkeys(_NAMES[type(choice)] for choice in choices))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(choices)}


def _plain(value: Any) -> Any:
    if isinstance(value, Seconds):
        return duration_text(value)
    return exact_size_text(value) if isinstance(value, Bytes) else msgspec.to_builtins(value)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    first = " ".join(text.strip().partition("\n\n")[0].split())
    end = first.find(". ")
    return first if end < 0 else first[: end + 1]
