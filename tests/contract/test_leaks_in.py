"""Nothing leaks in: whatever servers, commands, specs and names say, only precheck speaks to a terminal and a runner.

That every writer withstands every hostile text is held in tests/unit/report; here whole runs show that no text gets to
the outside past the writers.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib.simulate import Model
from tests.contract.canaries import write_all
from tests.contract.harness import Family, open_stage, write_script, write_strict, write_yaml
from tests.junit_schema import check_schema, parse
from tests.runner_grammar import commands, read_outputs, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.contract.canaries import Written

# Short ones, so that each is in what is shown before it is cut.
LINES = "a\r\n::error::boo\r::add-mask::boo\n  ::stop-commands::t\u2028::set-output name=a::b"
OLD = "b ##[error]boo ##[add-mask]c #\x1b[0m#[add-matcher]/x"
SCREEN = "c\x1b[2J\x1b]52;c;eA==\x07\x1b]8;;http://evil\x1b\\d\x9b31m\x90q\x9c\b\b\x07\x00\x7f"
MARKUP = "e| f |\n|---|\n```\n<script></details>&#x3c;![g](http://evil)@h ]]> <![CDATA[ --> ~~~"
UNSEEN = "i\u202ej\u2066k\u200bl\ufffe\uffff\x85m\u2029n\xad"
HUGE = "o" * 1_000_000
TEXTS = (LINES, OLD, SCREEN, MARKUP, UNSEEN, HUGE)
MEDLEY = f"{LINES}\n{OLD}\n\x1b[31m|<b>@p{UNSEEN}"

ERRORS_ON_STDERR = 64 << 10
"""Bytes that a run may write there, whatever a server says: a log that is flooded is not read."""

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200b]")
SGR = re.compile(r"\x1b\[[0-9;]*m|\r\x1b\[2K|\r(?=\n)")
"""What precheck itself sends to a terminal: colours, and the live line that it takes away (the terminal adds CR)."""


def look(written: Written, *, junit: bool = True) -> None:
    """Assert that everything written is harmless, on stdout, on stderr and in each file."""
    out, err = written.out.decode("utf-8"), written.err.decode("utf-8")
    found = [*commands(out), *commands(err)]
    assert {one.name for one in found} <= {"add-mask", "error", "warning"}, found
    assert [one for one in found if one.name == "add-mask"] == commands(b"\n".join(written.masks)), "others than ours"
    assert out.encode().splitlines()[: len(written.masks)] == written.masks
    for one in found:
        if one.name != "add-mask":
            assert one.properties["title"].startswith("precheck: "), one
            assert len(one.value.encode("utf-16-le")) // 2 <= 4096
    for text in (SGR.sub("", out), err):
        assert not CONTROL.search(text), repr(text)
    assert len(written.err) <= ERRORS_ON_STDERR
    if "outputs" in written.files:
        told = read_outputs(written.files["outputs"].decode("utf-8"))
        assert set(told) == {
            *("status", "exit-code", "failed", "codes", "first", "retryable", "host", "dir", "json", "junit")
        }
        assert told["exit-code"] == str(written.code)
        # Paths are given as they are: whoever chose them uses them.
        shown = [value for name, value in told.items() if name not in ("dir", "json", "junit")]
        assert not commands("\n".join(shown)), told
        assert not CONTROL.search("".join(shown)), told
    if "summary.md" in written.files:
        summary = written.files["summary.md"].decode("utf-8")
        assert {len(row) for row in rows(summary)} <= {3, 4, 7}, summary
        assert not re.search(r"<|://|(?<!\\)`|^ {0,3}(~~~|#{1,2} |> |\[)", summary, re.MULTILINE), summary
        # The zero-width space behind each `@` is ours.
        assert not CONTROL.search(summary.replace("@\u200b", "@")), summary
        assert len(summary.encode()) <= 256 << 10
    if junit:
        reports = {path: data for path, data in written.files.items() if not path.startswith("the name ")}
        (report,) = (data for path, data in reports.items() if path.endswith("junit.xml"))
        check_schema(parse(report), places=True)
        assert len(report) <= 512 << 10
        for document in (data for path, data in reports.items() if path.endswith("precheck.json")):
            json.loads(document)
            assert not commands(document)


class Scene:
    """One run to make: the strict spec on a stage, in a folder of its own."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        self.folder = folder
        self.spec = write_strict(folder / "spec")
        self.stage = open_stage(folder / "stage", models={"qwen3:8b": Model()}, **arguments)
        self.env = dict(self.stage.environment)

    def run(self, *arguments: str, **how: Any) -> Written:
        """Run the command."""
        place = self.folder / "written"
        place.mkdir(exist_ok=True)
        return write_all(place, self.env, *(arguments or ("run", str(self.spec), "--out", "out")), **how)


