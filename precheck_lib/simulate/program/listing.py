"""The list of faults, grouped by the server or the layer that they are of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from precheck_lib.simulate.faults import FAULTS, HOSTILE_FAULTS, OPENAI_FAULTS
from precheck_lib.simulate.hostile.tables import HOSTILE
from precheck_lib.simulate.options import meant

if TYPE_CHECKING:
    from precheck_lib.simulate.faults import Fault

_LAYERS = {
    "name": "name resolution",
    "tcp": "TCP",
    "tls": "the TLS handshake",
    "secure": "inside TLS",
    "http": "HTTP",
    "json": "JSON",
    "handshake": "the WebSocket handshake",
    "frame": "WebSocket frames",
    "message": "JSON in WebSocket messages",
}
_ON_UPGRADE = ("handshake", "frame", "message")


class Group(NamedTuple):
    """Faults that belong together: `word` is what `--list` calls them, `rows` are their lines by name."""

    word: str
    title: str
    rows: dict[str, str]


def listing(wanted: str = "") -> str:
    """List all faults, those of a server or a layer, or those with `wanted` in their name or description."""
    groups = [*_of_stand_ins(), *_of_layers()]
    asked = wanted.strip().lower()
    exact = [group for group in groups if group.word == asked]
    found = exact or [
        group._replace(rows={name: row for name, row in group.rows.items() if asked in f"{name} {row}".lower()})
        for group in groups
    ]
    text = "\n".join(_shown(group) for group in found if group.rows)
    if not text:
        words = [group.word for group in groups]
        names = [*words, *(name for group in groups for name in group.rows)]
        raise ValueError(
            f"no fault has {wanted!r} in it{meant(wanted, names)} (servers and layers are {', '.join(words)})"
        )
    return text


def _shown(group: Group) -> str:
    width = max(map(len, group.rows))
    return "".join([f"{group.title}\n", *(f"  {name:<{width}}  {text}\n" for name, text in group.rows.items())])


def _of_stand_ins() -> list[Group]:
    hostile = {fault.name for fault in HOSTILE}
    rows: dict[str, dict[str, str]] = {}
    for fault in (*FAULTS, *OPENAI_FAULTS):
        if fault.name not in hostile:
            rows.setdefault(fault.server, {})[f"{fault.server}={fault.name}"] = _told(fault)
    return [Group(server, f"{server}: --fault {server}=NAME[,OPTION=VALUE...]", own) for server, own in rows.items()]


def _told(fault: Fault) -> str:
    options = ",".join(f"{key}={json.dumps(value)}" for key, value in fault.options.items())
    return f"{fault.description} ({fault.where}{'; ' if options else ''}{options})"


def _of_layers() -> list[Group]:
    groups = []
    for layer, title in _LAYERS.items():
        faults = [fault for fault in HOSTILE if fault.layer == layer]
        some = faults[0].name
        takers = [fault.server for fault in (*HOSTILE_FAULTS, *OPENAI_FAULTS) if fault.name == some]
        by_whom = f", or --fault SERVER=NAME of {', '.join(takers)}" if takers else ""
        how = "only as HostileServer in the client's process" if layer == "name" else f"--hostile NAME{by_whom}"
        note = "; a plain GET is answered right" if layer in _ON_UPGRADE else ""
        rows = {fault.name: fault.description for fault in faults}
        groups.append(Group(layer, f"{layer} ({title}): {how}{note}", rows))
    return groups


__all__ = ["listing"]
