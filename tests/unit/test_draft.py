"""A draft of a spec: what should be as checks, what is odd as comments, and of strangers what is harmless alone."""

from __future__ import annotations

import re
from unittest import mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from precheck_lib.draft import draft
from precheck_lib.gpu.reading import PciCard
from precheck_lib.redact import Redactor
from precheck_lib.spec import load_spec
from precheck_lib.spec.variables import expand
from precheck_lib.spec.yaml_text import read_yaml
from precheck_lib.survey import Machine, Ollama, OpenAi, Port, Resident, Room, Tag, Tool, writing
from precheck_lib.survey.writing import option, scalar

GIB = 1 << 30
ROOM = Room(path="/srv/work", free=500 * GIB)
URL = "http://127.0.0.1:11434/api"
DIGEST = "0123456789ab" + "c" * 52
GOOD = Machine(
    room=ROOM,
    ports=(Port(port=8000, process="vllm", user="ci"), Port(port=11434, process="ollama", user="ollama")),
    ollama=Ollama(
        url=URL,
        port=11434,
        version="0.12.3",
        tags=(Tag(name="qwen3:8b", digest=DIGEST), Tag(name="tiny:1b")),
        resident=(Resident(name="qwen3:8b", size=8 * GIB, on_gpu=8 * GIB, context=32768),),
    ),
    openai=(OpenAi(port=8000, models=("embed-it", "Qwen/Qwen3-8B"), first="Qwen/Qwen3-8B"),),
    gpus=(PciCard(vendor="NVIDIA", address="0000:01:00.0", driver="nvidia"),),
    tools=(Tool(name="git", version="2.43.0"), Tool(name="ollama", version="0.12.3")),
)


@pytest.fixture
def load(tmp_path):
    """Load a draft as a user would; its text must be all that a spec may hold."""

    def loaded(text):
        file = tmp_path / "precheck.yml"
        file.write_text(text, encoding="utf-8")
        return {check.id: check.options for check in load_spec(str(file)).checks}

    return loaded


def odd(machine):
    """What a draft calls odd, each as one line."""
    with mock.patch.object(writing, "_WIDTH", 1 << 20):
        return re.findall(r"  # odd today: (.*)", draft(machine))


def ollama(**changes):
    """The good machine with another Ollama."""
    old = {name: getattr(GOOD.ollama, name) for name in GOOD.ollama.__struct_fields__}
    return machine(ollama=Ollama(**{**old, **changes}))


def machine(**changes):
    """The good machine with something else."""
    return Machine(**{**{name: getattr(GOOD, name) for name in GOOD.__struct_fields__}, **changes})


def resident(**changes):
    """The good machine with another row of the inventory."""
    return ollama(resident=(Resident(**{"name": "qwen3:8b", "size": 8 * GIB, "on_gpu": 8 * GIB, **changes}),))


# What should be -------------------------------------------------------------------------------------------------------


def test_a_machine_with_nothing_on_it_has_a_spec_all_the_same(load):
    checks = load(draft(Machine(room=ROOM)))
    assert list(checks) == ["room"]
    assert (checks["room"].path, checks["room"].free) == ("/srv/work", 10 * GIB)


def test_a_good_machine_has_a_check_for_each_thing_and_nothing_odd(load):
    assert list(load(draft(GOOD))) == [
        "tools",
        "gpu",
        "ollama",
        "ollama-port",
        "ollama-models",
        "ollama-gpu",
        "openai-8000",
        "room",
    ]
    assert odd(GOOD) == []


def test_the_server_and_the_programs_have_to_be_no_older_than_now(load):
    checks = load(draft(GOOD))
    assert checks["ollama"].version == ">=0.12.3"
    (git,) = checks["tools"].commands
    assert (git.argv, git.version) == (["git", "--version"], ">=2.43.0")


def test_models_are_pinned_by_their_digests_where_those_are_known(load):
    assert load(draft(GOOD))["ollama-models"].models == {"qwen3:8b": {"digest": "0123456789ab"}, "tiny:1b": None}


def test_resident_models_are_only_looked_at_with_the_context_that_they_have(load):
    check = load(draft(GOOD))["ollama-gpu"]
    assert (check.mode, check.models, check.context_length) == ("verify", ["qwen3:8b"], 32768)


