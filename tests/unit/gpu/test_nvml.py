"""Reading through the real binding of NVML: what is counted, what is unknown, what is a trouble of a card."""

from __future__ import annotations

import pytest

from precheck_lib.gpu.reading import Holder
from tests.unit.gpu.fake_nvml import GIB, FakeCard, an_instance


def test_a_healthy_card_is_read_whole(read):
    reading = read(FakeCard(processes=[(11, 2 * GIB), (12, None)]))
    assert (reading.module, reading.cuda, reading.count, reading.trouble) == ("550.163.01", (12, 4), 1, [])
    (card,) = reading.cards
    assert (card.name, card.bus, card.total, card.used) == ("NVIDIA H100 80GB HBM3", "0000:3b:00.0", 80 * GIB, 2 * GIB)
    assert card.holders == [Holder(pid=11, bytes=2 * GIB), Holder(pid=12)]
    assert (card.recovery, card.uncorrected, card.remaps, card.retirement_pending) == (0, 0, (0, 0, 0, 0), False)
    assert (card.throttle, card.temperature, card.margin, card.persistence) == (1, 41, 46, True)
    assert card.trouble == []


def test_what_the_driver_keeps_for_itself_is_not_in_use(read):
    (card,) = read(FakeCard()).cards
    assert card.used == 0


@pytest.mark.parametrize(
    "missing",
    [
        ("nvmlDeviceGetMemoryInfo_v2",),
        ("nvmlDeviceGetCurrentClocksEventReasons",),
        ("nvmlDeviceGetMarginTemperature", "nvmlDeviceGetMigMode", "nvmlDeviceGetRemappedRows"),
        tuple(
            f"nvmlDeviceGet{kind}RunningProcesses_v{version}"
            for kind in ("Compute", "Graphics", "MPSCompute")
            for version in (3, 2)
        ),
    ],
)
def test_an_old_driver_that_lacks_a_function_is_no_trouble(read, missing):
    reading = read(FakeCard(), missing=missing)
    assert reading.trouble == reading.cards[0].trouble == []
    assert reading.cards[0].total == 80 * GIB
    assert reading.cards[0].throttle == 1


def test_a_card_that_has_no_such_sensor_is_no_trouble(read):
    bare = FakeCard(recovery=None, uncorrected=None, remaps=None, retirement_pending=None, margin=None, mig=None)
    (card,) = read(bare).cards
    assert (card.recovery, card.uncorrected, card.remaps, card.retirement_pending, card.margin) == (None,) * 5
    assert card.trouble == []


def test_a_lost_card_is_counted_by_the_library_and_has_its_trouble(read):
    reading = read(FakeCard(), FakeCard(bus=0x5E, errors={"GetHandleByIndex": 15}))
    assert reading.count == 2
    assert [(one.call, one.code) for one in reading.cards[1].trouble] == [("nvmlDeviceGetHandleByIndex", 15)]


def test_every_refusal_of_a_card_is_kept(read):
    (card,) = read(FakeCard(errors={"*": 999})).cards
    assert {one.code for one in card.trouble} == {999}
    assert {"nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"} <= {one.call for one in card.trouble}


@pytest.mark.parametrize("code", [9, 12, 17, 18, 999])
def test_a_library_that_does_not_begin_is_a_trouble_of_the_whole(read, code):
    reading = read(FakeCard(), errors={"nvmlInitWithFlags": code})
    assert [(one.call, one.code) for one in reading.trouble] == [("nvmlInit", code)]
    assert (reading.count, reading.cards) == (None, [])


def test_instances_of_a_split_card_are_read_and_gaps_are_none(read):
    split = FakeCard(mig=1, instances=[an_instance(), None, an_instance(processes=[(5, GIB)])])
    (card,) = read(split).cards
    assert [(one.index, one.total, one.used) for one in card.instances] == [(0, 10 * GIB, 0), (2, 10 * GIB, GIB)]
    assert [one.uuid[:4] for one in card.instances] == ["MIG-", "MIG-"]


def test_a_split_card_in_a_container_may_hide_its_own_memory(read):
    split = FakeCard(mig=1, instances=[an_instance()], errors={"GetMemoryInfo": 4})
    (card,) = read(split).cards
    assert (card.total, card.trouble) == (None, [])


def test_a_count_without_an_answer_is_a_trouble(read):
    reading = read(FakeCard(), errors={"nvmlDeviceGetCount": 999})
    assert [(one.call, one.code) for one in reading.trouble] == [("nvmlDeviceGetCount", 999)]
    assert reading.cards == []
