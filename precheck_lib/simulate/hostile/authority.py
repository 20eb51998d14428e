"""A certificate authority of one's own, made anew with the `openssl` command: what a hostile TLS server shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from precheck_lib.simulate.hostile.fault import Chain

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_SECONDS = 30.0


class Authority:
    """An authority in `folder` (made if missing) and the certificates that it has signed.

    `certificate` is the file that a client has to trust. `context` gives a server's end. Raises `RuntimeError` where
    there is no `openssl` command: the standard library can make no certificate.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.certificate = self._folder / "authority.pem"
        own = ("-x509", *_KEY, "-days", "2")
        self._openssl("req", *own, "-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=precheck hostile")
        self._openssl("req", *own, "-keyout", "stranger.key", "-out", "stranger.pem", "-subj", "/CN=stranger")
        self._openssl("req", "-new", *_KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
        right, other = "DNS:localhost,IP:127.0.0.1,IP:::1", "DNS:elsewhere.invalid"
        self._sign("right", "authority", right, days=1)
        self._sign("expired", "authority", right, days=-1)
        self._sign("other-name", "authority", other, days=1)
        self._sign("unknown-authority", "stranger", right, days=1)

    def context(self, chain: Chain = "right") -> ssl.SSLContext:
        """Give a server's TLS context with the certificate that `chain` names."""
        import ssl

        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self._folder / f"{'right' if chain == 'wants-ours' else chain}.pem")
        if chain == "wants-ours":
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(self.certificate)
        return made

    def _sign(self, name: str, by: str, names: str, *, days: int) -> None:
        (self._folder / "names").write_text(f"subjectAltName={names}\n", encoding="ascii")
        signer = ("-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-extfile", "names")
        self._openssl("x509", "-req", "-in", "server.csr", *signer, "-days", str(days), "-out", f"{name}.crt")
        chain = (self._folder / f"{name}.crt").read_text() + (self._folder / "server.key").read_text()
        (self._folder / f"{name}.pem").write_text(chain)

    def _openssl(self, *arguments: str) -> None:
        import subprocess

        command = ["openssl", *arguments]
        try:
            subprocess.run(
                command,
                cwd=self._folder,
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
            )
        except FileNotFoundError:
            raise RuntimeError("certificates are made with the openssl command, and it is not there") from None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"openssl {arguments[0]} failed: {error.stderr.decode(errors='replace')}") from error
