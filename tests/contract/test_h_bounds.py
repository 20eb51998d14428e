"""H1 to H3 and H5: every request and every run is bounded, and the report says by how much."""

from __future__ import annotations

import json

import pytest

from precheck_lib.simulate import Command, Model
from precheck_lib.units import parse_duration
from tests.contract.harness import (
    BRIEF,
    SPECS,
    Family,
    Scripted,
    full_listener,
    open_stage,
    read_yaml,
    run_all,
    run_precheck,
    write_strict,
)

MIB = 1 << 20
FIELDS = {
    "check",
    "method",
    "url",
    "connect_timeout_s",
    "total_timeout_s",
    "allowed_s",
    "retries",
    "status",
    "elapsed_s",
    "bytes",
}


def one_model(**more):
    return {"models": {"qwen3:8b": Model(**more)}}


def requests_of(ended, check):
    return [request for request in ended.json["requests"] if request["check"] == check]


# H1 --------------------------------------------------------------------------------------------------------------

DRIPS = {
    "codex-handshake": ({"codex": "handshake-drip"}, {"codex": {"every": 0.2}}, "codex"),
    "codex-frame": ({"codex": "frame-drip"}, {"codex": {"every": 0.2}}, "codex"),
    "opencode": ({"opencode": "drip"}, {"opencode": {"at": "/config", "every": 0.2}}, "opencode-config"),
    "tags": ({"ollama": "drip"}, {"ollama": {"at": "tags", "every": 0.2}}, "ollama-tags"),
    "unload": ({"ollama": "drip"}, {"ollama": {"at": "unload", "every": 0.2}}, "residency"),
    "load": ({"ollama": "drip"}, {"ollama": {"at": "load", "every": 0.2}}, "residency"),
}


@pytest.fixture(scope="module")
def drips(request, tmp_path_factory):
    """The run in which each of them drips."""
    place = tmp_path_factory.mktemp("drips")
    spec = write_strict(place / "spec", BRIEF)

    def run(name):
        faults, options, _ = DRIPS[name]
        with open_stage(place / name, faults=faults, fault_options=options, **one_model()) as stage:
            return run_precheck(stage, spec=spec)

    function = "test_a_server_that_drips_is_cut_off_at_the_total"
    return Family(request, function, DRIPS, run)


@pytest.mark.parametrize("name", DRIPS)
def test_a_server_that_drips_is_cut_off_at_the_total(name, drips):
    check = DRIPS[name][2]
    ended = drips[name]
    assert ended.code == 28, ended
    assert ended.blockers == [check]
    assert "deadline of 1 s elapsed" in ended.messages[0]
    assert "curl: (28)" in ended.err
    slowest = max(requests_of(ended, check), key=lambda request: request["elapsed_s"])
    if check != "codex":  # there the handshake alone is a request; the exchange has the check's bound
        assert 0.95 <= slowest["elapsed_s"] < 1.5
    assert ended.check(check)["elapsed_s"] < 2.0


def test_a_drip_of_the_inventory_is_no_inventory_until_the_removal_deadline(make_stage, tmp_path):
    stage = make_stage(faults={"ollama": "drip"}, fault_options={"ollama": {"at": "ps", "every": 0.2}}, **one_model())
    ended = run_precheck(stage, spec=write_strict(tmp_path / "spec", BRIEF))
    assert ended.code == 28, ended
    assert "Ollama residency removal deadline elapsed" in ended.err
    reads = [request for request in requests_of(ended, "residency") if request["url"].endswith("/ps")]
    assert len(reads) >= 2
    assert all(read["elapsed_s"] < 1.0 for read in reads)
    assert all(what == "unload" for what, _ in stage.ollama.actions)


CONNECT = {
    "tcp": ("TEST_CODEX_WS_URL", "ws", "codex-tcp"),
    "http": ("TEST_OPENCODE_URL", "http", "opencode-health"),
    "https": ("TEST_OPENCODE_URL", "https", "opencode-health"),
    "tls": ("TEST_OPENCODE_URL", "https", "opencode-health"),  # connected, and the handshake is never answered
}


@pytest.fixture(scope="module")
def unanswered(request, tmp_path_factory):
    """The run against something that takes no connection."""
    place = tmp_path_factory.mktemp("unanswered")
    spec = write_strict(place / "spec", BRIEF)

    def run(name):
        role, scheme, _ = CONNECT[name]
        with open_stage(place / name) as stage, full_listener() as full, Scripted() as silent:
            authority = silent.authority if name == "tls" else full
            return run_precheck({**stage.environment, role: f"{scheme}://{authority}"}, spec=spec)

    return Family(request, "test_connecting_has_a_bound_of_its_own", CONNECT, run)


