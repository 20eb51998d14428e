"""Text of strangers made fit to stand in a spec: as YAML, or as a comment.

What a server, a program or the environment has said goes into YAML only where it is harmless as it is, written by
YAML's own writer, with `$` doubled where a spec would read a variable; and into comments only as `clean` makes it.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from precheck_lib.report.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WIDTH, _MOST_NAME, _MOST_NAMED = 118, 100, 8


def scalar(text: str) -> str:
    """Write a text as YAML's own writer does, so that it is read back as that text, inside of brackets as well."""
    import yaml

    written: str = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=1 << 20)
    return written.strip()[1:-1]


def option(text: str) -> str:
    """Write a text as an option of a check, where `$` could begin a variable."""
    return scalar(text.replace("$", "$$"))


class Page:
    """The lines of the checks of a spec. A text of a stranger stands on it only as it is `usable`, or `shown`.

    `hide` takes what is secret out of a text.
    """

    def __init__(self, hide: Callable[[str], str]) -> None:
        self.lines: list[str] = []
        self._hide = hide

    def is_usable(self, text: str) -> bool:
        """Say whether a text can be written as it is: short, nothing in it that is unseen, and no secret."""
        return bool(text) and self._hide(text) == text == clean(text, _MOST_NAME)

    def shown(self, text: str) -> str:
        """Return a text as a comment shows it."""
        return clean(self._hide(text), _MOST_NAME)

    def named(self, texts: Iterable[str]) -> str:
        """Return the first few of some names as a comment shows them."""
        every = list(texts)
        more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
        return ", ".join(map(self.shown, every[:_MOST_NAMED])) + more

    def usable(self, names: Iterable[str], what: str) -> list[str]:
        """Return the names that can be written, each once; says of the others that they are left out."""
        every = list(dict.fromkeys(names))
        left_out = [name for name in every if not self.is_usable(name)]
        if left_out:
            self.odd(f"{what} has names that no spec should hold, and they are left out: {self.named(left_out)}")
        return [name for name in every if name not in left_out]

    def comment(self, text: str) -> None:
        """Write a comment, on as many lines as it needs."""
        edge = "  # "
        self.lines += textwrap.wrap(
            text, _WIDTH, initial_indent=edge, subsequent_indent=edge, break_long_words=False, break_on_hyphens=False
        )

    def odd(self, text: str) -> None:
        """Write what is not as it should be."""
        self.comment(f"odd today: {text}")

    def check(self, id_: str, title: str, *lines: str, needs: str | None = None) -> None:
        """Write a check."""
        needed = [] if needs is None else [f"needs: [{needs}]"]
        self.lines += [f"  - id: {id_}", *(f"    {line}" for line in (f"title: {title}", *needed, *lines))]

    def example(self, text: str, *lines: str) -> None:
        """Write a check that is commented out, below what is said of it."""
        self.comment(text)
        self.lines += [f"  # {line}" for line in lines]


__all__ = ["Page", "option", "scalar"]
