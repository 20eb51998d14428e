"""How a command ends: its reports are delivered, then it is said how it ended, and the success line comes last."""

from __future__ import annotations

import contextlib
import os
import stat
import time

from precheck_lib.exits import INTERNAL, UsageError

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from precheck_lib.interrupt import Interrupts
    from precheck_lib.outcome import Report
    from precheck_lib.terminal import Terminal

_NAMES = {"json": "precheck.json", "junit": "junit.xml", "summary": "summary.md"}
"""What the reports are called in a folder, by their form."""

_PATIENCE_SECONDS = 1.0
"""How long the end of a command waits in all for whoever reads its streams and reports."""

_LEAST_SECONDS = 0.1
"""The same where the budget is over: the end of a run comes by its budget and half a second."""


class Ending:
    """Ends a command with a report. `targets` says where each form of it goes (`json`, `junit`, `summary`).

    `spared` is the path of a report that must not be replaced: the one that this command verifies.
    `redact` takes the secrets of the spec out of a text, once there is a spec: the name of a place may hold one too.
    """

    def __init__(self, env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts) -> None:
        self.env = env
        self.terminal = terminal
        self.interrupts = interrupts
        self.targets: dict[str, str] = {}
        self.folder: str | None = None
        self.only_warn = False
        self.shows_summary = True
        self.spared: str | None = None
        self.redact: Callable[[str], str] = str

    @property
    def on_github(self) -> bool:
        """Whether GitHub's runner reads what is printed."""
        return self.env.get("GITHUB_ACTIONS") == "true"

    def set_targets(self, *, json: str | None, junit: str | None, out: str | None) -> None:
        """Take over the report options; raises `UsageError` where two reports would go to one file."""
        self.folder = out
        if out is not None:
            self.targets = {form: os.path.join(out, name) for form, name in _NAMES.items()}
        if json is not None:
            self.targets["json"] = json
        if junit is not None:
            self.targets["junit"] = junit
        if len(self.targets) > len({_absolute(path) for path in self.targets.values()}):
            same = self.targets.pop("junit")
            raise UsageError(f"--json and --junit both name {same}; give each report a file of its own")

    def goes_to(self, path: str) -> bool:
        """Say whether a report of this command would be written to a path."""
        return any(_absolute(target) == _absolute(path) for target in self.targets.values())

    def finish(self, report: Report, success: str = "") -> int:
        """Deliver the reports, say how it ended, and return the exit code of the process."""
        from precheck_lib.report import clean, finding_lines

        self.interrupts.final = True
        if self.spared is not None:
            spared = _absolute(self.spared)
            self.targets = {form: path for form, path in self.targets.items() if _absolute(path) != spared}
        if self.interrupts.stop.is_set and report.verdict != "cancelled":
            # Before the run began, or after it could not: still a cancelled one.
            report.verdict, report.exit_code = "cancelled", 128 + (self.interrupts.stop.signum or 0)
        if report.exit_code == 0 and self.terminal.broken:
            _unwritten(report, ["stdout cannot be written, so nobody can see that this passed"])
        self._look_back(report)
        unused = _PATIENCE_SECONDS if report.budget_s is None else report.budget_s - report.elapsed_s
        end = time.monotonic() + min(_PATIENCE_SECONDS, max(_LEAST_SECONDS, unused))
        self.terminal.end = end
        with contextlib.ExitStack() as stack:
            # Told before the reports are written: a pass that the job cannot be told of is none, and they say so too.
            files = self._open_github_files(report, stack) if self.on_github else []
            self._tell_github(report, files)
            could_pass = report.exit_code == 0
            for line in self._deliver(report, end):
                self.terminal.err(f"precheck: {line}")
            if could_pass and report.exit_code:
                self._tell_github(report, files)
        self._remember(report)
        self.annotate(report)
        for line in finding_lines(report):
            self.terminal.err(line)
        if report.exit_code == 0:
            self.terminal.out(clean(success))
        if self.only_warn and report.verdict == "not-ready":
            return 0
        return report.exit_code

    def _look_back(self, report: Report) -> None:
        if self.on_github and report.verifies is None:
            from precheck_lib.history import look_back

            report.lately = look_back(self.env)

    def _remember(self, report: Report) -> None:
        if self.on_github:
            from precheck_lib.history import remember

            remember(report, self.env)

    def annotate(self, report: Report) -> None:
        """Write the annotations of a report, where the runner reads what is printed."""
        if self.on_github:
            from precheck_lib.report.github import annotation_lines

            workspace = self._workspace(report)
            for line in annotation_lines(report, workspace=workspace, only_warn=self.only_warn):
                self.terminal.out(line)

    def _deliver(self, report: Report, end: float) -> list[str]:
        """Write all reports by `end`; where one cannot be, a pass becomes an error, which the others say then."""
        if not self.targets:
            return []
        from precheck_lib.report.deliver import Document, deliver

        said: list[str] = []
        left = dict(self.targets)
        while left:
            documents = [Document(path, self._render(form, report)) for form, path in left.items()]
            patience = max(0.0, end - time.monotonic())
            failed = deliver(documents, deadline=patience, unfinished=self.interrupts.unfinished)
            if not failed:
                break
            troubles = [self.redact(one.message) for one in failed]
            if report.exit_code == 0:
                _unwritten(report, troubles)
            elif report.checks[-1].id != "reports":
                said += troubles
            lost = {one.path for one in failed}
            left = {form: path for form, path in left.items() if path not in lost}
        return said

    def _render(self, form: str, report: Report) -> bytes:
        if form == "json":
            from precheck_lib.report.json_report import json_bytes

            return json_bytes(report)
        if form == "summary":
            from precheck_lib.report.summary import summary

            return summary(report).encode("utf-8", "replace")
        from precheck_lib.report.junit import junit_bytes

        return junit_bytes(report, workspace=self._workspace(report))

    def _workspace(self, report: Report) -> str | None:
        from precheck_lib.spec.load import built_in_folder

        path = report.spec.path
        if path is None or os.path.dirname(os.path.abspath(path)) == built_in_folder():
            return None  # a built-in spec is no file of the job's
        try:
            return self.env.get("GITHUB_WORKSPACE") or os.getcwd()
        except OSError:
            return None  # the working folder is gone

    def _open_github_files(self, report: Report, stack: contextlib.ExitStack) -> list[_Appended]:
        """Open the runner's files for appending; one that cannot be is named, and then there is no pass."""
        files: list[_Appended] = []
        troubles = []
        for variable in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
            path = self.env.get(variable)
            if not path or (variable == "GITHUB_STEP_SUMMARY" and not self.shows_summary):
                continue
            try:
                files.append(_Appended(variable, path))
                stack.callback(files[-1].close)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                troubles.append(f"{variable} cannot be written: {reason}")
        self._untold(report, troubles)
        return files

    def _tell_github(self, report: Report, files: list[_Appended]) -> None:
        """Write summary and outputs; where one cannot be, a pass becomes an error, which the other says then."""
        from precheck_lib.report import github
        from precheck_lib.report.summary import summary

        left = list(files)
        while left:
            json, junit = self.targets.get("json"), self.targets.get("junit")
            outputs = github.outputs(report, folder=self.folder, json=json, junit=junit, redact=self.redact)
            texts = {"GITHUB_STEP_SUMMARY": summary(report), "GITHUB_OUTPUT": github.output_text(outputs)}
            lost = {}
            for file in left:
                try:
                    file.write(texts[file.variable])
                except OSError as error:
                    lost[file.variable] = f"{file.variable} cannot be written: {error.strerror}"
            left = [file for file in left if file.variable not in lost]
            if not self._untold(report, list(lost.values())):
                return

    def _untold(self, report: Report, troubles: list[str]) -> bool:
        """Say what the job could not be told of; returns whether that made a pass an error."""
        if not troubles:
            return False
        if report.exit_code == 0:
            _unwritten(report, troubles)
            return True
        if report.checks[-1].id != "reports":
            for text in troubles:
                self.terminal.err(f"precheck: {text}")
        return False


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the working folder is gone; a report that lies in it will say so
        return path


class _Appended:
    """One of the runner's files: a text is added to what others have written, whole or not at all, and can be replaced.

    The runner reads a torso of an output as an error in the file, and so fails the step for another reason.
    """

    def __init__(self, variable: str, path: str) -> None:
        self.variable = variable
        # Never waits: a FIFO that nobody reads would hold the run at its very end.
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        status = os.fstat(self._file)
        self._size = status.st_size if stat.S_ISREG(status.st_mode) else None

    def write(self, text: str) -> None:
        """Write the text in place of what was written before; raises `OSError`."""
        data = text.encode("utf-8", "replace")
        try:
            self._take_back()
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._take_back()
            raise

    def _take_back(self) -> None:
        if self._size is not None:
            os.ftruncate(self._file, self._size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _unwritten(report: Report, texts: list[str]) -> None:
    from precheck_lib.findings import make
    from precheck_lib.outcome import CheckResult

    report.verdict, report.exit_code = "error", INTERNAL
    findings = [make("report.unwritable", text) for text in texts]
    report.checks.append(
        CheckResult(id="reports", title="the reports", kind="reports", outcome="error", findings=findings)
    )
