"""How a command ends: its reports are delivered, then it is said how it ended, and the success line comes last."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from precheck_lib.arguments import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.interrupt import Interrupts
    from precheck_lib.outcome import Report
    from precheck_lib.terminal import Terminal

INTERNAL = 70


class Ending:
    """Ends a command with a report. `targets` says where each form of it goes (`json`, `junit`)."""

    def __init__(self, env: Mapping[str, str], terminal: Terminal, interrupts: Interrupts) -> None:
        self.env = env
        self.terminal = terminal
        self.interrupts = interrupts
        self.targets: dict[str, str] = {}
        self.folder: str | None = None
        self.only_warn = False

    def set_targets(self, *, json: str | None, junit: str | None, out: str | None) -> None:
        """Take over the report options; raises `UsageError` where two reports would go to one file."""
        self.folder = out
        if out is not None:
            self.targets = {"json": os.path.join(out, "precheck.json"), "junit": os.path.join(out, "precheck.xml")}
        if json is not None:
            self.targets["json"] = json
        if junit is not None:
            self.targets["junit"] = junit
        if len(self.targets) > len({os.path.abspath(path) for path in self.targets.values()}):
            same = self.targets.pop("junit")
            raise UsageError(f"--json and --junit both name {same}; give each report a file of its own")

    def finish(self, report: Report, success: str = "") -> int:
        """Deliver the reports, say how it ended, and return the exit code of the process."""
        from precheck_lib.report import finding_lines

        self.interrupts.final = True
        if self.interrupts.stop.is_set and report.verdict != "cancelled":
            # Before the run began, or after it could not: still a cancelled one.
            report.verdict, report.exit_code = "cancelled", 128 + (self.interrupts.stop.signum or 0)
        if report.exit_code == 0 and self.terminal.broken:
            _unwritten(report, ["stdout cannot be written, so nobody can see that this passed"])
        for line in self._deliver(report):
            self.terminal.err(f"precheck: {line}")
        if self.env.get("GITHUB_ACTIONS") == "true":
            self._tell_github(report)
        for line in finding_lines(report):
            self.terminal.err(line)
        if report.exit_code == 0:
            self.terminal.out(success)
        if self.only_warn and report.verdict == "not-ready":
            return 0
        return report.exit_code

    def _deliver(self, report: Report) -> list[str]:
        """Write all reports; where one cannot be, a pass becomes an error, which the others say then."""
        if not self.targets:
            return []
        from precheck_lib.report.deliver import Document, deliver

        said: list[str] = []
        left = dict(self.targets)
        while left:
            documents = [Document(path, self._render(form, report)) for form, path in left.items()]
            failed = deliver(documents, unfinished=self.interrupts.unfinished)
            if not failed:
                break
            if report.exit_code == 0:
                _unwritten(report, [one.message for one in failed])
            elif report.checks[-1].id != "reports":
                said += [one.message for one in failed]
            lost = {one.path for one in failed}
            left = {form: path for form, path in left.items() if path not in lost}
        return said

    def _render(self, form: str, report: Report) -> bytes:
        if form == "json":
            from precheck_lib.report.json_report import json_bytes

            return json_bytes(report)
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

    def _tell_github(self, report: Report) -> None:
        """Write annotations, summary and outputs; a pass that its outputs cannot tell is none."""
        from precheck_lib.report import github

        workspace = self._workspace(report)
        outputs = github.outputs(
            report, folder=self.folder, json=self.targets.get("json"), junit=self.targets.get("junit")
        )
        troubles = [
            self._append("GITHUB_STEP_SUMMARY", github.summary(report)),
            self._append("GITHUB_OUTPUT", github.output_text(outputs)),
        ]
        troubles = [trouble for trouble in troubles if trouble]
        if troubles and report.exit_code == 0:
            _unwritten(report, [trouble for trouble in troubles if trouble])
        for line in github.annotation_lines(report, workspace=workspace, only_warn=self.only_warn):
            self.terminal.out(line)

    def _append(self, variable: str, text: str) -> str | None:
        """Append to a file of the runner's; returns what is wrong where it cannot be written."""
        path = self.env.get(variable)
        if not path:
            return None
        try:
            with open(path, "a", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            return f"{variable} cannot be written: {error.strerror}"
        return None


def _unwritten(report: Report, texts: list[str]) -> None:
    from precheck_lib.findings import make
    from precheck_lib.outcome import CheckResult

    report.verdict, report.exit_code = "error", INTERNAL
    findings = [make("report.unwritable", text) for text in texts]
    report.checks.append(
        CheckResult(id="reports", title="the reports", kind="reports", outcome="error", findings=findings)
    )
