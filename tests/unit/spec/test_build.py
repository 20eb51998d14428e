"""A spec built of plain data: the same rules as a file, and messages without lines."""

from __future__ import annotations

import pytest

from precheck_lib.spec import SpecError, build_spec, load_spec

WEB = {"id": "web", "http": {"url": "http://127.0.0.1:1"}}


def spec(*checks, **more):
    return {"version": 1, "name": "mine", "checks": list(checks), **more}


def problems(document):
    with pytest.raises(SpecError) as caught:
        build_spec(document)
    return [str(problem) for problem in caught.value.problems]


def test_it_is_the_spec_that_a_file_of_the_same_shape_gives(tmp_path):
    file = tmp_path / "mine.yml"
    file.write_text(
        "version: 1\nname: mine\nbudget: 9s\nchecks:\n- {id: web, http: {url: 'http://127.0.0.1:1'}, budget: 2s, "
        "wait: {for: 5s, stable: 2}, when: {env: CI}}\n- {id: b, needs: [web], severity: warning, tcp: {url: 'http://x:1'}}\n"
    )
    web = {**WEB, "budget": "2s", "wait": {"for": "5s", "stable": 2}, "when": {"env": "CI"}}
    other = {"id": "b", "needs": ("web",), "severity": "warning", "tcp": {"url": "http://x:1"}}
    built, loaded = build_spec(spec(web, other, budget="9s")), load_spec(str(file))
    same = ("id", "title", "kind", "options", "needs", "budget", "wait", "severity", "when")
    assert [[getattr(check, name) for name in same] for check in built.checks] == [
        [getattr(check, name) for name in same] for check in loaded.checks
    ]
    assert (built.success, built.budget, built.identity.name) == (loaded.success, loaded.budget, "mine")


def test_it_has_no_place_in_any_file():
    built = build_spec(spec(WEB))
    assert built.checks[0].source is None
    assert built.identity.path is None


def test_the_digest_is_that_of_what_was_given_in_whatever_order():
    other = {"http": {"url": "http://127.0.0.1:1"}, "id": "web"}
    assert build_spec(spec(WEB)).identity.digest == build_spec(spec(other)).identity.digest
    assert build_spec(spec(WEB)).identity.digest != build_spec(spec(WEB, name="other")).identity.digest


def test_all_that_is_wrong_is_said_at_once_with_check_and_key():
    wrong = spec(
        {"id": "a", "http": {"url": "http://x", "statsu": 200}},
        {"id": "b", "needs": ["c"], "tcp": {"url": 1}, "budget": 2},
        {"id": "a", "tcp": {"url": "http://x"}},
    )
    assert problems(wrong) == [
        'spec:1:1: unknown key "statsu" in check "a"; did you mean "status"?',
        'spec:1:1: check "b": budget: a duration such as 2s or 1m30s is needed, not the number 2',
        'spec:1:1: check "b": url: text is needed, not the number 1; put it in quotes',
        'spec:1:1: check "b" needs "c", which is not a check of this spec',
        'spec:1:1: the id "a" stands here a second time',
    ]


def test_two_checks_with_the_same_fault_are_both_named():
    assert len(problems(spec({"id": "a", "tcp": {"url": 1}}, {"id": "b", "tcp": {"url": 1}}))) == 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1: "x"}, "it['checks'][0]['http'] has the key 1, and a key is text"),
        ({"url": b"x"}, "it['checks'][0]['http']['url'] is a bytes"),
        ({"contains": {"n": float("nan")}}, "it['checks'][0]['http']['contains']['n'] is nan, which is no number"),
        ({"status": {200}}, "it['checks'][0]['http']['status'] is a set"),
    ],
)
def test_what_no_spec_can_hold_is_refused_with_its_place(value, said):
    (problem,) = problems(spec({"id": "a", "http": value}))
    assert problem.startswith(f"spec:1:1: {said}")


def test_data_that_holds_itself_is_refused():
    knot: dict = {}
    knot["knot"] = knot
    (problem,) = problems(knot)
    assert problem.endswith("is nested too deeply (or holds itself)")


def test_what_is_no_mapping_is_refused():
    assert problems([]) == ["spec:1:1: a spec is a mapping with version, name and checks"]


def test_a_change_of_the_data_afterwards_changes_no_spec():
    wanted = {"n": [1]}
    built = build_spec(spec({"id": "a", "http": {"url": "http://x", "contains": wanted}}))
    wanted["n"].append(2)
    assert built.checks[0].options.contains == {"n": [1]}
