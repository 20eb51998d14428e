"""What was read of the GPUs, as plain values: the same from every reader, and what a replay file holds."""

from __future__ import annotations

import msgspec


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A call that failed: its name, the library's number and words for it."""

    call: str
    code: int
    text: str


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a card, in bytes (`None` where the driver does not tell, as in containers)."""

    pid: int
    bytes: int | None = None


class Card(msgspec.Struct, kw_only=True):
    """One card, or one MIG instance of a card; `None` is what it cannot tell or an old driver does not know.

    `bus` is its address on PCI in the kernel's form (`0000:3b:00.0`), memory in bytes, temperatures in degrees Celsius.
    `recovery` is NVML's recovery action (0: none), `throttle` its mask of reasons, `compute_mode` 0 default,
    2 prohibited, 3 exclusive. `uncorrected` are the uncorrectable ECC errors since the driver was loaded, `remaps` the
    row remappings as (correctable, uncorrectable, pending, failed). `trouble` is what could not be read and should be.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    bus: str | None = None
    total: int | None = None
    used: int | None = None
    free: int | None = None
    holders: list[Holder] = msgspec.field(default_factory=list)
    recovery: int | None = None
    uncorrected: int | None = None
    remaps: tuple[int, int, int, int] | None = None
    retirement_pending: bool | None = None
    throttle: int | None = None
    temperature: int | None = None
    margin: int | None = None
    link_width: int | None = None
    link_width_most: int | None = None
    compute_mode: int | None = None
    persistence: bool | None = None
    mig: bool = False
    instances: list[Card] = msgspec.field(default_factory=list)
    trouble: list[Trouble] = msgspec.field(default_factory=list)


class PciCard(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU on the PCI bus: who made it, its address, the driver that has it, and whether its device node is here.

    `node` is `None` where that cannot be told: only NVIDIA's driver says which node belongs to a card.
    """

    vendor: str
    address: str
    driver: str | None = None
    node: bool | None = None


class Reading(msgspec.Struct, kw_only=True):
    """Everything that was read: by which `source`, versions, the bus, the cards, and what the library itself refused.

    `module` is the version of the kernel's driver, `library` that of the user's library beside it (both as text),
    `cuda` the newest CUDA that the driver can run, as (major, minor). `count` is what the library says before each card
    was asked. `stuck` are the processes that hang in a driver (pid and name).
    """

    source: str
    module: str | None = None
    library: str | None = None
    cuda: tuple[int, int] | None = None
    pci: list[PciCard] = msgspec.field(default_factory=list)
    stuck: list[tuple[int, str]] = msgspec.field(default_factory=list)
    count: int | None = None
    cards: list[Card] = msgspec.field(default_factory=list)
    trouble: list[Trouble] = msgspec.field(default_factory=list)
    seconds: float = 0.0


class CudaCard(msgspec.Struct, frozen=True, kw_only=True):
    """What CUDA could do on one card: the result of each step (0: it worked; `None`: not come to)."""

    context: int | None = None
    allocation: int | None = None


class CudaReading(msgspec.Struct, kw_only=True):
    """What CUDA itself says, by its own numbers: `load` is why its library could not be loaded, where it could not."""

    load: str | None = None
    init: int | None = None
    count: int | None = None
    cards: list[CudaCard] = msgspec.field(default_factory=list)
    words: dict[int, str] = msgspec.field(default_factory=dict)


__all__ = ["Card", "CudaCard", "CudaReading", "Holder", "PciCard", "Reading", "Trouble"]
