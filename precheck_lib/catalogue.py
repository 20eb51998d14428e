"""The catalogue of findings: what each code means, what usually causes it, what to do and who can do it.

One source for the messages of a run, for `explain` and for the documentation. Codes are stable: dashboards and scripts
match on them. A code's first part says where the fault was seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from precheck_lib.outcome import Who


class Entry(msgspec.Struct, frozen=True):
    """One kind of finding: its meaning, its usual causes (likeliest first), the next step, and who can take it."""

    meaning: str
    causes: tuple[str, ...]
    remedy: str
    who: Who = "host"
    retryable: bool = False


CATALOGUE: dict[str, Entry] = {
    # Roles -----------------------------------------------------------------------------------------------------
    "roles.missing": Entry(
        "Environment variables that the tests need are not set, or are empty.",
        (
            "a secret is not defined for this repository or environment (GitHub then passes an empty string)",
            "the job does not pass the variable to this step with `env:`",
            "a fork's pull request, which gets no secrets",
        ),
        "Set them with `env:` on the step or the job; specs/strict-tests.env.example lists them all.",
        "job",
    ),
    "roles.pair": Entry(
        "Of variables that only make sense together, some are set and some are not.",
        ("one of two secrets is missing or empty",),
        "Set all of them, or none.",
        "job",
    ),
    "roles.malformed": Entry(
        "An environment variable is set, but its value cannot be right.",
        (
            "a value pasted with quotes, a line end or an invisible character",
            "a URL without scheme, or with credentials in it",
            "JSON with comments (JSONC) where JSON is needed",
        ),
        "Correct the value where it is defined; the message names the variable and what is wrong with it.",
        "job",
    ),
    # Commands --------------------------------------------------------------------------------------------------
    "command.missing": Entry(
        "A program that the tests run is not on PATH.",
        ("the release was never downloaded on this machine", "PATH is not set for this step"),
        "Install the pinned release and put its folder first on PATH.",
    ),
    "command.unusable": Entry(
        "What bears the program's name on PATH cannot be run on this machine.",
        (
            "no execute permission",
            "an interpreter or loader that is not installed",
            "a release for another system or processor",
            "a folder in its place",
        ),
        "Install the pinned release for this machine anew, or take what is in its place off PATH.",
    ),
    "command.version": Entry(
        "A program on PATH is not the pinned version.",
        ("another installation comes first on PATH", "the machine was not updated when the pin moved"),
        "Install the pinned version or put its folder first on PATH.",
    ),
    "command.output": Entry(
        "A program ended well and printed something else than it has to.",
        ("another version of the program", "the pattern in the spec does not fit what this version prints"),
        "Run the command by hand on this machine and compare what it prints with the spec.",
    ),
    "command.silent": Entry(
        "A program ended well and printed nothing, where one line was expected.",
        (
            "it prints on stderr only",
            "it wants a terminal or something on stdin, and finds neither",
            "a wrapper that swallows the output",
        ),
        "Run the command by hand on this machine, with `</dev/null`, and see what it prints.",
    ),
    "command.flood": Entry(
        "A program printed on and on, where one line was expected, and was ended.",
        ("another program of the same name comes first on PATH", "a wrapper that calls itself"),
        "Run the command by hand on this machine and see what it is.",
    ),
    "command.failed": Entry(
        "A program could be started but did not end as it has to: with another exit status.",
        ("a broken installation", "a missing library or interpreter"),
        "Run the command by hand on this machine and mend the installation.",
    ),
    "command.signal": Entry(
        "A program was ended by a signal before it could answer.",
        ("a crash of the program", "the kernel's memory killer or a limit of this job", "somebody who ended it"),
        "Run the command by hand on this machine; for SIGKILL look into the kernel's log for its memory killer.",
    ),
    "command.deadline": Entry(
        "A program did not end in its time; it and all that it started were ended.",
        ("an overloaded machine", "a program that waits for the network", "a dead mount on its path"),
        "Run the command by hand on this machine and see what it waits for.",
        retryable=True,
    ),
    "command.leftover": Entry(
        "A program ended well but left processes behind, which were ended.",
        ("a version command that starts a helper in the background",),
        "Nothing has to be done for this run; look at what the command starts.",
    ),
    # Files ---------------------------------------------------------------------------------------------------------
    "file.absent": Entry(
        "A file or folder that has to be there is not.",
        ("it was never put on this machine", "another runner has it", "a link leads nowhere", "a share is not mounted"),
        "Put it where it has to be on this machine, or correct the path in the spec.",
    ),
    "file.present": Entry(
        "Something is there that must not be.",
        ("a lock or marker that an earlier job has left", "an installation that was not removed"),
        "See what it is for and remove it if nobody needs it.",
        retryable=True,
    ),
    "file.denied": Entry(
        "It cannot be seen whether a file is there: a folder on the way is closed to this user.",
        ("the runner runs as another user than the one that made it", "a home folder, which is closed to others"),
        "Let the runner's user enter the named folder (`chmod o+x`, a group, an access list), or run it as its owner.",
    ),
    "file.type": Entry(
        "What is there is of another type.",
        ("a folder made by mistake (Docker makes one for a mount whose file is missing)", "another path was meant"),
        "See what is there, remove it, and put the right thing in its place.",
    ),
    "file.access": Entry(
        "Permissions or owner of a file are not what they have to be.",
        ("it was made by another user, or by root in a container", "a file system that is mounted read-only"),
        "Set owner and mode on this machine (`chown`, `chmod`), or run the job as the right user.",
    ),
    "file.size": Entry(
        "A file is smaller than it can be.",
        ("a download that broke off", "a pointer of Git LFS in the place of the file"),
        "Fetch the file anew on this machine.",
    ),
    "file.old": Entry(
        "A file was not changed for longer than it may be.",
        ("what renews it (a timer, a job) has stopped",),
        "See why it is not renewed, and renew it.",
    ),
    "file.digest": Entry(
        "A file's content is not the one that is pinned by its SHA-256.",
        ("a download that broke off", "another version of the file", "somebody has changed it"),
        "Fetch the file anew on this machine, or move the pin in the spec.",
    ),
    "file.content": Entry(
        "A file does not hold the text that it has to hold.",
        ("another version of the file", "a setting that was never made on this machine"),
        "Look at the file on this machine and put the text in.",
    ),
    "file.unreadable": Entry(
        "A file is there, but what is in it could not be found out.",
        ("this user may not read it", "a failing disk or share", "it is larger than what is read of it"),
        "Let the runner's user read it.",
    ),
    "file.unknown": Entry(
        "It could not be found out what is at a path.",
        ("a network share whose server is gone", "a failing disk"),
        "Look at the path by hand on this machine; mount the share anew.",
        retryable=True,
    ),
    "file.deadline": Entry(
        "A look at a file did not come back in time.",
        ("a dead mount", "a slow disk or share, or a large file that is read for its SHA-256"),
        "Look at the path by hand on this machine; where it is only slow, give the check a larger `budget`.",
        retryable=True,
    ),
    # Ports ---------------------------------------------------------------------------------------------------------
    "port.closed": Entry(
        "Nobody listens on a port that has to be listened on.",
        ("the server is not running, or has crashed", "it listens on another port or address"),
        "Start the server on this machine, or correct the port in the spec.",
        retryable=True,
    ),
    "port.taken": Entry(
        "A port that has to be free is held.",
        (
            "a server of an earlier job was never ended",
            "another job uses this machine at the same time",
            "a service of this machine has the port",
        ),
        "See whose the named process is and end it, or give the job another port.",
        retryable=True,
    ),
    "port.owner": Entry(
        "Somebody else listens on a port than has to.",
        ("another program took the port first", "the server was started as another user or from another installation"),
        "End what holds the port and start the right server.",
    ),
    "port.other-job": Entry(
        "A server answers, but another job has started it.",
        ("an earlier job left it behind", "a job that shares this machine"),
        "Nothing has to be done where servers are shared; else end it and let this job start its own.",
        retryable=True,
    ),
    "port.unknown": Entry(
        "It cannot be seen who listens on a port.",
        ("the process is another user's", "it runs in a container or in another network namespace"),
        "Give the runner the right that is named, or ask only for what it can see.",
    ),
    "port.deadline": Entry(
        "The table of sockets could not be read in time.",
        ("an overloaded machine", "a process that hangs in a driver", "a directory service that does not answer"),
        "Look by hand on this machine (`ss -ltnp`) and see whether that hangs too.",
        retryable=True,
    ),
    # Processes -----------------------------------------------------------------------------------------------------
    "process.absent": Entry(
        "Fewer processes run than have to.",
        ("the service is not started, or has crashed", "it runs under another name"),
        "Start the service on this machine, or correct the name in the spec.",
        retryable=True,
    ),
    "process.present": Entry(
        "More processes run than may.",
        ("an earlier job left them behind", "another job uses this machine at the same time"),
        "See whose they are and end them.",
        retryable=True,
    ),
    "process.unknown": Entry(
        "It cannot be seen how many such processes run.",
        ("processes of other users hide what they are, or are hidden altogether (hidepid)",),
        "Ask for them by `name`, which everybody sees, or give the runner the right that is named.",
    ),
    "process.deadline": Entry(
        "The processes of this machine could not be looked at in time.",
        ("an overloaded machine", "a process that hangs in a driver", "a directory service that does not answer"),
        "Look by hand on this machine (`ps aux`) and see whether that hangs too.",
        retryable=True,
    ),
    # Disks and memory ----------------------------------------------------------------------------------------------
    "disk.full": Entry(
        "A file system has less room than is needed.",
        ("models, images or work folders that nobody removes", "logs", "another job that writes at the same time"),
        "Free room at the named mount point (`du -x`, `docker system df`), or give it a larger disk.",
        retryable=True,
    ),
    "disk.inodes": Entry(
        "A file system takes fewer new files than are needed, whatever room it has.",
        ("millions of small files in caches or work folders",),
        "Remove folders of many small files at the named mount point (`du --inodes -x`).",
    ),
    "disk.read-only": Entry(
        "A file system, or a folder in it, cannot be written.",
        ("the kernel mounted it read-only after an error of the disk", "it belongs to another user"),
        "Look into the kernel's log for errors of the disk; mount it anew, or set the owner.",
    ),
    "disk.absent": Entry(
        "The path whose file system is to be looked at is not there.",
        ("the disk is not mounted", "the folder was never made on this machine"),
        "Mount the disk or make the folder, or correct the path in the spec.",
    ),
    "disk.unknown": Entry(
        "It could not be found out how much room there is.",
        ("a folder on the way is closed to this user", "a share whose server is gone", "a file system without a size"),
        "Look at the path by hand on this machine (`df PATH`) as the runner's user.",
    ),
    "disk.deadline": Entry(
        "A look at a file system did not come back in time.",
        ("a dead mount", "a disk that hangs"),
        "Look at the path by hand on this machine (`df PATH`) and mount it anew.",
        retryable=True,
    ),
    "memory.low": Entry(
        "This machine has less memory than is needed.",
        ("another job or a leftover of one holds it", "a model that was loaded on the CPU", "a smaller machine"),
        "See what holds the memory (`ps aux --sort -rss`) and end it, or use a larger machine.",
        retryable=True,
    ),
    "memory.limit": Entry(
        "The limit of the job's control group leaves less memory than is needed, though this machine has more.",
        ("the container or the service was started with a limit", "what else runs in the group has used it up"),
        "Raise the limit (`docker run --memory`, MemoryMax= of the service), or end what else is in the group.",
    ),
    "memory.unknown": Entry(
        "It could not be found out how much memory there is.",
        ("/proc or /sys/fs/cgroup is hidden from this user",),
        "Let the runner's user read the named file.",
    ),
    "memory.deadline": Entry(
        "The memory of this machine could not be read in time.",
        ("an overloaded machine that is out of memory",),
        "Look at the machine by hand; it probably has no memory left.",
        retryable=True,
    ),
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
    # Ollama ----------------------------------------------------------------------------------------------------
    "ollama.not-pulled": Entry(
        "Models that the tests use are not installed in this Ollama.",
        ("never pulled on this machine", "the service runs as another user, with another models folder"),
        "Pull them on this machine (`ollama pull NAME`).",
    ),
    "ollama.cloud-model": Entry(
        "A configured model does not run on this machine but in Ollama's cloud.",
        ("its name ends in -cloud, or it was created from a remote model",),
        "Configure a local model.",
        "job",
    ),
    "ollama.version": Entry(
        "The running Ollama is not of the version that is needed.",
        ("it was updated by itself", "it was updated on the disk and the service was not restarted"),
        "Install the version that is needed on this machine, and restart the Ollama service.",
    ),
    "ollama.digest": Entry(
        "A model is installed with other content than is pinned.",
        ("its tag was pulled anew and has moved", "it was made from a Modelfile on this machine"),
        "Pull the model again on this machine, or move the pin in the spec (`ollama list` shows the digests).",
    ),
    "ollama.capability": Entry(
        "A model cannot do what it is needed for.",
        ("another model is installed under this name", "its template does not tell of tools"),
        "See `ollama show MODEL` on this machine; pull the model anew or name another one.",
    ),
    "ollama.capability-unknown": Entry(
        "Ollama does not say what a model can do.",
        ("an Ollama that is too old to say it (before 0.6.4)",),
        "Update Ollama on this machine, or leave `capabilities` out.",
    ),
    "ollama.models": Entry(
        "The configured models cannot be read.",
        ("an `id` of a model is not a text",),
        "Correct the models in the configuration.",
        "job",
    ),
    "ollama.inventory": Entry(
        "Ollama's answer about its models is not one.",
        ("a proxy or another program answers at that address",),
        "See which program listens on that port.",
    ),
    "ollama.too-old": Entry(
        "This Ollama is too old: before 0.3.11 a request to unload loads the model.",
        ("the server was never updated",),
        "Update Ollama on this machine.",
    ),
    "ollama.unload": Entry(
        "Ollama did not unload a model.",
        ("the model was removed while it was loaded (404)", "a fault inside the server"),
        "Restart Ollama on this machine.",
    ),
    "ollama.removal": Entry(
        "A model was told to unload and stays resident.",
        (
            "another client's requests keep it busy",
            "another client loads it again",
            "its runner hangs in the driver",
        ),
        "Stop what else uses this Ollama (strict wants one of its own), then restart it.",
        retryable=True,
    ),
    "ollama.load": Entry(
        "Ollama did not load a model.",
        (
            "not enough memory",
            "the model is for embeddings only, or for another version of Ollama",
            "the driver is broken or gone",
        ),
        "Look into Ollama's log at this time; free the GPU's memory or use a model that fits.",
    ),
    "ollama.load-deadline": Entry(
        "A model was not loaded in time; the load was given up.",
        ("a slow disk, or a network share", "the machine is busy", "the runner hangs in the driver"),
        "See in Ollama's log how far the load came; give it more time in the spec, or restart Ollama.",
        retryable=True,
    ),
    # Residency -------------------------------------------------------------------------------------------------
    "residency.absent": Entry(
        "A model that has to be resident is not among the resident ones.",
        (
            "another model pushed it out",
            "nobody has loaded it, or its keep_alive was over (with `mode: verify` nothing is loaded)",
            "its runner crashed",
            "the same weights are resident under another name",
        ),
        "Stop what else uses this Ollama; see which tag holds the same weights.",
        retryable=True,
    ),
    "residency.doubled": Entry(
        "A model is listed more than once.",
        ("an old runner of the same name is still there",),
        "Restart Ollama on this machine.",
        retryable=True,
    ),
    "residency.row": Entry(
        "What Ollama says of the loaded model cannot be judged.",
        ("an Ollama that is too old to say it (size_vram before 0.1.42, context_length before 0.10.0)",),
        "Update Ollama on this machine.",
    ),
    "residency.partial": Entry(
        "A model is not fully on the GPU: part of it runs on the CPU, many times slower.",
        (
            "another process holds the GPU's memory",
            "the context is larger than fits beside the model",
            "the driver is broken or gone (then nothing is on the GPU)",
        ),
        "See what holds the GPU's memory (nvidia-smi) and end it, or lower OLLAMA_CONTEXT_LENGTH; then restart Ollama.",
        retryable=True,
    ),
    "residency.context": Entry(
        "A model is loaded with a shorter context than the tests need.",
        (
            "OLLAMA_CONTEXT_LENGTH is not set for the server and the GPU is small (or was not seen at its start)",
            "the Modelfile sets num_ctx, or the model was trained with less",
        ),
        "Set OLLAMA_CONTEXT_LENGTH for the Ollama service to at least what is needed, and restart it.",
    ),
    "residency.digest": Entry(
        "A resident model is not the one that is installed under its name.",
        ("it was pulled or made anew while it was loaded",),
        "Stop the model (`ollama stop`), or restart Ollama, and have it loaded again.",
        retryable=True,
    ),
    "residency.replaced": Entry(
        "A model was resident and not right; it was unloaded, loaded again, and is right now.",
        (
            "another process held the GPU's memory when it was loaded first",
            "another client had loaded it with other options",
            "its runner had crashed",
        ),
        "Nothing has to be done for this run; where it comes again, see who else loads this model, and how.",
    ),
    "residency.evicted": Entry(
        "A model that had been proven resident is no longer right at the end.",
        ("another client loaded another model", "it was loaded again with other options"),
        "Stop what else uses this Ollama (strict wants one of its own).",
        retryable=True,
    ),
    # Servers of OpenAI's API -----------------------------------------------------------------------------------
    "openai.unauthorized": Entry(
        "The server does not accept the API key, or needs one.",
        ("the key is another one than the server was started with (--api-key)", "no key is in the spec"),
        "Give the check the key that the server knows (`api_key`).",
        "job",
    ),
    "openai.loading": Entry(
        "The server is still loading its model.",
        ("it was started a moment ago", "a slow disk, or a network share", "it restarts again and again"),
        "Wait for it (`wait: {for: 5m}` on a check with `completion: false`), or see in its log how far it is.",
        retryable=True,
    ),
    "openai.model-missing": Entry(
        "The server does not serve a model that the tests use.",
        (
            "it was started with another model, or under another name (--served-model-name, --alias)",
            "the name in the spec is not the one that it lists",
            "the model was never downloaded, or may not be loaded on demand",
        ),
        "Start the server with that model, or write the name as the server lists it.",
    ),
    "openai.answer": Entry(
        "The list of models is not one.",
        (
            "the URL is not the base of the API (it usually ends in /v1)",
            "a proxy or another program answers at that address",
        ),
        "Ask `URL/models` by hand (curl); see which program listens on that port.",
    ),
    "openai.completion": Entry(
        "The server lists the model and does not make a token.",
        (
            "its engine has died and its front still answers (an illegal memory access, no memory left)",
            "the model could not be loaded",
            "the driver is broken or gone",
        ),
        "Look into the server's log for its first error, see whether the GPU is well (nvidia-smi), and restart it.",
    ),
    "openai.completion-deadline": Entry(
        "The server lists the model, and no token came in time.",
        (
            "its engine hangs, or waits for one that died",
            "the model is loaded by the first request, or the first token is slow (compilation)",
            "other clients keep it busy",
        ),
        "Look into the server's log; give a cold server more time (`total`), restart one that hangs.",
        retryable=True,
    ),
    "openai.no-completions": Entry(
        "The server has no completions for this model.",
        ("it serves embeddings only", "the model has no chat template, and /completions is switched off"),
        "Name a model that completes text, or ask for none (`completion: false`).",
        "spec",
    ),
    # The run itself --------------------------------------------------------------------------------------------
    "run.budget": Entry(
        "The run's own budget was used up.",
        ("the budget is too small for this machine", "an earlier check was slow"),
        "Give the run more time (--budget, the action's input `budget`); `plan` says what it needs.",
        "spec",
        retryable=True,
    ),
    "wait.unstable": Entry(
        "A check was right, but not as often in a row as the spec wants, when the time to wait was over.",
        ("the server is still starting", "it restarts again and again", "`stable` is too large for `for`"),
        "See in the server's log whether it keeps restarting; give `wait` more time.",
        "host",
        retryable=True,
    ),
    "run.cancelled": Entry(
        "The run was ended by a signal.",
        ("the job was cancelled", "the runner was stopped"),
        "Run it again.",
        "job",
        retryable=True,
    ),
    "run.unconfirmed": Entry(
        "What this run had loaded may still be resident.",
        ("the server did not answer during cleanup", "a second signal ended the cleanup"),
        "Look at `ollama ps` on this machine and stop the model.",
    ),
    "run.stuck": Entry(
        "A call into a driver or a file system did not come back; the process that made it was ended.",
        ("a hung driver", "a dead mount", "an overloaded machine"),
        "Make the call by hand on this machine (for a driver: its own tool) and see whether it hangs.",
        retryable=True,
    ),
    "run.broken": Entry(
        "A call that is made in a process of its own broke there.",
        ("a crash in a driver's library", "a library that does not fit the driver", "a fault in precheck"),
        "Make the call by hand on this machine (for a driver: its own tool) and see whether it fails there too.",
    ),
    "run.held": Entry(
        "The kernel did not let a child process go.",
        ("a hung driver", "a dead mount"),
        "The machine probably needs a reboot.",
    ),
    "run.internal": Entry(
        "precheck itself failed; nothing is known about the machine.",
        ("a fault in precheck",),
        "Report it with the JSON report; it is not the machine's fault.",
        "spec",
    ),
    "report.unwritable": Entry(
        "A report could not be written, so the run does not count as passed.",
        ("a full disk", "no permission", "a folder in the way"),
        "Make the place writable or name another one.",
        "job",
    ),
    "spec.nothing-checked": Entry(
        "No check was meant for this machine: every `when` of the spec is unmet.",
        ("the variable that a `when` names is not set here", "its value is another one"),
        "Set the variable for this job, or add a check without `when`.",
        "spec",
    ),
    "spec.invalid": Entry(
        "The spec cannot be used.",
        ("a typing error", "a key of another version of precheck"),
        "Correct the spec at the named line.",
        "spec",
    ),
    "usage": Entry(
        "The command line cannot be used.",
        ("a typing error", "a spec that does not exist"),
        "See `precheck --help`.",
        "job",
    ),
}
