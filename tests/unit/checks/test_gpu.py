"""`gpu`: broken machines are red and say why; healthy, busy and shared ones are ready."""

from __future__ import annotations

import os

import pytest

from precheck_lib.checks import gpu, gpu_owners
from precheck_lib.checks.look import Seen
from precheck_lib.gpu import nvml
from tests.unit.gpu.fake_nvml import GIB, FakeCard, an_instance
from tests.unit.gpu.machine import OTHERS, FakeCuda


def codes(checker, options=None, **more):
    error = checker.error("gpu", {"settle": "0s", **(options or {})}, **more)
    return error.word, [finding.code for finding in error.findings if finding.severity == "error"]


def warned(checker, options=None, **more):
    return [finding.code for finding in checker.passes("gpu", {"settle": "0s", **(options or {})}, **more)]


# Healthy, busy, shared: ready -----------------------------------------------------------------------------------------


def eight(**more):
    return [FakeCard(bus=0x10 + number, **more) for number in range(8)]


OLLAMA = [(502, 30 * GIB)]


@pytest.mark.parametrize(
    ("cards", "more"),
    [
        ([FakeCard()], {}),
        (eight(), {}),
        ([FakeCard(processes=OLLAMA)], {}),
        ([FakeCard(processes=[(503, GIB // 4)])], {}),
        ([FakeCard(persistence=0)], {}),
        ([FakeCard(compute_mode=3)], {"cuda_has": FakeCuda(1, cuCtxCreate_v2=46)}),
        ([FakeCard(unowned=GIB // 2)], {}),
        ([FakeCard(processes=[(90001, 9 * GIB)])], {"seen": {}, "elsewhere": "a container"}),
        ([FakeCard(throttle=0x1 | 0x4 | 0x20)], {}),
        ([FakeCard(mig=1, instances=[an_instance()])], {}),
        ([FakeCard(mig=1, instances=[an_instance()], errors={"GetMemoryInfo": 4})], {}),
        ([FakeCard(mig=None, recovery=None, uncorrected=None, remaps=None, retirement_pending=None, margin=None)], {}),
        ([FakeCard()], {"missing": ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons")}),
        # Of a host with four cards this container has one: the bus shows all.
        (
            [FakeCard()],
            {"pci": [("0000:3b:00.0", "nvidia", True), *((f"0000:4{n}:00.0", "nvidia", False) for n in "012")]},
        ),
        ([FakeCard()], {"pci": [("0000:3b:00.0", "nvidia", True), ("0000:5e:00.0", "vfio-pci", None)]}),
        ([FakeCard()], {"pci": []}),
    ],
)
def test_a_healthy_machine_is_ready_however_busy_or_shared(checker, machine, cards, more):
    machine(*cards, **more)
    checked = checker.passes("gpu", {"settle": "0s"})
    assert {finding.severity for finding in checked} <= {"warning"}
    assert {finding.code for finding in checked} <= {"gpu.busy"}


def test_memory_that_a_tolerated_server_holds_counts_as_free(checker, machine):
    machine(FakeCard(processes=OLLAMA))
    assert warned(checker, {"free": "70GiB", "tolerate": ["ollama"]}) == []
    assert codes(checker, {"free": "70GiB"}) == ("failed", ["gpu.memory"])


def test_what_this_job_itself_holds_counts_as_free(checker, machine):
    machine(FakeCard(processes=[(os.getpid(), 30 * GIB)]), seen={os.getpid(): Seen(pid=os.getpid(), name="x")})
    assert warned(checker, {"free": "70GiB", "exclusive": True}) == []


# Broken: red, with the reason -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "more", "ended"),
    [
        ([FakeCard()], {"errors": {"nvmlInitWithFlags": 18}}, ("failed", ["gpu.mismatch"])),
        ([FakeCard()], {"errors": {"nvmlInitWithFlags": 9}}, ("error", ["gpu.driver"])),
        ([FakeCard()], {"errors": {"nvmlInitWithFlags": 12}}, ("error", ["gpu.library"])),
        ([FakeCard()], {"errors": {"nvmlInitWithFlags": 999}}, ("error", ["gpu.refused"])),
        ([FakeCard()], {"errors": {"nvmlInitWithFlags": 17}}, ("error", ["gpu.refused"])),
        ([FakeCard()], {"errors": {"nvmlDeviceGetCount": 999}}, ("error", ["gpu.refused"])),
        ([], {"pci": [], "errors": {"nvmlInitWithFlags": 12}}, ("error", ["gpu.none"])),
        ([], {"pci": []}, ("error", ["gpu.none"])),
        ([FakeCard(errors={"GetHandleByIndex": 15})], {}, ("failed", ["gpu.lost", "gpu.count"])),
        ([FakeCard(errors={"*": 15})], {}, ("failed", ["gpu.lost", "gpu.count"])),
        ([FakeCard(), FakeCard(bus=0x5E, errors={"GetHandleByIndex": 15})], {}, ("failed", ["gpu.lost"])),
        ([FakeCard(errors={"GetHandleByIndex": 16})], {}, ("failed", ["gpu.reset", "gpu.count"])),
        ([FakeCard(errors={"*": 999})], {}, ("failed", ["gpu.unread", "gpu.count"])),
        ([FakeCard(name="")], {}, ("failed", ["gpu.unread", "gpu.count"])),
        ([FakeCard(recovery=1)], {}, ("failed", ["gpu.reset"])),
        ([FakeCard(uncorrected=3)], {}, ("failed", ["gpu.ecc"])),
        ([FakeCard(remaps=(0, 1, 1, 0))], {}, ("failed", ["gpu.remap"])),
        ([FakeCard(remaps=(0, 0, 0, 1))], {}, ("failed", ["gpu.remap"])),
        ([FakeCard(compute_mode=2)], {}, ("failed", ["gpu.prohibited"])),
        ([FakeCard(errors={"GetTotalEccErrors": 999})], {}, ("failed", ["gpu.unread"])),
        (
            [FakeCard()],
            {"pci": [("0000:3b:00.0", "nvidia", True), ("0000:5e:00.0", "nvidia", True)]},
            ("failed", ["gpu.missing"]),
        ),
        ([FakeCard()], {"cuda_has": FakeCuda(1, cuInit=999)}, ("failed", ["gpu.cuda"])),
        ([FakeCard()], {"cuda_has": FakeCuda(0)}, ("failed", ["gpu.cuda"])),
        ([FakeCard(), FakeCard(bus=0x5E)], {"cuda_has": FakeCuda(1)}, ("failed", ["gpu.cuda"])),
        ([FakeCard()], {"cuda_has": FakeCuda(1, cuCtxCreate_v2=214)}, ("failed", ["gpu.cuda"])),
        ([FakeCard()], {"cuda_has": FakeCuda(1, cuMemAlloc_v2=700)}, ("failed", ["gpu.cuda"])),
    ],
)
def test_a_broken_machine_is_red_and_says_how_it_is_broken(checker, machine, cards, more, ended):
    machine(*cards, **more)
    assert codes(checker) == ended


def test_versions_that_differ_are_both_named(checker, machine, monkeypatch):
    machine(FakeCard(), errors={"nvmlInitWithFlags": 18})
    monkeypatch.setattr(nvml, "_library_version", lambda: "550.144")
    (finding,) = checker.error("gpu", {}).findings
    assert finding.message == "the kernel runs NVIDIA driver 550.163.01, and the library on disk is 550.144"


def test_a_context_that_cuda_has_made_is_given_back(checker, machine):
    library = FakeCuda(2, cuMemAlloc_v2_1=2)
    machine(FakeCard(), FakeCard(bus=0x5E), cuda_has=library)
    assert warned(checker) == ["gpu.busy"]
    assert library.held == 0


def test_without_the_probe_cuda_is_left_alone(checker, machine):
    machine(FakeCard(), cuda_has=FakeCuda(1, cuInit=999))
    assert warned(checker, {"probe": False}) == []


# What a spec asks for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"count": 3}, ["gpu.count"]),
        ({"count": 1}, ["gpu.count"]),
        ({"min": 3}, ["gpu.count"]),
        ({"name": "A100"}, ["gpu.model", "gpu.model"]),
        ({"total": "81GiB"}, ["gpu.size", "gpu.size"]),
        ({"driver": ">=560"}, ["gpu.version"]),
        ({"cuda": ">=12.6"}, ["gpu.version"]),
        ({"margin": 50}, ["gpu.hot", "gpu.hot"]),
        ({"link_width": 32}, ["gpu.link", "gpu.link"]),
        ({"free": "80GiB"}, ["gpu.memory", "gpu.memory"]),
        ({"count": 0}, ["gpu.count"]),
    ],
)
def test_what_is_asked_for_is_compared(checker, machine, options, wanted):
    machine(FakeCard(), FakeCard(bus=0x5E))
    assert codes(checker, options) == ("failed", wanted)


def test_what_is_asked_for_and_there_passes(checker, machine):
    machine(FakeCard(), FakeCard(bus=0x5E))
    options = {"count": 2, "name": "h100", "total": "80GiB", "free": "79GiB", "driver": ">=550,<600", "cuda": ">=12.4"}
    assert warned(checker, {**options, "margin": 40, "link_width": 16, "exclusive": True}) == []


def test_where_none_may_be_there_is_none(checker, machine):
    machine(pci=[], errors={"nvmlInitWithFlags": 12})
    assert checker.passes("gpu", {"count": 0}) == []


def test_where_none_may_be_there_one_on_the_bus_is_too_many(checker, machine):
    machine(pci=[("0000:3b:00.0", None, None)], errors={"nvmlInitWithFlags": 9})
    assert codes(checker, {"count": 0}) == ("failed", ["gpu.count"])


@pytest.mark.parametrize(
    ("chosen", "ended"),
    [
        ("0", None),
        ("1,0", None),
        ("GPU-00000001", None),
        ("0,7,1", None),  # as CUDA reads it: what follows the 7 does not count
        ("", ["gpu.hidden"]),
        ("-1", ["gpu.hidden"]),
        ("9", ["gpu.hidden"]),
        ("GPU-0000000", ["gpu.hidden"]),  # both begin so
    ],
)
def test_cuda_visible_devices_says_which_are_this_runners(checker, machine, chosen, ended):
    broken = FakeCard(bus=0x5E, recovery=1 if chosen in ("0", "0,7,1") else 0)
    machine(FakeCard(), broken)
    env = {"CUDA_VISIBLE_DEVICES": chosen}
    if ended is None:
        assert warned(checker, env=env) == []
    else:
        assert codes(checker, env=env) == ("failed", ended)


# Who uses them --------------------------------------------------------------------------------------------------------


def test_others_are_a_warning_and_a_failure_where_nobody_else_may_be(checker, machine):
    machine(FakeCard(processes=[(501, 5 * GIB), (502, 2 * GIB)]))
    (finding,) = checker.passes("gpu", {"settle": "0s"})
    assert (finding.code, finding.severity) == ("gpu.foreign", "warning")
    assert "pid 501 (python3, user jane, /opt/other/bin/python3) holds 5 GiB" in finding.evidence
    assert codes(checker, {"exclusive": True}) == ("failed", ["gpu.foreign"])
    machine(FakeCard(processes=OLLAMA))
    assert codes(checker, {"exclusive": True}) == ("failed", ["gpu.foreign"])
    assert warned(checker, {"exclusive": True, "tolerate": ["/usr/local/bin/ollama"]}) == []


@pytest.mark.parametrize("card", [FakeCard(unowned=12 * GIB), FakeCard(processes=[(99999, 9 * GIB)])])
def test_memory_without_an_owner_is_a_warning_and_a_failure_where_nobody_else_may_be(checker, machine, card):
    machine(card)
    assert warned(checker) == ["gpu.ownerless"]
    assert codes(checker, {"exclusive": True}) == ("failed", ["gpu.ownerless"])


def test_memory_without_an_owner_is_not_free(checker, machine):
    machine(FakeCard(processes=[(99999, 30 * GIB)]))
    assert codes(checker, {"free": "60GiB", "tolerate": ["ollama"]}) == ("failed", ["gpu.memory", "gpu.ownerless"][:1])


def test_where_the_owners_cannot_be_seen_nobody_is_said_to_be_alone(checker, machine):
    machine(FakeCard(), seen={}, elsewhere="a container with process numbers of its own")
    assert warned(checker) == []
    assert codes(checker, {"exclusive": True}) == ("failed", ["gpu.owners"])


def test_a_job_that_has_just_ended_is_waited_for(checker, machine, monkeypatch):
    dying = FakeCard(processes=[(501, 40 * GIB)])
    machine(dying)
    asked = []

    def find(_cards):
        asked.append(1)
        if len(asked) == 2:
            dying.processes = []
        return gpu_owners.Owners(seen=OTHERS)

    monkeypatch.setattr(gpu, "find_owners", find)
    assert [one.code for one in checker.passes("gpu", {"free": "70GiB", "exclusive": True, "settle": "5s"})] == []
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("card", "code"),
    [
        (FakeCard(throttle=0x8), "gpu.throttled"),
        (FakeCard(throttle=0x40), "gpu.throttled"),
        (FakeCard(throttle=0x80), "gpu.throttled"),
        (FakeCard(link_width=8), "gpu.link"),
        (FakeCard(retirement_pending=1), "gpu.pages"),
        (FakeCard(errors={"GetRemappedRows": 14}), "gpu.inforom"),
        (FakeCard(errors={"GetTemperature": 999}), "gpu.unread"),
        (FakeCard(errors={"GetRemappedRows": 4}), "gpu.unread"),
    ],
)
def test_what_is_worth_a_look_is_a_warning(checker, machine, card, code):
    machine(card)
    assert warned(checker) == [code]


# The child ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"count": 1, "min": 1}, ["count says exactly how many; it does not go with min"]),
        ({"count": -1}, ["count: it has to be 0 or more"]),
        ({"min": 0}, ["min: it has to be 1 or more"]),
        ({"count": 0, "free": "1GiB"}, ["free: count is 0, so there is no card that it could be asked of"]),
    ],
)
def test_options_that_cannot_be_are_refused(checker, options, said):
    assert checker.refused("gpu", options) == said


def test_a_machine_without_a_gpu_is_an_error_for_real(checker):
    if os.path.isdir("/proc/driver/nvidia"):
        pytest.skip("this machine has a GPU")
    assert codes(checker) in [("error", ["gpu.none"]), ("error", ["gpu.library"])]


def test_the_plan_says_what_is_read_and_tried(checker):
    assert checker.planned("gpu", {"count": 2, "free": "20GiB", "exclusive": True}) == [
        "read the GPUs of this machine, in a process of its own: exactly 2, each whole",
        "try CUDA on each: a context, and a MiB of memory that is given back",
        "see 20 GiB free on each (20s for what settles)",
        "see that nobody else uses them",
    ]