def says(server: str, fault: str, **options: Any) -> Callable[[Path], Written]:
    """Give a case: the strict run against a server that says something."""

    def run(folder: Path) -> Written:
        scene = Scene(folder, faults={server: fault}, fault_options={server: options})
        with scene.stage:
            return scene.run()

    return run


def answers(server: str, at: str, document: Any) -> Callable[[Path], Written]:
    """Give a case: a server answers one question with this JSON."""
    return says(server, "not-json", at=at, body=json.dumps(document))


def refuses(server: str, document: Any, **more: Any) -> Callable[[Path], Written]:
    """Give a case: a server refuses with this JSON."""
    return says(server, "status", type="application/json", body=json.dumps(document), **more)


def prints(name: str, text: str | bytes) -> Callable[[Path], Written]:
    """Give a case: a command on PATH prints this on both streams, and opencode does not end well."""

    def run(folder: Path) -> Written:
        scene = Scene(folder)
        with scene.stage:
            data = text.encode() if isinstance(text, str) else text
            said = "".join(f"\\{byte:03o}" for byte in data)
            write_script(
                scene.stage.commands[name],
                f"printf '{said}'; printf '{said}' >&2",
                f"exit {3 if name == 'opencode' else 0}",
            )
            return scene.run()

    return run


def with_environment(**env: str) -> Callable[[Path], Written]:
    """Give a case: the strict run with these variables; one names the runner, so that it is in every report."""

    def run(folder: Path) -> Written:
        scene = Scene(folder)
        with scene.stage:
            scene.env |= env
            return scene.run()

    return run


def with_models(folder: Path) -> Written:
    """Make the run with hostile names of models in the configuration of the tests: none of them is offered."""
    scene = Scene(folder)
    with scene.stage:
        models: dict[str, Any] = {text: {} for text in ("plain", LINES, OLD, SCREEN, MARKUP, UNSEEN)}
        config = {"model": "x", "provider": {"ollama": {"models": models}}}
        scene.env |= {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "TEST_OLLAMA_MODEL_OPENCODE_DEFAULT": "plain",
        }
        return scene.run()


def with_spec(text: str, *arguments: str, on_terminal: bool = False, **more: Any) -> Callable[[Path], Written]:
    """Give a case: a spec whose every text is hostile, run or planned; `SPEC` is its path."""

    def run(folder: Path) -> Written:
        scene = Scene(folder)
        with scene.stage:
            path = folder / "spec" / "it ##[error]boo.yml"
            url = scene.stage.opencode.url
            document = {
                "version": 1,
                "name": text,
                "success": text,
                "checks": [{"id": "a", "title": text, "tcp": {"url": url}}, *more.get("checks", [])],
            }
            write_yaml(path, document)
            found = scene.run(
                *(str(path) if part == "SPEC" else part for part in arguments),
                on_github=not on_terminal,
                terminal=on_terminal,
            )
            assert more.get("said", "") in (found.out + found.err).decode()
            return found

    return run


def named(*arguments: str) -> Callable[[Path], Written]:
    """Give a case: a command line of hostile arguments."""

    def run(folder: Path) -> Written:
        scene = Scene(folder)
        with scene.stage:
            return scene.run(*arguments)

    return run


TAGS = {"models": [{"name": text, "remote_host": text} for text in TEXTS]}
INVENTORY = {"models": [{"name": text, "size": text} for text in (OLD, LINES)]}
CLOUD = {"models": [{"name": "qwen3:8b", "remote_host": MEDLEY}]}
PROVIDERS = {"providers": [{"id": text, "models": {text: {}}} for text in TEXTS]}
REFUSAL = {"name": "::error::x", "data": {"path": MEDLEY[:190], "message": MEDLEY, "issues": [{"path": [OLD, LINES]}]}}
COMMANDS = [
    {"id": "b", "needs": ["a"], "command": {"commands": [{"argv": ["/bin/echo", LINES, OLD], "stdout": SCREEN}]}}
]
MODELS = [{"id": "c", "ollama": {"url": "http://127.0.0.1:9/" + OLD, "models": [MARKUP, LINES]}}]

