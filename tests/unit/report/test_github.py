"""What GitHub's runner is told: whatever the texts in a report are, it reads what was meant and nothing else."""

from __future__ import annotations

import os
import re

import pytest

from precheck_lib.catalogue import CATALOGUE
from precheck_lib.outcome import Host, Lately, Source, SpecIdentity
from precheck_lib.report import check_line, finding_lines
from precheck_lib.report.github import (
    BODY_LIMIT,
    MOST_OF_A_KIND,
    annotation_lines,
    mask_lines,
    output_text,
    outputs,
)
from precheck_lib.report.summary import summary
from precheck_lib.report.wording import WHO
from tests.runner_grammar import commands, read_outputs

MESSAGE_LIMIT = 4096  # UTF-16 units, cut by the runner without a word


def command_of(line):
    """The one command in a line of a log, if there is one."""
    found = commands(line)
    assert len(found) <= 1
    return found[0] if found else None


def annotations(report, workspace=None, **more):
    found = [command_of(line) for line in annotation_lines(report, workspace=workspace, **more)]
    assert None not in found
    return found


def bodies(report, **more):
    return [command.value for command in annotations(report, **more)]


# Masks ----------------------------------------------------------------------------------------------------------------


def test_a_secret_is_masked_as_the_runner_will_see_it():
    for secret in ("sk-0123456789", "100% ::error::x", 'a"b\\c&<d>/+ü', "##[error]x", "::add-mask::x", "%0A%25%0D%3A"):
        (line,) = mask_lines([secret])
        assert commands(line) == [("add-mask", {}, secret)]


def test_each_line_of_a_secret_is_masked_on_its_own_and_short_ones_are_not():
    lines = mask_lines(["-----BEGIN-----\r\n  first line  \rshort\n{\nsecond-line\n"])
    assert lines == ["::add-mask::-----BEGIN-----", "::add-mask::first line", "::add-mask::second-line"]


def test_short_and_empty_secrets_are_not_masked():
    assert mask_lines(["", "seven77", "  seven77  ", "\n\n"]) == []
    assert mask_lines(["eight888"]) == ["::add-mask::eight888"]


def test_what_is_secret_in_a_document_is_masked_beside_the_whole():
    document = '{"provider": {"x": {"options": {"apiKey": "key-of-x-1", "baseURL": "http://x"}}}}'
    assert mask_lines([document, "key-of-x-1"]) == [f"::add-mask::{document}", "::add-mask::key-of-x-1"]


def test_bytes_that_are_no_utf_8_are_masked_as_the_runner_reads_them():
    assert mask_lines(["key-\udcff\udcfe-of-bytes"]) == ["::add-mask::key-\ufffd\ufffd-of-bytes"]
    assert mask_lines(["half-\ud83d-a-pair"]) == ["::add-mask::half-?-a-pair"]


# One annotation -------------------------------------------------------------------------------------------------------


def failing(make, *, evidence="no answer came", **fields):
    finding = make.finding("the port is closed", evidence=evidence, remedy="Start the server.", **fields)
    return make.report(make.check("codex-tcp", "failed", findings=[finding]))


def test_an_annotation_is_an_error_with_a_title_that_names_runner_and_code(make):
    (found,) = annotations(failing(make))
    assert found.name == "error"
    assert found.properties == {"title": "precheck: gpu-01-a not ready - tcp.failed"}


def test_a_host_without_a_runner_is_named_itself(make):
    report = failing(make)
    report.host = Host(name="gpu-01", runner=None, os="Linux", python="3.11")
    assert annotations(report)[0].properties["title"] == "precheck: gpu-01 not ready - tcp.failed"


def test_the_body_says_not_tested_then_what_then_why_then_what_to_do_and_who_then_whether_to_retry(make):
    (body,) = bodies(failing(make, who="host", retryable=True))
    assert body == (
        "Your code was not tested. codex-tcp: the port is closed. Why: no answer came. "
        "What to do (the host's owner): Start the server. A retry may pass, once the machine is mended or free again."
    )


