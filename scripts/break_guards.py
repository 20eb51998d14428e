"""Break each guard on purpose, in a copy of the checkout, and see that a test fails.

A break is one replacement in one file. The text that it replaces has to be there exactly once, so a guard that moves is
noticed here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN = "<!-- the guards: made by scripts/break-guards -->"
AT_A_TIME = 2
SECONDS = 300
MOST = 9
"""Failures after which no more are looked for."""


class Guard(NamedTuple):
    """What is held, where, the break (old text and new), and the tests that have to notice."""

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: str


CLIENTS = "tests/bounded/test_every_client_and_fault.py"
RUNS = "tests/contract/test_hostile_runs.py"

GUARDS = [
    # Time and bytes
    Guard(
        "re-arming",
        "each wait ends at what is left of the budget, not of the last byte",
        "precheck_lib/bounded/budget.py",
        "        return self._end if self._parent is None else min(self._end, self._parent.end)",
        "        return self.clock() + self.seconds",
        f"{CLIENTS} -k drip-body",
    ),
    Guard(
        "parent",
        "a part of a budget is cut by the whole",
        "precheck_lib/bounded/budget.py",
        "            left if seconds is None else min(seconds, left),",
        "            left if seconds is None else seconds,",
        "tests/bounded/test_budget.py",
    ),
    Guard(
        "bytes",
        "what is received is counted",
        "precheck_lib/bounded/net.py",
        "            self.budget.take(count, self.phase)\n",
        "",
        f"{CLIENTS} -k 'http-100-flood or ws-vast-frame'",
    ),
    Guard(
        "announced-length",
        "a length that is too large is refused before it is read",
        "precheck_lib/bounded/http.py",
        "    if announced is not None and announced > max_body:",
        "    if announced is not None and announced < 0:",
        f"{CLIENTS} -k vast-length-silence",
    ),
    Guard(
        "encoding",
        "an encoding that was not asked for is refused",
        "precheck_lib/bounded/http.py",
        '        if encoding not in ("", "identity"):',
        '        if encoding == "none":',
        f"{CLIENTS} -k gzip",
    ),
    Guard(
        "head-cut",
        "half a head is no head",
        "precheck_lib/bounded/net.py",
        '                if self.phase == "head":\n                    self._head_cut()\n            self.received',
        "            self.received",
        f"{CLIENTS} -k 'http-fin-in-head or http-empty-reply'",
    ),
    Guard(
        "resolver",
        "the system's resolver is asked in a thread that can be left behind",
        "precheck_lib/bounded/resolve.py",
        "        found = call_bounded(\n"
        '            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), budget=budget, phase="resolve"\n'
        "        )",
        "        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)",
        "tests/bounded/test_net.py -k resolver_that_does_not_answer",
    ),
    Guard(
        "shared-connect",
        "several addresses share the time to connect",
        "precheck_lib/bounded/net.py",
        "        share = budget.child(budget.left() / (len(addresses) - number))",
        "        share = budget.child()",
        f"{CLIENTS} -k dead-ones-first",
    ),
    Guard(
        "certificates",
        "certificates are verified",
        "precheck_lib/bounded/tls.py",
        "    made.sslsocket_class = BudgetTlsSocket\n",
        "    made.sslsocket_class = BudgetTlsSocket\n    made.check_hostname = False\n    made.verify_mode = 0\n",
        f"{CLIENTS} -k 'unknown-authority or other-name or expired'",
    ),
    Guard(
        "masked-frames",
        "a frame that a server must not send is refused",
        "precheck_lib/bounded/websocket.py",
        "        if frame.mask_value:",
        "        if False:",
        f"{CLIENTS} -k ws-masked",
    ),
    Guard(
        "accept-key",
        "the handshake is compared letter by letter",
        "precheck_lib/bounded/handshake.py",
        "        if accepts != [base64.b64encode(digest)]:",
        "        if not accepts:",
        f"{CLIENTS} -k accept-other-case",
    ),
    Guard(
        "one-meaning",
        "the same key twice has no meaning",
        "precheck_lib/bounded/strict_json.py",
        "            object_pairs_hook=_unique_where_it_counts if lenient else _unique,",
        "            object_pairs_hook=dict,",
        f"{CLIENTS} -k doubled-key",
    ),
    # The run
    Guard(
        "reserve",
        "a load ends before the reserve",
        "precheck_lib/engine.py",
        "self.budget.child(max(0.0, self.budget.left() - self.plan.reserve)) if changes else self.budget",
        "self.budget",
        "tests/unit/engine/test_budgets.py",
    ),
    Guard(
        "cleanup",
        "what was loaded is unloaded after a failure",
        "precheck_lib/engine.py",
        "        if not all(is_fine(result) for result in self.results.values()):\n",
        "        if False:\n",
        "tests/contract/test_g_ollama.py -k clean",
    ),
    Guard(
        "cleanup-after-a-signal",
        "cleanup has five seconds after a signal",
        "precheck_lib/engine.py",
        "budget.cut(SIGNAL_SECONDS - REPORT_SECONDS - since)",
        "None",
        "tests/contract/test_a_signals.py",
    ),
    Guard(
        "read-first",
        "nothing is changed before all that reads has passed",
        "precheck_lib/engine.py",
        "        for checks in (reading, changing):",
        "        for checks in (changing, reading):",
        "tests/unit/engine/test_order.py",
    ),
    Guard(
        "one-server",
        "one server is changed by one check at a time",
        "precheck_lib/engine.py",
        "        return all(self._server(other) != self._server(check) for other in beside)",
        "        return True",
        "tests/unit/engine/test_together.py",
    ),
    Guard(
        "readers",
        "lines that nobody reads do not put the end of a run off",
        "precheck_lib/terminal.py",
        "        return end if self.end is None else min(end, self.end)",
        "        return end",
        "tests/contract/test_breakers.py -k 'put_the_end_off'",
    ),
    Guard(
        "last-resort",
        "a second signal ends the process whatever it does",
        "precheck_lib/interrupt.py",
        "        signal.setitimer(signal.ITIMER_REAL, LAST_RESORT_SECONDS)\n\n    def _last",
        "        pass\n\n    def _last",
        "tests/contract/test_a_signals.py -k second",
    ),
    # Residency
    Guard(
        "absence",
        "no load without an absence that was read",
        "precheck_lib/residency/machine.py",
        "    (State.LEAVING, Event.UNREADABLE): State.LEAVING,",
        "    (State.LEAVING, Event.UNREADABLE): State.SETTLING,",
        "tests/unit/residency/test_machine.py tests/contract/test_g_ollama.py",
    ),
    Guard(
        "one-more-unload",
        "a second unload in the cleanup, at most once",
        "precheck_lib/residency/machine.py",
        "                self._may_repeat = False\n",
        "",
        "tests/unit/residency",
    ),
    Guard(
        "held-absence",
        "after a load without an answer an absence has to hold",
        "precheck_lib/residency/machine.py",
        "        self.must_hold = not answered",
        "        self.must_hold = False",
        "tests/unit/residency",
    ),
    Guard(
        "whole-numbers",
        "a size is an integer, not 1.0 and not true",
        "precheck_lib/residency/judge.py",
        "        if type(value) is not int:",
        "        if not isinstance(value, (int, float)):",
        "tests/unit/residency/test_judge.py",
    ),
    Guard(
        "fully-on-the-gpu",
        "a model that is partly on the CPU is not right",
        "precheck_lib/residency/judge.py",
        "    if row.size_vram != row.size:",
        "    if row.size_vram == 0:",
        "tests/unit/residency/test_judge.py",
    ),
    # Children
    Guard(
        "marked-children",
        "a child's own children are ended too",
        "precheck_lib/bounded/child.py",
        "                env={**command.env, MARK: self.token},",
        "                env={**command.env},",
        "tests/bounded/test_process.py",
    ),
    Guard(
        "environment",
        "a command gets no secret with its environment",
        "precheck_lib/checks/kind.py",
        "for name, value in self.env.items() if _ALLOWED.fullmatch(name)}",
        "for name, value in self.env.items()}",
        "tests/contract/test_c_pins.py",
    ),
    # What is shown
    Guard(
        "command-escape",
        "a workflow command in untrusted text is broken",
        "precheck_lib/report/text.py",
        '    return _COMMAND_AT_START.sub(r"\\1: ", line).replace("##[", "## [")',
        "    return line",
        "tests/unit/report",
    ),
    Guard(
        "control-characters",
        "a terminal gets no control character of others",
        "precheck_lib/report/text.py",
        '    return SEQUENCE.sub("", text[:most]), len(text) > most',
        "    return text[:most], len(text) > most",
        "tests/unit/report",
    ),
    Guard(
        "xml-characters",
        "JUnit holds only what XML can hold",
        "precheck_lib/report/text.py",
        '    return _NOT_XML.sub(lambda match: f"#x{ord(match[0]):02X}", text)',
        "    return text",
        "tests/unit/report/test_junit.py tests/unit/report/test_text.py",
    ),
    Guard(
        "cells",
        "a Markdown cell stays one",
        "precheck_lib/report/github.py",
        '    return _MARKDOWN.sub(r"\\\\\\1", escaped).replace("@", "@\\u200b")',
        "    return escaped",
        "tests/unit/report/test_github.py",
    ),
    Guard(
        "redaction",
        "a secret is hidden wherever it got in",
        "precheck_lib/redact.py",
        "        if not spans:\n            return text\n",
        "        return text\n",
        "tests/unit/test_redact.py",
    ),
    Guard(
        "mask",
        "the runner is told to mask secrets",
        "precheck_lib/report/github.py",
        '    return [f"::add-mask::{_data(line)}" for line in found]',
        "    return []",
        "tests/unit/report/test_github.py tests/contract/test_leaks_out.py",
    ),
    Guard(
        "server-messages",
        "the message of an OpenCode error is never shown",
        "precheck_lib/servers/opencode.py",
        "        name = text if isinstance(text, str) and _IDENTIFIER.match(text) else None",
        '        name = str(body.get("message") or body.get("data"))',
        "tests/unit/servers/test_opencode.py tests/contract/test_f_opencode.py",
    ),
]


def checkout(folder: Path) -> None:
    """Copy what git would take, new files too."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def broken(guard: Guard) -> list[str]:
    """Break the guard in a copy; returns the tests that failed."""
    with tempfile.TemporaryDirectory(prefix="precheck-guard-") as name:
        folder = Path(name)
        checkout(folder)
        file = folder / guard.file
        text = file.read_text(encoding="utf-8")
        if text.count(guard.old) != 1:
            raise SystemExit(f"{guard.name}: what it breaks is {text.count(guard.old)} times in {guard.file}")
        file.write_text(text.replace(guard.old, guard.new), encoding="utf-8")
        options = f"-q -p no:randomly -p no:cacheprovider --maxfail={MOST} --timeout=20"
        command = f"'{sys.executable}' -m pytest {options} {guard.tests}"
        done = subprocess.run(
            ["/bin/sh", "-c", f"exec timeout {SECONDS} {command}"],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        failed: list[str] = re.findall(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        print(f"{guard.name}: {len(failed)} failed", flush=True)
        return failed


def row(guard: Guard, failed: list[str]) -> str:
    """Give the guard's line of the table: one test by name, and how many more."""
    first = failed[0].partition("::")[2].partition("[")[0] if failed else "**none**"
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    more = ", and at least 8 more" if len(failed) == MOST else more
    file = guard.file.removeprefix("precheck_lib/")
    return f"| {guard.what} | `{file}` | `{first}`{more} |"


def main(names: list[str]) -> int:
    """Break them all, or those that are named; ends with 1 where no test has noticed."""
    chosen = [guard for guard in GUARDS if not names or guard.name in names]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = list(zip(chosen, pool.map(broken, chosen), strict=True))
    lines = [row(guard, failed) for guard, failed in found]
    unnoticed = [guard.name for guard, failed in found if not failed]
    for name in unnoticed:
        print(f"{name}: no test has noticed", file=sys.stderr)
    if not names:
        text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0].rstrip()
        head = [
            "## Guards, each broken once on purpose",
            "",
            "Made by `scripts/break-guards`: each guard is taken out in a copy of the checkout, and the tests are run.",
            "",
            "| what is held | broken in | the tests that fail then |",
            "|---|---|---|",
        ]
        PAGE.write_text("\n".join([text, "", BEGIN, "", *head, *lines, ""]), encoding="utf-8")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
