"""What a command imports: the quick ones start fast, and each room reaches down only (DESIGN, rule R9)."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precheck_lib.checks import KINDS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "precheck_lib"
HEAVY = ("requests", "urllib3", "websocket", "psutil", "junit_xml", "http.client", "ssl", "rich", "asyncio")

EVERY_KIND = """\
version: 1
name: every kind
checks:
  - {id: a, env: {required: {URL: {}}}}
  - {id: b, file: {path: /tmp}}
  - {id: c, command: {argv: [git, --version], version: ">=2"}}
  - {id: d, tcp: {url: "http://127.0.0.1:1"}}
  - {id: e, http: {url: "http://127.0.0.1:1", contains: {n: {ge: 1}}}}
  - {id: f, codex: {url: "ws://127.0.0.1:1"}}
  - {id: g, opencode: {url: "http://127.0.0.1:1"}}
  - {id: h, ollama: {url: "http://127.0.0.1:1", models: ["a:1"]}}
  - {id: i, openai: {url: "http://127.0.0.1:1", models: ["a"]}}
  - {id: j, residency: {url: "http://127.0.0.1:1", models: ["a:1"]}}
  - {id: k, port: {port: 1}}
  - {id: l, process: {name: x}}
  - {id: m, disk: {path: /tmp, free: 1GiB}}
  - {id: n, memory: {available: 1GiB}}
  - {id: o, gpu: {count: 1, free: 1GiB, driver: ">=550"}}
"""

# Runs the command in this very process, then tells on a stream of its own which modules there are.
SPY = """\
import json, os, sys
there = set(sys.modules)
root, told, *arguments = sys.argv[1:]
sys.path.insert(0, root)
sys.argv[1:] = arguments
from precheck_lib.__main__ import main
try:
    code = main()
except SystemExit as error:
    code = error.code
os.write(int(told), json.dumps([code, sorted(set(sys.modules) - there)]).encode())
"""


def modules_of(*arguments, folder):
    """Return the exit code of a command and the modules that it imported."""
    read, write = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-I", "-c", SPY, str(ROOT), str(write), *arguments],
            pass_fds=[write],
            cwd=folder,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            timeout=30,
            check=True,
        )
        return json.loads(os.read(read, 1 << 16))
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["run", "--help"], 0),
        (["plan", "strict"], 0),
        (["plan", "none.yml"], 2),
        (["plan", "strict", "--json"], 0),
        (["plan", "all.yml"], 0),
        (["validate", "all.yml"], 0),
        (["validate", "strict"], 0),
        (["validate", "bad.yml"], 2),
        (["schema"], 0),
        (["list"], 0),
        (["run", "strict", "--only", "nothing"], 2),
        (["run", "none.yml"], 2),
        (["run", "bad.yml"], 2),
        (["run", "bad.yml", "--json", "report.json"], 2),
        (["run", "strict", "--budget", "1s"], 2),
        (["--nonsense"], 2),
        ([], 2),
    ],
)
def test_quick_commands_import_nothing_heavy(tmp_path, arguments, code):
    (tmp_path / "bad.yml").write_text("version: 1\nname: x\nchecks: [{id: a, tpc: {}}]\n", encoding="utf-8")
    (tmp_path / "all.yml").write_text(EVERY_KIND, encoding="utf-8")
    ended, modules = modules_of(*arguments, folder=tmp_path)
    assert ended == code
    assert [module for module in modules if module in HEAVY or module.split(".")[0] in HEAVY] == []


def test_the_version_needs_no_more_than_handlers_and_streams(tmp_path):
    _, modules = modules_of("--version", folder=tmp_path)
    rooms = {module.split(".")[1] for module in modules if module.startswith("precheck_lib.")}
    assert rooms <= {"__main__", "bounded", "cli", "ending", "exits", "interrupt", "terminal"}
    assert "precheck_lib.bounded.budget" not in modules
    assert not {"yaml", "msgspec", "json", "hashlib", "traceback", "subprocess", "socket"} & set(modules)
    assert not {"argparse", "re", "typing", "shutil"} & set(modules)  # which take longer than all that it needs


def test_a_report_that_was_asked_for_may_cost_its_library(tmp_path):
    ended, modules = modules_of("run", "none.yml", "--junit", "report.xml", folder=tmp_path)
    assert ended == 2
    assert "requests" not in modules
    assert (tmp_path / "report.xml").exists()


def test_handlers_are_set_before_anything_else_is_imported():
    tree = ast.parse((PACKAGE / "__main__.py").read_text(encoding="utf-8"))
    at_top = [
        name
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module])
    ]
    assert sorted(at_top) == ["__future__", "os", "precheck_lib.exits", "precheck_lib.interrupt", "sys"]


def test_the_spec_of_every_kind_has_every_kind():
    assert {kind for kind in KINDS if f" {kind}: {{" in EVERY_KIND} == set(KINDS)


# Rooms ----------------------------------------------------------------------------------------------------------------

# From the foundation up; a room imports from its own row and from those before it here. One that stands in no row is a
# command of its own: it may import anything but the command line.
ROWS = (
    ("errors", "exits", "needles", "sequences", "units", "versions", "views"),
    ("bounded", "catalogue", "event", "redact", "spellings", "terminal", "watcher"),
    ("outcome", "interrupt"),
    ("bootstrap",),
    ("findings",),
    ("servers", "gpu"),
    ("residency", "report"),
    ("checks", "spec"),
    ("attempt", "budgets", "crew", "face", "hiding"),
    ("base_spec", "earlier"),
    ("engine",),
    ("plan", "survey"),
    ("draft",),
    ("simulate", "__init__"),
    ("cli",),
    ("__main__",),
)
COMMANDS = ROWS.index(("cli",)) - 0.5
LEVEL = {room: level for level, row in enumerate(ROWS) for room in row}


def imports_of(file):
    """The precheck modules that a file imports, but for those that only a type checker reads."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("precheck_lib."):
            yield node.module.split(".")[1]


def test_rooms_import_downwards_only():
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        wrong += [
            f"{file.relative_to(PACKAGE)} imports {other}"
            for other in imports_of(file)
            if LEVEL.get(other, COMMANDS) > LEVEL.get(room, COMMANDS)
        ]
    assert wrong == []


def test_the_bootstrap_imports_nothing_else_of_precheck_and_nothing_imports_it():
    imported = {
        name for file in (PACKAGE / "bootstrap").glob("*.py") for name in imports_of(file) if name != "bootstrap"
    }
    assert imported <= {"interrupt"}
    importers = [
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if "bootstrap" in imports_of(file) and file.parent.name != "bootstrap"
    ]
    assert importers == []


def test_only_bounded_opens_a_socket_or_starts_a_process():
    allowed = {"bounded", "simulate", "bootstrap"}  # bootstrap starts an installer, before anything else can run
    forbidden = {
        "socket",
        "subprocess",
        "requests",
        "urllib3",
        "websocket",
        "http",
        "ssl",
        "multiprocessing",
        "asyncio",
    }
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.relative_to(PACKAGE).parts[0] in allowed:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [
                f"{file.relative_to(PACKAGE)} imports {name}" for name in names if name.split(".")[0] in forbidden
            ]
    assert wrong == []
