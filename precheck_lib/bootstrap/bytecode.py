"""Bytecode of precheck itself, kept in the cache when it cannot stay beside its source.

`sys.pycache_prefix` alone would be for everything: the standard library and the dependencies, whose bytecode lies where
it should, would be compiled anew. So it is set while a module of precheck is loaded, and only then.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

TYPE_CHECKING = False  # without `typing`, see precheck_lib/__init__.py
if TYPE_CHECKING:
    from types import CodeType


def keep(root: str, prefix: str) -> None:
    """Have the modules of precheck below `root`, from now on, read and write their bytecode below `prefix`."""
    package = os.path.join(root, "precheck_lib")

    class Loader(SourceFileLoader):
        def get_code(self, fullname: str) -> CodeType | None:
            before, sys.pycache_prefix = sys.pycache_prefix, prefix
            try:
                return super().get_code(fullname)
            finally:
                sys.pycache_prefix = before

    def finder(path: str) -> FileFinder:
        if path != package and not path.startswith(package + os.sep):
            raise ImportError  # as a path hook says that a folder is not its own
        return FileFinder(path, (Loader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, finder)
    for path in list(sys.path_importer_cache):
        if path.startswith(package):
            del sys.path_importer_cache[path]


def write(root: str, prefix: str | None) -> None:
    """Compile precheck, into `prefix` or beside its source, so that the next start does not."""
    import compileall

    before, sys.pycache_prefix = sys.pycache_prefix, prefix
    try:
        compileall.compile_dir(os.path.join(root, "precheck_lib"), quiet=2)
    finally:
        sys.pycache_prefix = before