def test_a_failure_that_stays_says_that_a_retry_is_of_no_use(make):
    (body,) = bodies(failing(make, who="job", retryable=False))
    assert body.endswith("What to do (the job's author): Start the server. A retry is of no use before that.")


@pytest.mark.parametrize(
    ("lately", "told"),
    [
        (None, ""),
        (Lately(runs=1, codes={}), " On this host: the one earlier run of the last 24 h did not have it."),
        (Lately(runs=1, codes={"tcp.failed": 1}), " On this host: the one earlier run of the last 24 h had it too."),
        (Lately(runs=12, codes={"a.b": 5}), " On this host: none of the 12 earlier runs of the last 24 h had it."),
        (Lately(runs=12, codes={"tcp.failed": 3}), " On this host: 3 of the 12 earlier runs of the last 24 h had it."),
        (
            Lately(runs=9, codes={"tcp.failed": 9}, before=("a.b", "tcp.failed")),
            " On this host: 9 of the 9 earlier runs of the last 24 h had it. So did an earlier attempt of this run.",
        ),
    ],
)
def test_a_failure_says_last_how_often_lately_on_this_host_where_that_is_known(make, lately, told):
    report = failing(make, retryable=False)
    report.lately = lately
    assert bodies(report)[0].partition("A retry is of no use before that.")[2] == told
    lines = [line.strip(" -") for line in summary(report).splitlines()]
    assert [line for line in lines if line.startswith("On this host")] == ([told.strip()] if told else [])


def test_where_no_cause_was_seen_the_usual_ones_are_told_as_such(make):
    (body,) = bodies(failing(make, evidence=""))
    causes = "; ".join(CATALOGUE["tcp.failed"].causes)
    assert f"the port is closed. Usual causes: {causes}. What to do" in body
    assert "Why:" not in body


def test_a_code_of_no_catalogue_has_no_usual_causes(make):
    (body,) = bodies(failing(make, code="mine.own", evidence=""))
    assert "the port is closed. What to do" in body


def test_a_sentence_ends_once(make):
    report = make.report(make.check("a", "failed", findings=[make.finding("It is so.", evidence="Is it?", remedy="")]))
    assert bodies(report) == [
        "Your code was not tested. a: It is so. Why: Is it? A retry is of no use before that.",
    ]


@pytest.mark.parametrize("who", WHO)
def test_a_body_has_every_part_and_at_most_700_characters_however_long_they_are(make, who):
    long = {"evidence": "e" * 5000, "remedy": "r" * 5000, "who": who}
    report = make.report(make.check("i" * 64, "failed", findings=[make.finding("m" * 5000, **long)]))
    (body,) = bodies(report)
    assert BODY_LIMIT - 5 <= len(body) <= BODY_LIMIT
    parts = re.fullmatch(
        r"Your code was not tested\. i{64}: (m+…) Why: (e+…) What to do \(the [a-z]+'s [a-z]+\): (r+…) "
        r"A retry is of no use before that\.",
        body,
    )
    assert parts is not None
    assert all(len(part) > 130 for part in parts.groups())


def test_what_is_long_gives_way_before_what_is_short(make):
    message = "missing or empty: " + ", ".join(f"TEST_ROLE_NUMBER_{number}" for number in range(16))
    finding = make.finding(message, code="roles.missing", remedy="Set them.", evidence="e" * 500)
    (body,) = bodies(make.report(make.check("roles", "failed", findings=[finding])))
    assert "What to do (the host's owner): Set them. " in body
    assert "TEST_ROLE_NUMBER_9" in body
    assert len(body) <= BODY_LIMIT


def test_every_finding_of_the_catalogue_has_an_annotation_that_is_not_cut(make):
    for code, entry in CATALOGUE.items():
        finding = make.finding("m" * 150, code=code, remedy=entry.remedy, who=entry.who, retryable=entry.retryable)
        (body,) = bodies(make.report(make.check("opencode-capabilities", "failed", findings=[finding])))
        assert "…" not in body, code
        assert entry.remedy in body
        assert entry.causes[0] in body


