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
