"""A pull request that changes its own spec: it is warned of, and `--spec-ref base` runs the one of the base commit."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="these need git")

STRICT = "version: 1\nname: mine\nchecks: [{id: role, env: {required: {NEEDED: {}}}}]\n"
LAX = "version: 1\nname: mine\nchecks: [{id: role, env: {required: {MY_ROLE: {}}}}]\n"


class Checkout:
    """A checkout of a pull request: its spec in the base commit, and as it is now."""

    def __init__(self, folder, command):
        self.folder = folder
        self.command = command
        self.git("init", "--quiet")
        self.base = self.commit("base", STRICT)

    def git(self, *arguments):
        settings = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]
        call = ["git", "-C", str(self.folder), *settings, *arguments]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, message, text):
        (self.folder / "precheck.yml").write_text(text, encoding="utf-8")
        self.git("add", "precheck.yml")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments, base=None, event="pull_request", **env):
        """Run precheck as the runner would for this event; return how it ended and its report."""
        refs = {"head": {"repo": {"full_name": "us/repo"}}, "base": {"sha": base or self.base}}
        (self.folder / "event.json").write_text(json.dumps({"pull_request": refs}), encoding="utf-8")
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
        }
        ended = self.command("run", "--out", "out", *arguments, **{**github, **env})
        return ended, json.loads((self.folder / "out" / "precheck.json").read_text(encoding="utf-8"))


@pytest.fixture
def checkout(tmp_path, command):
    return Checkout(tmp_path, command)


def codes(report):
    return [finding["code"] for check in report["checks"] for finding in check["findings"]]


def test_a_pull_request_that_changes_its_own_spec_is_warned_of(checkout):
    checkout.commit("ask for less", LAX)
    ended, report = checkout.run()
    assert (ended.code, codes(report)) == (0, ["spec.changed-here"])
    assert any(line.startswith("::warning") and "spec-ref" in line for line in ended.out)


def test_one_that_leaves_its_spec_alone_is_not(checkout):
    _, report = checkout.run(NEEDED="x")
    assert (codes(report), report["notes"]) == ([], [])


def test_the_spec_of_the_base_commit_is_run_where_that_is_asked_for(checkout):
    checkout.commit("ask for less", LAX)
    ended, report = checkout.run("--spec-ref", "base")
    assert (ended.code, codes(report)) == (1, ["roles.missing"])


def test_the_pins_are_those_of_the_base_commit_too(checkout):
    pinned = "pins: pins.md\n"
    text = STRICT.replace("checks:", f"{pinned}checks:").replace("NEEDED: {}", "A: {pattern: '${pin:Tool}'}")
    (checkout.folder / "pins.md").write_text("- Tool: `v1`\n", encoding="utf-8")
    checkout.git("add", "pins.md")
    base = checkout.commit("pins", text)
    (checkout.folder / "pins.md").unlink()
    ended, _ = checkout.run("--spec-ref", "base", base=base, A="x")
    assert ended.code != 2


def test_where_the_base_was_not_fetched_the_first_parent_of_the_merge_is_it(checkout):
    checkout.commit("ask for less", LAX)
    ended, report = checkout.run("--spec-ref", "base", base="f" * 40)
    assert (ended.code, codes(report)) == (1, ["roles.missing"])


def test_without_the_base_commit_it_is_refused_with_what_to_do(checkout):
    ended, report = checkout.run("--spec-ref", "base", base="f" * 40)
    assert (ended.code, codes(report)) == (2, ["spec.invalid"])
    assert "fetch-depth: 2" in report["checks"][0]["findings"][0]["message"]


def test_where_it_cannot_be_seen_that_is_noted(checkout):
    _, report = checkout.run(base="f" * 40, NEEDED="x")
    assert report["notes"] == [
        "whether this pull request changes precheck.yml cannot be seen: give actions/checkout `fetch-depth: 2`"
    ]


def test_a_run_for_no_pull_request_takes_the_spec_that_was_checked_out(checkout):
    checkout.commit("ask for less", LAX)
    (checkout.folder / "event.json").write_text("{}", encoding="utf-8")
    ended = checkout.command("run", "--spec-ref", "base", GITHUB_ACTIONS="true", GITHUB_EVENT_NAME="push")
    assert ended.code == 0