def test_percent_and_line_breaks_arrive_as_they_were_meant(make):
    finding = make.finding("76 % are on\r\nthe GPU, %0A is no break", evidence="a\nb")
    report = make.report(make.check("a", "failed", findings=[finding]))
    (line,) = annotation_lines(report, workspace=None)
    assert "76 %25 are on the GPU, %250A is" in line
    assert "a: 76 % are on the GPU, %0A is no break. Why: a b." in command_of(line).value


def test_colons_commas_and_equals_signs_in_a_host_name_keep_the_properties_whole(make):
    report = failing(make)
    report.host = Host(name="h", runner="a::b, c=d%0A:", os="Linux", python="3.11")
    (line,) = annotation_lines(report, workspace=None)
    header = line[2:].partition("::")[0]
    assert header.count("=") == 1  # act drops a property with a second one
    found = command_of(line)
    assert found.properties == {"title": "precheck: a::b, c d%0A: not ready - tcp.failed"}
    assert found.value.startswith("Your code was not tested.")


# Where it stands ------------------------------------------------------------------------------------------------------


def placed(make, source, workspace):
    report = make.report(make.check("a", "failed", source=source))
    (found,) = annotations(report, workspace)
    return {name: value for name, value in found.properties.items() if name != "title"}


def test_an_annotation_stands_at_the_line_of_its_check_in_a_spec_of_the_workspace(make):
    assert placed(make, Source("/w/specs/gpu.yml", 12), "/w") == {"file": "specs/gpu.yml", "line": "12"}


def test_a_spec_elsewhere_has_no_place(make):
    assert placed(make, Source("/opt/specs/gpu.yml", 12), "/w") == {}
    assert placed(make, Source("/w2/gpu.yml", 12), "/w") == {}
    assert placed(make, Source("/w/gpu.yml", 12), None) == {}
    assert placed(make, None, "/w") == {}


def test_a_path_with_odd_characters_is_escaped(make):
    assert placed(make, Source("/w/a,b:c%d/x.yml", 3), "/w") == {"file": "a,b:c%d/x.yml", "line": "3"}


def test_a_fault_of_the_spec_stands_at_the_line_that_its_message_names(make):
    findings = [
        make.finding("gpu.yml:7:5: there is no kind 'tpc'", code="spec.invalid"),
        make.finding("other.yml:9:1: there is no pin", code="spec.invalid"),
    ]
    report = make.report(
        make.check("spec", "error", findings=findings), verdict="error", spec=SpecIdentity(path="gpu.yml")
    )
    first, second = annotations(report, os.getcwd())
    assert (first.properties["file"], first.properties["line"]) == ("gpu.yml", "7")
    assert "file" not in second.properties


# Several --------------------------------------------------------------------------------------------------------------


def test_the_first_failure_comes_first_and_warnings_last(make):
    mild = make.finding("odd", code="opencode.config-dropped", severity="warning")
    report = make.report(
        make.check("a", findings=[mild]),
        make.check("b", "failed", findings=[mild, make.finding("first"), make.finding("second")]),
        make.check("c", "error", findings=[make.finding("third")]),
        make.check("d", "skipped", skipped_for="b"),
    )
    summed_up, *found = annotations(report)
    assert summed_up.name == "error"
    assert summed_up.value == "Your code was not tested. 2 of 4 checks did not pass: b, c."
    assert [command.name for command in found] == ["error"] * 3 + ["warning"] * 2
    told = [re.search(r"\b[a-d]: \w+", command.value)[0] for command in found]
    assert told == ["b: first", "b: second", "c: third", "a: odd", "b: odd"]


def test_a_warning_does_not_say_that_anything_was_not_tested(make):
    mild = make.finding("odd", code="opencode.config-dropped", severity="warning", remedy="Look.", who="job")
    (found,) = annotations(make.report(make.check("a", findings=[mild])))
    assert found.properties == {"title": "precheck: gpu-01-a - opencode.config-dropped"}
    assert found.value == "a: odd. What to do (the job's author): Look."


def test_a_run_that_passed_without_warnings_has_no_annotation(make):
    assert annotations(make.report(make.check("a"))) == []


