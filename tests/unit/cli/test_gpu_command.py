"""`gpu`: a table of the cards, what is wrong with them, and a gate where a number is expected."""

from __future__ import annotations

import json

import pytest

from tests.unit.gpu.fake_nvml import GIB, FakeCard, an_instance


def test_the_cards_are_a_table_with_what_uses_them(command, machine):
    machine(FakeCard(processes=[(501, 5 * GIB)]), FakeCard(bus=0x5E, mig=1, instances=[an_instance()]))
    ended = command("gpu")
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[:5] == [
        "NVIDIA driver 550.163.01, CUDA 12.4; 2 listed, 2 of NVIDIA on PCI",
        "GPU  NAME                               PCI           MEMORY IN USE    TEMP   PROCESSES",
        "0    NVIDIA H100 80GB HBM3              0000:3b:00.0  5 GiB of 80 GiB  41 °C  501 (5 GiB)",
        "1    NVIDIA H100 80GB HBM3              0000:5e:00.0  0 B of 80 GiB    41 °C",
        "0    NVIDIA H100 80GB HBM3 MIG 1g.10gb  MIG-00010000  0 B of 10 GiB",
    ]
    assert ended.out[5] == "warning: GPU 0 (NVIDIA H100 80GB HBM3, 0000:3b:00.0) is used by others [gpu.foreign]"
    assert ended.out[6].startswith("    why: pid 501 (python3")


def test_where_nothing_is_wrong_it_says_so(command, machine):
    machine(FakeCard())
    assert command("gpu").out[-1] == "nothing is wrong with them"


def test_what_is_wrong_is_said_and_only_a_gate_ends_with_it(command, machine):
    machine(FakeCard(), FakeCard(bus=0x5E, errors={"GetHandleByIndex": 15}))
    ended = command("gpu")
    assert ended.code == 0
    assert "error: GPU 1 is lost: the driver cannot reach it any more [gpu.lost]" in ended.out
    assert command("gpu", "--expect", "2").code == 1
    assert command("gpu", "--expect", "1").code == 1  # a broken card is one too many


def test_so_many_whole_ones_as_expected_pass(command, machine):
    machine(FakeCard(), FakeCard(bus=0x5E))
    assert [command("gpu", "--expect", number).code for number in ("1", "2", "3")] == [1, 0, 1]


def test_a_laptop_without_a_gpu_is_no_fault(command, machine):
    machine(pci=[], errors={"nvmlInitWithFlags": 12})
    ended = command("gpu")
    assert (ended.code, ended.out) == (0, ["this machine has no NVIDIA GPU (and none of another maker on PCI)"])
    assert command("gpu", "--expect", "0").code == 0
    assert command("gpu", "--expect", "1").code == 3


def test_a_driver_that_does_not_answer_is_never_a_zero(command, machine):
    machine(FakeCard(), errors={"nvmlInitWithFlags": 999})
    assert command("gpu").code == 3
    assert command("gpu", "--expect", "1").code == 3


def test_what_was_read_can_be_recorded_and_judged_elsewhere(command, machine, tmp_path):
    machine(FakeCard(recovery=1))
    recorded = command("gpu", "--record", "here.json")
    machine(errors={"nvmlInitWithFlags": 12}, pci=[])
    replayed = command("gpu", "--replay", "here.json")
    assert replayed.out == recorded.out
    assert "[gpu.reset]" in replayed.out[3]
    document = json.loads("\n".join(command("gpu", "--replay", "here.json", "--json").out))
    assert document["reading"] == json.loads((tmp_path / "here.json").read_text())
    assert [finding["code"] for finding in document["findings"]] == ["gpu.reset"]


def test_a_recording_replaces_nothing(command, machine, tmp_path):
    machine(FakeCard())
    (tmp_path / "there.json").write_text("mine")
    ended = command("gpu", "--record", "there.json")
    assert ended.code == 2
    assert "cannot be written to 'there.json': File exists" in ended.err[0]
    assert (tmp_path / "there.json").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "x" * 100, '{"source": 1}', "[" * 100_000, '{"reading": []}'])
def test_what_is_no_recording_is_refused(command, tmp_path, text):
    (tmp_path / "odd.json").write_text(text)
    ended = command("gpu", "--replay", "odd.json")
    assert ended.code == 2
    assert "is not what `precheck gpu --record` writes" in ended.err[0]


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "", "99999", "²"])
def test_what_is_no_number_of_gpus_is_refused(command, number):
    assert command("gpu", f"--expect={number}").code == 2
