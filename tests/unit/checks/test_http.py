"""One request and what its answer has to be: paths and both values are named, bodies and secrets are not."""

from __future__ import annotations

import base64
import json

import pytest

from precheck_lib.checks import comparison, kind_named
from precheck_lib.checks.web import url_problems
from precheck_lib.simulate import HostileServer
from precheck_lib.simulate.web import HttpStandIn, Reply, compact

DOCUMENT = {
    "version": "1.2.0",
    "ready": True,
    "n": 1,
    "share": 0.5,
    "none": None,
    "models": [
        {"id": "a", "context": 4096, "tags": ["x", "y"]},
        {"id": "b", "context": 131072, "tags": []},
        {"id": "c", "context": 65536.0},
    ],
    "api_key": "hunter2-hunter2",
}


class Scripted(HttpStandIn):
    """A server that gives one answer to everything."""

    def __init__(self, body, status, kind, headers):
        super().__init__("openai")
        self.given = Reply(status, (("Content-Type", kind), ("Content-Length", str(len(body))), *headers), body)
        self.start()

    def answer(self, connection, request):
        del connection, request
        return self.given


@pytest.fixture
def serves():
    servers = []

    def start(body=DOCUMENT, status=200, kind="application/json", headers=()):
        data = body if isinstance(body, bytes) else compact(body)
        servers.append(Scripted(data, status, kind, headers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def said(checker, serves):
    """The outcome and the texts of a check of `DOCUMENT`, without the subject they begin with."""

    def ask(options, body=DOCUMENT):
        server = serves(body)
        word, findings = checker.said("http", {"url": f"{server.url}/x?a=1", **options})
        subject = f"GET {server.url}/x: "
        assert all(text.startswith(subject) for _, text in findings)
        return word, [(code, text.removeprefix(subject)) for code, text in findings]

    return ask


# What is sent ---------------------------------------------------------------------------------------------------------


def test_a_right_answer_passes_and_one_request_was_made(checker, serves):
    server = serves()
    assert checker.passes("http", {"url": f"{server.url}/x?a=1"}) == []
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.body) == ("GET", "/x?a=1", b"")
    assert "authorization" not in seen.headers


def test_headers_and_a_body_go_out_expanded_and_as_utf_8(checker, serves):
    server = serves()
    options = {"url": "${URL}", "method": "POST", "headers": {"X-Word": "${W}ä"}, "body": "say ${W}ö"}
    checker.passes("http", options, env={"URL": server.url, "W": "hi"})
    (seen,) = server.seen
    assert seen.method == "POST"
    assert seen.headers["x-word"].encode("latin-1").decode() == "hiä"
    assert seen.body == "say hiö".encode()


def test_json_is_sent_as_such_and_its_type_can_be_another(checker, serves):
    server = serves()
    options = {"url": server.url, "method": "POST", "json": {"n": 1, "list": ["${W}"]}}
    checker.passes("http", options, env={"W": "hi"})
    checker.passes("http", {**options, "headers": {"content-type": "application/x"}}, env={"W": "hi"})
    first, second = server.seen
    assert (first.headers["content-type"], json.loads(first.body)) == (
        "application/json",
        {"n": 1, "list": ["hi"]},
    )
    assert second.headers["content-type"] == "application/x"


def test_a_user_name_and_password_are_sent_as_utf_8_and_hidden(checker, serves):
    server = serves()
    context = checker.context({"PW": "pä:ss"})
    hidden = []
    context.hide = hidden.append
    options = checker.options("http", {"url": server.url, "username": "ü", "password": "${PW}"})
    assert kind_named("http").run(options, context) == []
    scheme, _, token = server.seen[0].headers["authorization"].partition(" ")
    assert (scheme, base64.b64decode(token).decode()) == ("Basic", "ü:pä:ss")
    assert {"pä:ss", token} <= set(hidden)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [("Authorization", True), ("X-Api-Key", True), ("Cookie", True), ("x-auth", True), ("Accept", False)],
)
def test_values_of_headers_that_sound_secret_are_hidden(checker, serves, name, is_secret):
    context = checker.context({"T": "opaque-1234"})
    hidden = []
    context.hide = hidden.append
    options = checker.options("http", {"url": serves().url, "headers": {name: "Bearer ${T}"}})
    kind_named("http").run(options, context)
    assert ({"Bearer opaque-1234", "opaque-1234"} <= set(hidden)) is is_secret


