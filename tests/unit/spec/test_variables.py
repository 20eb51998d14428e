"""`${...}`: every form, and that no message holds a value."""

from __future__ import annotations

import json

import pytest

from precheck_lib.checks.command import CommandOptions, OneCommand
from precheck_lib.findings import NotReadyError
from precheck_lib.spec.variables import MalformedError, expand, names, references

CONFIG = {
    "model": "m",
    "provider": {"ollama": {"models": {"a/b": {"id": "x"}, "c~d": {}}}},
    "list": [1, "two"],
    "no": None,
}
ENV = {
    "NAME": "value",
    "EMPTY": "",
    "BLANK": " \t",
    "CONFIG": json.dumps(CONFIG),
    "SPACED": " v ",
    "TRICKY": "${NAME}$$",
}
PINS = {"Codex App Server": "0.171.0"}


def expanded(value):
    return expand(value, ENV, PINS)


def refused(value, env=ENV):
    with pytest.raises(NotReadyError) as caught:
        expand(value, env, PINS)
    assert (caught.value.word, caught.value.curl) == ("failed", 1)
    return str(caught.value)


def code(value):
    with pytest.raises(NotReadyError) as caught:
        expand(value, ENV, PINS)
    return caught.value.findings[0].code


def test_a_variable_is_its_value_as_it_is():
    assert expanded("${NAME}") == "value"
    assert expanded("${SPACED}") == " v "


def test_text_may_stand_around_references():
    assert expanded("a ${NAME}-${NAME} ${pin:Codex App Server}!") == "a value-value 0.171.0!"


def test_text_without_a_reference_is_itself():
    for text in ("", "text", "$", "$5", "a$", "$NAME", "{NAME}", "}"):
        assert expanded(text) == text


def test_two_dollars_are_one_and_never_begin_a_reference():
    assert expanded("$$") == "$"
    assert expanded("$${NAME}") == "${NAME}"
    assert expanded("$$${NAME}") == "$value"
    assert expanded("$$$$") == "$$"


def test_a_value_is_not_expanded_again():
    assert expanded("${TRICKY}") == "${NAME}$$"
    assert expanded("x${TRICKY}") == "x${NAME}$$"


def test_a_default_stands_for_what_is_unset_or_blank():
    assert [expanded(f"${{{name}:-d e}}") for name in ("NONE", "EMPTY", "BLANK", "NAME")] == [
        "d e",
        "d e",
        "d e",
        "value",
    ]
    assert expanded("${NONE:-}") == ""
    assert expanded("<${NONE:-}>") == "<>"


def test_a_default_is_taken_as_it_is():
    assert expanded("${NONE:-$NAME:-#/$$}") == "$NAME:-#/$$"


def test_a_missing_variable_is_named():
    for name in ("NONE", "EMPTY", "BLANK"):
        for text in (f"${{{name}}}", f"x${{{name}}}", f"${{{name}#/a}}", [f"${{{name}}}"], {"k": f"${{{name}}}"}):
            assert refused(text) == f"the environment variable {name} is not set"


def test_a_pin_is_its_version_and_one_that_is_not_known_is_named():
    assert expanded("${pin:Codex App Server}") == "0.171.0"
    assert refused("${pin:Codex}") == "the pin 'Codex' is not known"


def test_a_variable_that_begins_like_a_pin_is_one():
    assert expand("${pin}", {"pin": "v"}, {}) == "v"


def test_the_whole_of_a_json_variable_is_the_value_itself():
    assert expanded("${CONFIG#}") == CONFIG
    assert expanded("${CONFIG#/provider/ollama}") == CONFIG["provider"]["ollama"]
    assert expanded("${CONFIG#/list/1}") == "two"
    assert expanded("${CONFIG#/list/0}") == 1


def test_a_pointer_has_its_escapes():
    assert expanded("${CONFIG#/provider/ollama/models/a~1b/id}") == "x"
    assert expanded("${CONFIG#/provider/ollama/models/c~0d}") == {}


