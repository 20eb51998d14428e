"""What a fault may be told, checked before a server starts: a wrong option is no exception in a thread later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from precheck_lib.simulate.faults import Fault

MOST_SECONDS = 86400
"""The longest pause or wait that can be asked for: a day."""

STEPS: dict[str, tuple[str, ...]] = {
    "codex": ("initialize", "account/read", "mcpServerStatus/list"),
    "opencode": (
        "/global/health",
        "/experimental/capabilities",
        "/config",
        "/config/providers",
        "/provider",
        "/api/health",
        "/global/config",
        "/",
    ),
    "ollama": ("version", "tags", "ps", "unload", "load", "generate", "show", "/"),
    "openai": ("models", "chat", "completions", "/health", "/props"),
}
"""What `at` can name, by server: the steps that a client takes there."""

_AFTER = ("unload", "load", "always")


def meant(name: object, known: Iterable[str]) -> str:
    """Say what may have been meant by a name that is none: `; did you mean a or b?`, or nothing."""
    import difflib

    by_case = {one.lower(): one for one in known}
    near = [by_case[one] for one in difflib.get_close_matches(str(name).lower(), by_case, n=3)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def seconds(name: str, value: object) -> float:
    """Give a pause or a wait; raises `TypeError` for what is no number and `ValueError` for one that cannot be."""
    right = f"a number of seconds from 0 to {MOST_SECONDS}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}={value!r} is not {right}")
    if not 0 <= value <= MOST_SECONDS:
        raise ValueError(f"{name}={value!r} is not {right}")
    return value


def count(name: str, value: object, most: int | None = None) -> int:
    """Give a number of things; raises as `seconds` does."""
    right = "a whole number of at least 0" if most is None else f"a whole number from 0 to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}={value!r} is not {right}")
    if value < 0 or (most is not None and value > most):
        raise ValueError(f"{name}={value!r} is not {right}")
    return value


def flag(name: str, value: object) -> bool:
    """Give a yes or no; raises `TypeError` for anything else."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is neither true nor false")
    return value


def text(name: str, value: object) -> str:
    """Give a text; raises `TypeError` for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r} is not text")
    return value


def check(fault: Fault, given: Mapping[str, Any]) -> None:
    """Check options of a stand-in's fault; their names are known to be right."""
    steps = STEPS[fault.server] if fault.where != "handshake" else ("handshake",)
    for name, value in given.items():
        try:
            _check(steps, name, value, fault.options[name])
        except (TypeError, ValueError) as error:
            raise type(error)(f"{fault.server}={fault.name}: {error}") from None


def _check(steps: tuple[str, ...], name: str, value: object, default: object) -> None:
    if name == "value":  # of a configuration: anything that is JSON
        return
    if name in ("at", "model", "times") and value is None:
        return
    if name == "at":
        one_of(name, text(name, value), steps)
    elif name == "after":
        one_of(name, text(name, value), _AFTER)
    elif name == "code":  # of JSON-RPC: its numbers are negative
        count(name, abs(value) if type(value) is int else value)
    elif name == "times" or type(default) is int:
        count(name, value, {"percent": 100, "status": 999}.get(name))
    elif type(default) is bool:
        flag(name, value)
    elif type(default) is float:
        seconds(name, value)
    elif type(default) is tuple:
        _texts(name, value)
    else:
        text(name, value)


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse what is none of the known ones, with all of them and with what may have been meant."""
    if value not in known:
        raise ValueError(f"{name}={value!r} is none of {', '.join(known)}{meant(value, known)}")


def _texts(name: str, value: object) -> None:
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(one, str) for one in value):
        raise TypeError(f"{name}={value!r} is not a list of texts")


__all__ = ["MOST_SECONDS", "STEPS", "check", "count", "flag", "meant", "one_of", "seconds", "text"]
