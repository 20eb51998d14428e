"""A machine as a survey has found it to the text of a spec that says what it should be.

What is odd is not taken for what should be: a comment marks it, and where that is known the check says what is right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from precheck_lib.checks.look import size_text
from precheck_lib.checks.web import url_problems
from precheck_lib.survey.writing import Page, option, scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from precheck_lib.gpu.reading import PciCard
    from precheck_lib.survey.machine import Machine, Ollama, OpenAi, Port, Resident, Room, Tag, Tool

_MOST_MODELS, _MOST_OTHERS = 12, 8
_FREE = 10 << 30
_SHORT_CONTEXT = 4096
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]{0,52}\Z")
_VERSION = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18}){1,9}(?:-[0-9A-Za-z.]{1,64})?\Z")
_DRIVERS = {"AMD": "amdgpu"}
_NO_COMPUTING = {"nouveau": "which computes nothing", "vfio-pci": "which keeps it for a virtual machine"}

_HEAD = """\
# What this machine has to be before a job may start: a draft, which `precheck init` made of what it found here. It says
# what should be; what was odd is marked. It is yours: change it, then `precheck validate` and `precheck run`.
version: 1
name: my-runner
checks:
"""


def draft(machine: Machine, hide: Callable[[str], str] = str) -> str:
    """Write the text of a spec for a machine; `hide` takes what is secret out of a text."""
    page = Page(hide)
    _tools(page, machine.tools)
    _gpus(page, machine.gpus)
    if machine.ollama is not None:
        _ollama(page, machine.ollama, machine)
    for server in machine.openai[:_MOST_OTHERS]:
        _openai(page, server, machine)
    _room(page, machine.room)
    _other_ports(page, machine)
    _keys(page, machine.keys)
    return _HEAD + "\n".join(page.lines) + "\n"


def _at_least(page: Page, version: str | None) -> str:
    """Return the option that asks for a version or a later one, empty where that is no version."""
    usable = version is not None and _VERSION.match(version) is not None and page.is_usable(version)
    return f', version: ">={version}"' if usable else ""


def _tools(page: Page, tools: tuple[Tool, ...]) -> None:
    lines = []
    for tool in tools:
        if tool.trouble is not None:
            page.odd(f"`{tool.name} --version`: {page.shown(tool.trouble)}")
        if tool.run and tool.name != "ollama":  # which asks its server, and tells that one's version
            lines.append(f"    - {{argv: [{option(tool.name)}, --version]{_at_least(page, tool.version)}}}")
    if lines:
        page.check("tools", "the programs are there, no older than now", "command:", "  commands:", *lines)
    if any(tool.name == "nvidia-smi" for tool in tools):
        page.example(
            "nvidia-smi is on PATH. It was not run, for it may hang; in a check it is ended in time:",
            "- id: driver",
            '  command: {argv: [nvidia-smi, --query-gpu=driver_version, "--format=csv,noheader"], version: ">=550"}',
        )


def _gpus(page: Page, gpus: tuple[PciCard, ...]) -> None:
    for gpu in gpus[:_MOST_OTHERS]:
        _gpu(page, gpu)
    # One that a virtual machine has is not this one's.
    here = [gpu for gpu in gpus if gpu.vendor == "NVIDIA" and gpu.driver != "vfio-pci" and gpu.node is not False]
    if here:
        page.check(
            "gpu",
            "the NVIDIA GPUs are there and whole, and CUDA begins on them",
            f'gpu: {{count: {len(here)}}}  # also free: 20GiB, exclusive: true, driver: ">=550"',
        )


def _gpu(page: Page, gpu: PciCard) -> None:
    what = f"the {gpu.vendor} GPU at {page.shown(gpu.address)}"
    driver = gpu.driver if gpu.driver not in _NO_COMPUTING else None
    if gpu.driver is None:
        page.odd(f"no driver is loaded for {what}")
    elif driver is None:
        page.odd(f"{what} has the driver {gpu.driver}, {_NO_COMPUTING[gpu.driver]}")
    if gpu.vendor == "NVIDIA":
        return  # all of them are one check
    driver = driver or _DRIVERS.get(gpu.vendor)
    path = f"/sys/bus/pci/drivers/{driver}/{gpu.address}"
    if driver is None or not page.is_usable(path):
        page.comment(f"{what} is not checked: it is not known which driver it should have.")
        return
    id_ = "gpu-" + re.sub(r"[^a-z0-9]+", "-", gpu.address.lower())[:48].strip("-")
    page.check(id_, f"the {gpu.vendor} GPU is there, with its driver", f"file: {{path: {option(path)}}}")


def _ollama(page: Page, server: Ollama, machine: Machine) -> None:
    # A URL with a password in it stays where it is: in the environment.
    is_open = page.is_usable(server.url) and not list(url_problems(server.url))
    url = option(server.url) if is_open else '"${OLLAMA_HOST}"'
    client = next((tool.version for tool in machine.tools if tool.name == "ollama"), None)
    if server.trouble is not None:
        page.odd(f"no Ollama answers there: {page.shown(server.trouble)}")
    elif server.version is not None and client is not None and client != server.version:
        page.odd(f"the running server is {page.shown(server.version)}, the program on PATH is {page.shown(client)}")
    page.check("ollama", "the Ollama answers", f"ollama: {{url: {url}{_at_least(page, server.version)}}}")
    if server.trouble is None:
        _owner(page, server.port, machine)
        _in_memory(page, server, url, needs=_models(page, server.tags, url))


def _owner(page: Page, number: int | None, machine: Machine) -> None:
    """Write who has to listen on the port of an Ollama, as far as it is seen who does."""
    port = next((one for one in machine.ports or () if one.port == number), None)
    if port is None:
        return
    word, text = ("process", port.process) if port.process is not None else ("user", port.user)
    if text is None:
        page.odd(f"port {port.port} is owned by unknown: who listens cannot be seen from here")
    more = f", {word}: {option(text)}" if text is not None and page.is_usable(text) else ""
    page.check("ollama-port", f"port {port.port} is our Ollama's", f"port: {{port: {port.port}{more}}}")


def _models(page: Page, tags: tuple[Tag, ...] | None, url: str) -> str:
    """Write which models have to be installed; returns the id of the check that says so."""
    if tags is None:
        page.odd("the list of installed models could not be read")
        return "ollama"
    digests = {tag.name: _DIGEST.match(tag.digest or "") for tag in tags if not tag.remote}
    names = page.usable(digests, "an installed model")
    away = [tag.name for tag in tags if tag.remote]
    if away:
        page.comment(f"Cloud models, which run on no GPU of this machine: {page.named(away)}.")
    if not names:
        page.odd("no model is installed that runs on this machine")
        return "ollama"
    if len(names) > _MOST_MODELS:
        page.comment(f"Installed as well: {page.named(names[_MOST_MODELS:])}.")
    lines = []
    for name in names[:_MOST_MODELS]:
        match = digests[name]
        lines.append(f"    {scalar(name)}:" + (f' {{digest: "{match[1]}"}}' if match is not None else ""))
    lines = ["ollama:", f"  url: {url}", "  models:", *lines]
    page.check("ollama-models", "the models are installed, with these weights", *lines, needs="ollama")
    return "ollama-models"


def _in_memory(page: Page, server: Ollama, url: str, *, needs: str) -> None:
    """Write which models have to be resident, fully on the GPU."""
    if server.resident is None:
        page.odd("what is in memory could not be read")
        return
    names = page.usable((row.name for row in server.resident), "a resident model")
    rows = {row.name: row for row in server.resident if row.name in names}
    if not rows:
        page.example(
            "No model was in memory. This has one loaded, and proven fully on the GPU; it changes the server:",
            "- id: ollama-gpu",
            f"  needs: [{needs}]",
            f"  residency: {{url: {url}, models: [NAME], context_length: 32768}}",
        )
        return
    for row in rows.values():
        _odd_row(page, row)
    contexts = [row.context for row in rows.values() if row.context]
    page.comment("`verify` only looks. Without it what is not right is loaded again, which changes the server.")
    page.check(
        "ollama-gpu",
        "the models are resident, fully on the GPU",
        "residency:",
        f"  url: {url}",
        "  mode: verify",
        f"  models: [{', '.join(map(option, rows))}]",
        *([f"  context_length: {min(contexts)}"] if contexts else []),
        needs=needs,
    )


def _odd_row(page: Page, row: Resident) -> None:
    name, size, on_gpu = page.shown(row.name), row.size, row.on_gpu
    if size is None or on_gpu is None or not 0 <= on_gpu <= size or size == 0:
        page.odd(f"it is not known how much of {name} is on the GPU")
    elif on_gpu < size:
        share = "not on the GPU at all" if on_gpu == 0 else f"only {on_gpu * 100 // size} % on the GPU"
        page.odd(f"{name} is {share}: {size_text(size - on_gpu)} of {size_text(size)} are on the CPU")
    if row.context == _SHORT_CONTEXT:
        page.odd(f"{name} has a context of 4096, which Ollama gives by itself; write what your jobs need")


def _openai(page: Page, server: OpenAi, machine: Machine) -> None:
    owner = next((port for port in machine.ports or () if port.port == server.port), None)
    if owner is None or (owner.process is None and owner.user is None):
        page.odd(f"port {server.port} is owned by unknown: who listens cannot be seen from here")
    else:
        page.comment(f"Port {_listener(page, owner)}.")
    names = page.usable(server.models, f"a model of port {server.port}")
    if not server.models:
        page.odd(f"the server on port {server.port} lists no model")
    first = server.first if server.first in names else next(iter(names), None)
    others = [name for name in names if name != first]
    if others:
        page.comment(f"It lists as well: {page.named(others)}.")
    models = f", models: [{option(first)}]" if first is not None else ""
    options = f"url: http://localhost:{server.port}/v1{models}"
    page.check(f"openai-{server.port}", "the model makes a token", f"openai: {{{options}}}")


def _room(page: Page, room: Room) -> None:
    path = room.path if room.path.startswith("/") and page.is_usable(room.path) else "/"
    if room.free is None:
        page.odd("how much room there is could not be read")
    elif room.free < _FREE:
        page.odd(f"{size_text(room.free)} are free")
    page.check("room", "jobs have room to work in", f"disk: {{path: {option(path)}, free: 10GiB}}")


def _listener(page: Page, port: Port) -> str:
    who = [] if port.process is None else [page.shown(port.process)]
    who += [] if port.user is None else [f"user {page.shown(port.user)}"]
    return f"{port.port} ({', '.join(who)})"


def _other_ports(page: Page, machine: Machine) -> None:
    if machine.ports is None:
        page.odd("which ports are listened on could not be read")
        return
    checked = {server.port for server in machine.openai} | {machine.ollama.port if machine.ollama is not None else None}
    others = [port for port in machine.ports if port.port not in checked]
    unknown = [str(port.port) for port in others if port.process is None and port.user is None]
    known = [_listener(page, port) for port in others if str(port.port) not in unknown]
    if known:
        page.comment(f"Listened on at the loopback, too: {page.named(known)}. Add a `port` for what jobs need.")
    if unknown:
        page.odd(f"owned by unknown, who listens cannot be seen from here: port {page.named(unknown)}")


def _keys(page: Page, keys: tuple[str, ...]) -> None:
    if keys:
        page.example(
            "Set when this was written. Where jobs need them, take the # away; a value is shown nowhere:",
            "- id: keys",
            "  title: the keys are set",
            "  env:",
            "    required:",
            *(f"      {scalar(key)}: {{secret: true}}" for key in keys),
        )