def test_text_out_of_json_may_stand_inside_of_text_and_nothing_else_may():
    assert expanded("<${CONFIG#/model}>") == "<m>"
    for pointer in ("/list/0", "/list", "/provider"):
        assert "is not text and cannot stand inside of it" in refused(f"<${{CONFIG#{pointer}}}>")


def test_a_pointer_to_nothing_is_said():
    for pointer in ("/nope", "/model/x", "/list/2", "/list/-", "/list/x", "/no", "/provider/ollama/models/"):
        assert refused(f"${{CONFIG#{pointer}}}") == f"the environment variable CONFIG has nothing at {pointer}"


def test_what_is_no_json_is_said_without_its_value():
    for secret in (
        "hunter2-hunter2",
        '{"key": hunter2}',
        '{"a": 1, "a": "hunter2"}',
        "{" * 100_000,
        '["\\ud800hunter2"]',
    ):
        said = refused("${CONFIG#/key}", {"CONFIG": secret})
        assert said == "the environment variable CONFIG does not hold JSON"


def test_what_is_wrong_is_said_of_the_role_and_not_of_a_server():
    assert [code(text) for text in ("${NONE}", "${NAME#}", "${CONFIG#/none}", "x${CONFIG#}", "${pin:none}", "${")] == [
        "roles.missing",
        "roles.malformed",
        "roles.malformed",
        "roles.malformed",
        "spec.invalid",
        "spec.invalid",
    ]


def test_what_is_not_text_is_named_as_it_stands_in_the_spec():
    assert refused("x${CONFIG#/list}") == "${CONFIG#/list} is not text and cannot stand inside of it"


def test_no_message_holds_a_value():
    env = {"A": "hunter2-hunter2", "B": '{"k": ["hunter2-hunter2"]}', "EMPTY": ""}
    for text in (
        "${A#}",
        "x${B#}",
        "x${B#/k}",
        "${B#/none}",
        "${A}${NONE}",
        "${A}${EMPTY}",
        "${A}${pin:hunter}",
        "${A}${",
    ):
        assert "hunter2" not in refused(text, env)


def test_lists_and_mappings_are_expanded_to_their_ends_and_the_spec_stays_as_it_was():
    given = {"${NAME}": ["${NAME}", {"k": "<${NAME}>"}], "n": 5, "t": True, "z": None}
    assert expanded(given) == {"${NAME}": ["value", {"k": "<value>"}], "n": 5, "t": True, "z": None}
    assert given["${NAME}"] == ["${NAME}", {"k": "<${NAME}>"}]


def test_a_malformed_reference_is_refused_when_it_is_expanded_too():
    assert refused("${NAME").startswith("'${NAME' has no end: write ${NAME}")
    assert refused("${NAME-x}").startswith("'${NAME-x}' is not understood: write ${NAME}")


def test_a_long_malformed_reference_is_cut_short():
    assert len(refused("${" + "x" * 10_000)) < 250


def test_references_are_found_in_order_in_all_that_a_value_holds():
    found = references(["${A} ${B:-x}", {"k": "${C#/p}"}, ("${pin:P}",), OneCommand(argv=["${D}"], stdout="$$")])
    assert [(one.name or one.pin, one.pointer, one.default) for one in found] == [
        ("A", None, None),
        ("B", None, "x"),
        ("C", "/p", None),
        ("P", None, None),
        ("D", None, None),
    ]
    with pytest.raises(MalformedError):
        list(references(["${A}", ["${"]]))


def test_the_names_of_variables_are_found_everywhere_also_beside_what_is_malformed():
    options = CommandOptions(commands=[OneCommand(argv=["a", "${MY_TOKEN}"], stdout="x${OTHER:-y}${")])
    assert list(names(options)) == ["MY_TOKEN", "OTHER"]
    assert list(names([["${A#/b}"], {"k": "$${B}${pin:C}"}, 5, None])) == ["A"]
