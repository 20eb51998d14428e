"""What a spec file may say around the options of its checks: the head, the frame of a check, `wait`.

The descriptions are for whoever writes a spec: an editor shows them by way of the JSON Schema, docs/spec.md in tables.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from precheck_lib.spec.model import When  # noqa: TC001 - read when a struct is made
from precheck_lib.units import Seconds  # noqa: TC001 - the same

ID = r"[a-z0-9][a-z0-9_.-]{0,63}"
IS_ID = re.compile(rf"{ID}\Z").match


class Head(msgspec.Struct, frozen=True):
    """A spec: what this machine must be able to do."""

    version: Annotated[Literal[1], Meta(description="The version of the format.")]
    name: Annotated[str, Meta(description="What the spec is called in reports.")]
    checks: Annotated[
        list[Any],
        Meta(
            description="What has to be right. Checks that only read run at the same time; one that changes a server "
            "runs after all of them have passed.",
            min_length=1,
        ),
    ]
    success: Annotated[
        str | None, Meta(description="The line that is printed when all is right; without it `NAME: ready`.")
    ] = None
    budget: Annotated[
        Seconds | None,
        Meta(description="What the whole run may take, cleanup and reports included; without it the sum of its parts."),
    ] = None
    pins: Annotated[
        str | None,
        Meta(
            description="A file of pinned versions, relative to the spec, with lines such as ``- Ollama: `v0.12.3` ``; "
            "`${pin:Ollama}` is the version then, without its `v`."
        ),
    ] = None
    exit_codes: Annotated[
        Literal["plain", "curl"],
        Meta(description="`curl`: faults of transport end with curl's exit codes (7, 22, 28, ...) in place of 3."),
    ] = "plain"
    fail_fast: Annotated[
        bool, Meta(description="Run one check after the other and end with the first that does not pass.")
    ] = False


class WaitShape(msgspec.Struct, frozen=True):
    """Ask again and again, until it was right, or the time is over; each attempt takes 1 s at most."""

    for_: Annotated[Seconds, Meta(description="For how long, such as `60s`.")] = msgspec.field(name="for")
    stable: Annotated[int, Meta(description="How often in a row it has to be right.", ge=1)] = 1


class Frame(msgspec.Struct, frozen=True):
    """A check: an `id`, exactly one kind with its options, and what is said around it."""

    id: Annotated[
        str,
        Meta(
            description="Its name in reports and in `needs`: lower-case letters, digits, `-`, `_` and `.`, at most 64.",
            pattern=f"^{ID}$",
        ),
    ]
    title: Annotated[str, Meta(description="What it proves, in a few words; without it the id.")] = ""
    needs: Annotated[
        list[str], Meta(description="Checks that have to pass before this one starts; they stand before it.")
    ] = []
    budget: Annotated[
        Seconds | None, Meta(description="What it may take; without it what its kind usually needs, or its `wait`.")
    ] = None
    wait: Annotated[
        WaitShape | None,
        Meta(description="Ask again and again until it is right: for what starts. Not for a check that changes."),
    ] = None
    severity: Annotated[
        Literal["error", "warning"],
        Meta(description="`warning`: where it is not right the run says so and goes on, and may still be ready."),
    ] = "error"
    when: Annotated[
        When | None, Meta(description="Run it only where this holds; else it is skipped, and keeps nothing back.")
    ] = None
