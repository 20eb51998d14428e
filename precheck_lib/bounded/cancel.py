"""A flag that ends every wait at once, in whichever thread it is."""

from __future__ import annotations

import contextlib
import os


class Cancel:
    """A one-way flag with a descriptor that becomes readable when it is set.

    Signal handlers set it; every wait in `bounded/` polls its descriptor beside its own, so no wait needs an
    exception thrown into it (one at any bytecode could leak what was just opened). Close it when the run has ended.
    """

    __slots__ = ("_read", "_write", "signum")

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self.signum: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether the run is to end."""
        return self.signum is not None

    def set(self, signum: int) -> None:
        """End every wait that has this flag; safe in a signal handler. The first signal stays the one named."""
        if self.signum is None:
            self.signum = signum
        with contextlib.suppress(OSError):
            os.write(self._write, b"\0")

    def fileno(self) -> int:
        """Return the descriptor that is readable once the flag is set (nobody reads from it), -1 after `close`."""
        return self._read

    def close(self) -> None:
        """Give both descriptors back. The flag can still be set and asked; it wakes nobody then."""
        # Forgotten before they are closed: closed twice, or written to by a late signal, their numbers may be others'.
        descriptors = (self._read, self._write)
        self._read = self._write = -1
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
