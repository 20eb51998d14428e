"""TLS over the bounded socket. Imported only when the first https or wss URL is met (20 ms)."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

from precheck_lib.bounded.budget import READ, WRITE
from precheck_lib.bounded.net import BoundedSocket, reason
from precheck_lib.errors import CertificateError, TlsError, TransportError, TruncatedError

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

    def _receive_fault(self, error: OSError) -> TransportError:
        if not isinstance(error, ssl.SSLEOFError):
            return super()._receive_fault(error)
        # The end of TCP without the end of TLS. A body that only the end of the stream delimits may have been cut here
        # by anybody on the way (RFC 9112, 9.8); one with a length or chunks is not read beyond its own end.
        self.ended = True
        if self.phase == "head":
            self._head_cut()
        if self.phase == "body":
            return TruncatedError("the TLS connection was cut without its closing alert", phase="body")
        return super()._receive_fault(error)

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
                    raise TlsError(f"the TLS handshake failed: {reason(error)}", phase="tls") from error
                self.budget.wait(self.fileno(), event, "tls")
            else:
                return

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive up to `buflen` bytes; `b""` at the end of the stream."""
        if not hasattr(self, "budget"):
            return self._left_before_tls(buflen)
        return self._receive(lambda: ssl.SSLSocket.recv(self, buflen, flags), len)

    def _left_before_tls(self, buflen: int) -> bytes:
        # `SSLSocket` itself asks while it is made, where the peer has gone already: it refuses what came in the clear.
        # An error would keep it from being made whole, and its descriptor from being closed; the handshake will say it.
        with contextlib.suppress(OSError):
            return socket.socket.recv(self, buflen)
        return b""

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Receive into a buffer and return the count; 0 at the end of the stream."""
        return self._greeted(buffer, self._receive(lambda: ssl.SSLSocket.recv_into(self, buffer, nbytes, flags), int))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send all of `data` and return its length."""
        self.sendall(data, flags)
        return memoryview(data).nbytes

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of `data`."""
        self._send_all(lambda part: ssl.SSLSocket.send(self, part, flags), data)


def make_context() -> ssl.SSLContext:
    """Make a context: verified against certifi's roots and the system's own store.

    The system's store is taken from the paths compiled into OpenSSL. `set_default_verify_paths` would read
    `SSL_CERT_FILE` and `SSL_CERT_DIR` from the environment, which must have no effect (CONTRACT A2).
    """
    import certifi

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.sslsocket_class = BudgetTlsSocket
    made.load_verify_locations(certifi.where())
    paths = ssl.get_default_verify_paths()
    with contextlib.suppress(OSError):  # an empty or broken file of the system's takes nothing from certifi's roots
        if os.path.isfile(paths.openssl_cafile):
            made.load_verify_locations(cafile=paths.openssl_cafile)
    if os.path.isdir(paths.openssl_capath):
        made.load_verify_locations(capath=paths.openssl_capath)
    return made


_making = threading.Lock()
_shared = functools.cache(make_context)


def context() -> ssl.SSLContext:
    """Return the one context of the process."""
    with _making:  # threads that come at the same time would each make one, which takes 20 ms
        return _shared()


def wrap(sock: BudgetSocket, host: str, budget: Budget) -> BudgetTlsSocket:
    """Turn a connected socket into a TLS one, its handshake done by the end of `budget`. Closes it on failure."""
    try:
        secure = context().wrap_socket(
            sock,
            server_hostname=host.rstrip("."),  # no certificate has the dot that ends a full name
            do_handshake_on_connect=False,
            suppress_ragged_eofs=False,
        )
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
