"""What happens on the way to a server, whichever it is."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

ENTRIES = {
    # Transport -------------------------------------------------------------------------------------------------
    "transport.resolve": Entry(
        "The server's name could not be turned into an address.",
        ("a typing error in the URL", "the name server of this machine does not answer"),
        "Check the name in the URL and the machine's name resolution.",
        "job",
        retryable=True,
    ),
    "transport.connect": Entry(
        "No server takes connections at that address.",
        ("the server is not running, or has crashed", "it listens on another port or address", "a firewall"),
        "Start the server on this machine, or correct the URL.",
        retryable=True,
    ),
    "transport.tls": Entry(
        "The TLS handshake failed.",
        ("https is spoken to a server of plain http", "the server is set up with another TLS version"),
        "Check the scheme of the URL and the server's TLS setup.",
    ),
    "transport.certificate": Entry(
        "The server's certificate is not to be trusted.",
        ("it has expired", "it is for another name", "its authority is not in this machine's store"),
        "Renew the certificate, or add its authority to the system's store.",
    ),
    "transport.send": Entry(
        "The connection broke while the request was sent.",
        ("the server crashed or restarted",),
        "Look into the server's log at this time.",
        retryable=True,
    ),
    "transport.receive": Entry(
        "The connection broke while the answer was received.",
        ("the server crashed or restarted", "something between closes connections"),
        "Look into the server's log at this time.",
        retryable=True,
    ),
    "transport.garbled": Entry(
        "What answers at that address does not speak the protocol.",
        ("another program took the port", "http is spoken to a server of https"),
        "See which program listens on that port and correct the URL or free the port.",
    ),
    "transport.empty": Entry(
        "The server took the connection and closed it without an answer.",
        ("the server is starting or stopping", "http is spoken to a server of https"),
        "Look into the server's log at this time.",
        retryable=True,
    ),
    "transport.truncated": Entry(
        "The answer ended before its announced length.",
        ("the server crashed while it answered",),
        "Look into the server's log at this time.",
        retryable=True,
    ),
    "transport.too-large": Entry(
        "The answer is larger than any right one can be.",
        ("another program answers at that address",),
        "See which program listens on that port.",
    ),
    "transport.deadline": Entry(
        "The server did not finish its answer in time.",
        (
            "it accepts connections but hangs (OpenCode never answers a request sent while it starts)",
            "it is overloaded, or stuck in a driver",
        ),
        "Restart the server; if it comes back, look at what it waits for.",
        retryable=True,
    ),
    "http.status": Entry(
        "The server answered with another status than was needed.",
        (
            "wrong credentials (401, 403)",
            "a proxy or another program answers",
            "a fault inside the server (500)",
        ),
        "Look into the server's log; check the URL and the credentials.",
    ),
    "http.answer": Entry(
        "The server's answer is not what that server answers.",
        ("another program answers at that address", "the server is another version than was expected"),
        "See which program listens on that port, and its version.",
    ),
    "http.redirect": Entry(
        "The server points somewhere else, and no redirect is followed: what is there was not asked for.",
        (
            "http where the server wants https",
            "a login page or a proxy stands before the server",
            "a slash too many or too few at the end of the URL",
        ),
        "Give the URL that answers itself, or the status as the right one (`status: 302`).",
        "spec",
    ),
    "http.unauthorized": Entry(
        "The server does not accept the credentials, or needs some.",
        (
            "the secret is another one than the server was started with",
            "no credentials are in the spec",
            "the user may not do this (403)",
        ),
        "Give the check the credentials that the server knows (`username` and `password`, or a header).",
        "job",
    ),
    "http.type": Entry(
        "The answer is of another type than was needed.",
        ("a page of a proxy or of another program", "the path is one of the server's web interface"),
        "Check the URL; see which program answers there.",
    ),
    "http.text": Entry(
        "A text that was needed is not in the answer.",
        ("another program or version answers", "the server is in another state than was expected"),
        "Ask the URL by hand (curl) and see what it answers.",
    ),
    "http.value": Entry(
        "A value in the server's answer is missing or is not what was needed.",
        ("the server is set up otherwise", "it is another version", "it was not restarted after its setup changed"),
        "Correct the server's setup at the named place and restart it, or the value in the spec.",
    ),
    "http.present": Entry(
        "The server's answer holds something that must not be there.",
        ("something is switched on that should be off", "the server is another version"),
        "Correct the server's setup at the named place and restart it.",
    ),
    # TCP -------------------------------------------------------------------------------------------------------
    "tcp.failed": Entry(
        "The server does not take TCP connections.",
        ("it is not running, or has crashed", "it listens on another port or address"),
        "Start the server on this machine, or correct the URL.",
        retryable=True,
    ),
    "tcp.deadline": Entry(
        "No TCP connection came about in time.",
        (
            "a firewall that drops packets",
            "the name server of this machine does not answer",
            "a wrong address",
        ),
        "Check the address in the URL and the machine's network.",
        retryable=True,
    ),
}
