"""Reports on their way: into files in one step, into FIFOs and devices in time, or not at all, and why."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from precheck_lib.report import target
from precheck_lib.report.deliver import Document, deliver

NEW = b"new report\n"


@pytest.fixture
def place(tmp_path):
    """A folder of which a test says what is in it at the end; a torso would be seen."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def refused(path, content=NEW, **options):
    """The sentence about the one document that cannot be written."""
    (undelivered,) = deliver([Document(str(path), content)], **options)
    assert undelivered.path == str(path)
    assert undelivered.message.isprintable()
    return undelivered.message.removeprefix(f"cannot write {path}: ")


class Reader(threading.Thread):
    """Reads a FIFO to its end, from a moment after its start on."""

    def __init__(self, fifo, delay=0.0):
        super().__init__(daemon=True)
        self.fifo, self.delay, self.read = fifo, delay, None
        self.start()

    def run(self):
        time.sleep(self.delay)
        with open(self.fifo, "rb") as file:
            self.read = file.read()

    def result(self):
        self.join(5)
        return self.read


# Files -----------------------------------------------------------------------------------------------------


def test_a_new_file_and_its_folders_are_made(place):
    path = place / "a" / "b" / "report.json"
    assert deliver([Document(str(path), NEW)]) == []
    assert path.read_bytes() == NEW
    assert names(path.parent) == ["report.json"]


def test_a_relative_path_counts_from_the_working_folder(place, monkeypatch):
    monkeypatch.chdir(place)
    assert deliver([Document("report.json", NEW), Document("./sub/report.xml", NEW)]) == []
    assert names(place) == ["report.json", "sub"]


def test_content_may_be_rendered_and_empty(place):
    assert deliver([Document(str(place / "a"), lambda: NEW), Document(str(place / "b"), b"")]) == []
    assert (place / "a").read_bytes() == NEW
    assert (place / "b").read_bytes() == b""


def test_a_large_content_is_written_whole(place):
    content = os.urandom(5_000_000)
    assert deliver([Document(str(place / "a"), content)]) == []
    assert (place / "a").read_bytes() == content


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002, 0o000])
def test_a_file_has_the_mode_that_the_umask_gives(place, umask):
    (place / "old").write_bytes(b"old")
    (place / "old").chmod(0o600)
    before = os.umask(umask)
    try:
        assert deliver([Document(str(place / "new"), NEW), Document(str(place / "old"), NEW)]) == []
    finally:
        os.umask(before)
    for name in ("new", "old"):
        assert stat.S_IMODE((place / name).stat().st_mode) == 0o666 & ~umask


def test_an_old_file_is_replaced_and_not_written_into(place):
    path = place / "report.json"
    path.write_bytes(b"old and longer than the new one")
    with path.open("rb") as reader:
        assert deliver([Document(str(path), NEW)]) == []
        assert reader.read() == b"old and longer than the new one"
    assert path.read_bytes() == NEW
    assert names(place) == ["report.json"]


def test_somebody_who_looks_all_the_time_sees_a_whole_report(place):
    path = place / "report.json"
    path.write_bytes(b"x" * 300_000)
    seen, done = set(), threading.Event()

    def look():
        while not done.is_set():
            content = path.read_bytes()
            seen.add((len(content), content[:1], content[-1:]))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for byte in (b"a", b"b", b"c"):
            assert deliver([Document(str(path), byte * 300_000)]) == []
    finally:
        done.set()
        looker.join()
    assert seen <= {(300_000, byte, byte) for byte in (b"x", b"a", b"b", b"c")}


# Symbolic links --------------------------------------------------------------------------------------------


def test_a_link_keeps_pointing_where_it_did(place):
    (place / "real").mkdir()
    (place / "real" / "report").write_bytes(b"old")
    (place / "link").symlink_to("real/report")
    assert deliver([Document(str(place / "link"), NEW)]) == []
    assert (place / "link").readlink() == Path("real/report")
    assert (place / "real" / "report").read_bytes() == NEW
    assert names(place / "real") == ["report"]