def many(make, failures, warnings):
    return make.report(
        make.check("a", "failed", findings=[make.finding(f"failure {number}") for number in range(failures)]),
        make.check("b", findings=[make.finding(f"warned {number}", severity="warning") for number in range(warnings)]),
    )


@pytest.mark.parametrize("count", [MOST_OF_A_KIND, MOST_OF_A_KIND + 1, 200])
def test_there_are_at_most_nine_of_a_kind_and_the_last_says_how_many_more_there_are(make, count):
    found = annotations(many(make, count, count))
    for kind, word in (("error", "failure"), ("warning", "warned")):
        of_kind = [command.value for command in found if command.name == kind]
        assert len(of_kind) == MOST_OF_A_KIND
        told = [number for number in range(count) if any(f"{word} {number}." in data for data in of_kind)]
        if count == MOST_OF_A_KIND:
            assert told == list(range(count))
        else:
            assert told == list(range(MOST_OF_A_KIND - 1))
            more = count - (MOST_OF_A_KIND - 1)
            assert of_kind[-1] == f"{more} more are in the log, the job summary and the reports."


def test_what_the_cleanup_left_is_an_annotation_of_its_own_with_its_remedy(make):
    report = failing(make)
    report.remarks = ["Ollama cleanup unload/observation failed (exit 7) of m", "native residency remains unconfirmed"]
    _, found = annotations(report)
    assert found.properties["title"].endswith(" - run.unconfirmed")
    assert "cleanup: Ollama cleanup unload/observation failed (exit 7) of m; native residency remains" in found.value
    assert CATALOGUE["run.unconfirmed"].remedy in found.value


def test_a_failure_without_a_reason_and_a_report_that_contradicts_itself_are_annotated(make):
    assert "a: the check failed and gave no reason" in bodies(make.report(make.check("a", "failed", findings=[])))[0]
    (body,) = bodies(make.report(make.check("a"), exit_code=70, verdict="error"))
    assert "precheck: the run ended with exit code 70 (error) and no check says why" in body


@pytest.mark.parametrize("name", ["a\x1b[31m.yml", "a\u2028.yml", "a##[error].yml", "a\n.yml", "a\u202e.yml"])
def test_a_place_that_could_not_be_shown_as_it_is_is_left_out(make, name):
    report = make.report(make.check("a", "failed", source=Source(f"/w/{name}", 3)))
    (line,) = annotation_lines(report, workspace="/w")
    assert line.startswith("::error title=")
    assert line.isprintable()


# Where the job goes on ------------------------------------------------------------------------------------------------


def test_where_the_job_goes_on_failures_are_warnings_that_say_so(make):
    (found,) = annotations(failing(make), only_warn=True)
    assert found.name == "warning"
    assert found.properties["title"] == "precheck: gpu-01-a not ready - tcp.failed"
    assert found.value.startswith(
        "The job goes on, on a machine that is not fit for it. codex-tcp: the port is closed."
    )


@pytest.mark.parametrize("verdict", ["error", "cancelled"])
def test_what_ends_the_job_all_the_same_is_an_error(make, verdict):
    report = failing(make)
    report.verdict = verdict
    (found,) = annotations(report, only_warn=True)
    assert found.name == "error"
    assert found.value.startswith("Your code was not tested.")


def test_failures_that_are_warnings_share_the_room_with_the_warnings(make):
    found = annotations(many(make, 5, 8), only_warn=True)
    assert [command.name for command in found] == ["warning"] * MOST_OF_A_KIND
    assert "failure 0" in found[0].value
    assert found[-1].value == "5 more are in the log, the job summary and the reports."


# Hostile texts --------------------------------------------------------------------------------------------------------


def test_of_hostile_texts_the_runner_sees_only_our_annotations(make, hostile):
    report = make.hostile(hostile)
    lines = annotation_lines(report, workspace="/w")
    assert len(annotation_lines(report, workspace="/w", only_warn=True)) == len(lines)
    for line in lines:
        assert line.isprintable()
        assert "##[" not in line
        found = command_of(line)
        assert found.name in {"error", "warning"}
        assert set(found.properties) <= {"title", "file", "line"}
        assert found.properties["title"].startswith("precheck: ")
        assert "=" not in found.properties["title"]
        assert len(found.value) <= BODY_LIMIT
        assert len(found.value.encode("utf-16-le")) // 2 <= MESSAGE_LIMIT
        assert command_of(found.value) is None
        assert "\n" not in found.value


