"""How the OpenCode server reads its configuration: what it drops, fills in, refuses and derives."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from precheck_lib.simulate.web import recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_REQUIRED = {"limit": ("context", "output"), "cost": ("input", "output")}
_ALWAYS: dict[str, Any] = {"command": {}, "plugin": [], "username": "unknown", "mode": {}, "agent": {}}
_STRINGS = ("model", "small_model", "username", "share", "default_agent")
_WHERE = "OPENCODE_CONFIG_CONTENT"


class Refused(Exception):  # noqa: N818 - it is an answer of the server
    """The configuration is unusable; `body` is the JSON answer to every request that needs one."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["name"])
        self.body = body


def resolve(config: Mapping[str, Any] | str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Give the configuration as `/config` shows it; `Refused` where the server would answer 400.

    Unknown keys are dropped, keys stand in the order of the schema, `{env:X}` is replaced (by nothing where X
    is not set). Measured on OpenCode 1.18.33; of its value checks only those of strings, objects, `limit` and
    `cost` are here.
    """
    value: Any = config
    if isinstance(config, str):
        try:
            value = json.loads(config)
        except ValueError:
            raise Refused(json_error(config)) from None
    value = _expand(value, environment)
    if issues := list(_issues(value)):
        raise Refused({"name": "ConfigInvalidError", "data": {"path": _WHERE, "issues": issues}})
    # The keys that the server's own schema knows, in its order; it drops others without a word.
    keys = json.loads(recorded("opencode_keys.json"))
    full: dict[str, Any] = _kept({**_ALWAYS, **value}, keys["config"])
    if "provider" in full:
        full["provider"] = {name: _provider(provider, keys) for name, provider in full["provider"].items()}
    return full


def json_error(text: str) -> dict[str, Any]:
    """Give the answer for a configuration that is no JSON: the whole of it is in the message."""
    where = "CloseBraceExpected at line 1, column 1"
    message = f"\n--- JSONC Input ---\n{text}\n--- Errors ---\n{where}\n--- End ---"
    return {"name": "ConfigJsonError", "data": {"path": _WHERE, "message": message}}


def value_error(path: list[str], wanted: str, value: object) -> dict[str, Any]:
    """Give one issue as the server words it: the refused value is in the message."""
    got = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return {"path": path, "message": f"Expected {wanted}, got {got}"}


def providers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Give the answer of `/config/providers` for a resolved configuration."""
    enabled: list[str] | None = config.get("enabled_providers")
    disabled: list[str] = config.get("disabled_providers", [])
    listed = [] if "opencode" in disabled else [json.loads(recorded("opencode_zen.json"))]
    for name, provider in config.get("provider", {}).items():
        if name not in disabled and provider.get("models"):
            listed.append(_listed(name, provider))
    if enabled is not None:
        listed = [entry for entry in listed if entry["id"] in enabled]
    # The default is the last model by name, but that of OpenCode's own provider.
    default = {entry["id"]: max(entry["models"]) for entry in listed if entry["models"]}
    if "opencode" in default:
        default["opencode"] = "big-pickle"
    return {"providers": listed, "default": default}


def _expand(value: Any, environment: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\{env:([^}]+)\}", lambda found: environment.get(found[1], ""), value)
    if isinstance(value, list):
        return [_expand(item, environment) for item in value]
    if isinstance(value, dict):
        return {key: _expand(item, environment) for key, item in value.items()}
    return value


def _kept(value: Mapping[str, Any], keys: list[str]) -> dict[str, Any]:
    return {key: value[key] for key in keys if key in value}


def _provider(provider: Mapping[str, Any], keys: Mapping[str, list[str]]) -> dict[str, Any]:
    kept = _kept(provider, keys["provider"])
    if "options" in kept:
        # Any option is kept; those that the schema names come first.
        kept["options"] = {**_kept(kept["options"], keys["options"]), **kept["options"]}
    if "models" in kept:
        kept["models"] = {key: _model(model, keys) for key, model in kept["models"].items()}
    return kept


def _model(model: Mapping[str, Any], keys: Mapping[str, list[str]]) -> dict[str, Any]:
    kept = _kept(model, keys["model"])
    parts = {"cost": "cost", "limit": "limit", "modalities": "modalities", "provider": "model.provider"}
    for key in parts.keys() & kept.keys():
        kept[key] = _kept(kept[key], keys[parts[key]])
    return kept


def _issues(config: Any) -> Iterator[dict[str, Any]]:
    """Give each issue that the server would find."""
    if not isinstance(config, dict):
        yield value_error([], "Config", config)
        return
    yield from _not_strings([], config, _STRINGS)
    every = config.get("provider", {})
    if not isinstance(every, dict):
        yield value_error(["provider"], "object | undefined", every)
        return
    for name, provider in every.items():
        yield from _provider_issues(["provider", name], provider)


def _not_strings(path: list[str], value: Mapping[str, Any], keys: Iterable[str]) -> Iterator[dict[str, Any]]:
    for key in keys:
        if not isinstance(value.get(key, ""), str):
            yield value_error([*path, key], "string | undefined", value[key])


def _provider_issues(path: list[str], provider: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(provider, dict):
        yield value_error(path, "ProviderConfig", provider)
        return
    options, models = provider.get("options", {}), provider.get("models", {})
    if isinstance(options, dict):
        yield from _not_strings([*path, "options"], options, ("apiKey", "baseURL"))
    else:
        yield value_error([*path, "options"], "object | undefined", options)
    if not isinstance(models, dict):
        yield value_error([*path, "models"], "object | undefined", models)
        return
    for key, model in models.items():
        yield from _model_issues([*path, "models", key], model)


def _model_issues(path: list[str], model: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(model, dict):
        yield value_error(path, "object", model)
        return
    yield from _not_strings(path, model, ("id", "name", "family", "release_date"))
    for part, required in _REQUIRED.items():
        value = model.get(part)
        if not isinstance(value, dict):
            continue
        for key in required:
            if key not in value:
                yield {"path": [*path, part, key], "message": "Missing key"}
            elif not isinstance(value[key], (int, float)) or isinstance(value[key], bool):
                yield value_error([*path, part, key], "number", value[key])


def _listed(name: str, provider: Mapping[str, Any]) -> dict[str, Any]:
    options = provider.get("options", {})
    return {
        "id": name,
        "name": provider.get("name", name),
        "source": "config",
        "env": provider.get("env", []),
        "options": {**_kept(options, ["baseURL"]), **options},
        "models": {key: _offered(name, key, provider, model) for key, model in provider["models"].items()},
    }


def _offered(name: str, key: str, provider: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    own, cost, limit = model.get("provider", {}), model.get("cost", {}), model.get("limit", {})
    modalities = model.get("modalities", {})
    kinds = ("text", "audio", "image", "video", "pdf")
    return {
        "id": key,
        "providerID": name,
        "api": {
            "id": model.get("id", key),
            "url": own.get("api", provider.get("api", "")),
            "npm": own.get("npm", provider.get("npm", "@ai-sdk/openai-compatible")),
        },
        "name": model.get("name", key),
        "family": model.get("family", ""),
        "capabilities": {
            "temperature": model.get("temperature", False),
            "reasoning": model.get("reasoning", False),
            "attachment": model.get("attachment", False),
            "toolcall": model.get("tool_call", True),
            "input": {kind: kind in modalities.get("input", ["text"]) for kind in kinds},
            "output": {kind: kind in modalities.get("output", ["text"]) for kind in kinds},
            "interleaved": model.get("interleaved", False),
        },
        "cost": {
            "input": cost.get("input", 0),
            "output": cost.get("output", 0),
            "cache": {"read": cost.get("cache_read", 0), "write": cost.get("cache_write", 0)},
        },
        "limit": {"context": limit.get("context", 0), "output": limit.get("output", 0)},
        "status": model.get("status", "active"),
        "options": model.get("options", {}),
        "headers": model.get("headers", {}),
        "release_date": model.get("release_date", ""),
        "variants": model.get("variants", {}),
    }
