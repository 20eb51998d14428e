"""`ensure` keeps what is right and cycles the rest; `verify` only looks (issue 5, item 3)."""

from __future__ import annotations

import msgspec
import pytest

from precheck_lib.errors import AnswerError, Cancelled, ConnectError, DeadlineError, ReceiveError, StatusError
from precheck_lib.findings import NotReadyError
from precheck_lib.residency.keep_alive import at_least, keep_alive_seconds, left, moment, until_text
from precheck_lib.servers.ollama import NoInventoryError
from tests.unit.residency.fakes import GIB, NOT_INVENTORY, big, tiny
from tests.unit.residency.talking import DIGEST, FOREVER, Room

CYCLE = ["unload m", "ps", "load m", "ps"]
WRONG = {
    "partly on the CPU": {"size_vram": 5 * GIB},
    "on the CPU": {"size_vram": 0},
    "short context": {"context_length": 4096},
    "no context": {"context_length": ...},
    "another digest": {"digest": "e" * 64},
    "size as text": {"size": "6"},
}


def model(name="m", **more):
    return msgspec.structs.replace(big(name, **more), digest=DIGEST)


def failed(room, mode, *models):
    with pytest.raises(NotReadyError) as caught:
        getattr(room, mode)(*models)
    return caught.value


# ensure: what is right is kept ---------------------------------------------------------------------------------------


def test_a_model_that_is_right_and_answers_is_kept_and_nothing_is_unloaded_or_loaded():
    room = Room()
    room.server.has("m", session=3600.0)
    room.ensures(model())
    assert room.server.story == ["ps", "token m", "ps", "ps"]
    assert room.kept == {"m": True}
    assert (room.lines, room.ensure.warnings, room.world.armed) == ([], [], [])
    record = room.world.records[0]
    assert (record.size, record.context_length, record.unload_s, record.load_s) == (6 * GIB, 131072, None, None)


def test_a_model_whose_digest_is_not_known_on_either_side_is_kept():
    for own, row in ((None, DIGEST), (DIGEST, None)):
        room = Room()
        room.server.has("m", session=3600.0, digest=row)
        room.ensures(msgspec.structs.replace(big("m"), digest=own))
        assert room.kept == {"m": True}


def test_no_context_is_needed_unless_the_rules_say_so():
    room = Room(context_length=None)
    room.server.has("m", session=3600.0, context_length=4096)
    room.ensures(model())
    assert room.kept == {"m": True}
    assert room.world.records[0].context_length == 4096


def test_a_kept_model_that_need_not_stay_is_not_unloaded_either():
    room = Room()
    room.server.has("a", session=3600.0)
    room.server.has("m", session=3600.0)
    room.ensures(model("a", stays=False), model())
    assert room.kept == {"a": True, "m": True}
    assert room.server.changes == ["token a", "token m"]


# ensure: anything else is cycled --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_resident_model_that_is_not_right_is_cycled_and_said_so_before_its_unload(wrong):
    room = Room()
    room.server.has("m", left=100.0, **wrong)
    room.ensures(model())
    assert room.server.story == ["ps", *CYCLE, "ps"]
    assert room.kept == {"m": False}
    ((calls, line),) = room.said
    assert calls == 1
    assert line.startswith("about to unload m at http://gpu:11434/api and load it again: ")
    assert "it would have left at 1970-01-01 00:18:20 UTC, in 100 s" in line
    (finding,) = room.ensure.warnings
    assert (finding.code, finding.severity) == ("residency.replaced", "warning")


def test_a_model_that_is_not_resident_is_cycled_and_only_its_load_is_announced():
    room = Room()
    room.server.has("other", session=3600.0, digest="f" * 64)
    room.ensures(model())
    assert room.server.story == ["ps", *CYCLE, "ps"]
    assert room.said == [
        (1, "about to load m at http://gpu:11434/api: it is not resident (resident beside it: 'other')")
    ]
    assert room.ensure.warnings == []


def test_the_same_weights_under_another_name_are_named_before_they_are_unloaded():
    room = Room()
    room.server.has("copy", session=3600.0)
    room.ensures(model())
    assert room.lines[0].startswith("about to unload 'copy' at http://gpu:11434/api, the same weights as m; unless")


def test_a_model_that_is_listed_twice_is_cycled():
    room = Room()
    room.server.has("m", session=3600.0, twice=True)
    room.ensures(model())
    assert room.server.story == ["ps", *CYCLE, "ps"]