def test_of_several_contexts_the_smallest_is_what_all_have(load):
    rows = [Resident(name=name, size=1, on_gpu=1, context=context) for name, context in (("a:1", 8192), ("b:1", 65536))]
    assert load(draft(ollama(resident=tuple(rows))))["ollama-gpu"].context_length == 8192


def test_a_server_of_openais_api_makes_a_token_with_one_model_the_others_are_named(load):
    text = draft(GOOD)
    check = load(text)["openai-8000"]
    assert (check.url, check.models) == ("http://localhost:8000/v1", ["Qwen/Qwen3-8B"])
    assert "  # It lists as well: embed-it.\n" in text


def test_a_model_that_is_listed_twice_is_named_once(load):
    text = draft(machine(openai=(OpenAi(port=8000, models=("a", "b", "b"), first="a"),)))
    assert "  # It lists as well: b.\n" in text


@pytest.mark.parametrize(
    ("owner", "process", "user"),
    [
        (Port(port=11434, process="ollama", user="me"), "ollama", None),
        (Port(port=11434, user="svc"), None, "svc"),
        (Port(port=11434), None, None),
    ],
)
def test_the_port_of_the_ollama_is_its_process_or_else_its_user_as_far_as_seen(load, owner, process, user):
    check = load(draft(machine(ports=(owner,))))["ollama-port"]
    assert (check.port, check.process, check.user) == (11434, process, user)


def test_an_ollama_on_another_machine_has_no_port_here(load):
    assert "ollama-port" not in load(draft(ollama(url="http://gpu-2:11434/api", port=None)))


def test_a_cloud_model_is_not_one_that_has_to_be_here(load):
    text = draft(ollama(tags=(Tag(name="qwen3:8b"), Tag(name="big:cloud", remote=True))))
    assert list(load(text)["ollama-models"].models) == ["qwen3:8b"]
    assert "which run on no GPU of this machine: big:cloud." in text


def test_of_many_models_a_dozen_have_to_be_there_and_some_are_named(load):
    text = draft(ollama(tags=tuple(Tag(name=f"m{number}:1b") for number in range(40))))
    assert len(load(text)["ollama-models"].models) == 12
    assert "m12:1b" in text
    assert "m19:1b and 20 more." in text


def test_without_a_resident_model_the_check_that_loads_one_is_a_comment(load):
    text = draft(ollama(resident=()))
    assert "ollama-gpu" not in load(text)
    assert "it changes the server:\n  # - id: ollama-gpu\n" in text


def test_keys_are_names_in_a_comment_and_secret(load):
    text = draft(machine(keys=("HF_TOKEN", "OPENAI_API_KEY")))
    assert "keys" not in load(text)
    assert "  #       HF_TOKEN: {secret: true}\n  #       OPENAI_API_KEY: {secret: true}\n" in text


def test_nvidia_smi_is_a_check_in_a_comment_and_never_run(load):
    text = draft(machine(tools=(Tool(name="nvidia-smi", run=False),)))
    assert "nvidia-smi" not in re.sub(r"(?m)^ *#.*", "", text)
    assert "#   command: {argv: [nvidia-smi, " in text


def test_what_is_commented_out_is_right_once_the_marks_are_taken_away(load):
    tools = (*GOOD.tools, Tool(name="nvidia-smi", run=False))
    there = draft(machine(tools=tools, keys=("HF_TOKEN",), ollama=Ollama(url=URL, tags=GOOD.ollama.tags, resident=())))
    text = re.sub(r"(?m)^  # ((?:- id:|  ).*)", r"  \1", there)
    assert {"driver", "keys", "ollama-gpu"} <= set(load(text))
    assert load(text)["keys"].required["HF_TOKEN"].secret is True


def test_other_ports_are_named_with_their_owners():
    ports = (Port(port=5432, process="postgres", user="pg"), Port(port=6379, user="redis"))
    assert "too: 5432 (postgres, user pg), 6379 (user redis)." in draft(machine(ports=ports)).replace("\n  # ", " ")