@pytest.mark.parametrize("name", CONNECT)
def test_connecting_has_a_bound_of_its_own(name, unanswered):
    check = CONNECT[name][2]
    ended = unanswered[name]
    assert ended.code == 28, ended
    assert ended.blockers == [check]
    assert "0.5 s" in ended.messages[0]
    assert 0.45 <= ended.check(check)["elapsed_s"] < 0.95


def test_the_bounds_cover_name_resolution(stage, tmp_path):
    # Whether the resolver of this machine says no or says nothing, it is over by the bound of connecting.
    env = {**stage.environment, "TEST_OPENCODE_URL": "http://no-such-name.precheck.invalid:4096"}
    ended = run_precheck(env, spec=write_strict(tmp_path / "spec", BRIEF))
    assert ended.code in (6, 28), ended
    assert ended.blockers == ["opencode-health"]
    assert ended.check("opencode-health")["elapsed_s"] < 0.95


@pytest.mark.parametrize("fault", ["empty-reply", "status"])
def test_no_request_is_made_a_second_time(fault, make_stage, small_strict):
    stage = make_stage(faults={"opencode": fault})
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code != 0
    assert [request.path for request in stage.opencode.seen] == ["/global/health"]
    assert len(stage.opencode.connections) == 1
    (request,) = requests_of(ended, "opencode-health")
    assert request["retries"] == 0


@pytest.mark.parametrize("step", ["unload", "load"])
def test_no_change_is_asked_for_a_second_time(step, make_stage, small_strict):
    stage = make_stage(faults={"ollama": "reset"}, fault_options={"ollama": {"at": step, "times": 1}}, **one_model())
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 56, ended
    expected = {"unload": ["unload"], "load": ["unload", "load", "unload"]}[step]
    assert [what for what, _ in stage.ollama.actions] == expected


def body_of(size: int) -> bytes:
    head = b'{"models": [], "padding": "'
    return head + b"x" * (size - len(head) - 2) + b'"}'


def answering(body: bytes, *, chunked: bool = False):
    def talk(connection):
        connection.read_until(b"\r\n\r\n", 65536)
        if chunked:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.send(head + body)

    return talk


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_an_answer_of_2_mib_is_read_and_a_byte_more_is_too_large(chunked, stage, small_strict):
    def read(size):
        assert len(body_of(size)) == size
        with Scripted(answering(body_of(size), chunked=chunked)) as server:
            env = {**stage.environment, "TEST_CUSTOM_OLLAMA_URL": f"{server.url}/api"}
            return run_precheck(env, spec=small_strict)

    ended = run_all([lambda: read(2 * MIB), lambda: read(2 * MIB + 1)])
    assert [one.blockers for one in ended] == [["ollama-tags"]] * 2, ended
    assert [one.code for one in ended] == [1, 63]  # an empty list of models is an answer


# H2 --------------------------------------------------------------------------------------------------------------


def test_the_report_lists_every_request_in_order_with_its_bounds(stage):
    ended = run_precheck(stage)
    requests = ended.json["requests"]
    assert all(set(request) == FIELDS for request in requests)
    opencode, ollama = stage.opencode.url, stage.ollama.url
    reads = [
        ("codex", "GET", stage.codex.url),
        ("opencode-health", "GET", f"{opencode}/global/health"),
        ("opencode-capabilities", "GET", f"{opencode}/experimental/capabilities"),
        ("opencode-config", "GET", f"{opencode}/config"),
        ("opencode-providers", "GET", f"{opencode}/config/providers"),
        ("ollama-tags", "GET", f"{ollama}/tags"),
    ]
    cycles = [
        ("residency", request.method, f"{ollama}{request.path.removeprefix('/api')}")
        for request in stage.ollama.seen[1:]
    ]
    assert [(request["check"], request["method"], request["url"]) for request in requests] == reads + cycles
    totals = []
    for request, seen in zip(requests[len(reads) :], stage.ollama.seen[1:], strict=True):
        keep_alive = json.loads(seen.body)["keep_alive"] if seen.body else None
        totals.append((request["total_timeout_s"], {None: 10, 0: 30, "10m": 360}[keep_alive]))
    assert all(total == expected for total, expected in totals)
    assert {request["total_timeout_s"] for request in requests[: len(reads)]} == {10}
    for request in requests:
        assert request["connect_timeout_s"] == 2
        # The budgets above leave all of it, but for the moment in which the check began.
        assert request["total_timeout_s"] - 0.5 < request["allowed_s"] <= request["total_timeout_s"]
        assert request["retries"] == 0
        assert request["status"] == (101 if request["check"] == "codex" else 200)
        assert 0 <= request["elapsed_s"] < 5
        assert request["bytes"] > 0


