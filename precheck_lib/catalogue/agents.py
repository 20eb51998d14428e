"""What the servers of agents answer."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

ENTRIES = {
    # Codex -----------------------------------------------------------------------------------------------------
    "codex.version": Entry(
        "The running Codex App Server is not the pinned version.",
        ("a server of an earlier job or week still runs", "it was started from another installation"),
        "Stop the server and start the pinned version.",
    ),
    "codex.home": Entry(
        "The Codex App Server uses another home folder than the tests.",
        ("a server of somebody else answers on this port", "CODEX_HOME was not set when it was started"),
        "Start the server with CODEX_HOME set to TEST_CODEX_HOME, or correct TEST_CODEX_HOME.",
    ),
    "codex.account": Entry(
        "The Codex App Server has no account, and its provider needs one.",
        (
            "nobody has logged in under this home",
            "auth.json was written after the server had started (it is read once)",
        ),
        "Log in under TEST_CODEX_HOME (`codex login`) and restart the server.",
    ),
    "codex.mcp": Entry(
        "MCP servers are configured in the Codex App Server; they would start and answer inside the tests.",
        ("config.toml under its home has an [mcp_servers] table",),
        "Remove the MCP servers from config.toml under TEST_CODEX_HOME and restart the server.",
    ),
    "codex.answer": Entry(
        "The Codex App Server did not answer as one does.",
        ("another WebSocket server answers at that address", "a broken auth.json"),
        "See which program listens on that port, and the server's log.",
    ),
    # OpenCode --------------------------------------------------------------------------------------------------
    "opencode.unauthorized": Entry(
        "The OpenCode Server refuses the user name or password.",
        (
            "TEST_OPENCODE_PASSWORD is not the server's OPENCODE_SERVER_PASSWORD",
            "the pair is not set, but it is needed",
        ),
        "Give the tests the user name and password that the server was started with.",
        "job",
    ),
    "opencode.config-error": Entry(
        "The OpenCode Server cannot use its configuration.",
        ("OPENCODE_CONFIG_CONTENT or a config file of the server has an error at the named place",),
        "Correct the configuration at the named place and restart the server.",
    ),
    "opencode.unhealthy": Entry(
        "The OpenCode Server does not say that it is healthy.",
        ("it is starting or stopping", "another program answers at that address"),
        "Look into the server's log and restart it.",
        retryable=True,
    ),
    "opencode.version": Entry(
        "The running OpenCode Server is not the pinned version.",
        ("a server of an earlier job or week still runs", "it updated itself"),
        "Stop the server and start the pinned version.",
    ),
    "opencode.subagents": Entry(
        "The OpenCode Server runs with background subagents, which the tests do not expect.",
        ("an experimental flag is set in the server's environment",),
        "Restart the server without the experimental flag.",
    ),
    "opencode.config": Entry(
        "The OpenCode Server runs with another configuration than the tests.",
        ("it was started before OPENCODE_CONFIG_CONTENT changed", "a config file of its home overrides it"),
        "Restart the server with the job's OPENCODE_CONFIG_CONTENT.",
    ),
    "opencode.config-dropped": Entry(
        "The OpenCode Server does not know some keys of the configuration.",
        ("a key of another OpenCode version, or a typing error",),
        "Check the named keys; the server ignores them.",
        "job",
    ),
    "opencode.provider": Entry(
        "The OpenCode Server does not offer the configured Ollama models.",
        (
            "the provider is disabled in a config file of its home",
            "it was started with another configuration",
        ),
        "Restart the server with the job's OPENCODE_CONFIG_CONTENT.",
    ),
}
