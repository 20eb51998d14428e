"""A1 and A2: how the command is called, and that nothing of its surroundings but the roles has an effect."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.contract.harness import (
    ROOT,
    SPECS,
    SUCCESS,
    Scripted,
    SelfSigned,
    run_precheck,
    write_script,
    write_strict,
)

TINY = "version: 1\nname: tiny\nsuccess: all is well\nchecks:\n  - {id: alpha, env: {required: {ALPHA: {}}}}\n"


# A1 ------------------------------------------------------------------------------------------------------------


def test_strict_is_the_built_in_spec_even_where_a_file_has_that_name(stage, tmp_path):
    (tmp_path / "strict").write_text("no spec at all")
    ended = run_precheck(stage, spec="strict", cwd=tmp_path)
    assert ended.code == 0, ended
    assert ended.json["spec"]["name"] == "strict"
    assert os.path.samefile(ended.json["spec"]["path"], SPECS / "strict.yml")


def test_python_m_runs_it_in_a_checkout(stage):
    ended = run_precheck(stage, spec="strict", cwd=ROOT, command=(sys.executable, "-m", "precheck_lib"))
    assert ended.code == 0, ended


@pytest.mark.parametrize("name", ["spec/tiny.yml", "./strict"])
def test_what_is_no_name_of_a_built_in_spec_is_a_path(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(TINY)
    ended = run_precheck({"ALPHA": "x"}, spec=name, cwd=tmp_path)
    assert ended.code == 0, ended
    assert ended.json["spec"]["name"] == "tiny"
    assert ended.out.splitlines()[-1] == "all is well"


def test_a_spec_that_is_not_there_is_named_with_the_built_in_ones(tmp_path):
    ended = run_precheck({}, spec="strickt", cwd=tmp_path)
    assert ended.code == 2
    assert "strickt" in ended.err
    assert "strict" in ended.err.replace("strickt", "")


@pytest.mark.parametrize("arguments", [(), ("run",)], ids=["alone", "run"])
def test_without_a_spec_the_precheck_yml_of_the_working_folder_is_run(arguments, tmp_path):
    (tmp_path / "precheck.yml").write_text(TINY)
    env = {"ALPHA": "x", "TEST_CODEX_WS_URL": "ws://127.0.0.1:9"}
    ended = run_precheck(env, *arguments, spec=None, cwd=tmp_path)
    assert ended.code == 0, ended
    assert ended.json["spec"]["name"] == "tiny"


@pytest.mark.parametrize("arguments", [(), ("run",)], ids=["alone", "run"])
def test_without_a_spec_strict_is_run_where_the_url_of_codex_is_set(arguments):
    ended = run_precheck({"TEST_CODEX_WS_URL": "ws://127.0.0.1:9"}, *arguments, spec=None)
    assert ended.code == 1
    assert ended.json["spec"]["name"] == "strict"
    assert ended.blockers == ["roles"]


@pytest.mark.parametrize(("arguments", "env"), [((), {}), (("run",), {"TEST_CODEX_WS_URL": ""})], ids=["alone", "run"])
def test_without_anything_to_run_it_says_what_one_can_do(arguments, env):
    ended = run_precheck(env, *arguments, spec=None)
    assert ended.code == 2
    assert ended.json["verdict"] == "error"
    for hint in ("precheck demo", "precheck init", "precheck run strict"):
        assert hint in ended.err
    assert not ended.out


# A2 ------------------------------------------------------------------------------------------------------------


def test_nothing_but_the_roles_and_a_path_to_the_two_commands_is_needed(stage, small_strict):
    env = {**stage.environment, "PATH": str(stage.commands["codex"].parent)}
    assert not env.keys() & {"HOME", "USER", "TERM", "TMPDIR", "LANG"}
    assert run_precheck(env, spec=small_strict).code == 0


def test_the_working_folder_may_be_a_broken_git_repository(stage, small_strict, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_text("gitdir: /nowhere\n")
    assert run_precheck(stage, spec=small_strict, cwd=tmp_path / "broken").code == 0


def test_the_working_folder_may_have_been_removed(stage, small_strict, tmp_path):
    place = tmp_path / "gone"
    place.mkdir()
    # The shell is there when it is removed; the command begins in what is left of it.
    command = ("/bin/sh", "-c", f'rmdir "{place}"; exec "$@"', "sh", sys.executable, "-m", "precheck_lib")
    env = {**stage.environment, "PYTHONPATH": str(ROOT)}
    ended = run_precheck(env, spec=small_strict, cwd=place, command=command)
    assert ended.code == 0, ended


def test_no_helper_program_is_started(stage, small_strict, tmp_path):
    folder, marker = stage.commands["codex"].parent, tmp_path / "started"
    helpers = ("curl", "wget", "node", "nc", "lsof", "ss", "ollama", "git", "nvidia-smi", "python3", "sh", "env")
    for name in helpers:
        write_script(folder / name, f'echo {name} >> "{marker}"', "exit 1")
    ended = run_precheck({**stage.environment, "PATH": str(folder)}, spec=small_strict)
    assert ended.code == 0, ended
    assert not marker.exists(), marker.read_text()


def test_no_proxy_variable_has_an_effect(stage, small_strict):
    with Scripted() as proxy:
        names = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy", "socks_proxy")
        env = {**stage.environment, "NO_PROXY": "nothing.invalid", "no_proxy": "nothing.invalid"}
        for name in names:
            env[name] = env[name.upper()] = proxy.url
        ended = run_precheck(env, spec=small_strict)
        assert ended.code == 0, ended
        assert proxy.connections == []


def test_no_netrc_has_an_effect(stage, small_strict, tmp_path):
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password from-the-netrc\ndefault login a password b\n")
    netrc.chmod(0o600)
    shutil.copy(netrc, tmp_path / "_netrc")
    ended = run_precheck({**stage.environment, "HOME": str(tmp_path), "NETRC": str(netrc)}, spec=small_strict)
    assert ended.code == 0, ended
    for server in (stage.codex, stage.opencode, stage.ollama):
        assert server.seen
        assert not [request for request in server.seen if "authorization" in request.headers]


def test_no_ca_bundle_variable_has_an_effect(stage, small_strict, tmp_path):
    bundle, folder = tmp_path / "bundle.pem", tmp_path / "certs"
    with SelfSigned() as server:
        certificate = server.certificate()
        bundle.write_text(certificate)
        folder.mkdir()
        (folder / f"{server.subject_hash}.0").write_text(certificate)
        files = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "WEBSOCKET_CLIENT_CA_BUNDLE")
        env = {**stage.environment, **dict.fromkeys(files, str(bundle)), "SSL_CERT_DIR": str(folder)}
        ended = run_precheck({**env, "TEST_OPENCODE_URL": server.url}, spec=small_strict)
        assert ended.code == 60, ended
        assert ended.blockers == ["opencode-health"]
        assert server.trusted == 0
        websocket = server.url.replace("https", "wss")
        ended = run_precheck({**env, "TEST_CODEX_WS_URL": websocket}, spec=small_strict)
        assert ended.code == 60, ended
        assert ended.blockers == ["codex"]
        assert server.trusted == 0


def test_ca_bundle_variables_that_lead_nowhere_have_no_effect(stage, small_strict):
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR", "HOME")
    env = {**stage.environment, **dict.fromkeys(names, "/nowhere/at/all")}
    with SelfSigned() as server:
        ended = run_precheck({**env, "TEST_OPENCODE_URL": server.url}, spec=small_strict)
        assert ended.code == 60, ended


def test_the_success_line_is_the_specs_own(stage, tmp_path):
    spec = write_strict(tmp_path / "other", name="another", success="go ahead, all of you")
    ended = run_precheck(stage, spec=spec)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "go ahead, all of you"
    assert SUCCESS not in ended.out
