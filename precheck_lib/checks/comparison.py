"""What a JSON document has to hold, and where it does not: for checks that compare the answer of a server.

Wanted is plain data. A mapping asks for its keys and allows more; a list asks that each of its elements fits some
element of the list that was found, in any order (two may fit the same one); anything else has to be the same value. A
mapping whose keys are all of `OPERATORS` compares: `{ge: 65536, lt: 200000}`.

Types count: `true` is not 1, and 1.0 is not 1. A bound that is a whole number is met by whole numbers only, one with a
decimal point by both. Values that were found are shown cut short, and strings below a key that sounds secret not at
all.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from precheck_lib.redact import without_credentials
from precheck_lib.servers.words import short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Path = tuple[Any, ...]

OPERATORS = ("eq", "ne", "lt", "le", "gt", "ge", "in", "match")
"""What a value can be compared by; several of one mapping have to hold together."""

_ORDER: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "lt": ("less than", lambda found, bound: bool(found < bound)),
    "le": ("at most", lambda found, bound: bool(found <= bound)),
    "gt": ("more than", lambda found, bound: bool(found > bound)),
    "ge": ("at least", lambda found, bound: bool(found >= bound)),
}
_NEARLY = {"gte": "ge", "lte": "le", "neq": "ne", "regex": "match", "matches": "match", "one_of": "in"}
_SECRET_KEY = re.compile(
    r"(?:key|passw(?:or)?d|passphrase|secret|token|authorization|credential|cookie)s?\Z", re.IGNORECASE
)
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_NAMING = ("id", "name", "model", "key")
_MOST_MATCHED = 4096
_MOST_SHOWN = 80
_ABSENT = object()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One place where a document is not as wanted; `weight` is how much of what was wanted is missing with it."""

    path: str
    text: str
    evidence: str = ""
    weight: int = 1


def problems(wanted: Any, path: Path = (), *, expanded: bool = False) -> Iterator[tuple[Path, str]]:
    """Say what cannot be meant in what is wanted; before it is `expanded`, text with `${` in it may be anything."""
    if _is_comparison(wanted):
        for operator, operand in wanted.items():
            if text := _no_operand(operator, operand, expanded=expanded):
                yield (*path, operator), text
    elif isinstance(wanted, dict):
        odd = [key for key in wanted if key in _NEARLY]
        # `{regex: x}` may be the key of a document; beside a comparison, or as all there is of bounds, it is a slip.
        if odd and all(key in _NEARLY or key in OPERATORS for key in wanted):
            yield (*path, odd[0]), f"{odd[0]}: there is no such comparison; did you mean {_NEARLY[odd[0]]!r}?"
            return
        for key, part in wanted.items():
            yield from problems(part, (*path, key), expanded=expanded)
    elif isinstance(wanted, list):
        for index, part in enumerate(wanted):
            yield from problems(part, (*path, index), expanded=expanded)


def _no_operand(operator: str, operand: Any, *, expanded: bool) -> str:
    if not expanded and isinstance(operand, str) and "${" in operand:
        return ""
    if operator in _ORDER and type(operand) not in (int, float):
        return f"{operator}: a number is needed (of a variable `${{NAME#}}`, which reads it as JSON)"
    if operator == "in" and not (isinstance(operand, list) and operand):
        return "in: a list of the allowed values is needed"
    if operator == "match":
        if not isinstance(operand, str):
            return "match: a regular expression is needed"
        try:
            re.compile(operand)
        except (re.error, OverflowError, RecursionError) as error:
            return f"match: {operand[:_MOST_SHOWN]!r} is not a regular expression: {error}"
    return ""


def differences(wanted: Any, found: Any, path: str = "") -> list[Difference]:
    """Return where `found` is not as wanted; `path` is the JSON pointer to it."""
    if _is_comparison(wanted):
        return [
            _differs(path, found, needed)
            for operator, operand in wanted.items()
            if (needed := _unmet(operator, operand, found, path)) is not None
        ]
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [_differs(path, found, "an object", weight=_leaves(wanted))]
        made = []
        for key, part in wanted.items():
            made += _below(part, found.get(key, _ABSENT), f"{path}/{_escaped(key)}")
        return made
    if isinstance(wanted, list):
        if not isinstance(found, list):
            return [_differs(path, found, "a list", weight=_leaves(wanted))]
        return [one for part in wanted for one in _among(part, found, path)]
    return [] if same(wanted, found) else [_differs(path, found, shown(wanted, path))]


