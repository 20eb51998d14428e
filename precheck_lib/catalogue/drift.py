"""What has changed since the machine was found ready: for a run that verifies an earlier one."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

_TRUST = (
    "Do not trust the result of this job's tests, red or green; find out who changed the machine, and run the job anew."
)

ENTRIES = {
    "drift.version": Entry(
        "A server or a program has another version than when the machine was found ready.",
        ("it was updated while the job ran", "the tests installed or started another one"),
        _TRUST,
    ),
    "drift.process": Entry(
        "A server was started anew since the machine was found ready.",
        (
            "it crashed and was started again",
            "an update or its owner restarted it",
            "another job started one of its own",
        ),
        "Read the server's log around its start; do not trust the result of this job's tests, and run the job anew.",
        retryable=True,
    ),
    "drift.digest": Entry(
        "A model has other weights under its name than when the machine was found ready.",
        ("it was pulled or made anew while the job ran",),
        _TRUST,
    ),
    "drift.context": Entry(
        "A model has another context length than when the machine was found ready.",
        ("a request with `num_ctx` made the server load it again", "the server was restarted with other settings"),
        "Ask for the same context in every request and in the server's settings; run the job anew.",
        retryable=True,
    ),
    "drift.memory": Entry(
        "A model holds more GPU memory than when the machine was found ready.",
        ("it was loaded again with a larger context or for more requests at once",),
        "See to it that nothing else on this host asks the server for other settings while the job runs.",
    ),
    "drift.unseen": Entry(
        "Something was seen when the machine was found ready and cannot be seen now.",
        ("another user runs the server now", "the server tells less than it did"),
        "Run verify as the user that ran precheck, with the same spec; else treat the machine as changed.",
    ),
}
