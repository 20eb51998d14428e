"""The end of a run is certain (A5, H3): budget and half a second, whatever a check does that may block in the kernel.

Shown with a kind of check that exists only here. It does what every such kind does: it makes its call in a child.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from precheck_lib import checks, engine, load_spec
from precheck_lib.bounded import isolate
from precheck_lib.bounded.marked import is_alive
from precheck_lib.bounded.process import ChildResult
from precheck_lib.outcome import Source, SpecIdentity
from precheck_lib.spec import CheckSpec, Spec
from tests.bounded.hostile import held_up
from tests.contract.harness import ROOT, assert_sound, start_precheck
from tests.contract.watching import Delay, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.harness import Ended

BUDGET = 1.5
OVERRUN = 0.5

KIND = """
from __future__ import annotations

from precheck_lib.checks.kind import Deed, Kind, Options

class ApartOptions(Options, frozen=True, kw_only=True):
    call: str
    note: str

def run(options, context):
    value = context.in_child(f"calls_apart:{options.call}", options.note, "the driver")
    assert value == "it came back", value
    return []

KIND = Kind(name="apart", options=ApartOptions, run=run, plan=lambda options: [Deed("call the driver")])
"""

CALLS = """
import contextlib, ctypes, os, signal

def deaf(note):
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    with open(note, "w") as file:
        file.write(str(os.getpid()))

def pause_without_the_lock(note):
    deaf(note)
    ctypes.CDLL(None).pause()
    return "it came back"

def pause_with_the_lock(note):
    deaf(note)
    ctypes.PyDLL(None).pause()
    return "it came back"

def pause_and_leave_a_daemon(note):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            deaf(note + ".daemon")
            ctypes.PyDLL(None).pause()
        os._exit(0)
    return pause_with_the_lock(note)

def come_back(note):
    return "it came back"

def fail(note):
    raise OSError("no such device")

def crash(note):
    os.abort()

def look(note):
    assert "canary" not in str(sorted(os.environ.items())), "a secret is in the environment"
    return "it came back"
"""

HANGING = ("pause_without_the_lock", "pause_with_the_lock", "pause_and_leave_a_daemon")

SPEC = """
version: 1
name: apart
checks:
  - id: driver
    title: the driver answers
    budget: 60s
    apart: {{call: {call}, note: {note}}}
  - id: later
    title: what comes after it
    needs: [driver]
    env: {{required: {{PATH: {{}}}}}}
"""


def write_kind(folder: Path) -> Path:
    folder.mkdir()
    (folder / "apart.py").write_text(KIND)
    (folder / "calls_apart.py").write_text(CALLS)
    return folder


def command(folder: Path) -> tuple[str, ...]:
    """`python -m precheck_lib` that knows one kind more."""
    code = (
        f"import sys, runpy; sys.path[0] = {str(ROOT)!r}; sys.path.append({str(folder)!r})\n"
        f"import precheck_lib.checks as kinds; kinds.KINDS += ('apart',); kinds.__path__.append({str(folder)!r})\n"
        "runpy.run_module('precheck_lib', run_name='__main__', alter_sys=True)"
    )
    return sys.executable, "-c", code


def pids_of(note: Path) -> list[int]:
    return [int(path.read_text()) for path in (note, Path(f"{note}.daemon")) if path.exists()]


def is_blocking(note: Path, call: str) -> bool:
    """Whether all that the call starts have written who they are: after that they only wait."""
    wanted = 2 if call == "pause_and_leave_a_daemon" else 1
    return sum(path.exists() and path.read_text() != "" for path in (note, Path(f"{note}.daemon"))) == wanted


# As a process of its own ------------------------------------------------------------------------------------------


@pytest.fixture
def kind(tmp_path: Path) -> Path:
    return write_kind(tmp_path / "kind")


def end_it(kind: Path, call: str, place: Path, number: int | None) -> tuple[Ended, list[int], float, float]:
    """Run a check that makes this call, until its budget or a signal ends it.

    Returns the run, the pids of all that blocked, the seconds it took, and for how many of them it was held up.
    """
    note, spec = place / "note", place / "it.yml"
    place.mkdir()
    spec.write_text(SPEC.format(call=call, note=note))
    budget = ["--budget", f"{BUDGET}s"] if number is None else []
    with start_precheck({"PATH": "/usr/bin:/bin"}, *budget, spec=spec, command=command(kind)) as running:
        since, delay = running.started, Delay(running)
        if number is not None:
            wait_until(lambda: is_blocking(note, call))
            delay.restart()
            since = time.monotonic()
            running.signal(number)
        ended = running.finish()
        took = time.monotonic() - since
        delay.join()
    return ended, pids_of(note), took, delay.seconds


def test_a_check_that_blocks_in_c_for_ever_ends_with_the_budget_of_the_run(kind, tmp_path):
    with ThreadPoolExecutor(len(HANGING)) as pool:
        runs = list(pool.map(lambda call: end_it(kind, call, tmp_path / call, None), HANGING))
    for call, (ended, pids, took, busy) in zip(HANGING, runs, strict=True):
        assert_sound(ended)
        # From the start of the process to its end, the start of the interpreter and all reports in it.
        assert BUDGET <= took <= BUDGET + OVERRUN + busy
        assert ended.json["elapsed_s"] <= BUDGET + OVERRUN
        assert ended.code == 3, ended
        assert ended.json["verdict"] == "not-ready"
        assert ended.words == {"driver": "error", "later": "skipped"}
        (finding,) = ended.check("driver")["findings"]
        assert finding["code"] == "run.stuck"
        assert finding["message"] == "the driver: deadline of 1.5 s elapsed; the process that asks was ended"
        assert len(pids) == (2 if "daemon" in call else 1)
        assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.parametrize("call", HANGING)
def test_a_signal_ends_a_check_that_blocks_in_c_for_ever(call, kind, tmp_path):
    numbers = (signal.SIGINT, signal.SIGTERM)
    with ThreadPoolExecutor(len(numbers)) as pool:
        runs = list(pool.map(lambda number: end_it(kind, call, tmp_path / number.name, number), numbers))
    for number, (ended, pids, took, busy) in zip(numbers, runs, strict=True):
        assert_sound(ended)
        assert took <= 0.75 + busy
        assert ended.code == 128 + number, ended
        assert ended.json["verdict"] == "cancelled"
        assert ended.words == {"driver": "error", "later": "skipped"}
        assert [finding["code"] for finding in ended.check("driver")["findings"]] == ["run.cancelled"]
        assert len(pids) == (2 if "daemon" in call else 1)
        assert [pid for pid in pids if is_alive(pid)] == []


def test_reports_that_nobody_reads_do_not_put_the_end_off(kind, tmp_path):
    spec, fifos = tmp_path / "it.yml", [tmp_path / "one", tmp_path / "other"]
    spec.write_text(SPEC.format(call="pause_with_the_lock", note=tmp_path / "note"))
    for fifo in fifos:
        os.mkfifo(fifo)
    options = ["--budget", f"{BUDGET}s", "--json", str(fifos[0]), "--junit", str(fifos[1])]
    environment = {"PATH": "/usr/bin:/bin"}
    with start_precheck(environment, *options, spec=spec, command=command(kind), reports=False) as running:
        delay = Delay(running)
        ended = running.finish()
        took = time.monotonic() - running.started
        delay.join()
    assert ended.code == 3, ended
    assert ended.err.count("nothing reads from this FIFO") == 2
    assert took <= BUDGET + OVERRUN + delay.seconds


# As a library -----------------------------------------------------------------------------------------------------


@pytest.fixture
def known_here(kind: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process know the kind."""
    monkeypatch.syspath_prepend(kind)
    monkeypatch.setattr(checks, "__path__", [*checks.__path__, str(kind)])
    importlib.invalidate_caches()
    yield
    sys.modules.pop("precheck_lib.checks.apart", None)