@pytest.mark.parametrize("value", ["abc12345\n", "abc\r\nX-Other: 1", " abc12345", "abc\x00", "abc\x1b[31m", "\udcff"])
def test_a_value_that_would_break_a_header_is_refused_before_anything_is_sent(checker, serves, value):
    server = serves()
    error = checker.error("http", {"url": server.url, "headers": {"X-Key": "${T}"}}, env={"T": f"x{value}x"[1:-1]})
    assert [finding.code for finding in error.findings] == ["roles.malformed"]
    assert "the header X-Key cannot be sent" in error.findings[0].message
    assert "abc" not in error.findings[0].message
    assert server.seen == []


# The status -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "word", "curl", "code"),
    [
        (204, "failed", 1, "http.status"),
        (401, "failed", 22, "http.unauthorized"),
        (403, "failed", 22, "http.unauthorized"),
        (404, "error", 22, "http.status"),
        (500, "error", 22, "http.status"),
        (503, "error", 22, "http.status"),
    ],
)
def test_another_status_has_the_word_and_the_code_of_the_table(checker, serves, status, word, curl, code):
    server = serves(b"" if status == 204 else b'{"error":"canary-text"}', status)
    error = checker.error("http", {"url": server.url, "contains": {"ready": True}})
    (finding,) = error.findings
    assert (error.word, error.curl, finding.code) == (word, curl, code)
    assert finding.message == f"GET {server.url}: status {status} instead of 200"
    assert "canary-text" not in repr(finding)


def test_any_of_several_statuses_is_right_and_an_error_can_be_what_is_wanted(checker, serves):
    server = serves({"error": "no key"}, 401)
    assert checker.passes("http", {"url": server.url, "status": 401, "contains": {"error": "no key"}}) == []
    assert checker.passes("http", {"url": server.url, "status": [200, 401]}) == []
    error = checker.error("http", {"url": serves().url, "status": [401, 403]})
    assert (error.word, error.curl) == ("failed", 1)
    assert error.findings[0].message.endswith("status 200 instead of 401 or 403")


def test_a_refusal_says_which_credentials_went_along_and_never_their_values(checker, serves):
    url = serves(b"", 401).url
    told = [
        checker.error("http", {"url": url, **options}).findings[0]
        for options in ({}, {"username": "u", "password": "secret-pw"}, {"headers": {"X-Api-Key": "secret-key"}})
    ]
    assert [finding.evidence for finding in told] == [
        "no credentials were sent",
        "a user name and password were sent",
        "credentials were sent in X-Api-Key",
    ]
    assert "secret" not in repr(told)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://login.example/sso?ticket=canary", "it points to the host login.example"),
        ("https://me:canary@other.example/", "it points to the host other.example"),
        ("/canary/", "it points to another place on the same host"),
        ("https://127.0.0.1/canary", "it points to another place on the same host over https"),
        ("http://[canary", "it points to something that is no URL"),
        ("", "it does not say where to"),
    ],
)
def test_a_redirect_is_told_by_its_host_and_not_followed(checker, serves, location, told):
    server = serves(b"", 302, headers=(("Location", location),))
    error = checker.error("http", {"url": server.url})
    (finding,) = error.findings
    assert (error.word, error.curl, finding.code) == ("failed", 1, "http.redirect")
    assert finding.message.endswith(f": status 302 instead of 200; {told}, and no redirect is followed")
    assert "canary" not in repr(finding)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("fault", "code", "curl"),
    [
        ("tcp-refused", "transport.connect", 7),
        ("http-silence", "transport.deadline", 28),
        ("http-fin-in-body", "transport.truncated", 18),
    ],
)
def test_what_transport_keeps_from_being_known_is_an_error_with_the_code_of_curl(checker, fault, code, curl):
    with HostileServer(fault) as server:
        error = checker.error("http", {"url": server.url}, seconds=0.3)
    assert (error.word, error.curl, error.findings[0].code) == ("error", curl, code)


def test_an_answer_larger_than_it_may_be_is_an_error(checker, serves):
    error = checker.error("http", {"url": serves(b"x" * 2000).url, "max_bytes": "1KiB"})
    assert (error.word, error.curl, error.findings[0].code) == ("error", 63, "transport.too-large")


# Type and text --------------------------------------------------------------------------------------------------------


def test_the_type_counts_without_its_parameters_and_in_any_case(checker, serves):
    url = serves(kind="Application/JSON; charset=utf-8").url
    assert checker.passes("http", {"url": url, "content_type": "application/json"}) == []
    page = serves(b"<p>canary</p>", kind="text/html").url
    word, ((code, message),) = checker.said("http", {"url": page, "content_type": "application/json"})
    assert (word, code) == ("failed", "http.type")
    assert message == f"GET {page}: the answer is text/html, application/json is needed"