def test_a_chain_of_links_is_followed_from_folder_to_folder(place):
    (place / "a" / "b").mkdir(parents=True)
    (place / "report").write_bytes(b"old")
    (place / "a" / "b" / "third").symlink_to("../../report")
    (place / "a" / "second").symlink_to(place / "a" / "b" / "third")
    (place / "first").symlink_to("a/second")
    assert deliver([Document(str(place / "first"), NEW)]) == []
    assert (place / "report").read_bytes() == NEW
    assert not (place / "report").is_symlink()
    assert all((place / link).is_symlink() for link in ("first", "a/second", "a/b/third"))


def test_the_target_of_a_dangling_link_is_made_with_its_folder(place):
    (place / "link").symlink_to("not/yet/there")
    assert deliver([Document(str(place / "link"), NEW)]) == []
    assert (place / "link").is_symlink()
    assert (place / "not" / "yet" / "there").read_bytes() == NEW


def test_a_linked_folder_stays_a_link(place):
    (place / "real").mkdir()
    (place / "folder").symlink_to("real")
    assert deliver([Document(str(place / "folder" / "report"), NEW)]) == []
    assert (place / "folder").is_symlink()
    assert (place / "real" / "report").read_bytes() == NEW


def test_a_loop_of_links_is_refused(place):
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    assert refused(place / "a").startswith("its symbolic links form a loop; ")
    assert refused(place / "a" / "report").startswith("its symbolic links form a loop; ")
    assert names(place) == ["a", "b"]


# What cannot be written ------------------------------------------------------------------------------------


def test_a_folder_is_refused(place):
    (place / "folder").mkdir()
    (place / "link").symlink_to("folder")
    for path in (place / "folder", place / "link", f"{place}/new/", f"{place}/.", f"{place}/folder/.."):
        assert refused(path) == "it is a folder; name a file in it"
    assert names(place) == ["folder", "link"]


def test_a_file_as_parent_is_refused(place):
    (place / "file").write_bytes(b"old")
    for path in (place / "file" / "report", place / "file" / "a" / "b" / "report"):
        assert refused(path).startswith("a part of the path is a file where a folder is needed; ")
    assert (place / "file").read_bytes() == b"old"


def test_a_long_name_is_refused_and_the_longest_is_not(place):
    assert refused(place / ("n" * 256)).startswith("the name is too long; ")
    assert refused(place / ("n" * 256) / "report").startswith("the name is too long; ")
    assert deliver([Document(str(place / ("n" * 255)), NEW)]) == []
    assert names(place) == ["n" * 255]


def test_an_impossible_path_is_refused():
    assert refused("") == "cannot write a report: its path is empty; name a file"
    for path in ("a\0b", "a\ud800b"):
        (undelivered,) = deliver([Document(path, NEW)])
        assert undelivered.path == path
        assert "a character in it that no path can have" in undelivered.message


def test_a_hostile_path_is_cleaned_in_the_sentence(place):
    (undelivered,) = deliver([Document(f"{place}/\x1b[31m##[error]\n::x/", NEW)])
    assert undelivered.message.startswith(f"cannot write {place}/## [error] ::x/: ")


def test_a_socket_is_refused(place, monkeypatch):
    monkeypatch.chdir(place)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert refused("socket").startswith("it is a socket; ")
        assert refused(f"/dev/fd/{server.fileno()}").startswith("it is a socket; ")
    assert stat.S_ISSOCK((place / "socket").lstat().st_mode)


def test_a_descriptor_that_is_not_open_is_refused():
    assert refused("/dev/fd/987").startswith("the descriptor is not open for writing; ")


def test_a_full_device_is_refused():
    assert refused("/dev/full").startswith("the disk or device is full; ")


def test_a_file_that_grows_too_large_leaves_no_torso(place):
    (place / "report").write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        said = refused(place / "report", b"x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert said.startswith("files may not be as large as this; ")
    assert names(place) == ["report"]
    assert (place / "report").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the disk or device is full; free some space there, or name a path elsewhere"),
        (errno.EDQUOT, "the disk quota is used up; free some space there, or name a path elsewhere"),
        (errno.EACCES, "permission is denied; let the account that runs precheck write there"),
        (errno.EROFS, "the file system is read-only; name a path elsewhere"),
        (errno.EIO, "Input/output error; name another path"),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "close", "replace"])
