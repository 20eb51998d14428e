"""The event of a run on GitHub, and what it says of secrets."""

from __future__ import annotations

import json
import os

import pytest

from precheck_lib.event import read_event


def pull_request(head="me/fork", base="us/repo", **more):
    refs = {"head": {"repo": head and {"full_name": head}}, "base": {"sha": "abc", "repo": {"full_name": base}}}
    return {"pull_request": {**refs, "number": 1}, **more}


@pytest.fixture
def event(tmp_path):
    def read(document, name="pull_request", actor="me", **env):
        path = tmp_path / "event.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(path), **env}
        return read_event({"GITHUB_EVENT_NAME": name, "GITHUB_ACTOR": actor, **env})

    return read


def test_a_pull_request_from_a_fork_is_given_no_secrets(event):
    found = event(pull_request())
    assert (found.fork, found.base) == ("the fork me/fork", "abc")
    assert found.withheld == (
        "this run is for a pull request from the fork me/fork, and GitHub gives such runs no secrets"
    )


def test_a_fork_that_was_deleted_is_a_fork(event):
    assert "from a fork that is not there any more" in event(pull_request(head=None)).withheld


def test_a_pull_request_within_the_repository_is_given_them(event):
    assert event(pull_request(head="us/repo")).withheld == ""


def test_a_run_in_the_base_repository_is_given_them_whoever_asks(event):
    assert event(pull_request(), name="pull_request_target").withheld == ""


@pytest.mark.parametrize("name", ["push", "pull_request", "schedule"])
def test_a_run_that_dependabot_has_started_is_given_only_its_own(event, name):
    found = event(pull_request(head="us/repo"), name=name, actor="dependabot[bot]")
    assert found.withheld.startswith("Dependabot has started this run")


def test_a_push_is_given_them(event):
    assert event({"ref": "refs/heads/main"}, name="push").withheld == ""


NOTHING = ["", "[]", "{", "[" * 50_000, '{"pull_request": 1}', '{"pull_request": {"head": 1}}']


@pytest.mark.parametrize("document", NOTHING)
def test_an_event_file_that_says_nothing_is_none(event, document):
    found = event(document)
    assert (found.name, found.fork, found.base) == ("pull_request", None, None)


def test_a_place_that_is_no_file_is_none_and_holds_nobody(event, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", "a\0b", ""):
        assert event({}, GITHUB_EVENT_PATH=str(path)).base is None


def test_outside_of_actions_there_is_no_event(event):
    assert event(pull_request(), GITHUB_ACTIONS="") is None
    assert event(pull_request(), name="") is None
