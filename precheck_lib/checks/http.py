"""`http`: one bounded request, and what its answer has to be. Nothing is retried and no redirect is followed.

A status that is not wanted ends the check; whatever else is wrong is said at once. 401, 403 and a status below 400 are
answers (`failed`), any other status from 400 on keeps the answer from being known (`error`). Of a body only the values
that were asked for are shown, cut short.
"""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from precheck_lib.checks.kind import Context, Deed, Kind, Options
from precheck_lib.checks.look import literal, refuse, refuse_options
from precheck_lib.checks.serving import note_process
from precheck_lib.checks.web import (
    is_secret_header,
    name_problem,
    on_the_wire,
    url_problems,
    value_problem,
    without_query,
)
from precheck_lib.errors import StatusError, TalkError
from precheck_lib.findings import NotReadyError, make, not_ready, not_ready_for
from precheck_lib.outcome import Finding  # noqa: TC001 - the kind's signature
from precheck_lib.redact import basic_token, without_credentials
from precheck_lib.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precheck_lib.bounded.http import Answer
    from precheck_lib.checks.kind import OptionProblem

_MOST_FINDINGS = 8


class HttpOptions(Options, frozen=True, kw_only=True):
    """What is asked of `url`, and what the answer has to be."""

    url: Annotated[str, Meta(description="An http or https URL; it may have a query, and no user name or password.")]
    method: Annotated[
        Literal["GET", "HEAD", "POST", "OPTIONS"],
        Meta(description="The method. A check only reads: a POST has to be one that changes nothing."),
    ] = "GET"
    headers: Annotated[
        dict[str, str],
        Meta(description="Headers to send. Values of those that sound secret, such as `Authorization`, are hidden."),
    ] = msgspec.field(default_factory=dict)
    body: Annotated[str | None, Meta(description="The text to send, as UTF-8.")] = None
    json: Annotated[Any, Meta(description="A value to send as JSON, in place of `body`.")] = None
    username: Annotated[str, Meta(description="The user name for Basic authentication.")] = ""
    password: Annotated[str, Meta(description="The password for Basic authentication.")] = ""
    status: Annotated[Any, Meta(description="The status that is right, or a list of those that are.")] = 200
    content_type: Annotated[
        str | None, Meta(description="The media type of the answer, without parameters, such as `application/json`.")
    ] = None
    contains: Annotated[
        Any,
        Meta(
            description="What the JSON of the answer has to hold. Objects may have more keys; each element of a list "
            "has to fit an element there, in any order; `{ge: 65536}` compares (eq, ne, lt, le, gt, ge, in, match)."
        ),
    ] = None
    absent: Annotated[
        list[str],
        Meta(
            description="What the JSON must not hold: keys of the outermost object, or JSON pointers such as `/a/0/b`."
        ),
    ] = msgspec.field(default_factory=list)
    text: Annotated[str | None, Meta(description="A text that has to stand somewhere in the body.")] = None
    connect: Annotated[Seconds, Meta(description="How long connecting may take.")] = Seconds(2)
    max_bytes: Annotated[Bytes, Meta(description="The most bytes that the body may have.")] = Bytes(2 << 20)

    def problems(self) -> Iterator[OptionProblem]:
        """Say what cannot be meant, each at its place in the options."""
        from precheck_lib.checks import comparison

        if (url := literal(self.url)) is not None:
            for text in url_problems(url, query=True):
                yield ("url",), f"url: {text}"
        if self.body is not None and self.json is not None:
            yield ("json",), "json: `body` is given too, and only one can be sent"
        for name in self.headers:
            if text := name_problem(name):
                yield ("headers", name), f"headers: {text}"
        if (self.username or self.password) and any(name.lower() == "authorization" for name in self.headers):
            yield ("headers",), "headers: Authorization is given, and username or password too"
        wanted = self.status if isinstance(self.status, list) else [self.status]
        if not wanted or not all(type(one) is int and 200 <= one <= 599 for one in wanted):
            yield ("status",), "status: a whole number from 200 to 599 is needed, or a list of them"
        if self.method == "HEAD" and (self.contains is not None or self.absent or self.text is not None):
            yield ("method",), "method: the answer to HEAD has no body for contains, absent or text"
        yield from comparison.problems(self.contains, ("contains",))


def run(options: HttpOptions, context: Context) -> list[Finding]:
    """Make the request and judge its answer."""
    from precheck_lib.bounded import http

    refuse_options(options)
    url = context.text(options.url)
    refuse([f"url: {text}" for text in url_problems(url, query=True)])
    expected = _Expected(options, context)
    headers = _headers(options, context)
    sent = _sent(options, context)
    subject = f"{options.method} {without_query(url)}"
    try:
        answer = http.send(
            options.method,
            url,
            budget=context.budget,
            journal=context.journal,
            connect_seconds=options.connect,
            total_seconds=context.budget.asked,
            max_body=options.max_bytes,
            headers=headers,
            body=sent,
        )
    except TalkError as error:
        raise not_ready_for(error, subject) from error
    if answer.status not in expected.statuses:
        raise _wrong_status(answer, url, subject, expected.statuses, _credentials(options, headers))
    findings = list(expected.judge(answer, subject))
    if findings:
        further = len(findings) - _MOST_FINDINGS
        if further > 0:
            more = f"{subject}: {further} more {'is' if further == 1 else 'are'} not as wanted"
            findings = [*findings[:_MOST_FINDINGS], make("http.value", more)]
        raise NotReadyError(findings)
    note_process(context, url)
    return []


