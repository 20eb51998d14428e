"""A3, A4 and A5: the reports of every ending, what stands on stdout and stderr, and that nothing else is left."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import time
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from precheck_lib.simulate import Command
from tests.contract.harness import COMMAND, SUCCESS, Family, read_fifo, run_precheck, start_precheck, write_script

if TYPE_CHECKING:
    from pathlib import Path

TINY = "version: 1\nname: tiny\nsuccess: all is well\nchecks:\n  - {id: alpha, env: {required: {ALPHA: {}}}}\n"
GOOD, BAD = {"ALPHA": "x"}, {}


@pytest.fixture
def tiny(tmp_path):
    """A spec that passes with `GOOD` and fails with `BAD`."""
    path = tmp_path / "spec" / "tiny.yml"
    path.parent.mkdir()
    path.write_text(TINY)
    return path


@pytest.fixture
def place(tmp_path):
    """An empty folder for reports."""
    made = tmp_path / "reports"
    made.mkdir()
    return made


def run_with(env, tiny, *arguments: str | Path, **more):
    return run_precheck(env, *map(str, arguments), spec=tiny, reports=False, verify=False, **more)


def read(path: Path):
    return json.loads(path.read_bytes())


def wait_until(predicate, seconds=10.0):
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.002)


# A3: on every ending ---------------------------------------------------------------------------------------------

TEXTS = {
    "not-yaml": "checks: [",
    "empty": "",
    "no-utf-8": b"\xff\xfe\x00",
    "unknown-key": TINY.replace("success:", "sucess:"),
    "unknown-kind": TINY.replace("env:", "environment:"),
    "wrong-type": TINY.replace("version: 1", "version: 7"),
    "needs-nothing-known": TINY.replace("id: alpha,", "id: alpha, needs: [beta],"),
}


@pytest.fixture(scope="module")
def bad_specs(request, tmp_path_factory):
    """The path and the run of each bad spec."""
    place = tmp_path_factory.mktemp("bad")

    def run(name):
        path, text = place / f"{name}.yml", TEXTS[name]
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path, run_precheck(GOOD, spec=path)

    return Family(request, "test_a_bad_spec_ends_with_reports_that_name_its_place", TEXTS, run)


@pytest.mark.parametrize("name", TEXTS)
def test_a_bad_spec_ends_with_reports_that_name_its_place(name, bad_specs):
    path, ended = bad_specs[name]
    assert ended.code == 2
    assert ended.json["verdict"] == "error"
    assert list(ended.words.values()) == ["error"]
    assert f"{path}:" in ended.messages[0]
    assert f"{path}:" in ended.err
    assert not ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "SPEC", "--nope"),
        ("run", "SPEC", "another"),
        ("run", "SPEC", "--budget", "soon"),
        ("run", "SPEC", "--budget", "-1s"),
        ("run", "SPEC", "--budget"),
        ("walk", "SPEC"),
    ],
    ids=" ".join,
)
def test_a_command_line_that_cannot_be_used_ends_with_reports(arguments, tiny):
    given = [str(tiny) if argument == "SPEC" else argument for argument in arguments]
    ended = run_precheck(GOOD, *given, spec=None)
    assert ended.code == 2, ended
    assert ended.json["verdict"] == "error"
    assert list(ended.words.values()) == ["error"]
    assert ended.messages[0] in ended.err
    assert not ended.out


def test_out_takes_all_reports_and_its_folders_are_made(tiny, place):
    ended = run_with(BAD, tiny, "--out", "a/b", cwd=place)
    assert ended.code == 1, ended
    assert read(place / "a" / "b" / "precheck.json")["exit_code"] == 1
    assert ET.parse(place / "a" / "b" / "junit.xml").getroot().tag == "testsuites"


def test_parent_folders_are_made(tiny, place):
    json_file, junit_file = place / "a" / "b" / "c.json", place / "d" / "e.xml"
    ended = run_with(GOOD, tiny, "--json", json_file, "--junit", junit_file)
    assert ended.code == 0, ended
    assert read(json_file)["verdict"] == "ready"
    assert ET.parse(junit_file)


# A3: files -------------------------------------------------------------------------------------------------------


def test_a_regular_file_is_replaced_in_one_step(tiny, place):
    report, other_name = place / "report.json", place / "hard-link"
    report.write_text("what was there before")
    os.link(report, other_name)
    with report.open() as reader:
        assert run_with(GOOD, tiny, "--json", report).code == 0
        # Whoever reads the old one reads it to its end.
        assert reader.read() == "what was there before"
    assert other_name.read_text() == "what was there before"
    assert read(report)["verdict"] == "ready"
    assert sorted(os.listdir(place)) == ["hard-link", "report.json"]


@pytest.mark.parametrize(
    ("before", "mask", "mode"), [(None, 0o077, 0o600), (0o600, 0o022, 0o644), (0o777, 0o002, 0o664)]
)
def test_a_report_has_the_mode_that_the_umask_gives(before, mask, mode, tiny, place):
    report = place / "report.json"
    if before is not None:
        report.write_text("before")
        report.chmod(before)
    assert run_with(GOOD, tiny, "--json", report, umask=mask).code == 0
    assert stat.S_IMODE(report.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("there", "relative"), [(True, True), (False, False)], ids=["relative", "absolute-and-dangling"]
)
def test_a_symbolic_link_keeps_pointing_where_it_did(there, relative, tiny, place):
    target, link = place / "elsewhere" / "report.json", place / "link.json"
    target.parent.mkdir()
    if there:
        target.write_text("before")
    link.symlink_to("elsewhere/report.json" if relative else target)
    points_to = os.readlink(link)
    assert run_with(GOOD, tiny, "--json", link).code == 0
    assert os.readlink(link) == points_to
    assert read(target)["verdict"] == "ready"
    assert os.listdir(target.parent) == ["report.json"]


def test_a_fifo_with_a_reader_is_written_to(tiny, place):
    fifo = place / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ended = run_with(GOOD, tiny, "--json", fifo)
        assert ended.code == 0, ended
        assert json.loads(os.read(reader, 1 << 16))["verdict"] == "ready"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_fifo_whose_reader_comes_late_is_written_to(tiny, place):
    fifo, report = place / "fifo", place / "report.xml"
    os.mkfifo(fifo)
    with start_precheck(GOOD, "--json", str(fifo), "--junit", str(report), spec=tiny, reports=False) as running:
        wait_until(lambda: len(os.listdir(place)) > 1)  # the other report is being prepared
        assert not report.exists()
        assert running.process.stdout is not None
        assert b"alpha" in running.process.stdout.readline()
        assert not select.select([running.process.stdout], [], [], 0.05)[0]  # no success line before the reports
        assert json.loads(read_fifo(fifo))["verdict"] == "ready"
        assert running.finish().code == 0
    assert sorted(os.listdir(place)) == ["fifo", "report.xml"]


def test_a_device_is_written_to(tiny, place):
    ended = run_with(GOOD, tiny, "--json", "/dev/null", "--junit", place / "report.xml")
    assert ended.code == 0, ended
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_report_can_go_to_stdout_and_the_success_line_is_still_the_last(tiny):
    ended = run_with(GOOD, tiny, "--json", "/dev/stdout")
    assert ended.code == 0, ended
    first, _, rest = ended.out.partition("\n")
    assert first.startswith("ok ")
    report, _, last = rest.rstrip("\n").rpartition("\n")
    assert json.loads(report)["verdict"] == "ready"
    assert last == "all is well"


# A3: what cannot be written --------------------------------------------------------------------------------------


def _below_a_file(place):
    (place / "file").write_text("kept")
    return place / "file" / "report"


def _a_folder(place):
    (place / "folder").mkdir()
    return place / "folder"


def _a_loop(place):
    (place / "loop").symlink_to("loop")
    return place / "loop"


def _where_nobody_may_write(place):
    return "/proc/precheck-report"


def _a_fifo_without_a_reader(place):
    os.mkfifo(place / "fifo")
    return place / "fifo"


def _too_long(place):
    return place / ("n" * 300)


def _full(place):
    return "/dev/full"


UNFIT = [
    ("--json", _below_a_file),
    ("--junit", _a_folder),
    ("--json", _a_loop),
    ("--junit", _where_nobody_may_write),
    ("--json", _a_fifo_without_a_reader),
    ("--junit", _too_long),
    ("--json", _full),
    ("--junit", _full),
]


@pytest.mark.parametrize(("form", "make"), UNFIT, ids=lambda value: getattr(value, "__name__", value).strip("_-"))
def test_a_report_that_cannot_be_written_turns_a_pass_into_70(form, make, tiny, place):
    unfit = make(place)
    before = sorted(place.rglob("*"))
    other = place / "other"
    ended = run_with(GOOD, tiny, form, unfit, "--junit" if form == "--json" else "--json", other)
    assert ended.code == 70, ended
    assert "all is well" not in ended.out
    assert str(unfit) in ended.err
    # The other report says it too, and no torso is left.
    if form == "--junit":
        assert read(other)["exit_code"] == 70
        assert read(other)["verdict"] == "error"
        assert [check["outcome"] for check in read(other)["checks"]].count("error") == 1
    else:
        assert [case.find("error") is not None for case in ET.parse(other).iter("testcase")].count(True) == 1
    assert sorted(place.rglob("*")) == sorted([*before, other])


@pytest.mark.parametrize("make", [_below_a_file, _full], ids=lambda make: make.__name__.strip("_"))
def test_another_exit_code_stays_when_a_report_cannot_be_written(make, tiny, place):
    unfit, other = make(place), place / "other"
    ended = run_with(BAD, tiny, "--json", unfit, "--junit", other)
    assert ended.code == 1, ended
    assert str(unfit) in ended.err
    assert "ALPHA" in ended.err
    assert list(ET.parse(other).iter("failure"))


def test_a_bad_spec_stays_a_bad_spec_when_a_report_cannot_be_written(tmp_path, place):
    bad = tmp_path / "bad.yml"
    bad.write_text("checks: [")
    ended = run_with(GOOD, bad, "--json", "/dev/full")
    assert ended.code == 2, ended
    assert "/dev/full" in ended.err


@pytest.mark.parametrize("where", [">/dev/full", ">&-"], ids=["full", "closed"])
def test_report_and_exit_code_agree_when_stdout_cannot_be_written(where, tiny):
    command = ("/bin/sh", "-c", f'exec "$@" {where}', "sh", *COMMAND)
    ended = run_precheck(GOOD, spec=tiny, command=command)
    assert ended.code == ended.json["exit_code"], ended


def test_a_closed_stdin_and_a_closed_stderr_do_no_harm(stage, small_strict):
    command = ("/bin/sh", "-c", 'exec "$@" <&- 2>&-', "sh", *COMMAND)
    assert run_precheck(stage, spec=small_strict, command=command).code == 0


def test_two_reports_cannot_go_to_the_same_file(tiny, place):
    ended = run_with(GOOD, tiny, "--json", place / "same", "--junit", place / "same")
    assert ended.code in (2, 70), ended
    assert "all is well" not in ended.out
    assert str(place / "same") in ended.err


def test_what_was_there_is_kept_when_another_report_cannot_be_written(tiny, place):
    # The first delivery fails; the second says so in the report that can be written, never a pass.
    kept = place / "kept.json"
    kept.write_text("before")
    ended = run_with(GOOD, tiny, "--json", kept, "--junit", _a_folder(place))
    assert ended.code == 70, ended
    assert read(kept)["verdict"] == "error"


# A4 --------------------------------------------------------------------------------------------------------------


def test_each_check_has_its_line_on_stdout_as_it_ends(stage, small_strict, tmp_path):
    go = tmp_path / "go"
    write_script(stage.commands["codex"], f'while [ ! -e "{go}" ]; do :; done', "echo codex-cli 0.171.0")
    with start_precheck(stage, spec=small_strict) as running:
        assert running.process.stdout is not None
        line = running.process.stdout.readline()
        assert b"roles" in line
        assert not select.select([running.process.stdout], [], [], 0.05)[0]
        go.touch()
        ended = running.finish()
    assert ended.code == 0, ended
    assert len(ended.out.splitlines()) == 10  # nine more checks and the success line


def test_findings_are_on_stderr_and_the_lines_of_the_checks_on_stdout(make_stage, small_strict):
    stage = make_stage(faults={"codex": "no-account"})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert len(lines) == 10
    for check, line in zip(ended.json["checks"], lines, strict=True):
        assert check["id"] in line
    assert ended.messages[0] in ended.err
    assert ended.messages[0] not in ended.out
    assert SUCCESS not in ended.out + ended.err


def test_a_pass_says_nothing_on_stderr(stage, small_strict):
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 0
    assert ended.err == ""
    assert ended.out.endswith(f"\n{SUCCESS}\n")
    assert len(ended.out.splitlines()) == 11


def test_under_actions_stdout_has_an_annotation_for_a_failure(tiny):
    ended = run_precheck({**BAD, "GITHUB_ACTIONS": "true"}, spec=tiny)
    assert ended.code == 1
    annotations = [line for line in ended.out.splitlines() if line.startswith("::error")]
    assert annotations
    assert "ALPHA" in annotations[0]
    plain = run_precheck(BAD, spec=tiny)
    assert "::" not in plain.out


def test_under_actions_the_success_line_is_still_the_last(tiny):
    ended = run_precheck({**GOOD, "GITHUB_ACTIONS": "true"}, spec=tiny)
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "all is well"
    assert "::error" not in ended.out


# A5 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["pass", "fail", "signal"])
def test_no_file_is_left_but_the_reports(ending, make_stage, small_strict, tmp_path):
    faults = {"fail": {"opencode": "unhealthy"}, "signal": {"opencode": "silence"}}.get(ending)
    stage = make_stage(faults=faults)
    folders = {}
    for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "cwd"):
        folders[name] = tmp_path / "empty" / name
        folders[name].mkdir(parents=True)
    env = {**stage.environment, **{name: str(folder) for name, folder in folders.items() if name != "cwd"}}
    with start_precheck(env, spec=small_strict, cwd=folders["cwd"]) as running:
        if ending == "signal":
            assert stage.opencode.wait_for(lambda: stage.opencode.seen, 10)
            running.signal(signal.SIGTERM)
        ended = running.finish()
        assert sorted(path.name for path in running.json.parent.iterdir()) == [
            "cwd",
            "report.json",
            "report.xml",
        ]
    assert ended.code == {"pass": 0, "fail": 1, "signal": 143}[ending], ended
    assert [path for path in (tmp_path / "empty").rglob("*") if path not in folders.values()] == []


@pytest.mark.parametrize("ending", ["pass", "deadline", "signal"])
def test_no_process_is_left_whatever_a_command_has_started(ending, make_stage, small_strict, tmp_path):
    # What is left of one would be a child of this process now; the fixture that watches every test finds it.
    began = tmp_path / "began"
    lines = [f'touch "{began}"', "command -p sleep 60 &", "(command -p setsid sleep 60 &)"]
    lines += ["echo codex-cli 0.171.0"] if ending == "pass" else ["trap '' TERM", "command -p sleep 60"]
    stage = make_stage(opencode_command=Command("1.18.33"))
    write_script(stage.commands["codex"], *lines)
    with start_precheck(stage, spec=small_strict) as running:
        if ending == "signal":
            wait_until(began.exists)
            running.signal(signal.SIGTERM)
        ended = running.finish()
    assert ended.code == {"pass": 0, "deadline": 28, "signal": 143}[ending], ended
    assert began.exists()
