"""Secrets in argument lists: everybody on a machine can read those of every program that runs (DESIGN, rule R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precheck_lib.checks.env import EnvOptions
from precheck_lib.redact import SECRET_NAME
from precheck_lib.spec.variables import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from precheck_lib.spec.model import CheckSpec
    from precheck_lib.spec.yaml_text import Path


def secret_roles(checks: Iterable[CheckSpec]) -> set[str]:
    """Return the variables that the `env` checks of a spec call secret."""
    found: set[str] = set()
    for check in checks:
        if isinstance(check.options, EnvOptions):
            roles = {**check.options.optional, **check.options.required}
            found |= {name for name, role in roles.items() if role.secret}
    return found


def exposed(value: Any, path: Path, secret: set[str]) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with the argument lists (`argv`) in the options of a check, each with its path."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "argv" and isinstance(part, list):
                for index, argument in enumerate(part):
                    for name in dict.fromkeys(names(argument)):
                        if name in secret or SECRET_NAME.search(name):
                            yield (*path, key, index), _text(name)
            else:
                yield from exposed(part, (*path, key), secret)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from exposed(part, (*path, index), secret)


def _text(name: str) -> str:
    return (
        f"{name} is secret and cannot be an argument, which everybody on the machine can read while the program runs; "
        "have the program read it from a file, or ask the server with a kind that sends it in a header"
    )
