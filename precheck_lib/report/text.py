"""Cleaning of untrusted text: what a server, a tool or an environment said, made fit to be shown.

Three things can go wrong when such text is printed as it came. A terminal obeys its control sequences and
reorders it by its bidi marks. GitHub's runner executes its workflow commands, `::name` at the start of a
line and `##[name]` **anywhere** in one, on stdout and on stderr alike. And a reader takes two words for one
another that differ by a character nobody sees. So colour and other complete control sequences go, every
other character that has no shape of its own is shown by its escape, and a workflow command is broken by one
space.
"""

from __future__ import annotations

import re

from precheck_lib.sequences import SELECTORS, SEQUENCE

LINE_LIMIT = 4000
"""Characters of one line of a message: below the 4096 at which GitHub cuts an annotation without a word."""

_LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
_LINE_BREAKS = re.compile(rf"(?:{_LINE_BREAK.pattern})+")
_BLANK_LINES = re.compile(rf"(?:{_LINE_BREAK.pattern}){{3,}}")
# `str.isprintable` calls these printable although a reader sees nothing (Default_Ignorable_Code_Point, and
# the blank Braille pattern).
_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_COMMAND_AT_START = re.compile(r"^( *):(?=:)")
# DEL is an XML character; it is shown all the same, as pytest does, because viewers print it as a hole.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(text: str, limit: int = LINE_LIMIT) -> str:
    """Make one harmless line of a text: for a terminal, a log or the value of an attribute.

    A run of line breaks becomes one space, and white space at the ends goes. The result has at most `limit`
    characters (code points, at least 1); where something was cut it ends in `…`. Harmless text comes back
    as it is.
    """
    head, cut = _head(text, limit)
    return _limited(_shown(_LINE_BREAKS.sub(" ", head)).strip(), limit, cut=cut)


def clean_lines(text: str, limit: int) -> str:
    r"""Make harmless lines of a text, joined by `\n`: for the body of an element or a block of a page.

    Like `clean`, but line breaks and indentation stay. Blank lines at the ends go, and of several together
    all but one. `limit` is in characters.
    """
    head, cut = _head(text, limit)
    lines = [_shown(line).rstrip() for line in _LINE_BREAK.split(_BLANK_LINES.sub("\n\n", head))]
    return _limited("\n".join(lines).strip("\n"), limit, cut=cut)


def xml_text(text: str) -> str:
    """Replace what XML 1.0 cannot hold: `#x1B` for an ESC, likewise any control, lone surrogate, U+FFFF."""
    return _NOT_XML.sub(lambda match: f"#x{ord(match[0]):02X}", text)


def fit_bytes(text: str, limit: int) -> str:
    """Cut a text to at most `limit` bytes of UTF-8, with `…` at its end where something was cut."""
    data = text[: limit + 1].encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"


def _head(text: str, limit: int) -> tuple[str, bool]:
    """Take the part of a text that can matter, for ten megabytes must not cost more; drop the sequences."""
    most = 2 * limit + 4096
    return SEQUENCE.sub("", text[:most]), len(text) > most


def _shown(line: str) -> str:
    """Show what is unseen, then break workflow commands: last, for what was dropped may have split one."""
    if not line.isprintable() or _UNSEEN.search(line):
        line = "".join(map(_character, line.translate(SELECTORS)))
    return _COMMAND_AT_START.sub(r"\1: ", line).replace("##[", "## [")


def _character(character: str) -> str:
    if character.isprintable() and not _UNSEEN.match(character):
        return character
    if character.isspace() and character not in "\x1c\x1d\x1e\x1f":
        return " "  # a tab, or one of Unicode's many spaces
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _limited(text: str, limit: int, *, cut: bool) -> str:
    if len(text) > limit or cut:
        return text[: limit - 1].rstrip() + "…"
    return text
