"""TLS over the bounded socket. Imported only when the first https or wss URL is met (20 ms)."""

from __future__ import annotations

import functools
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any

from precheck_lib.bounded.budget import READ, WRITE
from precheck_lib.bounded.net import BoundedSocket
from precheck_lib.errors import CertificateError, TlsError

if TYPE_CHECKING:
    from precheck_lib.bounded.budget import Budget
    from precheck_lib.bounded.net import BudgetSocket


class BudgetTlsSocket(BoundedSocket, ssl.SSLSocket):
    """A TLS socket whose every call ends by its budget."""

    def settimeout(self, value: float | None) -> None:
        """Ignore a library's own timeout: the budget is the only one."""

    def _retry(self, error: OSError, event: int) -> int | None:
        if isinstance(error, ssl.SSLWantReadError):
            return READ
        if isinstance(error, ssl.SSLWantWriteError):
            return WRITE
        return super()._retry(error, event)

    def handshake(self) -> None:
        """Do the handshake by the budget's end; raises `TlsError`, `CertificateError` or `DeadlineError`."""
        self.phase = "tls"
        while True:
            self.budget.check("tls")
            try:
                self.do_handshake()
            except ssl.SSLCertVerificationError as error:
                raise CertificateError(f"the certificate is refused: {error.verify_message}", phase="tls") from error
            except OSError as error:
                event = self._retry(error, READ)
                if event is None:
                    raise TlsError(f"the TLS handshake failed: {_reason(error)}", phase="tls") from error
                self.budget.wait(self.fileno(), event, "tls")
            else:
                return

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive up to `buflen` bytes; `b""` at the end of the stream."""
        return self._receive(lambda: ssl.SSLSocket.recv(self, buflen, flags), len)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Receive into a buffer and return the count; 0 at the end of the stream."""
        return self._receive(lambda: ssl.SSLSocket.recv_into(self, buffer, nbytes, flags), int)

    def send(self, data: Any, flags: int = 0) -> int:
        """Send all of `data` and return its length."""
        self.sendall(data, flags)
        return memoryview(data).nbytes

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of `data`."""
        self._send_all(lambda part: ssl.SSLSocket.send(self, part, flags), data)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or type(error).__name__


@functools.cache
def context() -> ssl.SSLContext:
    """Make the one context of the process: verified against certifi's roots and the system's own store.

    The system's store is taken from the paths compiled into OpenSSL. `set_default_verify_paths` would read
    `SSL_CERT_FILE` and `SSL_CERT_DIR` from the environment, which must have no effect (CONTRACT A2).
    """
    import certifi

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.sslsocket_class = BudgetTlsSocket
    made.load_verify_locations(certifi.where())
    paths = ssl.get_default_verify_paths()
    if paths.openssl_cafile and os.path.isfile(paths.openssl_cafile):
        made.load_verify_locations(cafile=paths.openssl_cafile)
    if paths.openssl_capath and os.path.isdir(paths.openssl_capath):
        made.load_verify_locations(capath=paths.openssl_capath)
    return made


def wrap(sock: BudgetSocket, host: str, budget: Budget) -> BudgetTlsSocket:
    """Turn a connected socket into a TLS one, its handshake done by the end of `budget`. Closes it on failure."""
    try:
        secure = context().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    except (OSError, ValueError) as error:
        sock.close()
        raise TlsError(f"TLS could not be started: {error}", phase="tls") from error
    assert isinstance(secure, BudgetTlsSocket)  # noqa: S101 - sslsocket_class above
    secure.budget = budget
    socket.socket.setblocking(secure, False)
    try:
        secure.handshake()
    except BaseException:
        secure.close()
        raise
    return secure