def test_a_text_has_to_stand_in_the_body_which_is_not_shown(checker, serves):
    url = serves("grün canary".encode(), kind="text/plain").url
    assert checker.passes("http", {"url": url, "text": "${C}ün"}, env={"C": "gr"}) == []
    error = checker.error("http", {"url": url, "text": "${C}"}, env={"C": "blue"})
    (finding,) = error.findings
    assert (error.word, finding.code, finding.evidence) == ("failed", "http.text", "it has 12 bytes")
    assert finding.message == f"GET {url}: the answer does not hold '${{C}}'"
    assert "canary" not in repr(finding)


@pytest.mark.parametrize("body", [b"", b"<p>canary</p>", b'{"a":1,"a":2}', b"{", b"NaN", b"\xff"])
def test_a_body_that_is_no_json_is_a_wrong_answer(checker, serves, body):
    for options in ({"contains": {}}, {"absent": ["a"]}):
        word, ((code, message),) = checker.said("http", {"url": serves(body).url, **options})
        assert (word, code) == ("failed", "http.answer")
        assert "canary" not in message


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        DOCUMENT,
        {"version": "1.2.0", "ready": True, "none": None, "share": 0.5},
        {"models": []},
        {"models": [{"id": "b"}]},
        {"models": [{"id": "b"}, {"id": "a", "tags": ["y"]}, {"id": "a"}]},
        {"models": [{"id": "b", "context": {"ge": 65536}}]},
        {"n": {"ge": 1, "lt": 2, "ne": 5}, "share": {"gt": 0.0, "le": 0.5}},
        {"n": {"gt": 0.5}},
        {"version": {"match": r"1\.[0-9]+\.0"}, "n": {"in": [3, 1]}},
        {"models": {"ne": []}, "none": {"eq": None}, "ready": {"eq": True}},
        {"models": [{"tags": {"eq": ["x", "y"]}}]},
        {"n": "${ONE#}", "version": "${V}"},
        {"n": {"ge": "${ONE#}"}},
    ],
)  # fmt: skip
def test_what_the_answer_holds_passes(checker, serves, wanted):
    options = {"url": serves().url, "contains": wanted}
    assert checker.passes("http", options, env={"ONE": "1", "V": "1.2.0"}) == []


@pytest.mark.parametrize(
    ("wanted", "said_of_it"),
    [
        ({"version": "1.3.0"}, "/version is '1.2.0', '1.3.0' is needed"),
        ({"n": True}, "/n is 1, true is needed"),
        ({"ready": 1}, "/ready is true, 1 is needed"),
        ({"n": 1.0}, "/n is 1, 1.0 is needed"),
        ({"n": "1"}, "/n is 1, '1' is needed"),
        ({"none": False}, "/none is null, false is needed"),
        ({"ready": {"ge": 0}}, "/ready is true, at least 0 is needed"),
        ({"ready": {"in": [1]}}, "/ready is true, one of 1 is needed"),
        ({"version": {"lt": 2}}, "/version is '1.2.0', less than 2 is needed"),
        ({"n": {"gt": 1}}, "/n is 1, more than 1 is needed"),
        ({"share": {"le": 0.4}}, "/share is 0.5, at most 0.4 is needed"),
        ({"share": {"gt": 0}}, "/share is 0.5, more than 0 as a whole number is needed"),
        ({"n": {"ne": 1}}, "/n is 1, anything but 1 is needed"),
        ({"n": {"eq": 2}}, "/n is 1, exactly 2 is needed"),
        ({"models": {"eq": []}}, "/models is a list of 3, exactly a list of 0 is needed"),
        ({"version": {"match": "2.*"}}, "/version is '1.2.0', a text that matches '2.*' is needed"),
        ({"version": {"match": "1"}}, "/version is '1.2.0', a text that matches '1' is needed"),
        ({"n": {"match": "1"}}, "/n is 1, a text that matches '1' is needed"),
        ({"other": {"ge": 65536, "lt": 9}}, "/other is missing, at least 65536 and less than 9 is needed"),
        ({"other": None}, "/other is missing, null is needed"),
        ({"a/b~": 1}, "/a~1b~0 is missing, 1 is needed"),
        ({"version": {"x": 1}}, "/version is '1.2.0', an object is needed"),
        ({"models": {"x": 1}}, "/models is a list of 3, an object is needed"),
        ({"version": ["1"]}, "/version is '1.2.0', a list is needed"),
        ([1], "the document is an object, a list is needed"),
        ({"models": [{"id": "d"}]}, """/models has 3 elements and none that is {"id": "d"}"""),
    ],
)
def test_what_differs_is_told_by_its_path_with_both_values(said, wanted, said_of_it):
    assert said({"contains": wanted}) == ("failed", [("http.value", said_of_it)])