def test_a_request_without_an_answer_is_listed_too_and_its_deadline_is_said(make_stage, tmp_path):
    stage = make_stage(faults={"opencode": "silence"})
    ended = run_precheck(stage, spec=write_strict(tmp_path / "spec", BRIEF))
    assert "deadline of 1 s elapsed [curl: (28)]" in ended.err
    (request,) = requests_of(ended, "opencode-health")
    assert request["status"] is None
    assert request["bytes"] == 0
    assert 0.95 <= request["elapsed_s"] < 1.5


def test_the_requests_of_the_cleanup_are_listed_too(make_stage, small_strict):
    stage = make_stage(faults={"ollama": "partly-on-cpu"}, **one_model())
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 1
    assert len([url for _, url in ended.requests if "/api/" in url]) == len(stage.ollama.seen)


def test_the_password_is_in_no_url_of_the_report(make_stage, small_strict):
    stage = make_stage(password="hunter2-of-opencode")
    ended = run_precheck(stage, spec=small_strict)
    assert ended.code == 0, ended
    assert not [url for _, url in ended.requests if "@" in url or "hunter2" in url]


# H3 --------------------------------------------------------------------------------------------------------------


def test_by_default_the_budget_is_the_sum_of_its_parts(stage):
    ended = run_precheck(stage)
    parts = sum(check["budget_s"] for check in ended.json["checks"])
    reserve = 30 + 30 * 2
    assert ended.json["budget_s"] == parts + reserve
    assert ended.check("residency")["budget_s"] >= 2 * (30 + 30 + 360)


def test_the_budget_of_the_spec_and_of_the_command_line(stage, tmp_path):
    spec = write_strict(tmp_path / "spec", budget="20s")
    assert run_precheck(stage, spec=spec).json["budget_s"] == 20
    assert run_precheck(stage, "--budget", "10s", spec=spec).json["budget_s"] == 10


def smallest_named(text: str) -> str:
    """Give the time that is named behind the word `smallest`, as `--budget` takes it."""
    (time,) = [word.strip(":;,.()") for word in text.partition("smallest")[2].split() if word[0].isdigit()][:1]
    assert parse_duration(time) > 0
    return time


def test_a_budget_without_time_for_a_load_is_a_usage_error_that_names_the_smallest_that_works(stage):
    ended = run_precheck(stage, "--budget", "90s")  # all of it is the reserve
    assert ended.code == 2, ended
    assert ended.json["verdict"] == "error"
    assert list(ended.words.values()) == ["error"]
    assert not stage.codex.connections
    smallest = smallest_named(ended.messages[0])
    assert 90 < parse_duration(smallest) < 100
    assert smallest in ended.err
    ended = run_precheck(stage, "--budget", smallest)
    assert ended.code == 0, ended


def test_a_budget_that_is_enough_only_for_small_models_is_not_refused(stage):
    # Small models need no settling, which only the server can tell: what can work is tried.
    ended = run_precheck(stage, "--budget", "92s")
    assert ended.code == 0, ended


def test_a_budget_in_the_spec_that_leaves_no_time_for_a_load_is_an_error_too(stage, tmp_path):
    ended = run_precheck(stage, spec=write_strict(tmp_path / "spec", budget="2s"))
    assert ended.code == 2, ended
    assert not stage.codex.connections


def test_the_smallest_budget_that_is_named_works_for_models_that_need_settling(make_stage, tmp_path):
    stage = make_stage(models={"qwen3:8b": Model(size=1 << 30), "gpt-oss:20b": Model(size=1 << 30)})
    spec = write_strict(tmp_path / "spec", {"residency": {"settle": "700ms", "hold": "700ms"}})
    ended = run_precheck(stage, "--budget", "1s", spec=spec)
    assert ended.code == 2, ended
    ended = run_precheck(stage, "--budget", smallest_named(ended.messages[0]), spec=spec)
    assert ended.code == 0, ended


@pytest.mark.parametrize("known", [True, False], ids=["models-known", "models-unknown"])
def test_plan_prints_the_budget_and_the_smallest_that_works(known, stage):
    env = stage.environment if known else {}
    ended = run_precheck(env, "plan", "strict", spec=None, reports=False, verify=False)
    assert ended.code == 0, ended
    assert not stage.codex.connections
    (smallest,) = [line for line in ended.out.splitlines() if line.startswith("smallest budget")]
    (budget,) = [line for line in ended.out.splitlines() if line.startswith("budget:")]
    assert ("each" in smallest and "each" in budget) == (not known)
    if known:
        refused = run_precheck(stage, "--budget", "1s").messages[0]
        assert parse_duration(smallest_named(smallest)) == parse_duration(smallest_named(refused))


