"""Begins the command in a process that has imported everything already: four fifths of a short run's processor time.

The process is a child of the tests like any other: own pid, streams, working folder and environment, its own end. It
is forked from one server, which imports precheck once and never runs it. What the start of an interpreter decides
(`PYTHON*` variables, locale, a terminal, limits) a test has to begin cold; so do those of signals in the first moment.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
_LENGTH = 8
_CODE = (
    "import sys; sys.path[0] = {root!r}; from tests.contract.warm import serve; serve(); "
    "import runpy; runpy.run_module('precheck_lib', run_name='__main__', alter_sys=True)"
)


class WarmServer:
    """The process that the others are forked from; `begin` makes one. It ends with `close`."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", _CODE.format(root=str(ROOT)), str(theirs.fileno())],
                env={"PATH": os.defpath},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def fork(self, request: Mapping[str, Any], streams: tuple[int, int, int]) -> int:
        """Begin a process with these arguments, environment, folder and streams, and give its pid."""
        body = json.dumps(request).encode()
        socket.send_fds(self._ours, [len(body).to_bytes(_LENGTH, "big")], list(streams))
        self._ours.sendall(body)
        return int.from_bytes(_exactly(self._ours, _LENGTH), "big")

    def close(self) -> None:
        """End the server; what it has begun goes on."""
        self._ours.close()
        self._server.wait()


class WarmProcess(subprocess.Popen[bytes]):
    """A `Popen` of `precheck ARGS` that `server` begins; its three streams, `cwd` and `env` are given."""

    def __init__(self, server: WarmServer, args: list[str], **popen: Any) -> None:
        self._begin = server
        super().__init__(args, **popen)

    def _execute_child(  # type: ignore[override, unused-ignore]  # the one place where Popen begins a process
        self,
        args: list[str],
        _executable: object,
        _preexec_fn: object,
        _close_fds: object,
        _pass_fds: object,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
        _startupinfo: object,
        _creationflags: object,
        _shell: object,
        *pipes: Any,
    ) -> None:
        p2cread, _, _, c2pwrite, _, errwrite, *_ = pipes
        request = {
            "args": args,
            "cwd": os.fspath(cwd),
            "env": {name: os.fsdecode(value) for name, value in env.items()},
        }
        self.pid = self._begin.fork(request, (p2cread, c2pwrite, errwrite))
        self._child_created = True
        self._close_pipe_fds(*pipes[:6])  # type: ignore[attr-defined]


def serve() -> None:
    """Fork for every request, and return in each process that is forked, where all is set for the command to begin."""
    control = socket.socket(fileno=int(sys.argv[1]))
    import precheck_lib

    for module in pkgutil.walk_packages(precheck_lib.__path__, "precheck_lib."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()
    while True:
        head, streams, _, _ = socket.recv_fds(control, _LENGTH, 3)
        if not head:
            os._exit(0)
        request = json.loads(_exactly(control, int.from_bytes(head, "big")))
        reader, writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            if (pid := os.fork()) == 0:
                break
            os.write(writer, pid.to_bytes(_LENGTH, "big"))
            os._exit(0)
        # Once the one between has ended, its child is an orphan: the tests' process takes those (tests/conftest.py).
        os.waitpid(middle, 0)
        control.sendall(os.read(reader, _LENGTH))
        for descriptor in (reader, writer, *streams):
            os.close(descriptor)
    control.close()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in (reader, writer, *streams):
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["-c", *request["args"]]


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise EOFError("the other side has ended")
        parts += part
    return parts
