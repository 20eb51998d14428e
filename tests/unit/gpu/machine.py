"""The fixture `machine`: a machine with GPUs, as NVML, CUDA, the PCI bus and its processes show it."""

from __future__ import annotations

import ctypes
import os

import pynvml
import pytest

from precheck_lib.checks import gpu, gpu_owners
from precheck_lib.checks.kind import Context
from precheck_lib.checks.look import Seen
from precheck_lib.gpu import cuda, nvml
from precheck_lib.gpu.reading import PciCard
from tests.unit.gpu.fake_nvml import FakeNvml

OTHERS = {
    501: Seen(pid=501, name="python3", executable="/opt/other/bin/python3", user="jane"),
    502: Seen(pid=502, name="ollama", executable="/usr/local/bin/ollama", user="ollama"),
    503: Seen(pid=503, name="Xorg", executable="/usr/lib/xorg/Xorg", user="root"),
}


class FakeCuda:
    """`libcuda.so.1` as a Python object: results by the name of the call, or by (name, device)."""

    def __init__(self, count=1, **results):
        self.count, self.results, self.device, self.held = count, results, 0, 0

    def __getattr__(self, name):
        def call(*arguments):
            if name == "cuGetErrorName":
                arguments[1]._obj.value = f"CUDA_ERROR_{arguments[0]}".encode()
                return 0
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = self.count
            if name == "cuDeviceGet":
                self.device = arguments[1]
            result = self.results.get(f"{name}_{self.device}", self.results.get(name, 0))
            self.held += {"cuCtxCreate_v2": 1, "cuCtxDestroy_v2": -1}.get(name, 0) if result == 0 else 0
            return result

        return call


@pytest.fixture
def machine(monkeypatch):
    """Make the machine: its cards, its PCI bus, who else is on it, and its CUDA."""

    def make(*cards, pci=None, seen=OTHERS, elsewhere="", cuda_has=None, module="550.163.01", **library):
        fake = FakeNvml(*cards, **library)
        monkeypatch.setattr(pynvml, "nvmlLib", fake)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(nvml, "module_version", lambda: module)
        if pci is None:
            pci = [(f"0000:{card.bus:02x}:00.0", "nvidia", True) for card in cards]
        on_bus = [PciCard(vendor="NVIDIA", address=at, driver=driver, node=node) for at, driver, node in pci]
        monkeypatch.setattr(gpu, "pci_cards", lambda: on_bus)
        monkeypatch.setattr(gpu, "stuck_processes", list)
        owners = gpu_owners.Owners(seen=dict(seen), mine=frozenset({os.getpid()}), elsewhere=elsewhere)
        monkeypatch.setattr(gpu, "find_owners", lambda _cards: owners)
        library_of_cuda = cuda_has or FakeCuda(len(cards))
        monkeypatch.setattr(ctypes, "CDLL", lambda _name: library_of_cuda)
        children = {"precheck_lib.gpu.nvml:read": nvml.read, "precheck_lib.gpu.cuda:probe": cuda.probe}
        monkeypatch.setattr(Context, "in_child", lambda _self, target, argument, *_, **__: children[target](argument))
        monkeypatch.setattr(gpu, "_AGAIN_SECONDS", 0.01)
        return fake

    return make
