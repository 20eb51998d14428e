"""The signals of A6, H3 and G6: SIGINT, SIGTERM and SIGHUP end a run in order, with its reports and its cleanup.

Two tables: one signal in every phase of a strict run, and a second one while the first is being obeyed. Each is sent to
the top process alone, at an event that shows that the run is in that phase.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import signal
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import psutil
import pytest

from precheck_lib.simulate import Model, Stage
from tests.contract.harness import (
    COMMAND,
    ORDER,
    READS,
    ROOT,
    SUCCESS,
    Ended,
    Running,
    assert_sound,
    command_of,
    full_listener,
    ignoring,
    nothing_was_contacted,
    open_stage,
    read_fifo,
    run_precheck,
    start_precheck,
    write_script,
    write_strict,
)
from tests.contract.watching import Delay, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
UNCONFIRMED = "native residency remains unconfirmed"
CLEANUP_FAILED = "Ollama cleanup unload/observation failed"
WITHIN = 7.0
"""The whole end after a signal, in seconds (H3: 5 s for cleanup and reports; a runner kills 10 s after its first)."""

AT_ONCE = 1.0
"""The end where nothing has to be cleaned up, and the end after a second signal."""

GIVEN_UP = 5.2
"""The end where a server answers nothing any more: all that cleanup and reports have after a signal."""


@dataclass
class Scene:
    """One run in one phase: its stage, a folder of its own, the run itself."""

    stage: Stage
    place: Path
    running: Running

    def file(self, name: str) -> Path:
        return self.place / name


@dataclass(frozen=True)
class Phase:
    """Where in a run the signal comes, and what has to come of it.

    `here` is true once the run is there. `at` is the check that says so, with the outcome `word` (`None`: all passed).
    `stage`, `spec` and `env` make the run: without `spec` it is the built-in strict spec with its real bounds.
    `actions` is all that Ollama is asked to do, `confirmed` whether no model can be left. `own` is the exit code where
    the verdict was final before the signal. `then` is called after the signal, `more` asserts what is special.
    """

    at: str | None
    here: Callable[[Scene], object] | None
    stage: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Mapping[str, Any]] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Stage, Path], None] = lambda _stage, _place: None
    command: Callable[[int], tuple[str, ...]] = lambda _number: COMMAND
    fifo: bool = False
    then: Callable[[Scene], Any] = lambda _scene: None
    word: str = "error"
    actions: tuple[str, ...] = ()
    confirmed: bool = True
    own: int | None = None
    within: float = AT_ONCE
    more: Callable[[Scene, Ended], None] = lambda _scene, _ended: None


def one_model(**more: Any) -> dict[str, Any]:
    return {"models": {"qwen3:8b": Model(**more)}}


def faulty(server: str, fault: str, models: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {
        "faults": {server: fault},
        "fault_options": {server: options},
        **(one_model() if models is None else models),
    }


def loading(scene: Scene, name: str = "qwen3:8b") -> bool:
    return scene.stage.ollama.state().get(name) == "loading"


def asked(server: str, step: str, count: int = 1) -> Callable[[Scene], bool]:
    """A request of this step has arrived at a server for the `count`-th time."""

    def check(scene: Scene) -> bool:
        stand_in = getattr(scene.stage, server)
        return [stand_in.step(request) for request in stand_in.seen].count(step) >= count

    return check


def called(method: str) -> Callable[[Scene], bool]:
    return lambda scene: any(call.method == method for call in scene.stage.codex.calls)


def connecting(scene: Scene) -> bool:
    """Whether the run waits for an answer to its SYN."""
    with contextlib.suppress(psutil.Error):
        return any(one.status == "SYN_SENT" for one in psutil.Process(scene.running.process.pid).net_connections())
    return False


def read_and_waiting(count: int) -> Callable[[Scene], bool]:
    """The run has read so many inventories and waits: it has no connection open (the stand-in may close first)."""

    def check(scene: Scene) -> bool:
        if not asked("ollama", "ps", count)(scene):
            return False
        return not psutil.Process(scene.running.process.pid).net_connections()

    return check


def imported(module: str) -> Callable[[int], tuple[str, ...]]:
    """Make the signal come in the moment in which a module is asked for: the handlers have to be set by then."""

    def command(number: int) -> tuple[str, ...]:
        spy = (
            "import sys, os\n"
            "class Spy:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name == {module!r}:\n"
            "            sys.meta_path.remove(self)\n"
            f"            os.kill(os.getpid(), {int(number)})\n"
            "sys.meta_path.insert(0, Spy())\n"
        )
        return sys.executable, "-c", spy + COMMAND[2]

    return command


def during_import(module: str, at: str) -> Phase:
    return Phase(at, None, command=imported(module), within=WITHIN, more=nothing_was_asked)


def before_the_reports(number: int) -> tuple[str, ...]:
    """Make the signal come when the last check has ended and no report is begun."""
    spy = (
        "import os\n"
        f"import sys; sys.path[0] = {str(ROOT)!r}\n"
        "from precheck_lib.ending import Ending\n"
        "finish = Ending.finish\n"
        "def signalled(*arguments):\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "    return finish(*arguments)\n"
        "Ending.finish = signalled\n"
    )
    return sys.executable, "-c", spy + COMMAND[2]


def nothing_was_asked(scene: Scene, _ended: Ended) -> None:
    assert nothing_was_contacted(scene.stage)


def a_child_that_stays(*lines: str) -> Callable[[Stage, Path], None]:
    def prepare(stage: Stage, place: Path) -> None:
        write_script(stage.commands["opencode"], *lines, f'echo > "{place / "began"}"', "command -p sleep 60")

    return prepare


def cold(scene: Scene, ended: Ended) -> None:
    """Absent was proven, and no load was begun."""
    (cycle,) = ended.json["cycles"]
    assert cycle["absent_s"] is not None
    assert cycle["load_s"] is None


def given_up(scene: Scene, _ended: Ended) -> None:
    """The load is given up, and as it had no answer absence counts only when it has held (1 s)."""
    ollama = scene.stage.ollama
    assert ollama.aborted == ["qwen3:8b"]
    reads = [request.at for request in ollama.seen if request.path == "/api/ps"]
    unload = [request.at for request in ollama.seen if request.path == "/api/generate"][-1]
    assert reads[-1] - next(at for at in reads if at > unload) >= 1 - 0.01


def nobody_is_waited_for_longer(_scene: Scene, ended: Ended) -> None:
    assert f"{CLEANUP_FAILED} (exit 28)" in ended.err


def read_it(scene: Scene) -> bytes:
    return read_fifo(scene.file("fifo"))


def prepared(scene: Scene) -> bool:
    """The report that goes to a file is prepared beside its place: the other one waits for the reader of the FIFO."""
    return bool(os.listdir(scene.file("reports")))


NOT_READY = one_model(context_length=4096)
UNLOAD_LOAD = ("unload", "load")

PHASES: dict[str, Phase] = {
    "import-of-the-command-line": during_import("precheck_lib.cli", "roles"),
    "import-of-the-spec": during_import("msgspec", "roles"),
    "import-while-a-child-runs": during_import("requests", "commands"),
    "child": Phase("commands", lambda scene: scene.file("began").exists(), prepare=a_child_that_stays()),
    "child-that-ignores-it": Phase(
        "commands", lambda scene: scene.file("began").exists(), prepare=a_child_that_stays("trap '' TERM INT HUP")
    ),
    "connect": Phase("codex-tcp", connecting, env={"TEST_CODEX_WS_URL": "ws://{hole}"}),
    "connect-of-a-request": Phase("opencode-health", connecting, env={"TEST_OPENCODE_URL": "http://{hole}"}),
    "handshake": Phase(
        "codex", lambda scene: scene.stage.codex.seen, stage=faulty("codex", "handshake-drip", every=1.0)
    ),
    "exchange-account": Phase("codex", called("account/read"), stage=faulty("codex", "never-answers-account")),
    "exchange-mcp": Phase("codex", called("mcpServerStatus/list"), stage=faulty("codex", "mcp-hangs")),
    **{
        check: Phase(check, asked("opencode", path), stage=faulty("opencode", "silence", at=path))
        for check, path in zip(
            READS, ("/global/health", "/experimental/capabilities", "/config", "/config/providers"), strict=False
        )
    },
    "body-of-an-answer": Phase(
        "opencode-config", asked("opencode", "/config"), stage=faulty("opencode", "drip", at="/config", every=0.5)
    ),
    "ollama-tags": Phase("ollama-tags", asked("ollama", "tags"), stage=faulty("ollama", "silence", at="tags")),
    "unload": Phase(
        "residency",
        asked("ollama", "unload"),
        stage=faulty("ollama", "silence", at="unload"),
        actions=("unload",),
    ),
    "absence": Phase(
        "residency", asked("ollama", "ps", 2), stage=faulty("ollama", "never-leaves"), actions=("unload",)
    ),
    "unanswered-inventory": Phase(
        "residency", asked("ollama", "ps"), stage=faulty("ollama", "silence", at="ps"), actions=("unload",)
    ),
    "settling": Phase("residency", read_and_waiting(1), stage=one_model(size=1 << 30), actions=("unload",), more=cold),
    "load": Phase(
        "residency",
        loading,
        stage=one_model(load_seconds=30),
        actions=(*UNLOAD_LOAD, "unload"),
        within=2.5,
        more=given_up,
    ),
    "row": Phase(
        "residency",
        asked("ollama", "ps", 2),
        stage=faulty("ollama", "silence", at="ps", skip=1, times=1),
        actions=(*UNLOAD_LOAD, "unload"),
    ),
    "hold": Phase(
        "residency",
        read_and_waiting(2),
        stage=one_model(size=1 << 30),
        spec={"residency": {"hold": "20s", "settle": "0s"}},
        actions=(*UNLOAD_LOAD, "unload"),
    ),
    "last-inventory": Phase(
        "residency",
        asked("ollama", "ps", 3),
        stage=faulty("ollama", "silence", at="ps", skip=2, times=1),
        actions=(*UNLOAD_LOAD, "unload"),
    ),
    # Cleanup: it goes on, within what is left of the 5 s.
    "cleanup-unload": Phase(
        "residency",
        asked("ollama", "unload", 2),
        stage=faulty("ollama", "silence", NOT_READY, at="unload", skip=1),
        word="failed",
        actions=(*UNLOAD_LOAD, "unload"),
        confirmed=False,
        within=GIVEN_UP,
        more=nobody_is_waited_for_longer,
    ),
    "cleanup-observation": Phase(
        "residency",
        asked("ollama", "ps", 3),
        stage=faulty("ollama", "silence", NOT_READY, at="ps", skip=2, times=1),
        # A read is given up after a second here, and asked again.
        spec={"residency": {"removal": "10s", "reserve": "10s", "reserve_per_model": "10s"}},
        word="failed",
        actions=(*UNLOAD_LOAD, "unload"),
        within=2.5,
    ),
    "load-of-a-server-that-falls-silent": Phase(
        "residency",
        asked("ollama", "load"),
        stage=faulty("ollama", "silence", skip=3),
        actions=(*UNLOAD_LOAD, "unload"),
        confirmed=False,
        within=GIVEN_UP,
        more=nobody_is_waited_for_longer,
    ),
    # Reports: the verdict is final, and a first signal is held off until they are written.
    "before-the-reports": Phase(
        None, None, stage=one_model(), command=before_the_reports, own=0, actions=UNLOAD_LOAD, within=WITHIN
    ),
    "report-of-a-pass": Phase(
        None, prepared, stage=one_model(), fifo=True, then=read_it, own=0, actions=UNLOAD_LOAD, within=WITHIN
    ),
    "report-of-a-failure": Phase(
        "opencode-health",
        prepared,
        stage=faulty("opencode", "unhealthy"),
        fifo=True,
        then=read_it,
        word="failed",
        own=1,
        within=WITHIN,
    ),
}

ALSO_HANGUP = ("opencode-health", "load")

GROUPS = [(name,) for name, phase in PHASES.items() if phase.within != GIVEN_UP]
# What waits out the 5 s does it together.
GROUPS.append(tuple(name for name, phase in PHASES.items() if phase.within == GIVEN_UP))


@contextlib.contextmanager
def started(phase: Phase, place: Path, number: int) -> Iterator[Scene]:
    """Begin the run of a phase in a folder of its own."""
    with contextlib.ExitStack() as stack:
        stage = stack.enter_context(open_stage(place / "stage", **phase.stage))
        phase.prepare(stage, place)
        hole = stack.enter_context(full_listener())
        env = {**stage.environment, **{name: value.format(hole=hole) for name, value in phase.env.items()}}
        spec = "strict" if phase.spec is None else write_strict(place / "spec", phase.spec)
        arguments: list[str] = []
        if phase.fifo:
            os.mkfifo(place / "fifo")
            (place / "reports").mkdir()
            arguments = ["--json", str(place / "fifo"), "--junit", str(place / "reports" / "report.xml")]
        running = stack.enter_context(
            start_precheck(env, *arguments, spec=spec, reports=not phase.fifo, command=phase.command(number))
        )
        yield Scene(stage, place, running)


def with_reports_of(scene: Scene, ended: Ended, written: bytes) -> Ended:
    """Give the run with the reports that went elsewhere: to a FIFO, and into a folder where they are alone."""
    assert os.listdir(scene.file("reports")) == ["report.xml"]
    xml = (scene.file("reports") / "report.xml").read_bytes()
    return dataclasses.replace(ended, json=json.loads(written), junit=ET.fromstring(xml), raw=written + xml)


@dataclass
class Told:
    """What has become of a run: `took` seconds from the signal to its end, of which it was `held_up` for some."""

    ended: Ended
    took: float
    held_up: float


def end_once(phase: Phase, place: Path, number: signal.Signals) -> Told:
    place.mkdir()
    with started(phase, place, number) as scene:
        delay = Delay(scene.running)
        sent = time.monotonic()
        if phase.here is not None:
            wait_until(lambda: phase.here(scene))
            delay.restart()
            sent = time.monotonic()
            scene.running.signal(number)
        written = phase.then(scene)
        ended = scene.running.finish()
        took = time.monotonic() - sent
        delay.join()
        if phase.fifo:
            ended = with_reports_of(scene, ended, written)
        phase.more(scene, ended)
        assert_what_a_signal_leaves(phase, number, scene, ended)
    return Told(ended, took, delay.seconds)


def assert_what_a_signal_leaves(phase: Phase, number: signal.Signals, scene: Scene, ended: Ended) -> None:
    assert_sound(ended)
    assert ended.code == (128 + number if phase.own is None else phase.own), ended
    if phase.own is None:
        assert ended.json["verdict"] == "cancelled", ended
        assert number.name in ended.err, ended
    index = len(ORDER) if phase.at is None else ORDER.index(phase.at)
    words = ["passed"] * index + [phase.word] + ["skipped"] * len(ORDER)
    assert ended.words == dict(zip(ORDER, words, strict=False)), ended
    # The stand-in is asked, not the report.
    ollama = scene.stage.ollama
    assert tuple(what for what, _ in ollama.actions) == phase.actions, ended
    assert (UNCONFIRMED in ended.err) == (not phase.confirmed), ended
    assert (CLEANUP_FAILED in ended.err) == (not phase.confirmed), ended
    if "load" in phase.actions and phase.confirmed and phase.own is None:
        assert ollama.resident == [], ended


@pytest.mark.parametrize("names", GROUPS, ids="+".join)
def test_a_signal_in_any_phase_ends_the_run_in_time_with_its_reports_and_nothing_left(names, tmp_path):
    cases = {
        f"{name}-{number.name}": (PHASES[name], number)
        for name in names
        for number in ((INT, TERM, HUP) if name in ALSO_HANGUP else (INT, TERM))
    }
    told = together(lambda case: end_once(cases[case][0], tmp_path / case, cases[case][1]), cases)
    for case, (phase, _) in cases.items():
        assert told[case].took - told[case].held_up <= phase.within <= WITHIN, f"{case}: {told[case].ended}"


def together(run: Callable[[str], Told], cases: Iterable[str]) -> dict[str, Told]:
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(cases, pool.map(run, cases), strict=True))


# A second one -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Second:
    """A phase with a second signal: sent once `again` is true (`None`: right behind the first one).

    `reports` says whether there is time for them (there is none where the process is stuck, or a reader does not come).
    """

    phase: Phase
    again: Callable[[Scene], object] | None
    reports: bool = True
    confirmed: bool = True
    more: Callable[[Scene, Ended], None] = lambda _scene, _ended: None


def stuck(place: Path) -> Callable[[int], tuple[str, ...]]:
    """Give a copy of the package whose cleanup never looks at a signal: the last resort has to end it."""

    def command(_number: int) -> tuple[str, ...]:
        copy = place / "copy"
        for part in ("precheck_lib", "specs"):
            shutil.copytree(ROOT / part, copy / part)
        path = copy / "precheck_lib" / "residency" / "cleanup.py"
        text = path.read_text()
        assert text.count("    remarks = []\n") == 1
        begins = f"    open({str(place / 'stuck')!r}, 'w').close()\n"
        loop = f"{begins}    while True:\n        __import__('time').sleep(0.01)\n"
        path.write_text(text.replace("    remarks = []\n", f"{loop}    remarks = []\n"))
        return command_of(copy)

    return command


def no_torso(scene: Scene, _ended: Ended) -> None:
    assert set(os.listdir(scene.file("reports"))) <= {"report.xml"}


FALLS_SILENT = PHASES["load-of-a-server-that-falls-silent"]

SECONDS: dict[str, Second] = {
    "cleanup-unload": Second(FALLS_SILENT, asked("ollama", "unload", 2), confirmed=False),
    "cleanup-observation": Second(
        dataclasses.replace(
            PHASES["load"], stage=faulty("ollama", "silence", one_model(load_seconds=30), at="ps", skip=1)
        ),
        asked("ollama", "ps", 2),
        confirmed=False,
    ),
    "reports": Second(
        dataclasses.replace(PHASES["opencode-health"], fifo=True), prepared, reports=False, more=no_torso
    ),
    "cleanup-that-is-stuck": Second(
        PHASES["load"], lambda scene: scene.file("stuck").exists(), reports=False, confirmed=False
    ),
    # Right behind the first one: nothing is waited for in between.
    "child-that-ignores-it": Second(PHASES["child-that-ignores-it"], None),
    "exchange": Second(PHASES["exchange-account"], None),
    "read": Second(PHASES["opencode-config"], None),
    "load": Second(PHASES["load"], None, confirmed=False),
    "cleanup-after-a-failure": Second(PHASES["cleanup-unload"], None, confirmed=False),
}


def end_twice(name: str, place: Path, first: signal.Signals) -> Told:
    second = SECONDS[name]
    place.mkdir()
    phase = second.phase
    if name == "cleanup-that-is-stuck":
        phase = dataclasses.replace(phase, command=stuck(place))
    with started(phase, place, first) as scene:
        delay = Delay(scene.running)
        wait_until(lambda: phase.here(scene))
        scene.running.signal(first)
        if second.again is not None:
            wait_until(lambda: second.again(scene))
        delay.restart()
        sent = time.monotonic()
        scene.running.signal(INT if first == TERM else TERM)
        ended = scene.running.finish()
        took = time.monotonic() - sent
        delay.join()
        second.more(scene, ended)
    return Told(ended, took, delay.seconds)


@pytest.mark.parametrize("name", SECONDS)
def test_a_second_signal_ends_the_run_within_a_second(name, tmp_path):
    second = SECONDS[name]
    # Two that are pending together are handled in the order of their numbers, so there SIGINT is the first.
    firsts = {number.name: number for number in ((INT,) if second.again is None else (INT, TERM))}
    told = together(lambda first: end_twice(name, tmp_path / first, firsts[first]), firsts)
    for first, number in firsts.items():
        ended = told[first].ended
        assert told[first].took - told[first].held_up < AT_ONCE, ended
        assert ended.code == 128 + number, ended
        assert SUCCESS not in ended.out
        # Only where a load was begun is anything said of residency, and there it is always said.
        assert (UNCONFIRMED in ended.err) == (not second.confirmed), ended
        if second.reports:
            assert_sound(ended)
            assert ended.json["verdict"] == "cancelled"
            assert ended.blockers == [second.phase.at]


# What the tables do not have --------------------------------------------------------------------------------------


def test_after_a_signal_what_was_loaded_is_unloaded_in_reverse_order(make_stage, tmp_path):
    # All three are to stay, so nothing is unloaded again before the next cycle.
    models = {"a:1": Model(), "b:1": Model(), "c:1": Model(load_seconds=30)}
    stage = make_stage(models=models)
    spec = write_strict(tmp_path / "spec", {"residency": {"stay": ["a:1", "b:1", "c:1"]}})
    with start_precheck(stage, spec=spec) as running:
        wait_until(lambda: stage.ollama.state().get("c:1") == "loading")
        running.signal(TERM)
        ended = running.finish()
    assert_sound(ended)
    assert ended.code == 143, ended
    loads = [("unload", "a:1"), ("load", "a:1"), ("unload", "b:1"), ("load", "b:1"), ("unload", "c:1")]
    cleanup = [("load", "c:1"), ("unload", "c:1"), ("unload", "b:1"), ("unload", "a:1")]
    assert stage.ollama.actions == loads + cleanup
    assert stage.ollama.resident == []
    assert UNCONFIRMED not in ended.err


def test_a_signal_that_was_ignored_when_the_run_began_stays_ignored(make_stage, small_strict):
    stage = make_stage(**one_model(load_seconds=0.4))
    with start_precheck(stage, spec=small_strict, preexec_fn=ignoring(INT, HUP)) as running:
        wait_until(lambda: stage.ollama.state().get("qwen3:8b") == "loading")
        running.signal(INT)
        running.signal(HUP)
        ended = running.finish()
    assert_sound(ended)
    assert ended.code == 0, ended


def test_a_signal_that_was_not_ignored_counts_where_others_were(make_stage, small_strict):
    stage = make_stage(**one_model(load_seconds=0.4))
    with start_precheck(stage, spec=small_strict, preexec_fn=ignoring(INT)) as running:
        wait_until(lambda: stage.ollama.state().get("qwen3:8b") == "loading")
        running.signal(INT)
        running.signal(HUP)
        ended = running.finish()
    assert_sound(ended)
    assert ended.code == 129, ended
    assert ended.blockers == ["residency"]


def test_signals_that_are_blocked_when_the_run_begins_do_not_break_it(stage, small_strict):
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, (INT, TERM, HUP))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    assert run_precheck(stage, spec=small_strict, preexec_fn=block).code == 0


def test_a_first_signal_in_the_middle_of_a_report_is_held_off(stage, small_strict, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)  # less than a report of the strict spec
        with start_precheck(stage, "--json", str(fifo), spec=small_strict, reports=False) as running:
            wait_until(lambda: waiting(reader) >= 4096)
            running.signal(TERM)
            os.set_blocking(reader, True)
            with os.fdopen(os.dup(reader), "rb") as file:
                report = json.loads(file.read())
            ended = running.finish()
    finally:
        os.close(reader)
    assert ended.code == 0, ended
    assert report["verdict"] == "ready"
    assert ended.out.splitlines()[-1] == SUCCESS


def waiting(descriptor: int) -> int:
    """Say how many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4), sys.byteorder)
