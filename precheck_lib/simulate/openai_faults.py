"""The faults that are the own ones of a server of OpenAI's API: name, what it is, where it acts, its options."""

from __future__ import annotations

from typing import Any

_COUNTED: dict[str, Any] = {"skip": 0, "times": None}
_STEP: dict[str, Any] = {"at": None, **_COUNTED}

OPENAI: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("loading-503", "The model is still being loaded, and every answer says so.", "every answer", _STEP),
    ("unauthorized", "Every request is 401 whatever its key.", "every answer", _STEP),
    ("html-page", "A web page answers with 200.", "every answer", _STEP),
    ("no-models", "The list of models is empty.", "models", {}),
    ("models-null", "The list of models is none.", "models", {}),
    ("model-without-id", "An entry of the list has no name.", "models", {}),
    ("model-missing", "A model is not served.", "every answer", {"model": None}),
    ("model-404", "A model is listed and not found by a completion.", "chat, completions", _COUNTED),
    ("not-loaded-404", "No model is loaded and none may be, as LM Studio says it.", "chat, completions", _COUNTED),
    ("load-fails-500", "The model cannot be loaded, as LocalAI says it.", "chat, completions", _COUNTED),
    ("engine-dead-500", "The engine is dead: models are listed, completions are 500.", "chat, completions", _COUNTED),
    ("engine-hangs", "The engine hangs: models are listed, completions never come.", "chat, completions", _COUNTED),
    ("slow-token", "A completion takes a while.", "chat, completions", {"seconds": 1.0, **_COUNTED}),
    ("no-chat-route", "There is no /chat/completions.", "chat", {}),
    ("no-chat-template", "The model has no chat template.", "chat", {}),
    ("no-completions", "There are no completions at all.", "chat, completions", {}),
    ("empty-choices", "A completion has no choices.", "chat, completions", _COUNTED),
    ("choices-null", "The choices of a completion are null.", "chat, completions", _COUNTED),
    ("choice-without-message", "A choice has neither message nor text.", "chat, completions", _COUNTED),
    ("error-200", "A completion is 200 with an error.", "chat, completions", _COUNTED),
    ("aborted", "A completion ends with finish_reason abort.", "chat, completions", _COUNTED),
    ("reasoning-only", "One token leaves a thought and content null; it is a right answer.", "chat", {}),
    ("empty-content", "The one token is no text; it is a right answer.", "chat, completions", {}),
)
"""In the order of a check; the last two a check has to take for right, as it has to when a way of asking is missing."""
