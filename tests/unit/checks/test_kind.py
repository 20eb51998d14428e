"""What every kind of check has, and what a check is given."""

from __future__ import annotations

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.checks import KINDS, kind_named
from precheck_lib.checks.kind import Context, Deed, Kind, Options, ollama_models
from precheck_lib.findings import NotReadyError
from precheck_lib.spec import load_spec
from precheck_lib.spec.variables import expand


def context_of(env):
    return Context(
        env=env,
        budget=Budget(1),
        journal=Journal(),
        expand=lambda value: expand(value, env, {}),
        exit_code=lambda error: error.curl,
    )


def test_every_kind_is_found_by_its_name_and_has_what_a_kind_has():
    for name in KINDS:
        of = kind_named(name)
        assert isinstance(of, Kind)
        assert of.name == name
        assert issubclass(of.options, Options)


def test_only_the_residency_check_changes_a_server():
    assert [name for name in KINDS if kind_named(name).changes] == ["residency"]


def test_a_kind_keeps_a_reserve_exactly_where_it_changes_a_server():
    for check in load_spec("strict").checks:
        of = kind_named(check.kind)
        assert (of.reserve(check.options, 1) > 0) == of.changes
        assert any(deed.changes for deed in of.plan(check.options)) == of.changes
        assert all(isinstance(deed, Deed) for deed in of.plan(check.options))


def test_an_option_that_has_to_be_text_is():
    context = context_of({"A": "text", "J": '{"k": [1]}'})
    assert context.text("x ${A}") == "x text"
    for value in ("${J#/k}", "${J#}"):
        with pytest.raises(NotReadyError, match="is not text") as caught:
            context.text(value)
        assert caught.value.findings[0].code == "roles.malformed"


def test_models_are_a_list_of_names_or_an_object_whose_entries_may_have_an_id():
    assert ollama_models(["a", "b:1"]) == {"a": "a", "b:1": "b:1"}
    assert ollama_models({"a": {}, "b": {"id": "c:1"}, "d": None, "e": "x"}) == {
        "a": "a",
        "b": "c:1",
        "d": "d",
        "e": "e",
    }


@pytest.mark.parametrize("value", [None, "", " , ", 5, [], {}, [""], [" "], [1], ["a", None], [["a"]]])
def test_what_names_no_models_is_refused(value):
    with pytest.raises(NotReadyError) as caught:
        ollama_models(value)
    assert caught.value.findings[0].code == "ollama.models"


@pytest.mark.parametrize("id_", [5, None, "", " ", [], {}])
def test_an_id_that_is_no_name_is_refused_by_its_key(id_):
    with pytest.raises(NotReadyError, match="the id of the configured model 'm' is not a name"):
        ollama_models({"m": {"id": id_}})