def _headers(options: HttpOptions, context: Context) -> dict[str, str]:
    headers = {"Content-Type": "application/json"} if options.json is not None else {}
    for name, written in options.headers.items():
        value = context.text(written)
        if is_secret_header(name):
            # What is hidden is searched for as it stands: the key alone, without `Bearer`, is a secret too.
            for secret in {value, value.strip(), value.strip().rpartition(" ")[2]}:
                context.hide(secret)
        if text := value_problem(value):
            raise not_ready("roles.malformed", f"the value of the header {name} cannot be sent: {text}")
        headers = {there: kept for there, kept in headers.items() if there.lower() != name.lower()}
        headers[name] = on_the_wire(value)
    username, password = context.text(options.username), context.text(options.password)
    if username or password:
        context.hide(password)
        context.hide(basic_token(username, password))
        headers["Authorization"] = f"Basic {basic_token(username, password)}"
    return headers


def _sent(options: HttpOptions, context: Context) -> bytes | None:
    if options.json is not None:
        return json_text.dumps(context.expand(options.json), separators=(",", ":")).encode()
    return None if options.body is None else context.text(options.body).encode("utf-8", "surrogateescape")


def _credentials(options: HttpOptions, headers: dict[str, str]) -> str:
    """Say which credentials went along, by the names of their headers only."""
    if options.username or options.password:
        return "a user name and password were sent"
    names = [name for name in headers if is_secret_header(name)]
    return f"credentials were sent in {', '.join(names)}" if names else "no credentials were sent"


def _wrong_status(answer: Answer, url: str, subject: str, statuses: list[int], credentials: str) -> NotReadyError:
    from precheck_lib.servers.words import points_to

    wanted = " or ".join(map(str, statuses))
    error = StatusError(f"status {answer.status} instead of {wanted}", answer.status)
    message = f"{subject}: {error}"
    if answer.status in (301, 302, 303, 307, 308):
        pointed = points_to(answer.headers.get("Location"), url)
        return not_ready("http.redirect", f"{message}; {pointed}, and no redirect is followed")
    if answer.status in (401, 403):
        return not_ready("http.unauthorized", message, evidence=credentials, word=error.word, curl=error.curl)
    return not_ready_for(error, subject)


class _Expected:
    """What an answer has to be, its text expanded."""

    def __init__(self, options: HttpOptions, context: Context) -> None:
        from precheck_lib.checks import comparison

        self.statuses: list[int] = options.status if isinstance(options.status, list) else [options.status]
        self.content_type = None if options.content_type is None else context.text(options.content_type)
        self.text = None if options.text is None else context.text(options.text)
        self.text_written = options.text
        self.contains = context.expand(options.contains)
        self.absent = [context.text(place) for place in options.absent]
        refuse([text for _, text in comparison.problems(self.contains, ("contains",), expanded=True)])

    def judge(self, answer: Answer, subject: str) -> Iterator[Finding]:
        """Say what is wrong with an answer that has a right status."""
        from precheck_lib.servers.words import named

        if self.content_type is not None and answer.content_type != self.content_type.strip().lower():
            found = named(answer.content_type, 80) if answer.content_type else "of no type"
            yield make("http.type", f"{subject}: the answer is {found}, {self.content_type} is needed")
        if (self.text is not None or self.contains is not None or self.absent) and not answer.complete:
            text = f"{subject}: the body of the answer did not arrive whole"
            raise not_ready("transport.truncated", text, word="error", curl=18)
        if self.text is not None and self.text.encode("utf-8", "surrogateescape") not in answer.body:
            yield make(
                "http.text",
                f"{subject}: the answer does not hold {self.text_written!r}",
                evidence=f"it has {len(answer.body)} bytes",
            )
        if self.contains is not None or self.absent:
            yield from self._judge_json(answer, subject)

    def _judge_json(self, answer: Answer, subject: str) -> Iterator[Finding]:
        from precheck_lib.bounded.strict_json import parse
        from precheck_lib.checks import comparison

        try:
            document = parse(answer.body)
        except ValueError as error:
            page = "it is a web page" if answer.content_type == "text/html" else f"it has {len(answer.body)} bytes"
            yield make("http.answer", f"{subject}: the answer cannot be read: {error}", evidence=page)
            return
        if self.contains is not None:
            for one in comparison.differences(self.contains, document):
                yield make("http.value", f"{subject}: {one.text}", evidence=one.evidence)
        for place in self.absent:
            if there := comparison.is_there(document, place):
                text = f"{subject}: {place} is there ({comparison.shown(there[0], place)}), and must not be"
                yield make("http.present", text)


def plan(options: HttpOptions) -> list[Deed]:
    """Say what would be done."""
    wanted = options.status if isinstance(options.status, list) else [options.status]
    judged = [name for name in ("content_type", "contains", "absent", "text") if getattr(options, name)]
    also = f", and be right in {', '.join(judged)}" if judged else ""
    url = without_credentials(options.url)
    return [Deed(f"{options.method} {url}; the status has to be {' or '.join(map(str, wanted))}{also}")]


KIND = Kind(name="http", options=HttpOptions, run=run, plan=plan, imports=("precheck_lib.bounded.http",))
