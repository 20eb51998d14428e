"""Canaries: values that must not be found in anything that a run has written, and the search for them."""

from __future__ import annotations

import base64
import contextlib
import os
import pty
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.contract.harness import COMMAND, FORKING, begin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SPECIALS = "\"q\\b'&<a>/+=%ü {x}"
"""Characters that change when a text is quoted, escaped or encoded, in any of the usual ways."""


@dataclass(frozen=True)
class Canary:
    """A secret that is like no other: `value` begins and ends with a word of letters and digits of its own.

    Quoting, URLs, JSON, XML, HTML, Python and shells leave those two words as they are, and change only what stands
    between them: whoever finds neither word, nor either in hex or base64, has found the secret in none of those forms
    nor any larger piece of it.
    """

    name: str

    @property
    def words(self) -> tuple[str, str]:
        """The two words; no word holds another canary's."""
        return f"Kq7{self.name}0Zw4x", f"Jv2{self.name}9Yt6k"

    @property
    def value(self) -> str:
        """The secret."""
        return SPECIALS.join(self.words)

    @property
    def plain(self) -> str:
        """A secret of the same words that can stand in a URL or a header as it is."""
        return "-".join(self.words)


def forms(word: str) -> set[bytes]:
    """Give what a word looks like where it is shown as it is, in hex, or within base64 of something longer."""
    data = word.encode()
    found = {data, data.hex().encode()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data)
        core = whole[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
        found |= {core, core.translate(bytes.maketrans(b"+/", b"-_")), quote(core, safe="").encode()}
    return found


def leaks(canaries: Iterable[Canary], places: Mapping[str, bytes]) -> list[str]:
    """Say which canaries can be found, and where. The case of letters does not matter, but for base64."""
    found = []
    for canary in canaries:
        for word in canary.words:
            plain, others = word.lower().encode(), forms(word)
            for place, data in places.items():
                if plain in data.lower() or word.encode().hex().encode() in data.lower():
                    found.append(f"{canary.name} in {place}")
                elif any(form in data for form in others):
                    found.append(f"{canary.name}, encoded, in {place}")
    return sorted(set(found))


@dataclass
class Written:
    """All that a command has written: both streams, and every file below its folder by path."""

    code: int
    out: bytes
    err: bytes
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def masks(self) -> list[bytes]:
        """The lines that are there to tell the runner what to mask: they alone may hold secrets."""
        return [line for line in self.out.splitlines() if line.startswith(b"::add-mask::")]

    @property
    def places(self) -> dict[str, bytes]:
        """Everything that is searched."""
        rest = b"\n".join(line for line in self.out.splitlines() if not line.startswith(b"::add-mask::"))
        return {"stdout": rest, "stderr": self.err, **self.files}

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out.decode(errors='replace')}---\n{self.err.decode(errors='replace')}"


def write_all(
    folder: Path, env: Mapping[str, str], *arguments: str, on_github: bool = True, terminal: bool = False
) -> Written:
    """Run a command in a folder of its own and give all that it wrote.

    Working folder, HOME and TMPDIR lie in it; so do the runner's files, with `on_github`. With `terminal`, stdout and
    stderr are one terminal (and `out` has both).
    """
    for name in ("cwd", "home", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    env = {**env, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "LC_ALL": "C.UTF-8"}
    if on_github:
        env |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "outputs"),
            "GITHUB_WORKSPACE": str(folder),
            "RUNNER_TEMP": str(folder / "tmp"),
        }
    if terminal:
        env["TERM"] = "xterm-256color"
        out, err, code = _on_a_terminal(folder, env, arguments)
    else:
        with FORKING:
            process = begin(
                [*COMMAND, *arguments],
                env=env,
                cwd=folder / "cwd",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        with process:
            try:
                out, err = process.communicate(timeout=30)
            finally:
                process.kill()
        code = process.returncode
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    names = {f"the name {path}": path.encode() for path in files}
    return Written(code, out, err, {**files, **names})


def _on_a_terminal(folder: Path, env: Mapping[str, str], arguments: tuple[str, ...]) -> tuple[bytes, bytes, int]:
    reader, writer = pty.openpty()
    try:
        with FORKING:
            process = subprocess.Popen(
                [*COMMAND, *arguments], env=env, cwd=folder / "cwd", stdin=writer, stdout=writer, stderr=writer
            )
        os.close(writer)
        writer = -1
        parts = []
        with process, contextlib.suppress(OSError):  # what nobody has open any more cannot be read
            while part := os.read(reader, 65536):
                parts.append(part)
        return b"".join(parts), b"", process.returncode
    finally:
        for descriptor in (reader, writer):
            if descriptor >= 0:
                os.close(descriptor)
