"""One file a protocol: calls in, typed values out. Nothing here knows of specs, checks or reports.

Every shape is checked, unknown fields are ignored, and what may be secret is dropped here: no value that leaves this
room holds a configuration's contents or a server's free text that could quote one.
"""

from __future__ import annotations