def test_of_a_list_the_element_is_told_that_is_nearest_to_what_is_wanted(checker, serves):
    options = {"url": serves().url, "contains": {"models": [{"id": "a", "context": {"ge": 65536}}]}}
    (finding,) = checker.error("http", options).findings
    assert finding.message.endswith("/models/0/context is 4096, at least 65536 is needed")
    assert finding.evidence == "the nearest of 3 elements"
    options["contains"] = {"models": [{"id": "c", "context": {"ge": 65536}}]}
    (finding,) = checker.error("http", options).findings
    assert finding.message.endswith("/models/2/context is 65536.0, at least 65536 as a whole number is needed")


def test_an_element_that_has_nothing_of_what_is_wanted_is_not_called_near(said):
    document = {"models": [{"id": "a"}, {"id": "b"}]}
    wanted = {"models": [{"meta": {"x": 1, "y": 2, "z": 3}}]}
    ((_, text),) = said({"contains": wanted}, document)[1]
    assert text.startswith("/models has 2 elements and none that is ")


def test_everything_that_is_wrong_is_said_at_once_up_to_a_number(said):
    wanted = {"n": 2, "ready": False, "models": [{"id": "z"}]}
    assert len(said({"contains": wanted, "absent": ["version"], "text": "q", "content_type": "a/b"})[1]) == 6
    findings = said({"contains": {f"key{number:02}": 1 for number in range(20)}})[1]
    assert len(findings) == 9
    assert findings[-1] == ("http.value", "12 more are not as wanted")


def test_values_of_the_server_are_cut_and_those_at_secret_keys_are_not_shown(said):
    long = "v" * 5000
    ((_, text),) = said({"contains": {"a": "w"}}, {"a": long})[1]
    assert text == f"/a is '{'v' * 80}'…, 'w' is needed"
    ((_, text),) = said({"contains": {"a": 1}}, {"a": int("9" * 200)})[1]
    assert text == f"/a is {'9' * 80}…, 1 is needed"
    ((_, text),) = said({"contains": {"api_key": "other-secret"}})[1]
    assert text == "/api_key is a string that is not shown, a string that is not shown is needed"
    ((_, text),) = said({"contains": {"a": "w"}}, {"a": "\x1b[31mkey=abc12345\x1b[0m"})[1]
    assert text == "/a is 'key=***', 'w' is needed"
    ((_, text),) = said({"contains": {"list": [{"token": "other-secret", "n": 1}]}}, {"list": []})[1]
    assert text == '/list has 0 elements and none that is {"token": "***", "n": 1}'


def test_a_text_too_long_for_a_pattern_does_not_match(said):
    ((_, text),) = said({"contains": {"a": {"match": "v*"}}}, {"a": "v" * 4097})[1]
    assert text.endswith("a text that matches 'v*' and has at most 4096 characters is needed")


# What must not be there -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("none", "null"),
        ("/models/1/tags", "a list of 0"),
        ("/models/0", "an object"),
        ("version", "'1.2.0'"),
        ("api_key", "a string that is not shown"),
    ],
)
def test_what_is_there_and_must_not_be_is_told(said, place, shown):
    assert said({"absent": [place]}) == ("failed", [("http.present", f"{place} is there ({shown}), and must not be")])


@pytest.mark.parametrize(
    "place", ["other", "/models/3", "/models/01", "/models/-1", "/version/x", "/none/x", "models/0"]
)
def test_what_is_not_there_passes(checker, serves, place):
    assert checker.passes("http", {"url": serves().url, "absent": [place]}) == []