# What is odd ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (resident(on_gpu=6 * GIB), "qwen3:8b is only 75 % on the GPU: 2 GiB of 8 GiB are on the CPU"),
        (resident(on_gpu=0), "qwen3:8b is not on the GPU at all: 8 GiB of 8 GiB are on the CPU"),
        (resident(on_gpu=None), "it is not known how much of qwen3:8b is on the GPU"),
        (resident(on_gpu=9 * GIB), "it is not known how much of qwen3:8b is on the GPU"),
        (
            resident(context=4096),
            "qwen3:8b has a context of 4096, which Ollama gives by itself; write what your jobs need",
        ),
        (ollama(version="0.12.1"), "the running server is 0.12.1, the program on PATH is 0.12.3"),
        (ollama(trouble="nobody listens"), "no Ollama answers there: nobody listens"),
        (ollama(tags=None), "the list of installed models could not be read"),
        (ollama(tags=()), "no model is installed that runs on this machine"),
        (ollama(resident=None), "what is in memory could not be read"),
        (
            machine(ports=(Port(port=11434), GOOD.ports[0])),
            "port 11434 is owned by unknown: who listens cannot be seen from here",
        ),
        (
            machine(ports=(Port(port=8000), GOOD.ports[1])),
            "port 8000 is owned by unknown: who listens cannot be seen from here",
        ),
        (
            machine(ports=(*GOOD.ports, Port(port=9999))),
            "owned by unknown, who listens cannot be seen from here: port 9999",
        ),
        (machine(openai=(OpenAi(port=8000),)), "the server on port 8000 lists no model"),
        (
            machine(gpus=(PciCard(vendor="AMD", address="0000:03:00.0"),)),
            "no driver is loaded for the AMD GPU at 0000:03:00.0",
        ),
        (
            machine(gpus=(PciCard(vendor="NVIDIA", address="0000:01:00.0", driver="nouveau"),)),
            "the NVIDIA GPU at 0000:01:00.0 has the driver nouveau, which computes nothing",
        ),
        (
            machine(tools=(Tool(name="codex", trouble="it did not end in 4 s"),)),
            "`codex --version`: it did not end in 4 s",
        ),
        (machine(room=Room(path="/w", free=3 * GIB)), "3 GiB are free"),
        (machine(room=Room(path="/w")), "how much room there is could not be read"),
    ],
)
def test_what_is_odd_is_marked(load, today, said):
    assert odd(today) == [said]
    assert load(draft(today))


def test_ports_that_cannot_be_read_are_odd_and_their_owners_unknown():
    assert odd(machine(ports=None)) == [
        "port 8000 is owned by unknown: who listens cannot be seen from here",
        "which ports are listened on could not be read",
    ]


@pytest.mark.parametrize(
    ("gpu", "path"),
    [
        (PciCard(vendor="AMD", address="0000:01:00.0"), "/sys/bus/pci/drivers/amdgpu/0000:01:00.0"),
        (PciCard(vendor="Intel", address="0000:01:00.0", driver="xe"), "/sys/bus/pci/drivers/xe/0000:01:00.0"),
    ],
)
def test_a_gpu_has_to_have_the_driver_that_computes_whatever_it_has_today(load, gpu, path):
    assert load(draft(machine(gpus=(gpu,))))["gpu-0000-01-00-0"].path == path


def test_the_nvidia_gpus_of_this_machine_are_counted_in_one_check(load):
    cards = (
        PciCard(vendor="NVIDIA", address="0000:01:00.0", driver="nvidia", node=True),
        PciCard(vendor="NVIDIA", address="0000:02:00.0"),
        PciCard(vendor="NVIDIA", address="0000:03:00.0", driver="vfio-pci"),
        PciCard(vendor="NVIDIA", address="0000:04:00.0", driver="nvidia", node=False),
    )
    assert load(draft(machine(gpus=cards)))["gpu"].count == 2
    assert "gpu" not in load(draft(machine(gpus=cards[2:])))


def test_a_gpu_whose_driver_nobody_can_know_is_only_named(load):
    today = machine(gpus=(PciCard(vendor="Intel", address="0000:00:02.0"),))
    assert not any(id_.startswith("gpu") for id_ in load(draft(today)))
    assert "GPU at 0000:00:02.0 is not checked" in draft(today)


def test_a_server_that_does_not_answer_has_to(load):
    checks = load(draft(machine(ollama=Ollama(url=URL, trouble="refused"))))
    assert checks["ollama"].url == URL
    assert "ollama-models" not in checks


# What strangers say ---------------------------------------------------------------------------------------------------

