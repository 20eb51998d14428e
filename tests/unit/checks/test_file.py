"""Files: what is there and what has to be are both said; what cannot be seen is an error and never a pass."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import time

import pytest

from precheck_lib.checks import content, file


@pytest.fixture
def there(tmp_path):
    made = tmp_path / "model.bin"
    made.write_bytes(b"weights of a model\n")
    made.chmod(0o640)
    return made


def refusing(number, of=None):
    """A system call that is refused, for one path only where that is given."""

    def call(path, *args, **kwargs):
        if of is not None and os.fspath(path) != str(of):
            return real(path, *args, **kwargs)
        raise OSError(number, os.strerror(number), str(path))

    real = os.stat
    return call


# There or not ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_all_that_it_has_to_be_passes(checker, there):
    options = {
        "path": str(there),
        "type": "file",
        "readable": True,
        "writable": True,
        "min_size": "19B",
        "max_age": "1h",
        "sha256": hashlib.sha256(there.read_bytes()).hexdigest(),
        "contains": "of a model",
        "mode": "0640",
        "owner": str(os.getuid()),
    }
    assert checker.passes("file", options) == []


def test_a_path_may_come_from_the_environment(checker, there):
    assert checker.passes("file", {"path": "${FOLDER}/model.bin"}, env={"FOLDER": str(there.parent)}) == []


def test_what_is_not_there_is_a_failure_that_says_how_far_its_path_goes(checker, there):
    for path, evidence in (
        (there.parent / "none", "its folder is there"),
        (there.parent / "a" / "b" / "c", f"of its path only {there.parent} is there"),
        (there / "below", f"{there} is no folder"),
    ):
        error = checker.error("file", {"path": str(path)})
        assert (error.word, error.findings[0].code) == ("failed", "file.absent")
        assert error.findings[0].message == f"{path} is not there"
        assert error.findings[0].evidence == evidence


def test_a_link_is_followed_and_one_that_leads_nowhere_is_named(checker, there):
    link = there.parent / "link"
    link.symlink_to(there)
    assert checker.passes("file", {"path": str(link), "type": "file"}) == []
    there.unlink()
    error = checker.error("file", {"path": str(link)})
    assert error.findings[0].code == "file.absent"
    assert error.findings[0].evidence == f"it is a link to {there}, which leads nowhere"


def test_links_in_a_circle_are_as_good_as_nothing(checker, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert checker.said("file", {"path": str(tmp_path / "a")}) == (
        "failed",
        [("file.absent", f"{tmp_path}/a is not there")],
    )


def test_what_must_not_be_there_is_not_even_a_dead_link(checker, there):
    assert checker.passes("file", {"path": str(there.parent / "none"), "exists": False}) == []
    link = there.parent / "lock"
    link.symlink_to("nowhere")
    for path, is_kind in ((there, "a file"), (there.parent, "a folder"), (link, "a link")):
        word, ((code, message),) = checker.said("file", {"path": str(path), "exists": False})
        assert (word, code) == ("failed", "file.present")
        assert message.startswith(f"{path} is there ({is_kind}, last changed ")
        assert message.endswith(", but nothing may be")


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_that_may_not_be_entered_hides_a_file_and_that_is_no_verdict(checker, there, monkeypatch, exists):
    monkeypatch.setattr(os, "stat", refusing(errno.EACCES))
    monkeypatch.setattr(os, "lstat", refusing(errno.EACCES))
    error = checker.error("file", {"path": str(there), "exists": exists})
    assert (error.word, error.findings[0].code) == ("error", "file.denied")
    assert error.findings[0].message == f"{there} cannot be looked at: Permission denied"


def test_the_folder_that_may_not_be_entered_is_named(there, monkeypatch):
    monkeypatch.setattr(os, "stat", refusing(errno.EACCES, of=there))
    error = file._stat(str(there), follow=True)
    assert f"may not enter the folder {there.parent}," in file._why(str(there), error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_real_folder_that_may_not_be_entered(checker, there):
    there.parent.chmod(0)
    try:
        assert checker.error("file", {"path": str(there)}).word == "error"
    finally:
        there.parent.chmod(0o700)


def test_a_share_whose_server_is_gone_is_no_verdict(checker, there, monkeypatch):
    monkeypatch.setattr(os, "stat", refusing(errno.ESTALE))
    error = checker.error("file", {"path": str(there)})
    assert (error.word, error.findings[0].code) == ("error", "file.unknown")


def test_a_dead_mount_is_given_up_at_the_end_of_the_budget(checker, there, monkeypatch, hangs):
    monkeypatch.setattr(os, "stat", hangs)
    began = time.monotonic()
    error = checker.error("file", {"path": str(there)}, seconds=0.1)
    assert time.monotonic() - began < 2
    assert (error.word, error.curl, error.findings[0].code) == ("error", 28, "file.deadline")
    assert error.findings[0].message == f"{there}: deadline of 0.1 s elapsed"


# What it is -----------------------------------------------------------------------------------------------------------


def test_each_type_is_told_from_the_others(checker, there, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        os.mkfifo(tmp_path / "fifo")
        kinds = {"file": there, "folder": tmp_path, "socket": tmp_path / "socket"}
        for wanted in kinds:
            for found, path in (*kinds.items(), ("FIFO", tmp_path / "fifo"), ("device", "/dev/null")):
                options = {"path": str(path), "type": wanted}
                if found == wanted:
                    assert checker.passes("file", options) == []
                else:
                    said = ("file.type", f"{path} is a {found}, not a {wanted}")
                    assert checker.said("file", options) == ("failed", [said])


def test_a_file_that_is_too_small_or_too_old_is_said_with_both_values(checker, there):
    os.utime(there, (0, time.time() - 7200.5))
    word, findings = checker.said("file", {"path": str(there), "min_size": "1MiB", "max_age": "1h30m"})
    assert word == "failed"
    assert findings[0] == ("file.size", f"{there} has 19 B (19 bytes), at least 1 MiB are needed")
    assert findings[1][0] == "file.old"
    assert findings[1][1].startswith(f"{there} was last changed 2 h ago, ")
    assert findings[1][1].endswith(" UTC; it may be 90m old")


def test_the_mode_is_compared_exactly_and_the_owner_by_name_or_number(checker, there):
    assert checker.passes("file", {"path": str(there), "mode": "640"}) == []
    assert checker.said("file", {"path": str(there), "mode": "0600"}) == (
        "failed",
        [("file.access", f"{there} has the mode 0640, not 0600")],
    )
    word, ((code, message),) = checker.said("file", {"path": str(there), "owner": "nobody-of-this-name"})
    assert (word, code) == ("failed", "file.access")
    assert message.endswith("not to nobody-of-this-name")


def test_what_this_user_may_not_do_is_a_failure_that_says_whose_it_is(checker, there, monkeypatch):
    asked = []

    def access(path, bits, **_):
        asked.append(bits)
        return bits != os.W_OK

    monkeypatch.setattr(os, "access", access)
    error = checker.error("file", {"path": str(there), "readable": True, "writable": True})
    assert error.word == "failed"
    assert [finding.code for finding in error.findings] == ["file.access"]
    assert f"{there} cannot be written by user " in error.findings[0].message
    assert "has the mode 0640" in error.findings[0].evidence
    assert asked == [os.R_OK, os.W_OK]


def test_what_nobody_may_execute_is_not_executable(checker, there):
    word, ((code, message),) = checker.said("file", {"path": str(there), "executable": True})
    assert (word, code) == ("failed", "file.access")
    assert f"{there} cannot be executed by user " in message
    there.chmod(0o750)
    assert checker.passes("file", {"path": str(there), "executable": True}) == []


# What is in it --------------------------------------------------------------------------------------------------------


def test_another_content_is_said_by_its_digest_and_never_shown(checker, there):
    digest = hashlib.sha256(there.read_bytes()).hexdigest()
    options = {"path": str(there), "sha256": "0" * 64, "contains": "hunter2"}
    word, findings = checker.said("file", options)
    assert word == "failed"
    assert findings == [
        ("file.digest", f"{there} has the SHA-256 {digest}, not {'0' * 64}"),
        ("file.content", f"{there} does not hold 'hunter2'"),
    ]


def test_a_text_from_a_variable_is_named_by_the_variable(checker, there):
    error = checker.error("file", {"path": str(there), "contains": "${WORD}"}, env={"WORD": "hunter2"})
    assert error.findings[0].message == f"{there} does not hold '${{WORD}}'"


def test_a_text_is_searched_no_further_than_was_said_and_what_lies_beyond_is_unknown(checker, there):
    path = str(there)
    there.write_bytes(b"x" * 100 + b"needle" + b"x" * 100)
    assert checker.passes("file", {"path": path, "contains": "needle", "max_read": "106B"}) == []
    word, ((code, message),) = checker.said("file", {"path": path, "contains": "needle", "max_read": "105B"})
    assert (word, code) == ("error", "file.unreadable")
    assert message == f"{path} does not hold 'needle' within its first 105 B, and more of it is not read"
    # All of it was read: then it is known.
    word, ((code, _),) = checker.said("file", {"path": path, "contains": "nail", "max_read": "206B"})
    assert (word, code) == ("failed", "file.content")


def test_the_digest_is_of_all_of_a_file_also_where_a_text_is_found_at_once(checker, there):
    there.write_bytes(b"a" * (3 << 20))
    digest = hashlib.sha256(there.read_bytes()).hexdigest()
    assert checker.passes("file", {"path": str(there), "contains": "aa", "max_read": "2B", "sha256": digest}) == []


def test_a_file_that_cannot_be_read_is_no_verdict_on_its_content(checker, there, monkeypatch):
    def refused(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(content.os, "open", refused)
    word, findings = checker.said("file", {"path": str(there), "contains": "x"})
    assert (word, findings) == ("error", [("file.unreadable", f"{there} cannot be read: Permission denied")])
    # What is known to be wrong decides.
    assert checker.error("file", {"path": str(there), "contains": "x", "min_size": "1KiB"}).word == "failed"


def test_only_a_file_has_content_and_a_fifo_does_not_hold_the_look(checker, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert checker.said("file", {"path": str(tmp_path / "fifo"), "contains": "x"}) == (
        "failed",
        [("file.type", f"{tmp_path}/fifo is a FIFO, and only a file has content")],
    )
    # One that has taken the file's place since it was looked at:
    wanted = content.Content(text="x")
    (finding,) = content.judge_content(str(tmp_path / "fifo"), "it", wanted, checker.context().budget)
    assert (finding.code, finding.message) == ("file.unreadable", "it is no file any more")


def test_reading_ends_with_the_budget_although_the_file_goes_on(checker, there, monkeypatch):
    class EndedError(Exception):
        pass

    budget = checker.context().budget

    def over(phase):
        raise EndedError(phase)

    monkeypatch.setattr(type(budget), "check", lambda _, phase: over(phase))
    with pytest.raises(EndedError):
        content.judge_content(str(there), "it", content.Content(sha256="0" * 64), budget)


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "relative"}, "path: 'relative' is not an absolute path"),
        ({"path": "~/x"}, "path: '~/x' is not an absolute path"),
        ({"path": "/a\0b"}, "path: '/a\\x00b' is not an absolute path"),
        (
            {"path": "/x", "exists": False, "type": "file"},
            "exists: false says that nothing may be there; type says what has to be",
        ),
        (
            {"path": "/x", "exists": False, "contains": "x"},
            "exists: false says that nothing may be there; contains says what has to be",
        ),
        ({"path": "/x", "sha256": "A" * 64}, "sha256: it is not 64 lower-case hexadecimal digits"),
        ({"path": "/x", "mode": "rw-r--r--"}, "mode: 'rw-r--r--' is not a mode in octal such as \"0644\""),
    ],
)
def test_options_that_cannot_be_are_refused(checker, options, said):
    assert checker.refused("file", options) == [said]


def test_a_name_that_would_disturb_a_message_is_quoted(checker, tmp_path):
    word, ((_, message),) = checker.said("file", {"path": f"{tmp_path}/a\nb"})
    assert word == "failed"
    assert message == f"'{tmp_path}/a\\nb' is not there"


def test_a_plan_says_what_is_looked_at_and_what_is_read(checker):
    assert checker.planned("file", {"path": "${F}", "exists": False}) == ["look at ${F}: nothing may be there"]
    assert checker.planned("file", {"path": "/x", "type": "folder"}) == ["look at /x: a folder has to be"]
    assert checker.planned("file", {"path": "/x", "sha256": "a", "contains": "b"}) == [
        "look at /x: something has to be",
        "read all of it for its SHA-256",
        "search its first 1 MiB for a text",
    ]
