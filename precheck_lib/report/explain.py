"""Explaining a finding: what it means, what usually causes it, what to do, and who can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precheck_lib.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator

WHO = {
    "job": "the author of the job (workflow, secrets)",
    "spec": "the author of the spec",
    "host": "the owner of the machine",
}


def explain_lines(code: str) -> list[str]:
    """Return the explanation of a code of the catalogue as lines for a terminal."""
    entry = CATALOGUE[code]
    return [
        f"{code}: {entry.meaning}",
        "",
        "usual causes, the likeliest first:",
        *(f"  - {cause}" for cause in entry.causes),
        "",
        f"what to do: {entry.remedy}",
        f"who can do it: {WHO[entry.who]}",
        f"retry: {'the same job may pass later without a change' if entry.retryable else 'of no use before that'}",
    ]


def catalogue_page() -> Iterator[str]:
    """Yield the lines of the catalogue in Markdown, a section for each code."""
    for code, entry in CATALOGUE.items():
        yield f"### `{code}`"
        yield ""
        yield entry.meaning
        yield ""
        yield "Usual causes, the likeliest first:"
        yield ""
        yield from (f"- {cause}" for cause in entry.causes)
        yield ""
        retry = "the same job may pass later without a change" if entry.retryable else "of no use before that"
        yield f"What to do: {entry.remedy} Who can: {WHO[entry.who]}. A retry: {retry}."
        yield ""
