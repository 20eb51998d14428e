"""Tables of what a spec may say, from its JSON Schema: for docs/spec.md, between `<!-- options: NAME -->` comments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACE = re.compile(r"(<!-- options: ([a-z-]+) -->)\n(?:.*\n)*?(<!-- end of options -->)")
_WORDS = {"string": "text", "boolean": "`true` or `false`", "integer": "whole number", "number": "number"}

_PLURALS = {"mapping": "mappings", "check": "checks", "list of text": "lists of text"}


def with_tables(text: str, schema: dict[str, Any]) -> str:
    """Put the tables between their comments: `spec` is the head, `check` what stands around a kind, else a kind."""

    def made(found: re.Match[str]) -> str:
        of = schema if found[2] == "spec" else schema["$defs"][found[2]]
        kinds = set(schema["$defs"]) if found[2] == "check" else set()
        rows = list(_rows(of, "", {}, leave_out=kinds))
        return "\n".join(
            [found[1], "", "| key | takes | default | meaning |", "|---|---|---|---|", *rows, "", found[3]]
        )

    return _PLACE.sub(made, text)


def _rows(schema: dict[str, Any], begin: str, seen: dict[str, str], leave_out: set[str]) -> Iterator[str]:
    for key, value in schema["properties"].items():
        if key in leave_out:
            continue
        path = f"{begin}{key}"
        default = "**needed**" if key in schema["required"] else _default(value)
        yield f"| `{path}` | {_takes(value)} | {default} | {_cell(value.get('description', ''))} |"
        inside, name = _inside(value)
        if inside is None:
            continue
        text = repr(inside["properties"])
        if text in seen:
            yield f"| `{path}{name}` | mapping | | the same as in `{seen[text]}` |"
            continue
        seen[text] = f"{path}{name}"
        yield from _rows(inside, f"{path}{name}.", seen, leave_out=set())


def _inside(value: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the mapping with keys of its own that a value is or holds, and how it is reached."""
    for part in value.get("anyOf", [value]):
        if "properties" in part:
            return part, ""
        items = part.get("items")
        if isinstance(items, dict) and "properties" in items:
            return items, "[]"
        named = part.get("additionalProperties")
        if isinstance(named, dict) and "properties" in named:
            return named, ".NAME"
    return None, ""


def _takes(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(_takes(part) for part in value["anyOf"] if part != {"type": "null"})
    if "$ref" in value:
        return str(value["$ref"].rpartition("/")[2])
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"] if choice is not None)
    kinds = value.get("type", [])
    return " or ".join(
        _kind(kind, value) for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"
    ) or ("anything")


def _kind(kind: str, value: dict[str, Any]) -> str:
    if kind == "array":
        of = _takes(value.get("items", {}))
        return f"list of {_PLURALS.get(of, of)}"
    if kind == "object":
        named = value.get("additionalProperties")
        return f"mapping of names to {_takes(named)}" if isinstance(named, dict) else "mapping"
    return _WORDS[kind]


def _default(value: dict[str, Any]) -> str:
    if value.get("default") in (None, "", [], {}):
        return ""
    default = value["default"]
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