def run_here(call: str, note: Path, **more: Any) -> Any:
    options = checks.kind_named("apart").options(call=call, note=str(note))
    check = CheckSpec(
        id="driver",
        title="the driver answers",
        kind="apart",
        options=options,
        source=Source("it.yml", 1),
        needs=(),
        budget=20.0,
    )
    spec = Spec(
        identity=SpecIdentity(name="it", path="it.yml", digest="d"), checks=(check,), success="ok", budget=None, pins={}
    )
    env = {"PATH": "/usr/bin:/bin", "HOME": "/", "TEST_DRIVER_API_KEY": "canary-42"}
    return engine.run(spec, env=env, **more)


def test_in_a_process_that_uses_it_as_a_library_the_end_is_as_certain(known_here, tmp_path):
    def run(call: str) -> tuple[Any, float]:
        started = time.monotonic()
        report = run_here(call, tmp_path / call, budget=BUDGET)
        return report, time.monotonic() - started

    before = held_up()
    with ThreadPoolExecutor(len(HANGING)) as pool:
        reports = dict(zip(HANGING, pool.map(run, HANGING), strict=True))
    busy = max(0.0, held_up() - before)
    for call, (report, took) in reports.items():
        assert BUDGET <= took <= BUDGET + OVERRUN + busy, call
        assert (report.verdict, report.exit_code) == ("not-ready", 3)
        assert [finding.code for finding in report.checks[0].findings] == ["run.stuck"]
        assert is_blocking(tmp_path / call, call)
        assert [pid for pid in pids_of(tmp_path / call) if is_alive(pid)] == []


@pytest.mark.parametrize("call", ["come_back", "look"])
def test_a_call_that_comes_back_gives_its_value_and_finds_no_secret(call, known_here, tmp_path):
    report = run_here(call, tmp_path / "note")
    assert (report.verdict, report.checks[0].findings) == ("ready", [])


@pytest.mark.parametrize(("call", "says"), [("fail", "OSError: no such device"), ("crash", "was ended by signal 6")])
def test_a_call_that_breaks_could_not_be_found_out_and_breaks_nothing_else(call, says, known_here, tmp_path):
    report = run_here(call, tmp_path / "note")
    assert (report.verdict, report.exit_code, report.checks[0].outcome) == ("not-ready", 3, "error")
    (finding,) = report.checks[0].findings
    assert (finding.code, finding.message) == (
        "run.broken",
        f"the driver: calls_apart:{call}{': ' if call == 'fail' else ' '}{says}",
    )


def test_what_the_kernel_holds_is_named_and_holds_nobody_up(known_here, tmp_path, monkeypatch):
    held = ChildResult(ended="deadline", held=(4711, 4712))
    monkeypatch.setattr(isolate, "run_children", lambda *_, **__: [held])
    report = run_here("come_back", tmp_path / "note")
    assert (report.verdict, report.exit_code, report.checks[0].outcome) == ("not-ready", 3, "error")
    (finding,) = report.checks[0].findings
    assert finding.code == "run.held"
    assert "(pid 4711, 4712)" in finding.message


def test_the_kind_of_these_tests_is_not_one_of_precheck(tmp_path):
    spec = tmp_path / "it.yml"
    spec.write_text(SPEC.format(call="come_back", note="x"))
    with pytest.raises(Exception, match="apart"):
        load_spec(str(spec))
