"""A machine as a survey has found it. Names and versions in it are text of strangers, as they said it."""

from __future__ import annotations

import msgspec

from precheck_lib.gpu.reading import PciCard  # noqa: TC001 - read when the struct is made


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One TCP port that takes connections at the loopback; `process` and `user` are `None` where they are not seen."""

    port: int
    process: str | None = None
    user: str | None = None


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """One model that an Ollama has installed; with a `remote` one it runs on another machine."""

    name: str
    digest: str | None = None
    remote: bool = False


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """One model that is in memory: bytes in all and on the GPU, and its context; `None` where no integer was said."""

    name: str
    size: int | None = None
    on_gpu: int | None = None
    context: int | None = None


class Ollama(msgspec.Struct, frozen=True, kw_only=True):
    """An Ollama server, or where one should be: `trouble` says why it did not answer.

    `url` is that of its API, empty where OLLAMA_HOST has none that can be used; `port` its port where it is on this
    machine. `given` says that OLLAMA_HOST names it.
    `tags` and `resident` are `None` where they could not be read.
    """

    url: str
    port: int | None = None
    given: bool = False
    trouble: str | None = None
    version: str | None = None
    tags: tuple[Tag, ...] | None = None
    resident: tuple[Resident, ...] | None = None


class OpenAi(msgspec.Struct, frozen=True, kw_only=True):
    """A server with OpenAI's API on a port of the loopback: `models` it lists; `first` of them completes text."""

    port: int
    models: tuple[str, ...] = ()
    first: str | None = None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One program on PATH: its `version`, or why none is known (`trouble`); one that is not `run` has neither."""

    name: str
    version: str | None = None
    trouble: str | None = None
    run: bool = True


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The folder that jobs work in, and how many bytes are free there; `None` where that could not be read."""

    path: str
    free: int | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """All that a survey has found; `ports` is `None` where they could not be read, `keys` are names of variables."""

    room: Room
    ports: tuple[Port, ...] | None = ()
    ollama: Ollama | None = None
    openai: tuple[OpenAi, ...] = ()
    gpus: tuple[PciCard, ...] = ()
    tools: tuple[Tool, ...] = ()
    keys: tuple[str, ...] = ()