@pytest.mark.parametrize(
    "refusal",
    [
        StatusError("status 500 instead of 200: 'llama-server process has terminated'", 500),
        AnswerError("it answered without a token"),
        DeadlineError("deadline of 30 s elapsed", phase="head", seconds=30.0),
        DeadlineError("deadline of 30 s elapsed", phase="body", seconds=30.0),
    ],
    ids=["500", "no token", "silent", "no end"],
)
def test_a_model_that_gives_no_token_is_cycled(refusal):
    room = Room()
    room.server.has("m", session=3600.0)
    room.server.refuses["m"] = refusal
    room.ensures(model())
    assert room.server.story == ["ps", "token m", *CYCLE, "ps"]
    assert "m does not answer" in room.lines[0]


@pytest.mark.parametrize(
    ("refusal", "word"),
    [
        (StatusError("status 503 instead of 200", 503), "error"),
        (StatusError('status 400 instead of 200: "m" does not support generate', 400), "error"),
        (StatusError("status 403 instead of 200", 403), "failed"),
        (ConnectError("refused", phase="connect"), "error"),
        (ReceiveError("reset", phase="head"), "error"),
        (DeadlineError("deadline of 2 s elapsed", phase="connect", seconds=2.0), "error"),
    ],
    ids=["busy", "400", "403", "refused", "reset", "connect"],
)
def test_what_says_nothing_against_the_model_ends_the_check_and_unloads_nothing(refusal, word):
    room = Room()
    room.server.has("m", session=3600.0)
    room.server.refuses["m"] = refusal
    assert failed(room, "ensures", model()).word == word
    assert room.server.changes == ["token m"]
    assert room.world.clean_up() == []
    assert room.server.changes == ["token m"]


def test_a_model_that_a_token_shows_to_be_another_is_cycled():
    room = Room()
    room.server.has("m", session=3600.0)
    room.server.on_token = lambda name: room.server.has(name, session=3600.0, size_vram=0)
    room.ensures(model())
    assert room.server.story == ["ps", "token m", "ps", *CYCLE, "ps"]
    assert "after one token: m is not fully on the GPU" in room.lines[0]


def test_reads_that_say_nothing_are_no_reason_to_unload_and_are_made_again():
    room = Room()
    room.server.has("m", session=3600.0)
    silent = [NoInventoryError("status 500 without a body")] * 3

    def before(call):
        if call.kind == "inventory" and silent:
            raise silent.pop()

    room.server.before = before
    room.ensures(model())
    assert room.server.story == ["ps"] * 4 + ["token m", "ps", "ps"]


def test_an_inventory_that_never_says_anything_ends_the_check_in_its_time_and_unloads_nothing():
    room = Room()
    room.server.has("m")

    def before(call):
        raise NoInventoryError("status 500 without a body")

    room.server.before = before
    began = room.world.clock.now
    assert failed(room, "ensures", model()).word == "error"
    assert room.world.clock.now - began <= 30.0
    assert set(room.server.story) == {"ps"}


@pytest.mark.parametrize("error", NOT_INVENTORY.values(), ids=NOT_INVENTORY.keys())
def test_an_answer_that_is_no_inventory_ends_the_check_and_unloads_nothing(error):
    room = Room()

    def before(call):
        raise error

    room.server.before = before
    assert failed(room, "ensures", model()).curl == error.curl
    assert room.server.story == ["ps"]


def test_a_kept_model_that_the_load_of_the_next_pushes_out_is_found_at_the_end_and_not_unloaded_by_the_cleanup():
    room = Room()
    room.server.has("a", session=3600.0)

    def before(call):
        if call.short == "load m":
            del room.server.there["a"]

    room.server.before = before
    error = failed(room, "ensures", model("a"), model())
    assert error.findings[0].code == "residency.evicted"
    assert room.world.clean_up() == []
    assert room.server.of("unload")[-1].model == "m"
    assert "unload a" not in room.server.changes


def test_a_cycle_that_a_budget_has_no_time_for_is_refused_before_anything_is_said_or_changed():
    room = Room()
    room.server.has("m", size_vram=0)

    def refuse(_):
        raise Cancelled(15)

    room.ensure._before = refuse
    with pytest.raises(Cancelled):
        room.ensures(model())
    assert (room.server.story, room.said) == (["ps"], [])


def test_a_second_is_waited_only_after_a_load_of_a_big_model():
    for made, waited in ((model(), 2.0 + 5.0 + 1.0), (msgspec.structs.replace(tiny("m"), digest=DIGEST), 5.0)):
        room = Room()
        began = room.world.clock.now
        room.ensures(made)
        assert room.world.clock.now - began == pytest.approx(waited)
    room = Room()
    room.server.has("m", session=3600.0)
    began = room.world.clock.now
    room.ensures(model())
    assert room.world.clock.now - began == pytest.approx(room.server.token_seconds)


