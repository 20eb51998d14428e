"""A folder of wheels instead of an index: which of them fit the lock and this Python, and how they are unpacked.

For an air-gapped machine. Where there is a pip it installs from the folder; this is for a machine that has none. It
says for any machine which file is not the one that the lock names, and which is missing.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys

from precheck_lib.bootstrap import CannotStartError

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from zipfile import ZipInfo

FILL_IT = "Fill the wheelhouse on a machine like this one, with a package index: scripts/wheelhouse DIR."

_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LINUX = re.compile(r"(manylinux|musllinux)_(\d+)_(\d+)_(.+)")
_MACOS = re.compile(r"macosx_(\d+)_(\d+)_(.+)")
_FAT = {"arm64": ("arm64", "universal2"), "x86_64": ("x86_64", "universal2", "intel", "fat64", "universal")}


class Machine:
    """What decides whether a wheel fits: this Python and its ABI, and the platform with its C library."""

    def __init__(
        self, *, version: tuple[int, int], abi: str, machine: str, libc: tuple[str, int, int] | None, stable: bool
    ) -> None:
        self.version = version
        self.abi = abi
        self.machine = machine
        self.libc = libc
        self.stable = stable

    def __str__(self) -> str:
        """Tell it to a person."""
        libc = f"{self.libc[0]} {self.libc[1]}.{self.libc[2]}, " if self.libc else ""
        return f"{self.abi}, {libc}{self.machine}"

    def fit(self, python: str, abi: str, platform: str) -> tuple[int, int, int] | None:
        """Tell how closely a wheel with these tags fits: more is better; None where it does not."""
        places = [self._platform(one) for one in platform.split(".")]
        built = [self._interpreter(one, two) for one in python.split(".") for two in abi.split(".")]
        where = max((place for place in places if place is not None), default=None)
        how = max((one for one in built if one is not None), default=None)
        return None if where is None or how is None else (*how, where)

    def _interpreter(self, python: str, abi: str) -> tuple[int, int] | None:
        found = re.fullmatch(r"(cp|py)(\d)(\d*)", python)
        if found is None or int(found[2]) != self.version[0]:
            return None
        minor = int(found[3] or 0)
        mine = self.abi.startswith("cp")
        if found[1] == "py":
            return (0, minor) if abi == "none" and minor <= self.version[1] else None
        if abi == "abi3":
            return (1, minor) if self.stable and minor <= self.version[1] else None
        if not mine or minor != self.version[1]:
            return None
        return (2, minor) if abi == self.abi else (0, minor) if abi == "none" else None

    def _platform(self, tag: str) -> int | None:
        if tag == "any":
            return 0
        name, _, machine = tag.partition("_")
        if name in _LEGACY:
            tag = "manylinux_{}_{}_{}".format(*_LEGACY[name], machine)
        found = _LINUX.fullmatch(tag)
        if found is not None:
            kind = "manylinux" if found[1] == "manylinux" else "musllinux"
            needed = (int(found[2]), int(found[3]))
            if self.libc is None or self.libc[0] != {"manylinux": "glibc", "musllinux": "musl"}[kind]:
                return None
            # glibc keeps what it had; a newer one is needed by what was built against a newer one.
            fits = found[4] == self.machine and needed[0] == self.libc[1] and needed[1] <= self.libc[2]
            return 1 + needed[1] if fits else None
        found = _MACOS.fullmatch(tag)
        if found is not None and self.libc is not None and self.libc[0] == "macos":
            needed = (int(found[1]), int(found[2]))
            fits = found[3] in _FAT.get(self.machine, (self.machine,)) and needed <= self.libc[1:]
            return 1 + 100 * needed[0] + needed[1] if fits else None
        return None


def this_machine() -> Machine:
    """Describe the Python that runs this."""
    import struct
    from importlib.machinery import EXTENSION_SUFFIXES

    machine = os.uname().machine
    if struct.calcsize("P") == 4:
        machine = {"x86_64": "i686", "aarch64": "armv7l"}.get(machine, machine)
    cpython = sys.implementation.name == "cpython"
    version = (sys.version_info[0], sys.version_info[1])
    flags = "" if not cpython else sys.abiflags.replace("d", "")
    return Machine(
        version=version,
        abi="{}{}{}{}".format("cp" if cpython else sys.implementation.name, *version, flags),
        machine=machine,
        libc=_libc(),
        stable=cpython and any("abi3" in suffix for suffix in EXTENSION_SUFFIXES) and "t" not in flags,
    )


def _libc() -> tuple[str, int, int] | None:
    if sys.platform == "darwin":
        import platform

        return _version("macos", platform.mac_ver()[0])
    try:
        named = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return _musl()
    return _version("glibc", named.partition(" ")[2])


def _musl() -> tuple[str, int, int] | None:
    """Ask musl's loader for its version: it has no other way to tell."""
    import glob
    import subprocess

    for loader in glob.glob("/lib/ld-musl-*.so.1"):
        try:
            ended = subprocess.run([loader], capture_output=True, text=True, timeout=5, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        return _version("musl", ended.stderr.partition("Version ")[2])
    return None


def _version(name: str, text: str) -> tuple[str, int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (name, int(found[1]), int(found[2])) if found else None


# Which wheels ---------------------------------------------------------------------------------------------------------


class Requirement:
    """A line of the lock: the one version, and the hashes of the files that it may be."""

    def __init__(self, name: str, version: str, hashes: frozenset[str]) -> None:
        self.name = name
        self.version = version
        self.hashes = hashes


class Choice:
    """The wheels that fit, and what there is none for."""

    def __init__(self, folder: str, machine: Machine) -> None:
        self.folder = folder
        self.machine = machine
        self.wheels: list[tuple[str, str]] = []  # each with its hash
        self.missing: list[str] = []

    def what_is_missing(self) -> str:
        """Say it in a sentence."""
        return (
            f"The wheelhouse {self.folder} has no wheel for this Python ({self.machine}) of {', '.join(self.missing)}."
        )


def requirements(lock: str) -> Iterator[Requirement]:
    """Read the lock; a line that is not as `scripts/lock` writes it is refused."""
    with open(lock, encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)\s*", line)
        if found is None:
            raise CannotStartError(
                f"Without pip this line of the lock cannot be followed: {line[:100]}", "Install pip on this machine."
            )
        yield Requirement(_normal(found[1]), found[2], frozenset(re.findall(r"sha256:(\w+)", found[3])))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def choose(lock: str, folder: str, machine: Machine | None = None) -> Choice:
    """Choose for each line of the lock the wheel that fits best; one that the lock does not know is refused."""
    choice = Choice(folder, machine or this_machine())
    there: dict[tuple[str, str], list[tuple[tuple[int, int, int], str]]] = {}
    for name in sorted(os.listdir(folder)):
        parts = name[: -len(".whl")].split("-") if name.endswith(".whl") else []
        if len(parts) not in (5, 6):
            continue
        fit = choice.machine.fit(parts[-3], parts[-2], parts[-1])
        if fit is not None:
            there.setdefault((_normal(parts[0]), parts[1]), []).append((fit, name))
    for wanted in requirements(lock):
        fitting = [name for _, name in sorted(there.get((wanted.name, wanted.version), []), reverse=True)]
        digests = [_digest(_read(os.path.join(folder, name))) for name in fitting]
        for name, digest in zip(fitting, digests, strict=True):
            if digest not in wanted.hashes:
                raise _foreign(os.path.join(folder, name))
        if fitting:
            choice.wheels.append((fitting[0], digests[0]))
        else:
            choice.missing.append(f"{wanted.name} {wanted.version}")
    return choice


def _foreign(path: str) -> CannotStartError:
    return CannotStartError(
        f"{path} is not the file that the lock names: its SHA-256 is another one.",
        f"Find out where it comes from. {FILL_IT}",
    )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Unpacking ------------------------------------------------------------------------------------------------------------


def unpack(choice: Choice, target: str) -> None:
    """Unpack the chosen wheels, as an installer does: what was read is what was held to its hash."""
    for name, digest in choice.wheels:
        wheel = os.path.join(choice.folder, name)
        data = _read(wheel)
        if _digest(data) != digest:
            raise _foreign(wheel)
        _unpack(wheel, data, target)


def _unpack(wheel: str, data: bytes, target: str) -> None:
    import io
    import zipfile

    information = None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member, path in [(member, _inside(member, wheel)) for member in archive.infolist()]:
                if path is None or member.is_dir():
                    continue
                place = os.path.join(target, *path)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    file.write(archive.read(member))
                if path[0].endswith(".dist-info"):
                    information = path[0]
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise CannotStartError(f"{wheel} cannot be unpacked: {error}.", FILL_IT) from None
    if information is None:
        raise CannotStartError(f"{wheel} is no wheel: it has no .dist-info.", FILL_IT)
    with open(os.path.join(target, information, "INSTALLER"), "w", encoding="utf-8") as file:
        file.write("precheck\n")


def _inside(member: ZipInfo, wheel: str) -> list[str] | None:
    """Return where a member goes, below the target; None where it goes nowhere: a script, a header."""
    name = member.orig_filename
    is_link = member.external_attr >> 28 == 0o12
    parts = name.rstrip("/").split("/")
    if is_link or "\\" in name or "\0" in name or {"", ".", ".."} & set(parts):
        raise CannotStartError(f"{wheel} has a member that is not to be unpacked: {name!r}.", FILL_IT)
    if not parts[0].endswith(".data"):
        return parts
    return parts[2:] if len(parts) > 2 and parts[1] in ("purelib", "platlib") else None
