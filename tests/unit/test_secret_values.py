"""Which values of a run are secret, and that what goes wrong outside of a run hides them too."""

from __future__ import annotations

import base64
import json
import os

import pytest

from precheck_lib import cli, engine, hiding
from precheck_lib.checks.env import EnvOptions, Role
from precheck_lib.checks.opencode import OpenCodeOptions
from precheck_lib.interrupt import Interrupts
from precheck_lib.outcome import Source, SpecIdentity
from precheck_lib.spec.model import CheckSpec, Spec

SECRET = "canary-of-the-run"


def spec_of(**options):
    checks = [
        CheckSpec(id=id_, title="", kind="k", options=of, source=Source("it.yml", 1)) for id_, of in options.items()
    ]
    return Spec(identity=SpecIdentity(), checks=tuple(checks), success="", pins={})


def opencode(**options):
    return OpenCodeOptions(url="http://h", read="health", **options)


def basic(text):
    return base64.b64encode(text.encode()).decode()


def test_roles_that_are_called_secret_and_variables_whose_names_say_it_are():
    spec = spec_of(
        roles=EnvOptions(required={"A": Role(secret=True), "B": Role()}, optional={"MY_KEY": Role(), "C_KEY": Role()}),
        other=opencode(config="${MY_TOKEN#/x}", username="${NAME:-}"),
    )
    env = {"A": "a", "B": "b", "MY_KEY": "k", "MY_TOKEN": "t", "NAME": "n", "OTHER_KEY": "o", "C_KEY": ""}
    assert hiding.secret_values(spec, env) == ["a", "k", "t"]


def test_what_basic_authentication_sends_is_secret_wherever_the_password_comes_from():
    for password, env in (
        ("${PW}", {"PW": "right"}),
        ("right", {}),
        ("${PW:-right}", {}),
        ("${PW:-right}", {"PW": " "}),
    ):
        found = hiding.secret_values(spec_of(a=opencode(username="me", password=password)), env)
        assert found == ["right", basic("me:right")]


def test_a_password_that_is_not_there_or_no_text_is_for_the_check_to_say():
    for password in ("${PW}", "${PW:-}", "${PW#/a}"):
        assert hiding.secret_values(spec_of(a=opencode(password=password)), {"PW": ""}) == []


@pytest.fixture
def run(monkeypatch, tmp_path, capfd):
    """Run a command line in this process; returns its exit code and all that it has written."""

    def carry_out(*arguments, **env):
        monkeypatch.setattr(os, "environ", {"MY_API_KEY": SECRET, **env})
        monkeypatch.chdir(tmp_path)
        interrupts = Interrupts()
        try:
            code = cli.run_command_line(arguments, interrupts)
        finally:
            interrupts.restore()
        captured = capfd.readouterr()
        files = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("out/*"))
        return code, captured.out, captured.err + files

    return carry_out


@pytest.mark.parametrize("on_github", [{}, {"GITHUB_ACTIONS": "true"}])
def test_a_fault_of_precheck_itself_shows_no_secret(run, monkeypatch, on_github):
    def fail(*_, **__):
        raise ValueError(f"broken by {json.dumps(SECRET)}")

    monkeypatch.setattr(engine, "run", fail)
    code, out, rest = run("run", "strict", "--out", "out", **on_github)
    assert code == 70
    assert "broken by" in rest
    assert SECRET not in out + rest


def test_the_success_text_of_a_spec_is_one_harmless_line(run, tmp_path):
    (tmp_path / "it.yml").write_text(
        'version: 1\nname: it\nsuccess: "::error::x\\n##[error]y \\e[31mz"\n'
        "checks: [{id: a, env: {required: {MY_API_KEY: {secret: true}}}}]\n"
    )
    code, out, _ = run("run", "it.yml")
    assert code == 0
    assert out.splitlines()[1:] == [": :error::x ## [error]y z"]


def test_masks_are_for_runs_under_actions_only_and_come_first(run, tmp_path):
    (tmp_path / "it.yml").write_text(
        "version: 1\nname: it\nchecks: [{id: a, env: {required: {MY_API_KEY: {secret: true}, B_KEY: {}}}}]\n"
    )
    mask = f"::add-mask::{SECRET}"
    code, out, _ = run("run", "it.yml", B_KEY="short", GITHUB_ACTIONS="true")
    assert code == 0
    assert out.splitlines()[0] == mask
    assert out.count("::add-mask::") == 1
    for arguments, env in (
        (["run", "it.yml"], {}),
        (["run", "it.yml"], {"GITHUB_ACTIONS": "True"}),
        (["run", "it.yml"], {"GITHUB_ACTIONS": "1"}),
        (["plan", "it.yml"], {"GITHUB_ACTIONS": "true"}),
        (["explain"], {"GITHUB_ACTIONS": "true"}),
    ):
        code, out, rest = run(*arguments, B_KEY="short", **env)
        assert code == 0
        assert "::" not in out
        assert SECRET not in out + rest
