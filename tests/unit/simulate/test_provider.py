"""`/provider`: the heavy alternative to `/config/providers`, which the shell script that precheck replaces asks for."""

from __future__ import annotations

import json
import urllib.request

from precheck_lib.simulate import OpenCodeStandIn


def test_provider_says_what_is_connected_as_config_providers_does():
    config = {"provider": {"ollama": {"models": {"qwen3:8b": {"name": "qwen3:8b"}}}}}
    with OpenCodeStandIn(config) as server:
        answers = []
        for path in ("/provider", "/config/providers"):
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(server.url + path) as answer:
                answers.append(json.load(answer))
    everything, connected = answers
    assert everything["connected"] == [entry["id"] for entry in connected["providers"]]
    assert everything["all"] == connected["providers"]
    assert "ollama" in everything["connected"]