def test_of_hostile_texts_the_runner_sees_no_command_in_what_is_printed_beside(make, hostile):
    report = make.hostile(hostile)
    for line in (*map(check_line, report.checks), *finding_lines(report)):
        assert commands(line) == []
        assert line.isprintable()


# Outputs --------------------------------------------------------------------------------------------------------------


def written(make_report, **paths):
    return read_outputs(output_text(outputs(make_report, **{"folder": None, "json": None, "junit": None, **paths})))


def test_the_outputs_of_a_run_that_passed(make):
    paths = {"folder": "/out dir", "json": "/out dir/precheck.json", "junit": "/out dir/junit.xml"}
    assert written(make.report(make.check("a")), **paths) == {
        "status": "ready",
        "exit-code": "0",
        "failed": "",
        "codes": "",
        "first": "",
        "retryable": "false",
        "host": "gpu-01-a",
        "dir": "/out dir",
        "json": "/out dir/precheck.json",
        "junit": "/out dir/junit.xml",
    }


def test_the_outputs_of_a_run_that_failed(make):
    second = make.finding("second", code="tcp.deadline")
    report = make.report(
        make.check("a", findings=[make.finding("odd", severity="warning", code="command.leftover")]),
        make.check("b", "failed", findings=[make.finding("first", retryable=True), second, second]),
        make.check("c", "error", findings=[make.finding("third")]),
        make.check("d", "skipped", skipped_for="b"),
        exit_code=28,
    )
    found = written(report)
    assert (found["status"], found["exit-code"], found["retryable"]) == ("not-ready", "28", "true")
    assert (found["failed"], found["codes"], found["first"]) == ("b,c", "tcp.failed,tcp.deadline", "b: first")


def test_a_report_that_contradicts_itself_is_never_ready(make):
    report = make.report(make.check("a", "failed"), exit_code=0, verdict="ready")
    found = written(report)
    assert found["status"] == "error"
    assert "run.internal" in found["codes"]
    assert written(make.report(make.check("a"), exit_code=0, verdict="not-ready"))["status"] == "error"


def test_hostile_values_end_neither_their_own_output_nor_add_another(make, hostile):
    report = make.hostile(hostile)
    values = outputs(report, folder=hostile[:5000], json=hostile[:5000], junit=hostile[:5000])
    text = output_text(values)
    assert list(read_outputs(text)) == list(values)
    assert read_outputs(text)["status"] == "not-ready"
    # act refuses an empty line, and loses those at the start of a value.
    assert all(line for line in text.split("\n")[:-1])
    assert "\r" not in text
    text.encode("utf-8")


def test_a_value_that_knows_the_form_cannot_guess_the_delimiter():
    value = "x\nghadelimiter_0\nstatus=ready"
    first, second = output_text({"first": value}), output_text({"first": value})
    assert first != second
    assert read_outputs(first) == {"first": "x ghadelimiter_0 status=ready"}


def test_a_path_is_given_as_it_is():
    path = "/tmp/a  b/##[x]/ä\u200b/precheck.json"
    assert read_outputs(output_text({"json": path})) == {"json": path}


def test_a_path_that_holds_a_secret_is_left_out_and_the_others_stay(make):
    paths = {"folder": "/out/secret-1", "json": "/out/precheck.json", "junit": "/out/secret-1/junit.xml"}
    redact = {"/out/precheck.json": "/out/precheck.json"}.get
    told = written(make.report(make.check("a")), **paths, redact=lambda path: redact(path, "***"))
    assert (told["dir"], told["json"], told["junit"]) == ("", "/out/precheck.json", "")


def test_a_value_of_nothing_but_white_space_is_an_empty_output():
    assert output_text({"a": " \n\t", "b": ""}) == "a=\nb=\n"
