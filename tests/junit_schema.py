"""The rules of JUnit documents, and two parsers that have to agree on one."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import lxml.etree

# The rules of junit-10.xsd of Jenkins' xUnit plugin: element -> attributes (with a star those that must be
# there) and children.
SCHEMA = {
    "testsuites": ("name time tests failures errors", "testsuite"),
    "testsuite": (
        "name* tests* failures* errors* group time skipped timestamp hostname id package file log url",
        "properties testcase system-out system-err",
    ),
    "properties": ("", "property"),
    "property": ("name* value*", ""),
    "testcase": ("name* time classname group", "skipped error failure system-out system-err"),
    "failure": ("type message", ""),
    "error": ("type message", ""),
    "skipped": ("type message", ""),
    "system-out": ("", ""),
    "system-err": ("", ""),
}


def parse(written: bytes) -> ET.Element:
    """Read a document with both parsers, which have to read the same."""
    root = ET.fromstring(written)
    strict = lxml.etree.fromstring(written, lxml.etree.XMLParser(huge_tree=True))
    assert [(e.tag, dict(e.attrib), e.text) for e in root.iter()] == [
        (e.tag, dict(e.attrib), e.text) for e in strict.iter()
    ]
    return root


def check_schema(root: ET.Element, *, places: bool = False) -> None:
    """Assert that a document keeps the rules; `places` are the attributes `file` and `line`, which they do not know."""
    for element in root.iter():
        attributes, children = (rule.split() for rule in SCHEMA[element.tag])
        extra = {"file", "line"} if places and element.tag == "testcase" else set()
        assert set(element.attrib) <= {name.rstrip("*") for name in attributes} | extra
        assert {name.rstrip("*") for name in attributes if name.endswith("*")} <= set(element.attrib)
        assert {child.tag for child in element} <= set(children)
        if "time" in element.attrib:
            assert re.fullmatch(r"\d+\.\d{3}", element.get("time"))


def check_consumers(root: ET.Element) -> None:
    """Assert what the readers of JUnit files need that no schema says (facts of their parsers, section 4.1).

    dorny/test-reporter fails without names and counts nothing in nested suites; GitLab passes over a second case of
    the same name and shows the element's text alone; mikepenz/action-junit-report calls a case that is both failed and
    skipped a skipped one, and looks for a file of the classname where none is given; EnricoMi/publish-unit-test-result
    takes the suite's own counts; Rails reads some words of `type` as a type of its own.
    """
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.get("name", "").strip()
        assert suite.find("testsuite") is None
        cases = suite.findall("testcase")
        assert cases, "a suite of no cases counts as passed nowhere and as failed nowhere"
        names = [(case.get("classname", ""), case.get("name", "")) for case in cases]
        assert all(classname.strip() and name.strip() for classname, name in names)
        assert len(set(names)) == len(names)
        assert not any(re.search(r"[/\\]|\.(py|js|ts|yml)$", classname) for classname, _ in names)
        for case in cases:
            ends = [child for child in case if child.tag in ("failure", "error", "skipped")]
            assert len(ends) <= 1
            for end in ends:
                assert end.get("message", "").strip()
                assert (end.text or "").strip()
                if end.tag != "skipped":
                    assert "." in end.get("type", "")
        for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(count, "0")) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.get("tests", "-1")) == len(cases)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