CASES: dict[str, Callable[[Path], Written]] = {
    "Codex's error": says("codex", "error-answer", message=MEDLEY),
    "Codex's huge error": says("codex", "error-answer", message=MEDLEY + HUGE),
    "Codex's home": says("codex", "foreign-home", home=MEDLEY),
    "Codex's version": says("codex", "wrong-version", version=MEDLEY),
    "OpenCode's version": says("opencode", "wrong-version", version=MEDLEY),
    "OpenCode's subagents": answers("opencode", "/experimental/capabilities", {"backgroundSubagents": MEDLEY}),
    "OpenCode's providers": answers("opencode", "/config/providers", PROVIDERS),
    "OpenCode's refusal": refuses("opencode", REFUSAL),
    "OpenCode's page": says("opencode", "status", body="".join(TEXTS)),
    "Ollama's models": answers("ollama", "tags", TAGS),
    "Ollama's cloud": answers("ollama", "tags", CLOUD),
    "Ollama's error": refuses("ollama", {"error": MEDLEY}),
    "Ollama's reason": answers("ollama", "unload", {"done": True, "done_reason": MEDLEY}),
    "Ollama's inventory": says("ollama", "ps-invalid", after="load", shape=json.dumps(INVENTORY)),
    "a command's stdout": prints("codex", OLD + SCREEN),
    "a command's stderr": prints("opencode", MEDLEY + "\n" + OLD + SCREEN),
    "a command's bytes": prints("opencode", b"boo\xff\xfe\x9b31m\xc3(\xe2\x82\xf0\x9f"),
    "the runner's name": with_environment(RUNNER_NAME=MEDLEY, TEST_CODEX_REASONING_EFFORT=MEDLEY),
    "the runner's bytes": with_environment(RUNNER_NAME=f"{OLD}\udcff\udc9b", TEST_CODEX_HOME=f"/{LINES}\udcff"),
    "names of models": with_models,
    "a spec": with_spec(MEDLEY, "run", "SPEC", "--out", "out", said="a ::error::boo"),
    "a spec on a terminal": with_spec(MEDLEY, "run", "SPEC", "--out", "out", on_terminal=True, said="a ::error::boo"),
    "a spec with commands": with_spec(MARKUP, "run", "SPEC", "--out", "out", checks=COMMANDS, said="/bin/echo"),
    "a spec with models": with_spec(SCREEN, "run", "SPEC", "--out", "out", checks=MODELS),
    "a spec that is wrong": with_spec(OLD, "run", "SPEC", "--out", "out", checks=[{"id": MEDLEY, OLD: {LINES: 1}}]),
    "the plan of a spec": with_spec(LINES, "plan", "SPEC", checks=COMMANDS + MODELS, said="/bin/echo"),
    "the plan of one that is wrong": with_spec(OLD, "plan", "SPEC", checks=[{"id": MEDLEY, OLD: {LINES: 1}}]),
    "the path of a spec": named("run", f"{LINES}{OLD}{SCREEN[:40]}".replace("\0", ""), "--out", "out"),
    "a path of reports": named("run", "strict", "--out", f"out {OLD} {LINES}".replace("/", "|")),
    "a path that cannot be": named("run", "strict", "--json", f"/dev/null/{OLD}{LINES}", "--out", "out"),
    "a budget": named("run", "strict", "--out", "out", "--budget", f"{LINES}\udcff{OLD}"),
    "an option": named("run", "strict", "--out", "out", f"--{OLD}{LINES}"),
    "a fault": named("demo", "--out", "out", "--fault", LINES + OLD),
    "a code": named("explain", LINES + OLD),
}
UNTOLD = {"OpenCode's page", "a spec with models", "a path of reports"}
"""Where none of it is printed: a page is never shown, and of the others only the files tell."""

WITHOUT_REPORTS = {"the plan of a spec", "the plan of one that is wrong", "a code"}


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("in")
    numbers = {name: str(number) for number, name in enumerate(CASES)}
    return Family(
        request,
        ("test_no_text_is_obeyed_by_a_terminal_a_runner_or_a_reader",),
        CASES,
        lambda name: CASES[name](place / numbers[name]),
    )


@pytest.mark.parametrize("name", CASES)
def test_no_text_is_obeyed_by_a_terminal_a_runner_or_a_reader(runs, name):
    written = runs[name]
    assert (written.code == 70) == (name == "a path that cannot be"), written
    look(written, junit=name not in WITHOUT_REPORTS)
    assert (b"boo" in written.out + written.err) == (name not in UNTOLD), written
