"""What the servers of models answer, and what became of the models."""

from __future__ import annotations

from precheck_lib.catalogue.entry import Entry

ENTRIES = {
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
}