HOSTILE = [
    "a\n  - id: mine\n    tcp: {url: h}",
    "a # odd",
    "a: b",
    "{a: b}, [",
    "'\"",
    "- x",
    "*alias",
    "&anchor",
    "!!python/object:os.system",
    "<<",
    "null",
    "true",
    "12",
    "=",
    "${HOME}",
    "${",
    "$$x",
    "##[error]x",
    "::error::x",
    "\x1b[31mred",
    "a\u202eb",
    "a\u2028b",
    "a\u0085b",
    "a\x00b",
    "a\ufffeb",
    "\ud800",
    "\ufeffx",
    "x" * 5000,
    " ",
    "",
    "ünï/cödé:1",
]


def strange(text):
    """A machine on which everything that can call itself something calls itself so."""
    return Machine(
        room=Room(path=text, free=1),
        ports=(Port(port=1, process=text, user=text), Port(port=2, user=text), Port(port=8000, process=text)),
        ollama=Ollama(
            url=text,
            port=1,
            given=True,
            version=text,
            tags=(Tag(name=text, digest=text), Tag(name=text), Tag(name=f"b{text}", remote=True)),
            resident=(Resident(name=text, size=2, on_gpu=1, context=4096),) * 2,
        ),
        openai=(OpenAi(port=8000, models=(text, f"{text}2"), first=text),),
        gpus=(PciCard(vendor="NVIDIA", address=text, driver=text),),
        tools=(Tool(name="git", version=text), Tool(name="uv", trouble=text), Tool(name="ollama", version=text)),
    )


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_whatever_strangers_call_themselves_the_draft_is_a_spec_of_our_checks(load, text):
    written = draft(strange(text))
    ids = [re.sub(r"^gpu-.*", "gpu", id_) for id_ in load(written)]
    assert set(ids) <= {"tools", "gpu", "ollama", "ollama-port", "ollama-models", "ollama-gpu", "openai-8000", "room"}
    assert "##[" not in written
    assert all(line.isprintable() and line.encode() for line in written.splitlines())
    assert not any(line.lstrip().startswith("::") for line in written.splitlines())


@pytest.mark.parametrize("text", ["${HOME}", "$$x", "${", "a$b"])
def test_what_looks_like_a_variable_in_a_name_is_the_name(load, text):
    checks = load(draft(strange(text)))
    assert expand(checks["openai-8000"].models, {"HOME": "/root"}, {}) == [text]
    assert expand(checks["ollama-gpu"].models, {"HOME": "/root"}, {}) == [text]
    assert list(expand(checks["ollama-models"].models, {"HOME": "/root"}, {})) == [text]


def test_names_that_cannot_be_written_are_left_out_and_said():
    text = draft(ollama(tags=(Tag(name="a\nb:1"), Tag(name="qwen3:8b"))))
    assert "no spec should hold, and they are left out: a b:1\n" in text.replace("\n  # ", " ")


def test_a_long_comment_goes_on_in_the_next_line(load):
    today = ollama(tags=tuple(Tag(name=f"a-model-of-a-long-name-{number}:1b") for number in range(40)))
    lines = draft(today).splitlines()
    assert max(map(len, lines)) <= 120
    assert load(draft(today))


def test_a_secret_is_in_no_line_whoever_says_it(load):
    secret = "correct-horse-battery"
    hide = Redactor([secret]).text
    written = draft(strange(f"x-{secret}:1"), hide)
    assert secret not in written
    assert load(written)["ollama"].url == "${OLLAMA_HOST}"


@pytest.mark.parametrize("url", ["http://me:pass@h:1/api", ""])
def test_a_url_with_a_password_or_none_at_all_stays_in_the_environment(load, url):
    written = draft(ollama(url=url, given=True))
    assert "pass@" not in written
    assert {load(written)[id_].url for id_ in ("ollama", "ollama-models", "ollama-gpu")} == {"${OLLAMA_HOST}"}


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff\ufeff"), min_size=1))
def test_a_scalar_is_read_back_as_the_text_that_it_was(text):
    written = f"{{a: [{scalar(text)}], b: {scalar(text)}}}\n"
    document, _ = read_yaml(written.encode(), "it.yml")
    assert document == {"a": [text], "b": text}
    assert yaml.safe_load(written) == document
    assert "\n" not in scalar(text)


@settings(max_examples=200, deadline=None)
@given(st.text("${}#:-A/", min_size=1))
def test_an_option_means_the_text_that_it_was(text):
    document, _ = read_yaml(f"a: {option(text)}\n".encode(), "it.yml")
    assert expand(document["a"], {"A": "no"}, {}) == text
