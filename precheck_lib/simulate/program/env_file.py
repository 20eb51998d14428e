"""The variables as a file that `precheck run --env-file` reads."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HEAD = """\
# Made by python -m precheck_lib.simulate, which removes it when it ends. Of a variable that is set already, as PATH
# mostly is, the environment's own value wins.
"""


@contextlib.contextmanager
def env_file(path: str, environment: Mapping[str, str]) -> Iterator[None]:
    """Write the file, which must not be there and which only its owner can read; remove it at the end.

    Raises `ValueError` for a value of several lines, which no such file can hold, and `OSError`.
    """
    for name, value in environment.items():
        if any(character in value for character in "\r\n\0"):
            raise ValueError(f"{name} is no single line, and no env file can hold it")
    text = _HEAD + "".join(f"{name}={value}\n" for name, value in environment.items())
    data = text.encode("utf-8")
    own = os.path.abspath(path)  # a later change of the working directory changes nothing
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        made = os.fstat(descriptor)
        try:
            file.write(data)
            file.flush()
            yield
        finally:
            # What somebody else has put in its place since is not ours to remove.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.lstat(own), made):
                    os.unlink(own)


__all__ = ["env_file"]
