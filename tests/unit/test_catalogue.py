"""The catalogue of findings and the code agree: every code that is used is in it, and every one in it is used."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from precheck_lib import errors
from precheck_lib.catalogue import CATALOGUE, agents, drift, given, gpu, machine, models, run, transport
from precheck_lib.findings import NotReadyError, make, not_ready, not_ready_for, of_error
from precheck_lib.outcome import Who

PACKAGE = Path(__file__).resolve().parents[2] / "precheck_lib"
MAKERS = {"make", "not_ready"}


def trees():
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.parent.name != "catalogue":
            yield file.relative_to(PACKAGE), ast.parse(file.read_text(encoding="utf-8"))


def texts(node):
    """The texts that an expression can be: `"a" if x else "b"` is both."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    return []


def codes_given():
    """Where a code is given: the first argument of the makers, and every `code=`."""
    for file, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = node.args[:1] if name in MAKERS else []
            given = given + [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            for code in (text for one in given for text in texts(one)):
                yield f"{file}:{node.lineno}", code


def test_no_code_is_in_two_parts_of_the_catalogue():
    assert len(CATALOGUE) == sum(
        len(part.ENTRIES) for part in (given, machine, gpu, transport, agents, models, drift, run)
    )


def test_every_code_that_is_given_is_in_the_catalogue():
    given = list(codes_given())
    assert len(given) > 40
    assert [(where, code) for where, code in given if code not in CATALOGUE] == []


def test_every_text_that_looks_like_a_code_is_in_the_catalogue():
    rooms = {code.partition(".")[0] for code in CATALOGUE} - {
        "report",
        "spec",
        "usage",
    }  # which are names of files and properties too
    code = re.compile(rf"({'|'.join(rooms)})\.[a-z][a-z-]*")
    found = [
        (str(file), node.lineno, node.value)
        for file, tree in trees()
        if not str(file).startswith("simulate")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and code.fullmatch(node.value)
    ]
    assert [one for one in found if one[2] not in CATALOGUE] == []


def test_every_entry_is_used():
    used = {
        node.value
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(set(CATALOGUE) - used) == []


def test_codes_have_the_shape_that_scripts_rely_on():
    assert [code for code in CATALOGUE if not re.fullmatch(r"[a-z]+(\.[a-z]+(-[a-z]+)*)?", code)] == []


def is_sentence(text):
    return re.fullmatch(r"[A-Zp`].*[^.]\.", text) is not None and "  " not in text


@pytest.mark.parametrize("field", ["meaning", "remedy"])
def test_meanings_and_remedies_are_sentences(field):
    texts_of = {code: getattr(entry, field) for code, entry in CATALOGUE.items()}
    assert {code: text for code, text in texts_of.items() if not is_sentence(text)} == {}


def test_every_entry_has_causes_each_said_once_and_as_part_of_a_list():
    for code, entry in CATALOGUE.items():
        assert entry.causes, code
        assert len(set(entry.causes)) == len(entry.causes), code
        for cause in entry.causes:
            assert cause == cause.strip() != "", code
            assert not cause.endswith("."), code


def test_every_entry_says_who_can_act():
    assert {entry.who for entry in CATALOGUE.values()} == set(get_args(Who))


# Making them ----------------------------------------------------------------------------------------------------------


def test_a_finding_takes_from_its_entry_what_is_not_given():
    entry = CATALOGUE["ollama.not-pulled"]
    found = make("ollama.not-pulled", "m is not pulled")
    assert (found.code, found.message, found.evidence) == ("ollama.not-pulled", "m is not pulled", "")
    assert (found.remedy, found.who, found.retryable, found.severity) == (
        entry.remedy,
        entry.who,
        entry.retryable,
        "error",
    )
    other = make("usage", "x", evidence="e", remedy="", who="host", retryable=True, severity="warning")
    assert (other.evidence, other.remedy, other.who, other.retryable, other.severity) == (
        "e",
        "",
        "host",
        True,
        "warning",
    )


def test_an_unknown_code_cannot_be_made():
    with pytest.raises(KeyError):
        make("nothing.of-this-name", "x")


def every_talk_error():
    pending = [errors.TalkError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if kind.__module__ != errors.__name__:
            continue
        if issubclass(kind, errors.DeadlineError):
            yield kind("m", phase="head", seconds=1.0)
        elif issubclass(kind, errors.TransportError):
            yield kind("m", phase="head")
        elif issubclass(kind, errors.StatusError):
            yield kind("m", 500)
        else:
            yield kind("m")


def test_every_way_that_a_talk_can_fail_has_a_finding_of_its_own():
    codes = {type(error).__name__: of_error(error, "the server").code for error in every_talk_error()}
    assert codes == {
        "TalkError": "http.answer",
        "TransportError": "transport.receive",
        "ResolveError": "transport.resolve",
        "ConnectError": "transport.connect",
        "TlsError": "transport.tls",
        "CertificateError": "transport.certificate",
        "SendError": "transport.send",
        "ReceiveError": "transport.receive",
        "GarbledError": "transport.garbled",
        "EmptyReplyError": "transport.empty",
        "TruncatedError": "transport.truncated",
        "TooLargeError": "transport.too-large",
        "DeadlineError": "transport.deadline",
        "AnswerError": "http.answer",
        "StatusError": "http.status",
    }


def test_a_finding_of_a_talk_names_its_subject_and_how_far_it_got():
    found = of_error(errors.DeadlineError("deadline of 10 s elapsed", phase="body", seconds=10), "Ollama /tags")
    assert found.message == "Ollama /tags: deadline of 10 s elapsed"
    assert found.evidence == "it began an answer and did not end it"
    assert of_error(errors.AnswerError("no"), "x").evidence == ""
    assert of_error(errors.ReceiveError("no", phase="close"), "x").evidence == ""


def test_the_end_of_a_check_has_the_word_and_the_code_of_what_ended_it():
    ended = not_ready("usage", "m", evidence="e", remedy="r", word="error", curl=7)
    assert isinstance(ended, NotReadyError)
    assert (ended.word, ended.curl, str(ended)) == ("error", 7, "m")
    assert (ended.findings[0].evidence, ended.findings[0].remedy) == ("e", "r")
    assert (not_ready("usage", "m").word, not_ready("usage", "m").curl) == ("failed", 1)


def test_a_better_code_for_a_talk_keeps_its_message_evidence_word_and_number():
    error = errors.DeadlineError("late", phase="connect", seconds=2)
    ended = not_ready_for(error, "X", code="ollama.inventory")
    assert (ended.findings[0].code, ended.findings[0].message) == ("ollama.inventory", "X: late")
    assert ended.findings[0].evidence == "nothing answered: the host is down, or a firewall drops packets"
    assert (ended.word, ended.curl) == ("error", 28)
    plain = not_ready_for(errors.StatusError("s", 403), "X")
    assert (plain.findings[0].code, plain.word, plain.curl) == ("http.status", "failed", 22)


@pytest.mark.parametrize(
    ("status", "refused", "word", "curl"),
    [
        (200, False, "failed", 1),
        (302, False, "failed", 1),
        (401, False, "failed", 22),
        (403, False, "failed", 22),
        (404, False, "error", 22),
        (500, False, "error", 22),
        (500, True, "failed", 22),
    ],
)
def test_a_status_is_an_answer_or_keeps_one_from_being_known(status, refused, word, curl):
    error = errors.StatusError("m", status, refused_change=refused)
    assert (error.word, error.curl) == (word, curl)
