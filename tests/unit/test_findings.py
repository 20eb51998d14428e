"""What a finding says of a server that was too slow: how far it had come, and which one is to be looked after."""

from __future__ import annotations

import pytest

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.errors import DeadlineError
from precheck_lib.findings import not_ready_for, of_error


def late(phase="head", *, received=0, peer="", seconds=2):
    error = DeadlineError(f"deadline of {seconds} s elapsed", phase=phase, seconds=seconds)
    error.received, error.peer = received, peer
    return error


def test_a_server_that_sent_nothing_began_no_answer():
    said = of_error(late(), "Ollama /tags").evidence
    assert said == "it took the request and began no answer: it hangs, or is starting"


@pytest.mark.parametrize(
    ("received", "seconds", "came"), [(7, 2, "7 bytes in 2 s"), (1, 0.25, "1 byte in 0.25 s"), (900, 10, "900 bytes")]
)
def test_a_server_that_sent_a_part_of_the_head_is_told_with_how_much_came(received, seconds, came):
    said = of_error(late(received=received, seconds=seconds), "Ollama /tags").evidence
    assert said.startswith(f"it took the request, and the head of its answer was not complete: {came}")


def test_bytes_of_a_body_are_no_part_of_the_head():
    said = of_error(late("body", received=900), "Ollama /tags").evidence
    assert said == "it began an answer and did not end it"


def test_the_remedy_of_a_deadline_names_the_server_and_where_it_is():
    found = of_error(late(peer="Ollama at http://127.0.0.1:11434"), "Ollama /tags")
    assert found.remedy.startswith("Restart Ollama at http://127.0.0.1:11434; ")


def test_the_remedy_is_the_catalogues_where_no_server_is_known():
    assert of_error(late(), "waiting").remedy == CATALOGUE["transport.deadline"].remedy


def test_a_deadline_with_a_better_name_has_the_remedy_of_that_name():
    ended = not_ready_for(late(peer="Ollama at http://127.0.0.1:11434"), "Ollama /ps", code="ollama.inventory")
    assert ended.findings[0].remedy == CATALOGUE["ollama.inventory"].remedy
