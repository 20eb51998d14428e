"""What the kernel says of GPUs without their driver, on trees of files as machines have them."""

from __future__ import annotations

import pytest

from precheck_lib.gpu.reading import PciCard
from precheck_lib.gpu.system import module_version, pci_cards, stuck_processes


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc" / "driver" / "nvidia" / "gpus").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    return tmp_path


def add(root, address, vendor="0x10de", kind="0x030200", driver="nvidia", minor=None, node=True):
    folder = root / "sys" / "bus" / "pci" / "devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")
    if driver is not None:
        (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    if minor is not None:
        place = root / "proc" / "driver" / "nvidia" / "gpus" / address
        place.mkdir()
        (place / "information").write_text(f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\nBlacklisted:\t No\n")
        if node:
            (root / "dev" / f"nvidia{minor}").touch()


def test_gpus_of_three_vendors_are_found_and_nothing_else(root):
    add(root, "0000:3b:00.0", minor=0)
    add(root, "0000:5e:00.0", minor=1, node=False)
    add(root, "0000:86:00.0", driver="vfio-pci")
    add(root, "0000:87:00.0", driver=None)
    add(root, "0000:0a:00.0", vendor="0x1002", kind="0x120000", driver="amdgpu")
    add(root, "0000:00:02.0", vendor="0x8086", kind="0x030000", driver="i915")
    add(root, "0000:3b:00.1", kind="0x040300", driver="snd_hda_intel")
    add(root, "0000:01:00.0", kind="0x068000")  # a bridge of an NVSwitch
    add(root, "0000:02:00.0", vendor="0x8086", kind="0x120000")  # one for neural networks
    add(root, "0000:03:00.0", vendor="0x1a03", kind="0x030000")  # of the host's management
    add(root, "0000:04:00.0", kind="0x020000")  # a network card
    (root / "sys" / "bus" / "pci" / "devices" / "0000:05:00.0").mkdir()  # says nothing
    assert pci_cards(str(root)) == [
        PciCard(vendor="Intel", address="0000:00:02.0", driver="i915"),
        PciCard(vendor="AMD", address="0000:0a:00.0", driver="amdgpu"),
        PciCard(vendor="NVIDIA", address="0000:3b:00.0", driver="nvidia", node=True),
        PciCard(vendor="NVIDIA", address="0000:5e:00.0", driver="nvidia", node=False),
        PciCard(vendor="NVIDIA", address="0000:86:00.0", driver="vfio-pci"),
        PciCard(vendor="NVIDIA", address="0000:87:00.0", driver=None),
    ]


def test_a_machine_without_a_bus_has_none(tmp_path):
    assert pci_cards(str(tmp_path)) == []
    assert module_version(str(tmp_path)) is None
    assert stuck_processes(str(tmp_path)) == []


def test_the_version_of_the_loaded_driver_is_read_of_the_module(root):
    place = root / "sys" / "module" / "nvidia"
    place.mkdir(parents=True)
    (place / "version").write_text("550.163.01\n")
    assert module_version(str(root)) == "550.163.01"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.06  Wed Jun 26 06:46:07 UTC 2024",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.183.06  Release Build  (dvs-builder@U16)",
    ],
)
def test_where_the_module_is_not_shown_its_own_file_says_the_version(root, line):
    (root / "proc" / "driver" / "nvidia" / "version").write_text(f"{line}\nGCC version:  gcc version 11.4.0\n")
    assert module_version(str(root)) == "535.183.06"


def test_only_what_sleeps_in_a_driver_of_gpus_and_cannot_be_woken_is_stuck(root):
    for pid, name, state, waits in (
        (10, "nvidia-smi", "D", "rm_acquire"),
        (11, "python (x) y", "D", "nvidia_ioctl"),
        (12, "dd", "D", "io_schedule"),
        (13, "nvidia-smi", "S", "do_wait"),
        (14, "python", "D", "amdgpu_job_wait"),
    ):
        place = root / "proc" / str(pid)
        place.mkdir()
        (place / "stat").write_text(f"{pid} ({name}) {state} 1 1 0\n")
        (place / "wchan").write_text(waits)
    assert stuck_processes(str(root)) == [(10, "nvidia-smi"), (11, "python (x) y"), (14, "python")]