def test_an_error_at_any_step_leaves_the_old_file_and_no_torso(place, monkeypatch, number, said, call):
    (place / "report").write_bytes(b"old")

    def fail(*_args):
        raise OSError(number, os.strerror(number))

    def close(descriptor):
        os.close(descriptor)
        fail()

    class Os:
        def __getattr__(self, name):
            return {call: close if call == "close" else fail}.get(name) or getattr(os, name)

    monkeypatch.setattr(target, "os", Os())
    assert refused(place / "report") == said
    assert names(place) == ["report"]
    assert (place / "report").read_bytes() == b"old"


@pytest.mark.parametrize("linked", [False, True])
def test_what_has_the_name_of_the_new_file_already_is_neither_written_nor_removed(place, monkeypatch, linked):
    monkeypatch.setattr(os, "urandom", bytes)
    taken = place / f".precheck-{'00' * 8}.tmp"
    if linked:
        (place / "other").write_bytes(b"precious")
        taken.symlink_to("other")
    else:
        taken.write_bytes(b"precious")
    assert refused(place / "report")
    assert taken.read_bytes() == b"precious"
    assert not (place / "report").exists()


def test_two_reports_for_one_file_are_refused_whatever_the_way_to_it(place):
    (place / "link").symlink_to("report")
    failed = deliver([Document(str(place / "report"), NEW), Document(str(place / "link"), b"other")])
    assert [item.path for item in failed] == [str(place / "link")]
    assert "another report goes there too" in failed[0].message
    assert names(place) == ["link"]


# All or none -----------------------------------------------------------------------------------------------


def test_when_one_cannot_be_written_the_others_stay_as_they_were(place):
    (place / "old").write_bytes(b"old")
    (place / "folder").mkdir()
    documents = [
        Document(str(place / "old"), NEW),
        Document(str(place / "folder"), NEW),
        Document(str(place / "old" / "x"), NEW),
        Document(str(place / "new"), NEW),
    ]
    failed = deliver(documents)
    assert [item.path for item in failed] == [str(place / "folder"), str(place / "old" / "x")]
    assert (place / "old").read_bytes() == b"old"
    assert names(place) == ["folder", "old"]
    assert deliver([documents[0], documents[3]]) == []
    assert (place / "old").read_bytes() == (place / "new").read_bytes() == NEW


def test_when_a_device_cannot_be_written_no_file_is_replaced(place):
    (place / "old").write_bytes(b"old")
    failed = deliver([Document(str(place / "old"), NEW), Document("/dev/full", NEW)])
    assert [item.path for item in failed] == ["/dev/full"]
    assert (place / "old").read_bytes() == b"old"
    assert names(place) == ["old"]


def test_when_a_device_cannot_be_written_the_reader_of_a_fifo_is_told_nothing(place):
    os.mkfifo(place / "fifo")
    reader = Reader(place / "fifo")
    failed = deliver([Document(str(place / "fifo"), NEW), Document("/dev/full", NEW)], deadline=5)
    assert [item.path for item in failed] == ["/dev/full"]
    assert reader.result() == b""


def test_when_a_file_cannot_be_written_the_reader_of_a_fifo_can_still_get_its_report(place):
    os.mkfifo(place / "fifo")
    reader = Reader(place / "fifo")
    failed = deliver([Document(str(place / "fifo"), b"passed"), Document(str(place), NEW)], deadline=5)
    assert [item.path for item in failed] == [str(place)]
    assert deliver([Document(str(place / "fifo"), b"failed")], deadline=5) == []
    assert reader.result() == b"failed"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, RuntimeError, MemoryError])
def test_an_exception_while_rendering_leaves_nothing(place, interruption):
    (place / "old").write_bytes(b"old")

    def render():
        assert len(names(place)) == 2  # the first report is there, under another name
        raise interruption

    with pytest.raises(interruption):
        deliver([Document(str(place / "old"), NEW), Document(str(place / "new"), render)])
    assert names(place) == ["old"]
    assert (place / "old").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["open", "write", "close", "replace"])
def test_an_interruption_at_any_step_leaves_nothing(place, monkeypatch, call):
    (place / "old").write_bytes(b"old")

    def interrupted(*args):
        if call == "open":
            os.close(os.open(*args))
        elif call != "replace":
            getattr(os, call)(*args)
        raise KeyboardInterrupt

    class Os:
        def __getattr__(self, name):
            return interrupted if name == call else getattr(os, name)

    monkeypatch.setattr(target, "os", Os())
    with pytest.raises(KeyboardInterrupt):
        deliver([Document(str(place / "old"), NEW)])
    assert names(place) == ["old"]
    assert (place / "old").read_bytes() == b"old"


