"""`precheck verify`: what `ready` meant is read again, and what has changed since is named."""

from __future__ import annotations

import json
import os

import pytest

from precheck_lib.simulate import Model, OllamaStandIn

SPEC = """\
version: 1
name: mine
checks:
- id: server
  ollama: {{url: "{url}"}}
- id: model
  residency: {{url: "{url}", models: [a:1], context_length: 4096, settle: 0s, hold: 0s}}
- id: elsewhere
  when: {{env: NOWHERE}}
  tcp: {{url: "http://127.0.0.1:1"}}
"""


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with OllamaStandIn({"a:1": Model(context_length=65536)}) as made:
        (tmp_path / "precheck.yml").write_text(SPEC.format(url=made.url), encoding="utf-8")
        yield made


@pytest.fixture
def ready(server, command, tmp_path):
    """A run that was ready, with its reports in `out`."""
    assert command("run", "--out", "out").code == 0
    return server


def verified(command, tmp_path, *arguments, **env):
    """Verify; return how that ended and what the report says, by check."""
    ended = command("verify", "out", "--out", "later", *arguments, **env)
    found = json.loads((tmp_path / "later" / "precheck.json").read_text(encoding="utf-8"))
    return ended, found


def findings_of(found, check):
    (result,) = [result for result in found["checks"] if result["id"] == check]
    return [(finding["code"], finding["message"]) for finding in result["findings"]]


def test_the_report_of_a_run_keeps_what_was_seen(ready, tmp_path):
    kept = json.loads((tmp_path / "out" / "precheck.json").read_text(encoding="utf-8"))["observed"]
    place = ready.url.partition("://")[2].partition("/")[0]
    facts = {(one["check"], one["subject"], one["fact"]): one["value"] for one in kept}
    assert facts["server", f"Ollama at {place}", "version"] == "0.32.15"
    assert facts["model", f"a:1 at {place}", "context length"] == 65536
    assert facts["model", f"a:1 at {place}", "GPU memory"] == 64 << 20
    assert facts["server", f"the server at {place}", "process"].startswith("pid ")


def test_where_nothing_has_changed_it_says_so_and_since_when(ready, command, tmp_path):
    ended, found = verified(command, tmp_path)
    earlier = json.loads((tmp_path / "out" / "precheck.json").read_text(encoding="utf-8"))
    assert ended.code == 0
    assert ended.out[-1] == f"nothing has changed since {earlier['started']}"
    assert (found["verdict"], found["verifies"]) == ("ready", earlier["started"])


def test_it_changes_nothing(ready, command, tmp_path):
    before = len(ready.actions)
    verified(command, tmp_path)
    assert len(ready.actions) == before


def test_a_model_that_was_evicted_is_named_with_when_it_was_last_right(ready, command, tmp_path):
    with ready.changed:
        ready._runners.table.clear()
    ended, found = verified(command, tmp_path)
    assert ended.code == 1
    (result,) = [result for result in found["checks"] if result["id"] == "model"]
    assert "a:1" in result["findings"][0]["message"]
    assert "last seen right at " in result["findings"][0]["evidence"]


@pytest.mark.parametrize(
    ("model", "code"),
    [
        (Model(context_length=8192), "drift.context"),
        (Model(context_length=65536, vram=1 << 20), "residency.partial"),
        (Model(context_length=2048), "residency.context"),
    ],
    ids=["another context", "pushed to the CPU", "too small a context"],
)
def test_a_model_that_was_reloaded_otherwise_is_named(model, code, ready, command, tmp_path):
    ready.models["a:1"] = model
    ended, found = verified(command, tmp_path)
    assert ended.code == 1
    assert code in [code for code, _ in findings_of(found, "model")]


def test_another_version_of_a_server_is_named_with_both(ready, command, tmp_path):
    ready.version = "0.33.0"
    ended, found = verified(command, tmp_path)
    ((code, message),) = findings_of(found, "server")
    assert (ended.code, code) == (1, "drift.version")
    assert message.endswith("is 0.33.0 now, it was 0.32.15")


def test_all_that_has_changed_is_said_at_once(ready, command, tmp_path):
    ready.version = "0.33.0"
    ready.models["a:1"] = Model(context_length=8192)
    _, found = verified(command, tmp_path)
    assert [result["outcome"] for result in found["checks"]] == ["failed", "failed", "skipped"]


def test_a_server_that_was_started_anew_is_named(ready, command, tmp_path):
    path = tmp_path / "out" / "precheck.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    for one in report["observed"]:
        if one["fact"] == "process":
            one["value"] = "pid 1, started 2026-01-01T00:00:00Z"
    path.write_text(json.dumps(report), encoding="utf-8")
    ended, found = verified(command, tmp_path)
    assert ended.code == 1
    assert [code for code, _ in findings_of(found, "server")] == ["drift.process"]


def test_a_spec_that_has_changed_since_is_refused(ready, command, tmp_path):
    with (tmp_path / "precheck.yml").open("a", encoding="utf-8") as file:
        file.write("# more\n")
    ended, _ = verified(command, tmp_path)
    assert ended.code == 2
    assert "its text has changed" in "\n".join(ended.err)


def test_the_report_that_is_verified_is_never_replaced(ready, command, tmp_path):
    before = (tmp_path / "out" / "precheck.json").read_bytes()
    ended = command("verify", "out", "--out", "out")
    assert ended.code == 2
    assert (tmp_path / "out" / "precheck.json").read_bytes() == before
    assert "name another place" in (tmp_path / "out" / "junit.xml").read_text(encoding="utf-8")


def test_the_job_is_told_that_its_tests_prove_nothing(ready, command, tmp_path):
    ready.version = "0.33.0"
    summary, outputs = tmp_path / "summary.md", tmp_path / "outputs"
    ended, _ = verified(
        command, tmp_path, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(outputs)
    )
    (line,) = [line for line in ended.out if line.startswith("::error")]
    assert " changed - drift.version::This machine is not what your tests were to run on" in line
    assert "Your code was not tested" not in line
    assert "changed since" in summary.read_text(encoding="utf-8").splitlines()[0]
    assert "not-ready" in outputs.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "arguments", [("verify", "odd"), ("gpu", "--replay", "odd"), ("run", "--env-file", "odd"), ("run", "odd")]
)
@pytest.mark.parametrize("what", ["fifo", "device", "missing"])
def test_a_file_that_is_none_holds_no_command(command, tmp_path, arguments, what):
    # A FIFO that nobody writes would hold whoever opens it, and no signal would end that.
    if what == "fifo":
        os.mkfifo(tmp_path / "odd")
    elif what == "device":
        (tmp_path / "odd").symlink_to("/dev/zero")
    (tmp_path / "precheck.yml").write_text(SPEC.format(url="http://127.0.0.1:1"), encoding="utf-8")
    ended = command(*arguments)
    assert ended.code == 2
    assert "No such file" in ended.err[0] if what == "missing" else "it is not a regular file" in ended.err[0]
