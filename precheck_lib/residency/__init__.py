"""The residency cycle: unload a model, prove it gone, load it cold, prove it fully on the GPU.

`machine` says which step may follow which and does no I/O; `judge` says whether a row is right; `cycle` takes the steps
on a `ModelServer`; `cleanup` undoes what a failed run has loaded.
"""

from __future__ import annotations