# FIFOs and devices -----------------------------------------------------------------------------------------


def test_a_fifo_is_written_to_and_stays_a_fifo(place):
    os.mkfifo(place / "fifo")
    reader = Reader(place / "fifo")
    assert deliver([Document(str(place / "fifo"), NEW)], deadline=5) == []
    assert reader.result() == NEW
    assert stat.S_ISFIFO((place / "fifo").lstat().st_mode)


def test_a_link_to_a_fifo_is_followed(place):
    os.mkfifo(place / "fifo")
    (place / "link").symlink_to("fifo")
    reader = Reader(place / "fifo")
    assert deliver([Document(str(place / "link"), NEW)], deadline=5) == []
    assert reader.result() == NEW
    assert (place / "link").is_symlink()


def test_a_reader_that_comes_late_gets_it(place):
    os.mkfifo(place / "fifo")
    reader = Reader(place / "fifo", delay=0.2)
    assert deliver([Document(str(place / "fifo"), NEW)], deadline=5) == []
    assert reader.result() == NEW


def test_a_content_larger_than_a_pipe_reaches_its_reader(place):
    os.mkfifo(place / "fifo")
    content = os.urandom(1_000_000)
    reader = Reader(place / "fifo")
    assert deliver([Document(str(place / "fifo"), content)], deadline=5) == []
    assert reader.result() == content


def test_fifos_without_readers_are_given_up_together_in_time(place):
    (place / "old").write_bytes(b"old")
    paths = [str(place / name) for name in ("one", "two", "three")]
    for path in paths:
        os.mkfifo(path)
    before = time.monotonic()
    failed = deliver([Document(path, NEW) for path in [str(place / "old"), *paths]], deadline=0.3)
    assert 0.3 <= time.monotonic() - before < 2
    assert [item.path for item in failed] == paths
    assert all("nothing reads from this FIFO; start its reader first" in item.message for item in failed)
    assert names(place) == ["old", "one", "three", "two"]
    assert (place / "old").read_bytes() == b"old"


def test_without_time_a_fifo_is_tried_once(place):
    os.mkfifo(place / "fifo")
    before = time.monotonic()
    assert refused(place / "fifo", deadline=0).startswith("nothing reads from this FIFO; ")
    assert time.monotonic() - before < 1


def test_the_time_for_fifos_begins_when_the_reports_are_rendered(place):
    os.mkfifo(place / "fifo")
    reader = Reader(place / "fifo", delay=0.6)
    assert deliver([Document(str(place / "fifo"), lambda: time.sleep(0.5) or NEW)], deadline=0.5) == []
    assert reader.result() == NEW