# keep_alive -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("session", "kept"), [(300.0, 600.0), (599.5, 599.5), (3600.0, 3600.0), (FOREVER, FOREVER)])
def test_a_kept_model_has_the_longer_of_its_own_keep_alive_and_that_of_the_spec(session, kept):
    room = Room(keep_alive="10m")
    room.server.has("m", session=session, left=5.0)
    room.ensures(model())
    assert room.server.there["m"].session == kept
    assert room.kept == {"m": True}


def test_a_keep_alive_that_cannot_be_known_is_left_as_it_is():
    room = Room(keep_alive="10m")
    room.server.has("m", session=300.0, expires_at=None)
    room.ensures(model())
    assert room.server.changes == ["token m"]


@pytest.mark.parametrize(("left_over", "sent"), [(5.0, "10m"), (3599.5, "3600s"), (FOREVER, "-1m"), (-60.0, "10m")])
def test_a_cycled_model_is_loaded_for_no_shorter_time_than_it_had_left(left_over, sent):
    room = Room(keep_alive="10m")
    room.server.has("m", left=left_over, size_vram=0)
    room.ensures(model())
    assert [call.keep_alive for call in room.server.of("load")] == [sent]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("10m", 600.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("500ms", 0.5), ("0", 0.0), ("0s", 0.0)),
        *(("-1m", float("inf")), ("-0s", 0.0), ("600", None), ("-1", None), ("", None), ("10 m", None), ("1x", None)),
    ],
)
def test_a_keep_alive_is_read_as_ollama_reads_it(text, seconds):
    assert keep_alive_seconds(text) == seconds


def test_times_of_the_server_are_read_with_any_digits_and_any_zone():
    assert moment("1970-01-01T00:00:10Z") == 10.0
    assert moment("1970-01-01T02:00:10.123456789+02:00") == pytest.approx(10.123456789)
    assert moment("2318-12-31T22:00:00.5-05:30") is not None
    for text in (None, "", "soon", "1970-13-01T00:00:10Z", "1970-01-01 00:00:10", "1970-01-01T00:00:10"):
        assert moment(text) is None


def test_what_is_left_is_unknown_where_either_end_is():
    assert left("1970-01-01T00:00:10Z", 4.0) == 6.0
    assert left("2318-01-01T00:00:10Z", 4.0) == float("inf")
    assert left(None, 4.0) is None
    assert left("1970-01-01T00:00:10Z", None) is None
    assert at_least("nonsense", 5.0) == "nonsense"


def test_a_person_is_told_until_when_a_model_was_to_stay():
    assert until_text(None, 0.0) == "Ollama does not say until when it was to stay"
    assert until_text("2318-01-01T00:00:10Z", 0.0) == "it was to stay for ever"
    assert until_text("1970-01-01T00:00:10Z", 20.0).startswith("its time was over at 1970-01-01 00:00:10 UTC")
    assert until_text("1970-01-01T02:00:00Z", 0.0).endswith("in 2 h")
    assert until_text("1970-01-01T00:10:00Z", 0.0).endswith("in 10 min")


# verify ---------------------------------------------------------------------------------------------------------------


def test_verify_passes_on_right_models_with_one_read_and_nothing_else():
    room = Room()
    room.server.has("m")
    room.verifies(model())
    assert room.server.story == ["ps"]
    assert room.kept == {"m": True}


def test_verify_names_every_model_that_is_not_right_and_changes_nothing():
    room = Room()
    room.server.has("a", size_vram=0)
    room.server.has("b", digest="e" * 64)
    error = failed(room, "verifies", model("a"), model("b"), model("c"), model("d", stays=False))
    assert [finding.code for finding in error.findings] == ["residency.partial", "residency.digest", "residency.absent"]
    assert error.findings[2].message == "c is not resident"
    assert error.word == "failed"
    assert room.server.story == ["ps"]
    assert room.kept == {"a": False, "b": False, "c": False}


@pytest.mark.parametrize("error", [*NOT_INVENTORY.values(), NoInventoryError("status 500 without a body")])
def test_verify_does_not_pass_where_the_inventory_cannot_be_read(error):
    room = Room()

    def before(call):
        raise error

    room.server.before = before
    failed(room, "verifies", model())
    assert room.server.story == ["ps"]
