"""What a terminal swallows and a cleaned text does not have any more: it could split a word that is searched for."""

from __future__ import annotations

import re

# Complete sequences only: CSI (colours, cursor), OSC, DCS, SOS, PM and APC strings with their terminator,
# and the choice of a character set that `tput sgr0` prints. A string without an end would swallow what
# follows it; its ESC is shown instead. No part can match where another begins: no text makes this slow.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\r\n]{0,2048}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[()*+][0-9A-Za-z]"
)

SELECTORS = str.maketrans("", "", "\ufe0e\ufe0f")
"""The two marks that choose between text and emoji."""

_NESTED = 5
"""Sequences inside of sequences that are looked for: a text must not cost more, however they are nested."""

# What is left of these begins no sequence, but might, once what stood inside of it is gone.
_INTRODUCERS = {code: f"\\x{code:02x}" for code in (0x1B, 0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F)}


def without_sequences(text: str) -> str:
    """Drop complete control sequences and emoji selectors; an introducer that is left is shown by its escape."""
    for _ in range(_NESTED):
        shorter = SEQUENCE.sub("", text).translate(SELECTORS)
        if shorter == text:
            break
        text = shorter
    return text.translate(_INTRODUCERS)
