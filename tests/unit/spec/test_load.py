"""A spec file to a value: every kind of mistake, each with its line and column, all of them at once."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from precheck_lib.checks import KINDS, kind_named
from precheck_lib.spec import SpecError, load_spec
from precheck_lib.spec.load import built_in_folder, built_in_names

ROOT = Path(__file__).resolve().parents[3]

SMALL = """\
version: 1
name: small
checks:
  - id: one
    tcp: {url: ws://h}
"""


def raised(name):
    with pytest.raises(SpecError) as caught:
        load_spec(name)
    return caught.value


# What a spec is ------------------------------------------------------------------------------------------------------


def test_a_small_spec_has_the_defaults(desk):
    spec = desk.load(SMALL)
    assert (spec.success, spec.budget, spec.pins, spec.exit_codes, spec.fail_fast) == (
        "small: ready",
        None,
        {},
        "plain",
        False,
    )
    (check,) = spec.checks
    assert (check.id, check.title, check.kind, check.needs, check.budget) == ("one", "one", "tcp", (), None)
    assert (check.source.file, check.source.line) == (str(desk.path), 4)


def test_a_spec_knows_its_name_path_and_digest(desk):
    spec = desk.load(SMALL)
    assert spec.identity.name == "small"
    assert spec.identity.path == str(desk.path)
    assert spec.identity.digest == hashlib.sha256(desk.path.read_bytes()).hexdigest()


def test_all_that_a_head_can_say_is_there(desk):
    desk.pins()
    spec = desk.load(
        """\
        version: 1
        name: x
        success: all is well
        budget: 1m30s
        pins: PINS.md
        exit_codes: curl
        fail_fast: true
        checks:
          - {id: a, title: one, env: }
          - {id: b.1_c-d, title: two, needs: [a], budget: 500ms, env: {together: [[X, Y]]}}
        """
    )
    assert (spec.success, spec.budget, spec.exit_codes, spec.fail_fast) == ("all is well", 90.0, "curl", True)
    assert spec.pins == {"Codex App Server": "0.171.0", "OpenCode Server": "1.18.33"}
    assert [(check.title, check.needs, check.budget) for check in spec.checks] == [
        ("one", (), None),
        ("two", ("a",), 0.5),
    ]


def test_a_spec_with_a_byte_order_mark_and_crlf_is_the_same(desk):
    plain = desk.load(SMALL)
    other = desk.load(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert other.checks == plain.checks


def test_an_option_that_is_no_text_where_text_is_needed_is_refused_and_yes_is_text(desk):
    assert desk.load(SMALL.replace("small", "yes")).identity.name == "yes"
    assert desk.load(SMALL.replace("small", "12:30")).success == "12:30: ready"


# What is wrong with the file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "5\n", "null\n", "---\n"])
def test_what_is_no_mapping_is_no_spec(desk, text):
    assert desk.wrong(text) == ["1:1: a spec is a mapping with version, name and checks"]


def test_an_empty_file_is_no_spec(desk):
    assert desk.wrong("") == ["1:1: the file is empty"]


def test_faults_of_the_yaml_are_spec_errors_with_the_digest(desk):
    assert desk.wrong("a:\n\tb: c\n") == ["2:1: not YAML: a tab cannot indent; use spaces"]
    error = raised(str(desk.path))
    assert error.identity.path == str(desk.path)
    assert error.identity.digest == hashlib.sha256(desk.path.read_bytes()).hexdigest()


def test_a_file_that_is_not_there_is_named_with_the_built_in_specs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(raised("stritc")) == (
        "stritc:1:1: the spec cannot be read: No such file or directory; built-in specs are ollama, openai, strict; "
        'did you mean "strict"?'
    )
    assert str(raised("./nothing.yml")) == "./nothing.yml:1:1: the spec cannot be read: No such file or directory"


def test_a_file_that_cannot_be_read_has_an_identity_without_a_digest(tmp_path):
    error = raised(str(tmp_path / "none.yml"))
    assert (error.identity.path, error.identity.digest) == (str(tmp_path / "none.yml"), None)


def test_a_folder_is_no_spec_and_leaves_no_descriptor(tmp_path):
    assert str(raised(str(tmp_path))).endswith(":1:1: the spec cannot be read: it is a folder")


def test_a_pipe_without_a_writer_or_with_a_silent_one_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    said = "the spec cannot be read: it is not a regular file"
    assert raised(str(tmp_path / "pipe")).problems[0].text == said
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        assert raised(str(tmp_path / "pipe")).problems[0].text == said
    finally:
        os.close(writer)
    assert raised("/dev/null").problems[0].text == said


def test_a_path_that_no_file_can_have_is_a_spec_error():
    assert raised("a\0b").problems[0].text == (
        "the spec cannot be read: no path can be that; built-in specs are ollama, openai, strict"
    )


def test_a_link_to_a_spec_is_a_spec(desk, tmp_path):
    desk.load(SMALL)
    (tmp_path / "link.yml").symlink_to(desk.path)
    assert load_spec(str(tmp_path / "link.yml")).identity.path == str(tmp_path / "link.yml")


# Keys and types ------------------------------------------------------------------------------------------------------


def test_unknown_keys_are_named_where_they_stand_with_what_was_meant(desk):
    assert desk.wrong(
        """\
        version: 1
        name: x
        fail_fats: true
        sucess: ok
        checks:
          - id: one
            need: []
            tcp:
              ulr: ws://h
              url: ws://h
          - id: two
            env:
              required:
                HOST: {urls: [ws]}
                PORT: {sceret: true, path_ned: /api}
              optinal: {}
          - id: three
            command:
              commands:
                - {argv: [a], stdout: b}
                - argv: [a]
                  stdout: b
                  stdou: c
        """
    ) == [
        '3:1: unknown key "fail_fats"; did you mean "fail_fast"?',
        '4:1: unknown key "sucess"; did you mean "success"?',
        '7:5: unknown key "need" in check "one"; did you mean "needs"?',
        '9:7: unknown key "ulr" in check "one"; did you mean "url"?',
        '14:16: unknown key "urls" in check "two"; did you mean "url"?',
        '15:16: unknown key "sceret" in check "two"; did you mean "secret"?',
        '15:30: unknown key "path_ned" in check "two"; did you mean "path_end"?',
        '16:7: unknown key "optinal" in check "two"; did you mean "optional"?',
        '23:11: unknown key "stdou" in check "three"; did you mean "stdout"?',
    ]


def test_an_unknown_key_that_is_like_nothing_has_no_guess(desk):
    assert desk.wrong(SMALL + "zzz: 1\n") == ['6:1: unknown key "zzz"']


def test_missing_keys_are_named_where_the_mapping_begins(desk):
    assert desk.wrong("checks:\n  - tcp: {}\n  - id: two\n    command:\n      commands:\n        - stdout: a\n") == [
        '1:1: the key "version" is missing',
        '1:1: the key "name" is missing',
        '2:5: item 1 of checks: the key "id" is missing',
        '2:10: check 1: tcp: the key "url" is missing',
        '6:11: check "two": item 1 of commands: the key "argv" is missing',
    ]


def test_wrong_types_of_the_head_are_said_in_words(desk):
    assert desk.wrong(
        """\
        version: "1"
        name: [a]
        success: 5
        budget: 30
        pins: true
        exit_codes: crul
        fail_fast: yes
        checks: {}
        """
    ) == [
        '1:10: version: 1 is needed, not the text "1"',
        "2:7: name: text is needed, not a list",
        "3:10: success: text is needed, not the number 5; put it in quotes",
        "4:9: budget: a duration such as 2s or 1m30s is needed, not the number 30",
        "5:7: pins: text is needed, not true; put it in quotes",
        '6:13: exit_codes: "plain" or "curl" is needed, not the text "crul"; did you mean "curl"?',
        '7:12: fail_fast: true or false is needed, not the text "yes"',
        "8:9: checks: a list is needed, not a mapping",
    ]


@pytest.mark.parametrize("version", ["2", "0", "-1"])
def test_another_version_is_named(desk, version):
    assert desk.wrong(SMALL.replace("version: 1", f"version: {version}")) == [
        f"1:10: version {version} is not known to this precheck, which reads version 1"
    ]


@pytest.mark.parametrize(("version", "said"), [("1.0", "the number 1.0"), ("true", "true"), ("", "nothing")])
def test_a_version_that_only_python_takes_for_1_is_refused(desk, version, said):
    assert desk.wrong(SMALL.replace("version: 1", f"version: {version}")) == [
        f"1:{10 if version else 9}: version: 1 is needed, not {said}"
    ]


def test_wrong_types_of_a_check_are_said_in_words(desk):
    assert desk.wrong(
        """\
        version: 1
        name: x
        checks:
          - id: 5
            title: [t]
            needs: one
            budget: soon
            tcp: {url: 1}
          - id: two
            needs: [1, one]
            budget: 5
            tcp: ws://h
        """
    ) == [
        "4:9: check 1: id: text is needed, not the number 5; put it in quotes",
        "5:12: check 1: title: text is needed, not a list",
        '6:12: check 1: needs: a list is needed, not the text "one"',
        "7:13: check 1: budget: 'soon' is not a duration such as 2s, 1m30s or 500ms",
        "8:16: check 1: url: text is needed, not the number 1; put it in quotes",
        '10:13: check "two": item 1 of needs: text is needed, not the number 1; put it in quotes',
        '10:16: check "two" needs "one", which is not a check of this spec',
        '11:13: check "two": budget: a duration such as 2s or 1m30s is needed, not the number 5',
        '12:10: check "two": tcp: a mapping is needed, not the text "ws://h"',
    ]


def test_right_options_of_a_check_with_a_wrong_frame_are_no_second_fault(desk):
    assert desk.wrong(SMALL.replace("id: one", "id: 5")) == [
        "4:9: check 1: id: text is needed, not the number 5; put it in quotes"
    ]


def test_wrong_options_are_said_where_they_stand(desk):
    assert desk.wrong_option(
        "residency", "{url: h, models: [m], stay: m, connect: 2, small: 1GB, max_bytes: 5, context_length: true}"
    ) == [
        'm -> stay: a list is needed, not the text "m"',
        "2 -> connect: a duration such as 2s or 1m30s is needed, not the number 2",
        "1GB -> small: '1GB' is not a size such as 20GiB or 256MiB",
        "5 -> max_bytes: a size such as 20GiB or 256MiB is needed, not the number 5",
        "true -> context_length: a whole number is needed, not true",
    ]


def test_a_role_that_is_no_mapping_is_said_where_it_stands(desk):
    assert desk.wrong_option("env", "{required: {A: {url: ws}, B: [], C: }, together: [[A], [1]]}") == [
        'ws -> url: a list is needed, not the text "ws"',
        "[ -> B: a mapping is needed, not a list",
        " -> C: a mapping is needed, not nothing",
        "1 -> item 1 of item 2 of together: text is needed, not the number 1; put it in quotes",
    ]


def test_options_that_can_be_left_out_may_be_nothing(desk):
    assert desk.option("env", "").required == {}
    assert desk.option("residency", "{url: h, models: [], stay: [], context_length: }").context_length is None


@pytest.mark.parametrize("options", ["[]", "''", "false", "0"])
def test_options_that_are_no_mapping_are_refused_also_where_all_can_be_left_out(desk, options):
    assert [one.partition(" -> ")[2] for one in desk.wrong_option("env", options)] == [
        {
            "[]": "env: a mapping is needed, not a list",
            "''": 'env: a mapping is needed, not the text ""',
            "false": "env: a mapping is needed, not false",
            "0": "env: a mapping is needed, not the number 0",
        }[options]
    ]


def test_a_choice_names_what_there_is(desk):
    assert desk.wrong_option("opencode", "{url: h, read: helth}") == [
        (
            'helth -> read: "health" or "capabilities" or "config" or "providers" is needed, not the text "helth"; '
            'did you mean "health"?'
        )
    ]


def test_the_typed_options_of_every_kind_can_be_told_what_is_wrong_with_them(desk):
    for kind in KINDS:
        fields = kind_named(kind).options.__struct_fields__
        said = desk.wrong_option(kind, "{" + ", ".join(f"{field}: {{x: [null]}}" for field in fields) + "}")
        assert said, kind


@pytest.mark.parametrize("digits", ["9" * 400 + "s", "9" * 13 + "h"])
def test_a_duration_beyond_all_sense_is_a_spec_error(desk, digits):
    assert "is not a duration" in desk.wrong(SMALL + f"budget: {digits}\n")[0]


def test_a_budget_of_nothing_is_a_spec_error(desk):
    assert desk.wrong(SMALL + "    budget: 0s\nbudget: 0ms\n") == [
        '6:13: check "one": budget: it has to be more than 0s',
        "7:9: budget: it has to be more than 0s",
    ]


# Kinds, ids and needs ------------------------------------------------------------------------------------------------


def test_a_check_is_a_mapping(desk):
    assert desk.wrong(SMALL + "  - tcp\n  - [tcp]\n  -\n") == [
        "6:5: a check is a mapping with an id and one kind",
        "7:5: a check is a mapping with an id and one kind",
        "8:4: a check is a mapping with an id and one kind",
    ]


def test_a_spec_without_a_check_is_refused(desk):
    assert desk.wrong("version: 1\nname: x\nchecks: []\n") == ["3:9: a spec needs at least one check"]
    assert desk.wrong("version: 1\nname: x\n") == ['1:1: the key "checks" is missing']


def test_a_check_has_one_kind(desk):
    kinds = ", ".join(KINDS)
    assert desk.wrong(SMALL + "  - id: two\n  - {id: three, tcp: {url: h}, env: }\n") == [
        f"6:5: a check has exactly one kind ({kinds}), this one has none",
        f"7:5: a check has exactly one kind ({kinds}), this one has tcp and env",
    ]


def test_a_misspelt_kind_is_one_mistake(desk):
    assert desk.wrong(SMALL.replace("tcp", "tpc")) == ['5:5: unknown key "tpc" in check "one"; did you mean "tcp"?']


@pytest.mark.parametrize("id_", ["Upper", "has space", "-x", "''", "a/b", "ä", "a" * 65, "x\n"])
def test_an_id_is_a_short_lower_case_name(desk, id_):
    quoted = f'"{id_}"' if id_ == "x\n" else id_
    (said,) = desk.wrong(SMALL.replace("id: one", f"id: {quoted}"))
    assert said.startswith("4:9: the id ")
    assert said.endswith("is not lower-case letters, digits, '-', '_' and '.', at most 64")


def test_an_id_that_stands_twice_is_refused_where_it_stands_again(desk):
    assert desk.wrong(SMALL + "  - {id: one, env: }\n") == [
        '6:10: the id "one" stands here a second time (first in line 4)'
    ]


def test_a_check_needs_only_checks_of_the_spec_that_stand_before_it(desk):
    assert desk.wrong(
        """\
        version: 1
        name: x
        checks:
          - {id: one, needs: [two, one], env: }
          - id: two
            needs:
              - one
              - onne
            env:
        """
    ) == [
        '4:23: check "one" needs "two", which needs it in turn (one, two, one)',
        '4:28: check "one" needs "one", which is itself',
        '8:9: check "two" needs "onne", which is not a check of this spec; did you mean "one"?',
    ]


def test_a_circle_of_needs_is_shown_and_what_only_comes_later_is_said_to(desk):
    assert desk.wrong(
        """\
        version: 1
        name: x
        checks:
          - {id: a, needs: [c], env: }
          - {id: b, needs: [a], env: }
          - {id: c, needs: [b], env: }
          - {id: d, needs: [e], env: }
          - {id: e, needs: [b], env: }
        """
    ) == [
        '4:21: check "a" needs "c", which needs it in turn (a, c, b, a)',
        '7:21: check "d" needs "e", which comes later; a check needs only what stands before it',
    ]


def test_a_check_that_is_wrong_itself_is_still_one_that_can_be_needed(desk):
    assert desk.wrong(
        """\
        version: 1
        name: x
        checks:
          - {id: one, tcp: {}}
          - {id: two, needs: [one], env: }
        """
    ) == ['4:20: check "one": tcp: the key "url" is missing']


CHANGES_FIRST = """\
version: 1
name: x
checks:
  - {id: gpu, residency: {url: h, models: [m], stay: [m]}}
  - id: port
    needs: [gpu]
    tcp: {url: ws://h}
"""


def test_what_reads_cannot_need_what_changes_because_it_runs_first(desk):
    assert desk.wrong(CHANGES_FIRST) == [
        (
            '6:13: check "port" needs "gpu", which changes a server (residency) and so runs after all that only reads '
            "(tcp): nothing is changed before everything that can be read is right"
        )
    ]


def test_what_changes_may_stand_before_what_reads_and_be_needed_by_what_changes(desk):
    spec = desk.load(
        CHANGES_FIRST.replace("    needs: [gpu]\n", "")
        + "  - {id: again, needs: [gpu, port], residency: {url: h, models: [m], stay: [m]}}\n"
    )
    assert [check.id for check in spec.checks] == ["gpu", "port", "again"]


def test_a_check_of_a_kind_that_changes_may_be_needed_where_its_options_say_that_it_only_reads(desk):
    desk.load(CHANGES_FIRST.replace("{url: h,", "{mode: verify, url: h,"))


def test_what_only_the_kind_knows_to_be_wrong_is_said_where_it_stands(desk):
    assert desk.wrong_option("http", "{url: 'http://h', status: 42}") == [
        "42 -> status: a whole number from 200 to 599 is needed, or a list of them"
    ]


# Pins ----------------------------------------------------------------------------------------------------------------

PINNED = """\
version: 1
name: x
pins: PINS.md
checks:
  - id: one
    command:
      commands:
        - {argv: [codex, --version], stdout: "codex-cli ${pin:Codex App Server}"}
"""


def test_pins_are_read_beside_the_spec_from_any_folder(desk, tmp_path, monkeypatch):
    desk.pins()
    monkeypatch.chdir("/")
    assert desk.load(PINNED).pins == {"Codex App Server": "0.171.0", "OpenCode Server": "1.18.33"}
    monkeypatch.chdir(tmp_path)
    assert load_spec("it.yml").pins["Codex App Server"] == "0.171.0"


def test_a_pin_that_nobody_refers_to_is_fine_and_so_is_a_line_that_is_like_one(desk):
    desk.pins(
        "- A: `v1`\n- B: v2\n* C: `v3`\n - D: `v4`\n- E: `v5` \n- F: `rust-v6.0-rc+1`\r\n- Codex App Server: `v0`"
    )
    assert desk.load(PINNED).pins == {"A": "1", "F": "6.0-rc+1", "Codex App Server": "0"}


def test_a_pins_file_with_a_byte_order_mark_is_the_same(desk):
    desk.pins("\ufeff- Codex App Server: `v1`\n")
    assert desk.load(PINNED).pins == {"Codex App Server": "1"}


def test_a_pin_that_is_missing_is_named_where_it_is_used(desk):
    desk.pins("- Codex app server: `v1`\n")
    assert desk.wrong(PINNED) == [
        '8:46: check "one": the pin "Codex App Server" is not in PINS.md; did you mean "Codex app server"?'
    ]


def test_a_pin_without_a_pins_file_is_named_where_it_is_used(desk):
    assert desk.wrong(PINNED.replace("pins: PINS.md\n", "")) == [
        '7:46: check "one": the pin "Codex App Server" is used, but the spec names no pins file (pins:)'
    ]


def test_a_doubled_pin_is_an_error_of_the_pins_file(desk, tmp_path):
    desk.pins("- Codex App Server: `v1`\n\n- Codex App Server: `rust-v1`\n")
    desk.path.write_text(PINNED, encoding="utf-8")
    assert str(raised(str(desk.path))) == (
        f'{tmp_path}/PINS.md:3:1: the pin "Codex App Server" stands here a second time'
    )


@pytest.mark.parametrize("inside", ["\x0b", "\x0c", "\x1c\x1d\x1e"])
def test_lines_of_a_pins_file_are_counted_as_editors_count_them(desk, inside):
    desk.pins(f"a{inside}b\n- A: `v1`\n- A: `v1`\n- Codex App Server: `v1`\n")
    desk.path.write_text(PINNED, encoding="utf-8")
    assert [(one.line, one.column) for one in raised(str(desk.path)).problems] == [(3, 1)]


def test_what_is_wrong_with_the_spec_comes_before_what_is_wrong_with_its_pins(desk):
    desk.pins("- Codex App Server: `v1`\n- Codex App Server: `v1`\n")
    desk.path.write_text(PINNED + "colour: red\n", encoding="utf-8")
    files = [os.path.basename(problem.file) for problem in raised(str(desk.path)).problems]
    assert files == ["it.yml", "PINS.md"]


def test_a_pins_file_that_is_not_there_is_one_mistake(desk):
    assert desk.wrong(PINNED) == ['3:7: the pins file "PINS.md" cannot be used: No such file or directory']


def test_a_pins_file_that_cannot_be_one_does_not_hang(desk, tmp_path):
    os.mkfifo(tmp_path / "PINS.md")
    assert desk.wrong(PINNED) == ['3:7: the pins file "PINS.md" cannot be used: it is not a regular file']
    assert desk.wrong(PINNED.replace("PINS.md", ".")) == ['3:7: the pins file "." cannot be used: it is a folder']
    assert desk.wrong(PINNED.replace("PINS.md", '"a\\0b"')) == [
        '3:7: the pins file "a\\u0000b" cannot be used: no path can be that'
    ]


def test_a_pins_file_that_is_not_utf_8_or_too_large_is_named_with_its_place(desk, tmp_path):
    desk.path.write_text(PINNED, encoding="utf-8")
    (tmp_path / "PINS.md").write_bytes(b"- Codex App Server: `v1`\nx\xff\n")
    assert str(raised(str(desk.path))) == f"{tmp_path}/PINS.md:2:2: the file is not UTF-8; save it as UTF-8"
    (tmp_path / "PINS.md").write_bytes(b"- Codex App Server: `v1`\n" + b"x" * (1 << 20))
    assert str(raised(str(desk.path))) == f"{tmp_path}/PINS.md:1:1: the file is larger than 1 MiB"


# Variables -----------------------------------------------------------------------------------------------------------


def test_a_reference_that_cannot_be_understood_is_a_spec_error_with_its_place(desk):
    short = "${ ${} ${A ${1A} ${A-b} ${A:b} ${A:?b} ${A#b} ${A#/~2} ${pin:} ${pin: ${A.b} x${A}${ ${A:-{}} ${A:-${B}}"
    for text in short.split():
        (said,) = desk.wrong(SMALL.replace("{url: ws://h}", f'{{"url": "{text}"}}'))
        assert said.startswith('5:18: check "one": \'${'), text
        assert "write ${NAME}, ${NAME:-default}, ${NAME#/pointer} or ${pin:NAME}, and $$ for a dollar" in said


def test_a_reference_is_looked_at_in_lists_and_mappings_too(desk):
    said = desk.wrong_option("command", "{commands: [{argv: [a, '${b'], stdout: '${'}]}")
    assert [one.partition(" is ")[0].partition(" has ")[0] for one in said] == ["'${b' -> '${b'", "'${' -> '${'"]
    assert "'${x'" in desk.wrong_option("residency", "{url: h, models: {m: {id: '${x'}}, stay: []}")[0]


def test_what_github_expands_is_told_apart(desk):
    (said,) = desk.wrong_option("tcp", "{url: '${{ secrets.URL }}'}")
    assert said.endswith("; ${{ }} is GitHub's and belongs in a workflow")


def test_a_dollar_that_refers_to_nothing_is_text(desk):
    for text in ("$", "$5", "$A", "$$", "$${", "$${A", "a$", "${A}", "${A:-}", "${A:-b-$c}", "${A#}", "${A#/~0~1/}"):
        assert desk.option("tcp", f"{{url: '{text}'}}").url == text


def test_a_title_is_text_whatever_is_in_it(desk):
    assert desk.load(SMALL.replace("tcp:", "title: costs ${5\n    tcp:")).checks[0].title == "costs ${5"


# Secrets -------------------------------------------------------------------------------------------------------------

ARGUMENTS = """\
version: 1
name: x
checks:
  - id: roles
    env: {required: {PLAIN: {}, HIDDEN: {secret: true}}, optional: {ALSO: {secret: true}}}
  - id: tool
    command:
      commands:
        - argv: [tool, ARGUMENT]
          stdout: ok
"""


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("${HIDDEN}", "HIDDEN"),
        ("--key=${ALSO:-none}", "ALSO"),
        ("${HIDDEN#/a/b}", "HIDDEN"),
        ("${MY_API_KEY}", "MY_API_KEY"),
        ("a ${PLAIN} b ${GITHUB_TOKEN}", "GITHUB_TOKEN"),
    ],
)
def test_a_secret_in_an_argument_list_is_refused_where_it_stands_with_what_to_do(desk, argument, name):
    (said,) = desk.wrong(ARGUMENTS.replace("ARGUMENT", f'"{argument}"'))
    assert said.startswith(f'9:24: check "tool": {name} is secret and cannot be an argument, which everybody')
    assert "have the program read it from a file" in said


def test_what_is_no_secret_may_stand_in_an_argument_list_and_a_secret_beside_it(desk):
    desk.load(
        ARGUMENTS.replace("ARGUMENT", '"${PLAIN} $${HIDDEN} ${TOKENS}"').replace("stdout: ok", "stdout: ${HIDDEN}")
    )


# All at once ---------------------------------------------------------------------------------------------------------


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_the_file(desk):
    said = desk.wrong(
        """\
        version: 3
        checks:
          - id: one
            needs: [two]
            tcp: {url: '${'}
          - id: one
            budget: 5
            env: {required: {A: {word: yes}}}
          - tcp:
          - {id: X Y, nope: 1, command: {commands: [{argv: a}]}}
        pins: none.md
        colour: red
        """
    )
    assert [one.partition(": ")[0] for one in said] == [
        "1:1",
        "1:10",
        "4:13",
        "5:16",
        "6:9",
        "7:13",
        "8:32",
        "9:5",
        "9:9",
        "10:10",
        "10:15",
        "10:52",
        "11:7",
        "12:1",
    ]


def test_at_most_20_are_said(desk):
    said = desk.wrong(SMALL + "".join(f"key{number}: 1\n" for number in range(50)))
    assert len(said) == 20
    assert said[-1] == '25:1: unknown key "key19"'
    said = desk.wrong("".join(f"a: {number}\n" for number in range(50)))
    assert len(said) == 20


def test_very_many_unknown_needs_are_refused_in_a_moment(desk):
    began = time.thread_time()
    said = desk.wrong(
        "version: 1\nname: x\nchecks:\n" + "".join(f"- {{id: a{n}, needs: [b{n}], env: }}\n" for n in range(3000))
    )
    assert time.thread_time() - began < 3  # it was 16 s while each was compared with all ids there are
    assert len(said) == 20
    assert said[0] == '4:20: check "a0" needs "b0", which is not a check of this spec'


def test_a_thousand_checks_are_loaded_in_a_moment(desk):
    checks = "".join(f"  - {{id: a{n}, needs: [], file: {{path: /{n}, exists: false}}}}\n" for n in range(1000))
    began = time.thread_time()
    assert len(desk.load(f"version: 1\nname: x\nchecks:\n{checks}").checks) == 1000
    assert time.thread_time() - began < 0.4  # it was 0.9 s while the annotations were read again for each


def test_a_long_circle_of_needs_is_shown_by_its_ends(desk):
    checks = "".join(f"  - {{id: a{n}, needs: [a{(n + 1) % 50}], env: }}\n" for n in range(50))
    said = desk.wrong(f"version: 1\nname: x\nchecks:\n{checks}")
    assert said[0] == '4:22: check "a0" needs "a1", which needs it in turn (a0, a1, a2, a3, …, a48, a49, a0)'


def test_a_guess_is_made_for_every_fault_that_is_said(desk):
    checks = "".join(f"  - {{id: alpha{n}, needs: [alfa{n}], env: }}\n" for n in range(40))
    said = desk.wrong(f"version: 1\nname: x\nchecks:\n{checks}")
    assert len(said) == 20
    assert all('did you mean "alpha' in one for one in said)


def test_a_fault_behind_an_alias_is_said_once(desk):
    said = desk.wrong(
        SMALL.replace("{url: ws://h}", "&a {ulr: x}") + "  - {id: two, tcp: *a}\n  - {id: three, tcp: *a}\n"
    )
    assert said == [
        '5:10: check "one": tcp: the key "url" is missing',
        '5:14: unknown key "ulr" in check "one"; did you mean "url"?',
    ]


# A value -------------------------------------------------------------------------------------------------------------


def test_loading_touches_neither_network_nor_children_nor_environment(desk, monkeypatch):
    import socket
    import subprocess

    class Untouched(dict):
        def __getattribute__(self, name):
            raise AssertionError(f"the environment was asked for {name}")

        def __getitem__(self, key):
            raise AssertionError(f"the environment was asked for {key}")

    def never(*_args, **_kwargs):
        raise AssertionError

    desk.pins()
    monkeypatch.setattr(socket, "socket", never)
    monkeypatch.setattr(socket, "getaddrinfo", never)
    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.setattr(os, "environ", Untouched())
    strict, small = load_spec("strict"), desk.load(PINNED)
    monkeypatch.undo()
    assert (len(strict.checks), len(small.checks)) == (10, 1)


def test_loading_twice_gives_equal_values():
    assert load_spec("strict") == load_spec("strict")


# Built-in specs ------------------------------------------------------------------------------------------------------


def test_a_built_in_spec_is_found_by_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = load_spec("strict")
    assert spec.identity.name == "strict"
    assert Path(spec.identity.path) == ROOT / "specs" / "strict.yml"
    assert built_in_names() == ["ollama", "openai", "strict"]


def test_a_file_of_a_built_in_name_needs_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strict").write_text(SMALL, encoding="utf-8")
    assert load_spec("strict").identity.name == "strict"
    assert load_spec("./strict").identity.name == "small"
    assert load_spec(str(tmp_path / "strict")).identity.name == "small"


def test_a_name_is_not_a_way_out_of_the_folder_of_built_in_specs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("../specs/strict", "strict.yml", "STRICT", "strict\n"):
        assert "cannot be read" in str(raised(name))


def test_built_in_specs_lie_in_the_package_where_it_is_installed(tmp_path, monkeypatch):
    package = tmp_path / "precheck_lib"
    (package / "specs").mkdir(parents=True)
    monkeypatch.setattr("precheck_lib.spec.load.__file__", str(package / "spec" / "load.py"))
    assert built_in_folder() == str(package / "specs")
    assert built_in_names() == []
    (package / "specs").rmdir()
    assert built_in_folder() == str(tmp_path / "specs")
    assert built_in_names() == []


def test_the_wheel_has_the_built_in_specs_where_the_package_looks_for_them(tmp_path, run_python):
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    (wheel,) = hatchling.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if name.startswith("precheck_lib/specs/")}
        archive.extractall(tmp_path / "site")
    there = (path for path in (ROOT / "specs").rglob("*") if path.is_file())
    assert files == {f"precheck_lib/{path.relative_to(ROOT)}" for path in there}
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from precheck_lib import load_spec
        print(load_spec("strict").identity.path)
    """
    assert run_python(code, str(tmp_path / "site"), cwd=tmp_path) == f"{tmp_path}/site/precheck_lib/specs/strict.yml\n"