def test_checks_before_the_first_load_are_cut_at_the_budget(make_stage, tmp_path):
    stage = make_stage(codex_command=Command("codex-cli 0.171.0", sleep_seconds=60))
    changes = {
        "commands": {"budget": "30s"},
        "residency": {"reserve": "100ms", "reserve_per_model": "100ms", "settle": "0s"},
    }
    spec = write_strict(tmp_path / "spec", changes)
    ended = run_precheck(stage, "--budget", "1s", spec=spec)
    assert ended.code == 28, ended
    assert ended.blockers == ["commands"]
    assert 0.95 <= ended.json["elapsed_s"] < 1.6
    assert "1 s" in ended.err


CUT = {
    "unload": ({"ollama": "silence"}, {"ollama": {"at": "unload", "times": 1}}, ["unload"]),
    "absence": ({"ollama": "never-leaves"}, {}, ["unload"]),
    "load": ({"ollama": "load-hangs"}, {}, ["unload", "load", "unload"]),
}


@pytest.fixture(scope="module")
def cut(request, tmp_path_factory):
    """The stage and the run whose budget ends in each step."""
    place = tmp_path_factory.mktemp("cut")
    changes = {
        "residency": {
            **dict.fromkeys(("read", "unload", "removal", "load"), "60s"),
            "reserve": "1s",
            "reserve_per_model": "500ms",
            "settle": "0s",
        }
    }
    spec = write_strict(place / "spec", changes)

    def run(name):
        faults, options, _ = CUT[name]
        with open_stage(place / name, faults=faults, fault_options=options, **one_model()) as stage:
            return stage, run_precheck(stage, "--budget", "3s", spec=spec)

    return Family(request, "test_the_steps_of_a_cycle_are_cut_at_the_budget_less_the_reserve", CUT, run)


@pytest.mark.parametrize("name", CUT)
def test_the_steps_of_a_cycle_are_cut_at_the_budget_less_the_reserve(name, cut):
    stage, ended = cut[name]
    assert ended.code == 28, ended
    assert ended.blockers == ["residency"]
    assert ended.words["residency"] == "error"
    assert [what for what, _ in stage.ollama.actions] == CUT[name][2]
    # The budget is 3 s and 1.5 s of it are kept: the step ends then, and cleanup and all within the budget.
    residency = ended.check("residency")
    assert 1.4 <= residency["started_s"] + residency["elapsed_s"] < 1.9
    assert ended.json["elapsed_s"] < 3.1
    assert "budget" in ended.err
    assert "native residency remains unconfirmed" not in ended.err
    posts = [request for request in ended.json["requests"] if request["method"] == "POST"]
    cycle = [request for request in posts if request["check"] == "residency"]
    assert all(request["total_timeout_s"] == 60 for request in cycle)
    assert all(request["allowed_s"] <= 1.5 for request in cycle)


# H5 --------------------------------------------------------------------------------------------------------------


def test_the_strict_spec_has_the_numbers_of_the_contract():
    document = read_yaml(SPECS / "strict.yml")
    checks = {check["id"]: check for check in document["checks"]}
    assert checks["commands"]["budget"] == "10s"  # C2
    assert checks["codex-tcp"]["budget"] == "2s"  # E1
    assert checks["codex"]["budget"] == "10s"  # E2
    assert checks["codex"]["codex"]["connect"] == "2s"
    reads = [check for check in checks if check.startswith("opencode-")]
    assert len(reads) == 4
    for check in (*reads, "ollama-tags"):
        options = checks[check]["opencode" if check in reads else "ollama"]
        assert checks[check]["budget"] == "10s"
        assert options["connect"] == "2s"
        assert options["max_bytes"] == "2MiB"
    wanted = {
        "connect": "2s",
        "read": "10s",
        "unload": "30s",
        "removal": "30s",
        "load": "360s",
        "settle": "2s",
        "hold": "1s",
        "small": "256MiB",
        "max_bytes": "2MiB",
        "reserve": "30s",
        "reserve_per_model": "30s",
        "keep_alive": "10m",
        "context_length": 65536,
    }
    residency = checks["residency"]["residency"]
    assert {name: residency[name] for name in wanted} == wanted
    assert document["exit_codes"] == "curl"
    assert document["fail_fast"] is True
    assert "budget" not in document


@pytest.mark.thirty_seconds
def test_the_real_removal_deadline_is_waited_out(thirty_seconds):
    stage, ended = thirty_seconds()
    assert ended.code == 28, ended
    assert ended.blockers == ["residency"]
    assert ended.words["residency"] == "failed"
    assert "Ollama residency removal deadline elapsed" in ended.err
    assert "curl: (28)" in ended.err
    assert 30 <= ended.json["elapsed_s"] < 33
    assert 30 <= ended.check("residency")["elapsed_s"] < 31
    # One unload was sent, and neither a load nor a second unload (G5).
    assert stage.ollama.actions == [("unload", "qwen3:8b")]
    reads = [request.at for request in stage.ollama.seen if request.path == "/api/ps"]
    assert len(reads) > 60
    assert 29 < reads[-1] - stage.ollama.seen[1].at < 31
