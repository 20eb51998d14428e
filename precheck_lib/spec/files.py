"""Reading a file that somebody names: a spec, its pins, an env file. Never waits, never more than there may be."""

from __future__ import annotations

import os
import stat

from precheck_lib.spec.yaml_text import MAX_BYTES


class UnreadableError(Exception):
    """A file that cannot be read; the message says why."""


def read_file(path: str, most: int = MAX_BYTES) -> bytes:
    """Read a file, one byte more than it may have at most; what is no regular file could hold us for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableError(error.strerror) from None
    except ValueError:  # a NUL, or half of a surrogate pair
        raise UnreadableError("no path can be that") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise UnreadableError("it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1) or b""  # None: something under /proc has nothing to say now
    except OSError as error:
        raise UnreadableError(error.strerror) from None
    finally:
        os.close(descriptor)
