"""The one spelling of an Ollama model's name."""

from __future__ import annotations


def canonical(name: str) -> str:
    """Return the one spelling of a model's name: default host and `library/` dropped, `:latest` added, case folded."""
    folded = name.strip().casefold()
    for prefix in ("https://", "http://", "registry.ollama.ai/", "library/"):
        folded = folded.removeprefix(prefix)
    return folded if ":" in folded.rpartition("/")[2] else f"{folded}:latest"
