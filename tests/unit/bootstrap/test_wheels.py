"""Wheels without pip: which fit this Python, that each is the one of the lock, and that none writes outside."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from precheck_lib.bootstrap import CannotStartError, wheels

LINUX = wheels.Machine(version=(3, 11), abi="cp311", machine="x86_64", libc=("glibc", 2, 36), stable=True)
OLD = wheels.Machine(version=(3, 10), abi="cp310", machine="aarch64", libc=("glibc", 2, 17), stable=True)
ALPINE = wheels.Machine(version=(3, 12), abi="cp312", machine="x86_64", libc=("musl", 1, 2), stable=True)
MAC = wheels.Machine(version=(3, 13), abi="cp313", machine="arm64", libc=("macos", 14, 5), stable=True)
FREE = wheels.Machine(version=(3, 13), abi="cp313t", machine="x86_64", libc=("glibc", 2, 36), stable=False)


@pytest.mark.parametrize(
    ("machine", "tags", "fits"),
    [
        (LINUX, "py3-none-any", True),
        (LINUX, "py2.py3-none-any", True),
        (LINUX, "py2-none-any", False),
        (LINUX, "py312-none-any", False),
        (LINUX, "py310-none-any", True),
        (LINUX, "cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64", True),
        (LINUX, "cp311-cp311-manylinux_2_36_x86_64", True),
        (LINUX, "cp311-cp311-manylinux_2_37_x86_64", False),
        (LINUX, "cp311-cp311-manylinux_2_37_x86_64.manylinux_2_28_x86_64", True),
        (LINUX, "cp311-cp311-manylinux2014_aarch64", False),
        (LINUX, "cp311-cp311-musllinux_1_2_x86_64", False),
        (LINUX, "cp311-cp311-win_amd64", False),
        (LINUX, "cp311-cp311-macosx_11_0_arm64", False),
        (LINUX, "cp310-cp310-manylinux2014_x86_64", False),
        (LINUX, "cp310-none-any", False),
        (LINUX, "cp36-abi3-manylinux2010_x86_64", True),
        (LINUX, "cp312-abi3-manylinux2014_x86_64", False),
        (LINUX, "pp311-pypy311_pp73-manylinux2014_x86_64", False),
        (OLD, "cp310-cp310-manylinux2014_aarch64", True),
        (OLD, "cp310-cp310-manylinux_2_28_aarch64", False),
        (ALPINE, "cp312-cp312-musllinux_1_2_x86_64", True),
        (ALPINE, "cp312-cp312-musllinux_1_3_x86_64", False),
        (ALPINE, "cp312-cp312-manylinux2014_x86_64", False),
        (MAC, "cp313-cp313-macosx_11_0_arm64", True),
        (MAC, "cp313-cp313-macosx_10_13_universal2", True),
        (MAC, "cp313-cp313-macosx_15_0_arm64", False),
        (MAC, "cp313-cp313-macosx_10_13_x86_64", False),
        (FREE, "cp313-cp313t-manylinux2014_x86_64", True),
        (FREE, "cp313-cp313-manylinux2014_x86_64", False),
        (FREE, "cp36-abi3-manylinux2014_x86_64", False),
        (FREE, "py3-none-any", True),
    ],
)
def test_a_wheel_fits_by_its_tags(machine, tags, fits):
    assert (machine.fit(*tags.split("-")) is not None) is fits


def test_this_machine_is_told_as_pips_own_library_tells_it():
    tags = pytest.importorskip("packaging.tags", reason="packaging is not installed here")
    ours = wheels.this_machine()
    ten = [tag for tag in tags.sys_tags() if not tag.platform.startswith("linux_")][:400]
    # It has an order of its own where a wheel is for one interpreter but no ABI of it; no such wheel is in the lock.
    assert [str(tag) for tag in ten if ours.fit(tag.interpreter, tag.abi, tag.platform) is None] == []


# Choosing -------------------------------------------------------------------------------------------------------------


class House:
    """A folder of wheels, and a lock that has their hashes."""

    def __init__(self, place):
        self.folder, self.lock, self.target = place / "house", place / "lock", place / "target"
        self.folder.mkdir()
        self.target.mkdir()
        self.hashes = {}

    def add(self, name, members=None, *, links=(), in_lock=True):
        project, version = name.split("-")[:2]
        path = self.folder / f"{name}.whl"
        contents = {f"{project}/__init__.py": name, f"{project}-{version}.dist-info/METADATA": "Name: x\n"}
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in (contents if members is None else members).items():
                information = zipfile.ZipInfo(member)
                information.external_attr = (0o120777 if member in links else 0o100644) << 16
                archive.writestr(information, text)
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if in_lock else "0" * 64
        self.hashes.setdefault((project, version), []).append(digest)
        return path

    def choose(self, machine=LINUX):
        text = "# made\n"
        for (project, version), hashes in self.hashes.items():
            lines = [f"{project.replace('_', '-')}=={version}", *(f"    --hash=sha256:{one}" for one in hashes)]
            text += " \\\n".join(lines) + "\n"
        self.lock.write_text(text)
        return wheels.choose(str(self.lock), str(self.folder), machine)


@pytest.fixture
def house(tmp_path):
    return House(tmp_path)


def test_the_wheel_that_is_made_for_this_python_is_preferred_to_one_for_any(house):
    house.add("fast-1.0-py3-none-any")
    house.add("fast-1.0-cp38-abi3-manylinux2014_x86_64")
    house.add("fast-1.0-cp311-cp311-manylinux2014_x86_64")
    house.add("fast-1.0-cp312-cp312-manylinux2014_x86_64")
    assert [name for name, _ in house.choose().wheels] == ["fast-1.0-cp311-cp311-manylinux2014_x86_64.whl"]
    assert [name for name, _ in house.choose(OLD).wheels] == ["fast-1.0-py3-none-any.whl"]


def test_a_name_is_found_however_it_is_spelled_and_other_files_are_passed_over(house):
    house.add("Some_Thing-1.0-py3-none-any")
    (house.folder / "some_thing-1.0.tar.gz").touch()
    (house.folder / "README-1.0.whl").touch()
    house.add("some_thing-2.0-py3-none-any")
    del house.hashes["some_thing", "2.0"]
    assert [name for name, _ in house.choose().wheels] == ["Some_Thing-1.0-py3-none-any.whl"]


def test_what_is_missing_is_named_with_what_it_is_missing_for(house):
    house.add("one-1.0-py3-none-any")
    house.add("two-2.0-cp312-cp312-manylinux2014_x86_64")
    choice = house.choose()
    assert choice.missing == ["two 2.0"]
    assert choice.what_is_missing() == (
        f"The wheelhouse {house.folder} has no wheel for this Python (cp311, glibc 2.36, x86_64) of two 2.0."
    )


def test_a_wheel_whose_hash_the_lock_does_not_have_is_refused_by_its_name(house):
    path = house.add("one-1.0-py3-none-any", in_lock=False)
    with pytest.raises(CannotStartError) as raised:
        house.choose()
    assert raised.value.text == f"{path} is not the file that the lock names: its SHA-256 is another one."


def test_a_wheel_that_is_exchanged_between_choosing_and_unpacking_is_refused(house):
    path = house.add("one-1.0-py3-none-any")
    choice = house.choose()
    path.write_bytes(b"something else")
    with pytest.raises(CannotStartError, match="is not the file that the lock names"):
        wheels.unpack(choice, str(house.target))
    assert list(house.target.iterdir()) == []


def test_a_line_of_the_lock_that_cannot_be_judged_is_refused(house, tmp_path):
    house.lock.write_text('one==1.0 ; python_version < "3.11" \\\n    --hash=sha256:' + "0" * 64 + "\n")
    with pytest.raises(CannotStartError, match="Without pip this line of the lock cannot be followed: one==1"):
        wheels.choose(str(house.lock), str(house.folder), LINUX)


# Unpacking ------------------------------------------------------------------------------------------------------------


def test_a_wheel_is_unpacked_as_an_installer_does_it(house):
    members = {
        "one/__init__.py": "x = 1\n",
        "one-1.0.data/purelib/one/more.py": "y = 2\n",
        "one-1.0.data/scripts/one": "#!python\n",
        "one-1.0.dist-info/RECORD": "",
    }
    house.add("one-1.0-py3-none-any", members)
    wheels.unpack(house.choose(), str(house.target))
    found = {str(path.relative_to(house.target)) for path in house.target.rglob("*") if path.is_file()}
    assert found == {"one/__init__.py", "one/more.py", "one-1.0.dist-info/RECORD", "one-1.0.dist-info/INSTALLER"}
    assert (house.target / "one-1.0.dist-info" / "INSTALLER").read_text() == "precheck\n"


@pytest.mark.parametrize(
    "name", ["../evil.py", "/evil.py", "one/../../evil.py", "one\\..\\evil.py", "one//evil.py", "./evil.py"]
)
def test_a_member_that_leads_outside_is_refused_and_nothing_is_written(house, name):
    house.add("one-1.0-py3-none-any", {"one/__init__.py": "", name: "", "one-1.0.dist-info/RECORD": ""})
    with pytest.raises(CannotStartError, match="has a member that is not to be unpacked"):
        wheels.unpack(house.choose(), str(house.target))
    assert list(house.target.iterdir()) == []
    assert not list(house.target.parent.glob("**/evil.py"))


def test_a_member_that_is_a_link_is_refused(house):
    house.add("one-1.0-py3-none-any", {"one/link": "/etc/passwd", "one-1.0.dist-info/RECORD": ""}, links=["one/link"])
    with pytest.raises(CannotStartError, match="has a member that is not to be unpacked: 'one/link'"):
        wheels.unpack(house.choose(), str(house.target))


def test_what_is_no_archive_or_no_wheel_is_said(house):
    path = house.add("one-1.0-py3-none-any", {"one/__init__.py": ""})
    with pytest.raises(CannotStartError, match=r"it has no \.dist-info"):
        wheels.unpack(house.choose(), str(house.target))
    path.write_bytes(b"no archive")
    house.hashes["one", "1.0"] = [hashlib.sha256(b"no archive").hexdigest()]
    with pytest.raises(CannotStartError, match="cannot be unpacked: File is not a zip file"):
        wheels.unpack(house.choose(), str(house.target))
