"""What the job gives: variables and programs."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

ENTRIES = {
    # Roles -----------------------------------------------------------------------------------------------------
    "roles.missing": Entry(
        "Environment variables that the tests need are not set, or are empty.",
        (
            "a secret is not defined for this repository or environment (GitHub then passes an empty string)",
            "the job does not pass the variable to this step with `env:`",
            "a fork's pull request, which gets no secrets",
        ),
        "Set them with `env:` on the step or the job, or with `--env-file`; those of the strict spec are explained in "
        "specs/strict-tests.env.example.",
        "job",
    ),
    "roles.pair": Entry(
        "Of variables that only make sense together, some are set and some are not.",
        ("one of two secrets is missing or empty",),
        "Set all of them, or none.",
        "job",
    ),
    "roles.malformed": Entry(
        "An environment variable is set, but its value cannot be right.",
        (
            "a value pasted with quotes, a line end or an invisible character",
            "a URL without scheme, or with credentials in it",
            "JSON with comments (JSONC) where JSON is needed",
        ),
        "Correct the value where it is defined; the message names the variable and what is wrong with it.",
        "job",
    ),
    # Commands --------------------------------------------------------------------------------------------------
    "command.missing": Entry(
        "A program that the tests run is not on PATH.",
        ("the release was never downloaded on this machine", "PATH is not set for this step"),
        "Install the pinned release and put its folder first on PATH.",
    ),
    "command.unusable": Entry(
        "What bears the program's name on PATH cannot be run on this machine.",
        (
            "no execute permission",
            "an interpreter or loader that is not installed",
            "a release for another system or processor",
            "a folder in its place",
        ),
        "Install the pinned release for this machine anew, or take what is in its place off PATH.",
    ),
    "command.version": Entry(
        "A program on PATH is not the pinned version.",
        ("another installation comes first on PATH", "the machine was not updated when the pin moved"),
        "Install the pinned version or put its folder first on PATH.",
    ),
    "command.output": Entry(
        "A program ended well and printed something else than it has to.",
        ("another version of the program", "the pattern in the spec does not fit what this version prints"),
        "Run the command by hand on this machine and compare what it prints with the spec.",
    ),
    "command.silent": Entry(
        "A program ended well and printed nothing, where one line was expected.",
        (
            "it prints on stderr only",
            "it wants a terminal or something on stdin, and finds neither",
            "a wrapper that swallows the output",
        ),
        "Run the command by hand on this machine, with `</dev/null`, and see what it prints.",
    ),
    "command.flood": Entry(
        "A program printed on and on, where one line was expected, and was ended.",
        ("another program of the same name comes first on PATH", "a wrapper that calls itself"),
        "Run the command by hand on this machine and see what it is.",
    ),
    "command.failed": Entry(
        "A program could be started but did not end as it has to: with another exit status.",
        ("a broken installation", "a missing library or interpreter"),
        "Run the command by hand on this machine and mend the installation.",
    ),
    "command.signal": Entry(
        "A program was ended by a signal before it could answer.",
        ("a crash of the program", "the kernel's memory killer or a limit of this job", "somebody who ended it"),
        "Run the command by hand on this machine; for SIGKILL look into the kernel's log for its memory killer.",
    ),
    "command.deadline": Entry(
        "A program did not end in its time; it and all that it started were ended.",
        ("an overloaded machine", "a program that waits for the network", "a dead mount on its path"),
        "Run the command by hand on this machine and see what it waits for.",
        retryable=True,
    ),
    "command.leftover": Entry(
        "A program ended well but left processes behind, which were ended.",
        ("a version command that starts a helper in the background",),
        "Nothing has to be done for this run; look at what the command starts.",
    ),
}
