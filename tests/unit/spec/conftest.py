"""Spec files to load, and the words that a wrong one gets."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.spec import SpecError, load_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from precheck_lib.spec import Spec

PINS = """\
# Pinned versions

- Codex App Server: `rust-v0.171.0`
- OpenCode Server: `v1.18.33`
"""


class Desk:
    """Where spec files are written and loaded; `path` is the one that `load` and `wrong` write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "it.yml"

    def load(self, text: str | bytes) -> Spec:
        """Load a spec of this text."""
        self.path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return load_spec(str(self.path))

    def wrong(self, text: str | bytes) -> list[str]:
        """Load a spec that cannot be used and return its problems as `line:column: text`."""
        with pytest.raises(SpecError) as caught:
            self.load(text)
        assert {problem.file for problem in caught.value.problems} == {str(self.path)}
        return [f"{problem.line}:{problem.column}: {problem.text}" for problem in caught.value.problems]

    def option(self, kind: str, options: str) -> Any:
        """Load a spec with one check of this kind, its options on one line, and return them."""
        return self.load(one_check(kind, options)).checks[0].options

    def wrong_option(self, kind: str, options: str) -> list[str]:
        """Do the same where they are wrong: return `what stands there -> what is said of it`."""
        text = one_check(kind, options)
        said = []
        for one in self.wrong(text):
            line, column, words = one.split(":", 2)
            rest = text.splitlines()[int(line) - 1][int(column) - 1 :]
            words = words.strip().removeprefix('check "one": ')
            said.append(f"{re.split('[],}]', rest)[0]} -> {words}")
        return said

    def pins(self, text: str = PINS, name: str = "PINS.md") -> None:
        """Write a pins file beside the spec."""
        (self.folder / name).write_text(text, encoding="utf-8")


def one_check(kind: str, options: str) -> str:
    """A spec with one check, its options on one line."""
    return f"version: 1\nname: x\nchecks:\n  - id: one\n    {kind}: {options}\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Run a little program and return what it prints."""
    import subprocess
    import sys

    def run(code: str, *arguments: str, **more: Any) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            **more,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