def test_a_reader_that_takes_nothing_is_given_up_in_time(place):
    os.mkfifo(place / "fifo")
    held = os.open(place / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        before = time.monotonic()
        said = refused(place / "fifo", b"x" * 1_000_000, deadline=0.3)
        assert 0.3 <= time.monotonic() - before < 2
        assert said.startswith("its reader did not take it in time; ")
    finally:
        os.close(held)


def test_a_reader_that_drips_is_given_up_in_time(place):
    os.mkfifo(place / "fifo")
    held, done = os.open(place / "fifo", os.O_RDONLY | os.O_NONBLOCK), threading.Event()

    def drip():
        while not done.wait(0.02):
            with contextlib.suppress(BlockingIOError):
                os.read(held, 4096)

    dripper = threading.Thread(target=drip)
    dripper.start()
    try:
        before = time.monotonic()
        assert refused(place / "fifo", b"x" * 5_000_000, deadline=0.3).startswith("its reader did not take it")
        assert time.monotonic() - before < 2
    finally:
        done.set()
        dripper.join()
        os.close(held)


def test_a_reader_that_goes_away_is_an_error_and_no_signal(place):
    os.mkfifo(place / "fifo")
    held = os.open(place / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    leaver = threading.Timer(0.1, os.close, [held])
    leaver.start()
    assert refused(place / "fifo", b"x" * 1_000_000, deadline=5).startswith("its reader went away; ")
    leaver.join()


def test_a_path_that_is_exchanged_for_a_file_is_not_written_to(place, monkeypatch):
    os.mkfifo(place / "fifo")
    found = target.find_target(str(place / "fifo"))
    (place / "fifo").unlink()
    (place / "fifo").write_bytes(b"precious")
    monkeypatch.setattr(sys.modules["precheck_lib.report.deliver"], "find_target", lambda _: found)
    assert refused(place / "fifo").startswith("it was exchanged while it was opened; ")
    assert (place / "fifo").read_bytes() == b"precious"


def test_the_null_device_takes_every_report():
    assert deliver([Document("/dev/null", NEW), Document("/dev/null", b"other")]) == []
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


PROGRAM = """
import os, sys
from precheck_lib.report.deliver import Document, deliver
print("before", flush=True)
failed = deliver([Document(path, b"report\\n") for path in sys.argv[1:]], deadline=5)
print("after", *(item.message for item in failed), flush=True)
sys.exit(len(failed))
"""


def run(*paths, **options):
    arguments = [sys.executable, "-c", PROGRAM, *paths]
    return subprocess.run(arguments, check=False, timeout=30, **options)


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1"])
def test_stdout_that_is_a_pipe_is_written_to(path):
    assert run(path, stdout=subprocess.PIPE).stdout == b"before\nreport\nafter\n"


def test_stderr_is_written_to():
    assert run("/dev/stderr", stdout=subprocess.PIPE, stderr=subprocess.PIPE).stderr == b"report\n"


@pytest.mark.parametrize("mode", ["wb", "ab"])
@pytest.mark.parametrize("linked", [False, True])
def test_stdout_that_is_a_file_is_neither_replaced_nor_overwritten(place, mode, linked):
    (place / "out").write_bytes(b"earlier\n")
    (place / "link").symlink_to("/dev/stdout")
    with (place / "out").open(mode) as out:
        run(str(place / "link") if linked else "/dev/stdout", stdout=out)
    earlier = b"earlier\n" if mode == "ab" else b""
    assert (place / "out").read_bytes() == earlier + b"before\nreport\nafter\n"
    assert (place / "link").is_symlink()


def test_stdout_that_is_a_pipe_keeps_its_flags():
    reading, writing = os.pipe()
    try:
        run("/dev/stdout", stdout=writing)
        assert os.get_blocking(writing)
    finally:
        os.close(reading)
        os.close(writing)


def test_stdout_whose_reader_is_gone_is_an_error_and_no_signal():
    reading, writing = os.pipe()
    os.close(reading)
    result = run(f"/dev/fd/{writing}", stdout=subprocess.PIPE, pass_fds=[writing])
    os.close(writing)
    assert result.returncode == 1
    assert b"after cannot write /dev/fd/" in result.stdout


class Denying:
    """Stands for `os` where another account opened a descriptor: it cannot be opened anew, only copied."""

    def __getattr__(self, name):
        return self.denied if name == "open" else getattr(os, name)

    @staticmethod
    def denied(*_args):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_descriptor_that_another_account_opened_is_written_to(monkeypatch):
    reading, writing = os.pipe()
    content = os.urandom(300_000)
    reader = Reader(reading)
    monkeypatch.setattr(target, "os", Denying())
    assert deliver([Document(f"/dev/fd/{writing}", content)], deadline=5) == []
    os.close(writing)
    assert reader.result() == content


def test_a_descriptor_that_another_account_opened_is_given_up_in_time(monkeypatch):
    reading, writing = os.pipe()
    monkeypatch.setattr(target, "os", Denying())
    try:
        before = time.monotonic()
        said = refused(f"/dev/fd/{writing}", b"x" * 300_000, deadline=0.3)
        assert said.startswith("its reader did not take it in time; ")
        assert time.monotonic() - before < 2
    finally:
        os.close(reading)
        os.close(writing)


def test_a_descriptor_open_for_reading_only_is_refused(place):
    (place / "file").write_bytes(b"old")
    with (place / "file").open("rb") as file:
        assert refused(f"/dev/fd/{file.fileno()}").startswith("the descriptor is not open for writing; ")
    assert (place / "file").read_bytes() == b"old"
