"""The one spelling of an Ollama model's name (CONTRACT G0; facts/ollama.md 1.3)."""

from __future__ import annotations

import pytest

from precheck_lib.servers.names import canonical


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama3.2", "llama3.2:latest"),
        ("llama3.2:latest", "llama3.2:latest"),
        ("LLama3.2", "llama3.2:latest"),
        ("llama3.2:LATEST", "llama3.2:latest"),
        ("llama3.2:1b", "llama3.2:1b"),
        ("library/llama3.2", "llama3.2:latest"),
        ("registry.ollama.ai/library/llama3.2", "llama3.2:latest"),
        ("Registry.Ollama.AI/Library/Llama3.2:1B", "llama3.2:1b"),
        ("registry.ollama.ai/me/foo", "me/foo:latest"),
        ("me/foo", "me/foo:latest"),
        ("me/foo:q4", "me/foo:q4"),
        ("hf.co/u/R-GGUF:Q4_K_M", "hf.co/u/r-gguf:q4_k_m"),
        ("hf.co/u/R-GGUF", "hf.co/u/r-gguf:latest"),
        ("localhost:5000/me/foo", "localhost:5000/me/foo:latest"),
        ("localhost:5000/me/foo:1b", "localhost:5000/me/foo:1b"),
        ("  qwen3:8b\n", "qwen3:8b"),
    ],
)
def test_a_name_has_one_spelling(name: str, expected: str) -> None:
    assert canonical(name) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("qwen3:8b", "qwen3"),
        ("qwen3:8b", "qwen3:8"),
        ("me/qwen3", "qwen3"),
        ("hf.co/library/qwen3", "qwen3"),
        ("mylibrary/qwen3", "qwen3"),
        ("gpt-oss:20b", "gpt_oss:20b"),
        ("other.registry.ai/library/qwen3", "qwen3"),
    ],
)
def test_names_of_different_models_stay_different(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)