def same(left: Any, right: Any) -> bool:
    """Say whether two values are the same JSON: `true` is not 1, and 1.0 is not 1."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict) and left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def is_there(document: Any, place: str) -> Any:
    """Return `(value,)` of what is at a JSON pointer, or at a key of the outermost object; `()` where nothing is."""
    for step in place.split("/")[1:] if place.startswith("/") else [place.replace("~", "~0").replace("/", "~1")]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and _INDEX.match(key) and int(key) < len(document):
            document = document[int(key)]
        else:
            return ()
    return (document,)


def shown(value: Any, path: str = "") -> str:
    """Show a value cut short; of lists and objects only what they are, of a string at a secret key only that."""
    if isinstance(value, str):
        secret = any(_SECRET_KEY.search(step) for step in path.split("/"))
        return "a string that is not shown" if secret else short(value, _MOST_SHOWN)
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value) if value is None or isinstance(value, (bool, float)) else str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _is_comparison(wanted: Any) -> bool:
    return isinstance(wanted, dict) and bool(wanted) and all(key in OPERATORS for key in wanted)


def _below(wanted: Any, found: Any, path: str) -> list[Difference]:
    if found is not _ABSENT:
        return differences(wanted, found, path)
    text = f"{path} is missing, {_described(wanted, path)} is needed"
    return [Difference(path=path, text=text, weight=_leaves(wanted))]


def _unmet(operator: str, operand: Any, found: Any, path: str) -> str | None:
    """Say what is needed by one comparison that does not hold; `None` where it does."""
    if _holds(operator, operand, found):
        return None
    words = _words(operator, operand, path)
    if operator in _ORDER and type(operand) is int and type(found) is float:
        return f"{words} as a whole number"
    if operator == "match" and isinstance(found, str) and len(found) > _MOST_MATCHED:
        return f"{words} and has at most {_MOST_MATCHED} characters"
    return words


def _holds(operator: str, operand: Any, found: Any) -> bool:
    if operator in _ORDER:
        kinds = (int,) if type(operand) is int else (int, float)
        return type(found) in kinds and _ORDER[operator][1](found, operand)
    if operator == "in":
        return any(same(allowed, found) for allowed in operand)
    if operator == "match":
        # Nothing ends a match from outside, and with its square a long text would take very long.
        return isinstance(found, str) and len(found) <= _MOST_MATCHED and re.fullmatch(operand, found) is not None
    return same(operand, found) is (operator == "eq")


def _among(wanted: Any, found: list[Any], path: str) -> list[Difference]:
    """Look for an element that fits; where none does, say what the nearest one lacks."""
    nearest: list[Difference] | None = None
    for index, element in enumerate(found):
        made = differences(wanted, element, f"{path}/{index}")
        if not made:
            return []
        if nearest is None or _distance(made) < _distance(nearest):
            nearest = made
    if nearest is not None and (len(found) == 1 or _weight(nearest) < _leaves(wanted)):
        evidence = f"the nearest of {len(found)} elements" if len(found) > 1 else ""
        return [msgspec.structs.replace(one, evidence=one.evidence or evidence) for one in nearest]
    text = f"{path or 'the document'} has {len(found)} elements and none that is {_described(wanted, path)}"
    return [Difference(path=path, text=text, weight=_leaves(wanted))]


def _weight(made: list[Difference]) -> int:
    return sum(one.weight for one in made)


def _distance(made: list[Difference]) -> tuple[int, bool]:
    """Order elements by how far they are from what is wanted; of two alike one of the same name is nearer."""
    return _weight(made), any(one.path.rpartition("/")[2] in _NAMING for one in made)


def _leaves(wanted: Any) -> int:
    """Count what is asked for, so that a nearest element can be told from one that has nothing of it."""
    if _is_comparison(wanted):
        return len(wanted)
    parts = wanted.values() if isinstance(wanted, dict) else wanted if isinstance(wanted, list) else ()
    return sum(map(_leaves, parts)) or 1


def _differs(path: str, found: Any, needed: str, *, weight: int = 1) -> Difference:
    text = f"{path or 'the document'} is {shown(found, path)}, {needed} is needed"
    return Difference(path=path, text=text, weight=weight)


def _described(wanted: Any, path: str) -> str:
    """Write what is wanted in a few words."""
    if _is_comparison(wanted):
        return " and ".join(_words(operator, operand, path) for operator, operand in wanted.items())
    if isinstance(wanted, (dict, list)) and wanted:
        return _cut(without_credentials(json.dumps(_hidden(wanted, path), ensure_ascii=False, default=str)))
    return shown(wanted, path)


def _words(operator: str, operand: Any, path: str) -> str:
    if operator in _ORDER:
        return f"{_ORDER[operator][0]} {shown(operand)}"
    if operator == "in":
        return "one of " + _cut(", ".join(shown(allowed, path) for allowed in operand))
    if operator == "match":
        return f"a text that matches {short(operand)}"
    return f"{'exactly' if operator == 'eq' else 'anything but'} {_described(operand, path)}"


def _hidden(wanted: Any, path: str) -> Any:
    if isinstance(wanted, dict):
        return {key: _hidden(part, f"{path}/{key}") for key, part in wanted.items()}
    if isinstance(wanted, list):
        return [_hidden(part, path) for part in wanted]
    secret = isinstance(wanted, str) and any(_SECRET_KEY.search(step) for step in path.split("/"))
    return "***" if secret else wanted


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _escaped(key: Any) -> str:
    """Write a key as a step of a JSON pointer; it comes from the spec."""
    return str(key).replace("~", "~0").replace("/", "~1")


__all__ = ["OPERATORS", "Difference", "differences", "is_there", "problems", "same", "shown"]
