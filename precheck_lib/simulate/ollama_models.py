"""What Ollama knows of requests, names, times and its models, and the rows of its listings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
FOREVER = float(2**63 - 1) / 1e9
DEFAULT_KEEP_ALIVE = 300.0


@dataclass(frozen=True)
class Model:
    """One model on the disk: bytes, digest (64 hex digits, made up where empty), how it behaves when loaded.

    `vram` is the part of `size` in bytes that lands in VRAM (`None`: all of it); `load_seconds` is how long a
    load takes and `unload_seconds` how long the row stays listed after an unload. A model with a
    `remote_host` is a stub of a cloud model; one without `completion` among its `capabilities` is for
    embeddings only. The default `size` is small enough that no settling is due (CONTRACT G8: below 256 MiB).
    """

    size: int = 64 * 1024 * 1024
    digest: str = ""
    context_length: int = 262144
    vram: int | None = None
    load_seconds: float = 0.0
    unload_seconds: float = 0.0
    remote_host: str | None = None
    capabilities: tuple[str, ...] = ("completion", "tools")


def canonical(name: str) -> str:
    """Give a name as the listings show it: default host and `library/` dropped, with a tag, case kept."""
    head, slash, last = name.rpartition("/")
    full = f"{head}{slash}{last}" if ":" in last else f"{name}:latest"
    for prefix in ("registry.ollama.ai/library/", "registry.ollama.ai/", "library/"):
        if full.lower().startswith(prefix):
            return full[len(prefix) :]
    return full


def _valid(name: str) -> bool:
    part = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
    return re.fullmatch(rf"(?:{part}(?::[0-9]+)?/)?(?:{part}/)?{part}(?::{part})?", name) is not None


class Refused(Exception):  # noqa: N818 - it is an answer of the server
    """The request is answered with an error: `status` and the text of `error`."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True)
class Ask:
    """A decoded `/api/generate`: `asked` is the model's name verbatim, `keep_alive` in seconds or `None`."""

    kind: Literal["load", "unload", "generate"]
    asked: str
    keep_alive: float | None


def decode(body: bytes) -> Ask:
    """Decode a `/api/generate` body; `Refused` where the server answers 400 before it looks at any model."""
    if not body:
        raise Refused(400, "missing request body")
    try:
        value = json.loads(body)
    except ValueError as error:
        raise Refused(400, str(error)) from error
    if not isinstance(value, dict) or not isinstance(value.get("model", ""), str):
        raise Refused(400, "json: cannot unmarshal into Go value of type api.GenerateRequest")
    try:
        keep_alive = None if value.get("keep_alive") is None else seconds_of(value["keep_alive"])
    except ValueError as error:
        raise Refused(400, str(error)) from error
    asked = value.get("model", "")
    if asked and not _valid(asked):
        raise Refused(400, "invalid model name")
    if value.get("prompt"):
        return Ask("generate", asked, keep_alive)
    return Ask("unload" if keep_alive == 0 else "load", asked, keep_alive)


def seconds_of(keep_alive: Any) -> float:
    """Give a `keep_alive` in seconds (`FOREVER` for a negative one); `ValueError` in the server's words."""
    if isinstance(keep_alive, bool):
        raise ValueError("Unsupported type: 'bool'")  # noqa: TRY004 - the server's answer, not a caller's mistake
    if isinstance(keep_alive, (int, float)):
        return FOREVER if keep_alive < 0 else float(keep_alive)
    if not isinstance(keep_alive, str):
        raise ValueError("Unsupported type: 'map[string]interface {}'")  # noqa: TRY004
    sign, text = (keep_alive[:1], keep_alive[1:]) if keep_alive[:1] in ("-", "+") else ("", keep_alive)
    if text == "0":
        return 0.0
    if not re.fullmatch(f"(?:{_PART})+", text):
        number = re.fullmatch(r"[0-9]*\.?[0-9]*", text) and re.search("[0-9]", text)
        why = "missing unit in duration" if number else "invalid duration"
        raise ValueError(f'time: {why} "{keep_alive}"')
    total = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
    return FOREVER if sign == "-" and total else total


def stamp(after: float = 0.0) -> str:
    """Give the time `after` seconds from now as the server writes times."""
    moment = datetime.now(timezone.utc) + timedelta(seconds=min(after, FOREVER))
    return moment.isoformat().replace("+00:00", "Z")


def digest_of(name: str, model: Model) -> str:
    """Give a model's digest, one made of its name where it has none."""
    if model.digest:
        return model.digest
    import hashlib

    return hashlib.sha256(name.encode()).hexdigest()


def _details(name: str) -> dict[str, Any]:
    family = re.split("[:/]", name)[0]
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": "8.2B",
        "quantization_level": "Q4_K_M",
    }


def tags_row(name: str, model: Model) -> dict[str, Any]:
    """Give a model's row in `/api/tags`."""
    remote = {"remote_model": name, "remote_host": model.remote_host} if model.remote_host else {}
    return {
        "name": name,
        "model": name,
        **remote,
        "modified_at": "2026-11-30T21:00:00.123456789Z",
        "size": 384 if model.remote_host else model.size,
        "digest": digest_of(name, model),
        "details": _details(name),
        "capabilities": list(model.capabilities),
    }


def ps_row(name: str, model: Model, expires_in: float) -> dict[str, Any]:
    """Give a loaded model's row in `/api/ps`; `expires_in` seconds from now may be negative."""
    return {
        "name": name,
        "model": name,
        "size": model.size,
        "digest": digest_of(name, model),
        "details": _details(name),
        "expires_at": stamp(expires_in),
        "size_vram": model.size if model.vram is None else model.vram,
        "context_length": model.context_length,
    }
