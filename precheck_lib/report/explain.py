"""Explaining a finding: what it means, what usually causes it, what to do, and who can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.catalogue import Entry

WHO = {
    "job": "the author of the job (workflow, secrets)",
    "spec": "the author of the spec",
    "host": "the owner of the machine",
}
_WIDTH = 80


def explain_lines(code: str) -> list[str]:
    """Return the explanation of a code of the catalogue as lines for a terminal of 80 columns."""
    entry = CATALOGUE[code]
    return [
        *_wrapped(f"{code}: ", entry.meaning, "  "),
        "",
        "usual causes, the likeliest first:",
        *(line for cause in entry.causes for line in _wrapped("  - ", cause, "    ")),
        "",
        *_wrapped("what to do: ", entry.remedy, "  "),
        *_wrapped("who can do it: ", WHO[entry.who], "  "),
        *_wrapped("retry: ", _retry(entry), "  "),
    ]


def _wrapped(begin: str, text: str, indent: str) -> list[str]:
    import textwrap

    # A command or a path has to stay whole, so that it can be copied.
    return textwrap.wrap(begin + text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _retry(entry: Entry) -> str:
    if entry.retryable:
        return "the same job may pass, once the machine is mended or free again"
    return "of no use before something is changed"


def catalogue_page() -> Iterator[str]:
    """Yield the lines of the catalogue in Markdown, a section for each code."""
    for code, entry in CATALOGUE.items():
        yield from (f"### `{code}`", "", entry.meaning, "", "Usual causes, the likeliest first:", "")
        yield from (f"- {cause}" for cause in entry.causes)
        yield from ("", f"**What to do:** {entry.remedy}", "")
        yield from (f"**Who can:** {WHO[entry.who]}. **A retry:** {_retry(entry)}.", "")
