"""The run itself: its spec, its budget, its end and its reports."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

ENTRIES = {
    # The run itself --------------------------------------------------------------------------------------------
    "run.budget": Entry(
        "The run's own budget was used up.",
        ("the budget is too small for this machine", "an earlier check was slow"),
        "Give the run more time (--budget, the action's input `budget`); `plan` says what it needs.",
        "spec",
        retryable=True,
    ),
    "wait.unstable": Entry(
        "A check was right, but not as often in a row as the spec wants, when the time to wait was over.",
        ("the server is still starting", "it restarts again and again", "`stable` is too large for `for`"),
        "See in the server's log whether it keeps restarting; give `wait` more time.",
        "host",
        retryable=True,
    ),
    "run.cancelled": Entry(
        "The run was ended by a signal.",
        ("the job was cancelled", "the runner was stopped"),
        "Run it again.",
        "job",
        retryable=True,
    ),
    "run.unconfirmed": Entry(
        "What this run had loaded may still be resident.",
        ("the server did not answer during cleanup", "a second signal ended the cleanup"),
        "Look at `ollama ps` on this machine and stop the model.",
    ),
    "run.stuck": Entry(
        "A call into a driver or a file system did not come back; the process that made it was ended.",
        ("a hung driver", "a dead mount", "an overloaded machine"),
        "Make the call by hand on this machine (for a driver: its own tool) and see whether it hangs.",
        retryable=True,
    ),
    "run.broken": Entry(
        "A call that is made in a process of its own broke there.",
        ("a crash in a driver's library", "a library that does not fit the driver", "a fault in precheck"),
        "Make the call by hand on this machine (for a driver: its own tool) and see whether it fails there too.",
    ),
    "run.held": Entry(
        "The kernel did not let a child process go.",
        ("a hung driver", "a dead mount"),
        "The machine probably needs a reboot.",
    ),
    "run.internal": Entry(
        "precheck itself failed; nothing is known about the machine.",
        ("a fault in precheck",),
        "Report it with the JSON report; it is not the machine's fault.",
        "spec",
    ),
    "report.unwritable": Entry(
        "A report could not be written, so the run does not count as passed.",
        ("a full disk", "no permission", "a folder in the way"),
        "Make the place writable or name another one.",
        "job",
    ),
    "spec.changed-here": Entry(
        "A pull request changes the spec that its own run is measured by.",
        ("a change of what the tests need", "somebody makes the gate pass by asking for less"),
        "Review that change as you would one of the workflow; `spec-ref: base` runs the base commit's spec instead.",
        "job",
    ),
    "spec.nothing-checked": Entry(
        "No check was meant for this machine: every `when` of the spec is unmet.",
        ("the variable that a `when` names is not set here", "its value is another one"),
        "Set the variable for this job, or add a check without `when`.",
        "spec",
    ),
    "spec.invalid": Entry(
        "The spec cannot be used.",
        ("a typing error", "a key of another version of precheck"),
        "Correct the spec at the named line.",
        "spec",
    ),
    "usage": Entry(
        "The command line cannot be used.",
        ("a typing error", "a spec that does not exist"),
        "See `precheck --help`.",
        "job",
    ),
}
