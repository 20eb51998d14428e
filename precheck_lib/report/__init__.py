"""Writers of a finished run: JUnit XML, JSON, a log; and in `deliver` the delivery of what they wrote.

Writers know only the `Report` (`precheck_lib.outcome`), and every text in it is untrusted: it may come from a
server. Importing this package costs neither junit-xml nor json; the functions that need them import them.
"""

from __future__ import annotations

from precheck_lib.report.console import check_line, finding_lines
from precheck_lib.report.json_report import json_bytes
from precheck_lib.report.junit import junit_bytes
from precheck_lib.report.text import clean, clean_lines, xml_text

__all__ = [
    "check_line",
    "clean",
    "clean_lines",
    "finding_lines",
    "json_bytes",
    "junit_bytes",
    "xml_text",
]
