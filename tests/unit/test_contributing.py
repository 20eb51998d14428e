from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_script_is_told_of_in_one_line():
    lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    scripts = [file.name for file in (ROOT / "scripts").iterdir() if file.is_file() and not file.suffix]
    assert scripts
    untold = [
        name for name in scripts if not any(line.startswith(f"scripts/{name} ") and "#" in line for line in lines)
    ]
    assert untold == []