def test_a_key_is_taken_as_it_is_and_a_pointer_has_its_escapes(said):
    document = {"a/b": 1, "c~d": 2}
    assert len(said({"absent": ["a/b", "c~d", "/a~1b", "/c~0d"]}, document)[1]) == 4


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said_of_it"),
    [
        ({"body": "a", "json": 1}, "json: `body` is given too, and only one can be sent"),
        ({"headers": {"a b": "c"}}, "headers: 'a b' is not the name of a header"),
        ({"headers": {"": "c"}}, "headers: '' is not the name of a header"),
        ({"headers": {"Content-length": "5"}}, "headers: Content-length is set by precheck itself"),
        (
            {"headers": {"authorization": "x"}, "username": "u"},
            "headers: Authorization is given, and username or password too",
        ),
        ({"status": "200"}, "status: a whole number from 200 to 599 is needed, or a list of them"),
        ({"status": True}, "status: a whole number from 200 to 599 is needed, or a list of them"),
        ({"status": []}, "status: a whole number from 200 to 599 is needed, or a list of them"),
        ({"status": [200, 99]}, "status: a whole number from 200 to 599 is needed, or a list of them"),
        ({"method": "HEAD", "text": "x"}, "method: the answer to HEAD has no body for contains, absent or text"),
        ({"contains": {"a": {"gte": 5}}}, "gte: there is no such comparison; did you mean 'ge'?"),
        ({"contains": {"a": {"ge": 5, "lte": 6}}}, "lte: there is no such comparison; did you mean 'le'?"),
        ({"contains": [{"ge": "5"}]}, "ge: a number is needed (of a variable `${NAME#}`, which reads it as JSON)"),
        (
            {"contains": {"a": {"lt": True}}},
            "lt: a number is needed (of a variable `${NAME#}`, which reads it as JSON)",
        ),
        ({"contains": {"a": {"in": 5}}}, "in: a list of the allowed values is needed"),
        ({"contains": {"a": {"match": 5}}}, "match: a regular expression is needed"),
        (
            {"contains": {"a": {"match": "("}}},
            "match: '(' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(checker, options, said_of_it):
    assert checker.refused("http", {"url": "http://127.0.0.1:9", **options}) == [said_of_it]


def test_a_problem_is_told_with_its_place_before_anything_runs(checker):
    options = checker.options("http", {"url": "${U}", "status": 1, "contains": {"a": [{"b": {"ge": "x"}}]}})
    assert [path for path, _ in options.problems()] == [("status",), ("contains", "a", 0, "b", "ge")]
    later = checker.options("http", {"url": "${U}", "contains": {"a": {"ge": "${N}", "in": "${L#}", "match": "${P}"}}})
    assert list(later.problems()) == []


@pytest.mark.parametrize("value", ["5", "true", '"5"'])
def test_a_bound_from_a_variable_has_to_be_a_number_when_it_is_known(checker, value):
    error = checker.error("http", {"url": "http://127.0.0.1:9", "contains": {"a": {"ge": "${N}"}}}, env={"N": value})
    assert error.usage
    assert error.findings[0].message.startswith("ge: a number is needed")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:80", "it is not a URL that begins with http:// or https://"),
        ("ftp://h/", "it is not a URL that begins with http:// or https://"),
        ("http://", "it is not a URL with a usable host and port"),
        ("http://h:0/", "it is not a URL with a usable host and port"),
        ("http://h:99999/", "it is not a URL with a usable host and port"),
        ("http://h/a b", "it is not a URL with a usable host and port"),
        ("http://u:canary@h/", "it has a user name or password in it"),
        ("http://h/#x", "it has a fragment (#...) in it"),
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_and_not_shown(checker, url, told):
    assert checker.refused("http", {"url": url}) == [f"url: {told}"]


def test_a_query_is_for_those_who_may_have_one():
    assert list(url_problems("http://h/?a=1", query=True)) == []
    assert list(url_problems("http://h/?a=1")) == ["it has a query (?...) in it"]
    assert list(url_problems("https://[::1]:8443/v1")) == []


def test_a_plan_says_what_is_asked_and_what_counts_without_any_value(checker):
    options = {"url": "${U}/x", "method": "POST", "status": [200, 204], "contains": {"a": 1}, "absent": ["b"]}
    assert checker.planned("http", options) == [
        "POST ${U}/x; the status has to be 200 or 204, and be right in contains, absent"
    ]
    assert checker.planned("http", {"url": "http://h/?token=canary12"}) == [
        "GET http://h/?token=***; the status has to be 200"
    ]


def test_the_same_json_is_the_same_and_nothing_else():
    values = [None, True, False, 0, 1, 1.0, "", "1", [], [1], [1.0], {}, {"a": 1}, {"a": [True]}]
    for number, left in enumerate(values):
        assert [place for place, right in enumerate(values) if comparison.same(left, right)] == [number]
