"""Nothing leaks out (DESIGN, R7): no secret in anything that is written, whatever happens and whoever repeats it."""

from __future__ import annotations

import base64
import html
import json
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

import pytest

from precheck_lib.simulate import Model
from tests.contract.canaries import Canary, leaks, write_all
from tests.contract.harness import Family, open_stage, write_script, write_strict, write_yaml
from tests.runner_grammar import commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from precheck_lib.simulate import Stage
    from tests.contract.canaries import Written

OPENAI, ANTHROPIC, GEMINI = Canary("Oai"), Canary("Ant"), Canary("Gem")
PASSWORD, CONFIG = Canary("Pwd"), Canary("Cfg")
USER, QUERY = Canary("Usr"), Canary("Qry")
SERVER = Canary("Srv")
"""What only a server knows: it cannot be searched for, so it has to be left out."""

CANARIES = (OPENAI, ANTHROPIC, GEMINI, PASSWORD, CONFIG, USER, QUERY, SERVER)
ROLES = {
    "TEST_OPENAI_API_KEY": OPENAI.value,
    "TEST_ANTHROPIC_API_KEY": ANTHROPIC.value,
    "TEST_GEMINI_API_KEY": GEMINI.value,
}
URL_ROLES = {
    "TEST_CODEX_WS_URL": "ws",
    "TEST_OPENAI_BASE_URL": "https",
    "TEST_ANTHROPIC_BASE_URL": "https",
    "TEST_OPENCODE_URL": "http",
    "TEST_CUSTOM_OLLAMA_URL": "http",
}
KNOWN = (OPENAI, ANTHROPIC, GEMINI, PASSWORD, CONFIG)
CREDENTIALS = f"http://{USER.plain}:{PASSWORD.plain}@127.0.0.1"
PAGE = "<html><title>502 Bad Gateway</title>" + "".join(f"<p>{one.value}</p>" for one in CANARIES) + "</html>"

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "part of a URL": lambda text: quote(text, safe=""),
    "form of a URL": quote_plus,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in Unicode": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[1:-1],
    "Python": repr,
    "Python's bytes": lambda text: repr(text.encode()),
    "a shell's argument": shlex.quote,
    "XML": escape,
    "XML's attribute": quoteattr,
    "HTML": html.escape,
    "HTML in ASCII": lambda text: html.escape(text).encode("ascii", "xmlcharrefreplace").decode(),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    **{
        f"base64 behind {before!r}": lambda text, before=before: base64.b64encode((before + text).encode()).decode()
        for before in ("", "x", "ab", "opencode:")
    },
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "split by colour": lambda text: f"{text[:9]}\x1b[1m{text[9:]}",
}


def names_of(canary: Canary) -> list[str]:
    """Give the canary in every spelling, as the names of models in a list."""
    return [spell(canary.value) for spell in SPELLINGS.values()]


# The runs: each case changes a stage, its environment or the arguments of the command ---------------------------------


class Scene:
    """One run to make: a stage with its environment, a folder for all that is written, and what is asked for."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        self.folder = folder
        self.spec = write_strict(folder / "spec")
        self.stage = open_stage(
            folder / "stage", models={"qwen3:8b": Model()}, config=None, password=PASSWORD.value, **arguments
        )
        config = self.stage.opencode.config
        assert isinstance(config, dict)
        options = config["provider"]["ollama"]["options"]
        role = json.loads(json.dumps(config))
        role["provider"]["ollama"]["options"]["apiKey"] = CONFIG.value
        # The server has a key in place of what the role says is one, and more than the role.
        role["provider"]["ollama"]["options"]["token"] = "{env:SERVER_KEY}"
        options["apiKey"], options["token"] = CONFIG.value, SERVER.value
        config["provider"]["more"] = {"options": {"apiKey": SERVER.value}}
        self.env = {**self.stage.environment, **ROLES, "OPENCODE_CONFIG_CONTENT": json.dumps(role)}
        self.written = folder / "written"
        self.written.mkdir()
        self._record()
        self._send_more_headers()

    def _record(self) -> None:
        """Let the two commands write down what they were given, beside what is searched."""
        for name, line in (("codex", "codex-cli 0.171.0"), ("opencode", "1.18.33")):
            record = shlex.quote(str(self.written / f"given to {name}"))
            saved = f"command -p cat /proc/$$/cmdline /proc/$$/environ > {record}"
            write_script(self.stage.commands[name], saved, f"echo {line}")

    def _send_more_headers(self) -> None:
        """Let every answer of OpenCode and Ollama have headers that hold secrets."""
        more = {
            "Set_Cookie": f"session={SERVER.plain}",
            "WWW_Authenticate": f'Basic realm="{SERVER.plain}"',
            "Location": f"http://{USER.plain}:{SERVER.plain}@127.0.0.1/?token={QUERY.plain}",
        }
        for server in (self.stage.opencode, self.stage.ollama):
            reply = server.reply
            server.reply = lambda *args, reply=reply, **also: reply(*args, **{**more, **also})  # type: ignore[method-assign]

    def run(self, *arguments: str, **how: Any) -> Written:
        """Run the command, and give all that was written, by it or by a server about it."""
        written = write_all(self.written, self.env, *(arguments or ("run", str(self.spec), "--out", "out")), **how)
        for name in ("codex", "opencode", "ollama"):
            seen = [
                f"{one.path} {[value for key, value in one.headers.items() if key != 'authorization']} {one.body!r}"
                for one in getattr(self.stage, name).seen
            ]
            written.files[f"what {name} saw"] = "\n".join([*seen, *map(str, self.stage.codex.calls)]).encode()
        return written


def echo(text: str) -> dict[str, Any]:
    """Give the options of a fault that answers with an error in JSON."""
    return {"type": "application/json", "body": json.dumps({"error": text})}


def passes(folder: Path, **how: Any) -> Written:
    """Give a run that passes."""
    scene = Scene(folder)
    with scene.stage:
        return scene.run(**how)


def fails(
    server: str, fault: str, change: Callable[[Stage], object] = lambda _: None, **options: Any
) -> Callable[..., Written]:
    """Give a case: the strict run against a server with a fault."""

    def run(folder: Path) -> Written:
        scene = Scene(folder, faults={server: fault}, fault_options={server: options} if options else {})
        with scene.stage:
            change(scene.stage)
            return scene.run()

    return run


def changed(change: Callable[[Stage], object]) -> Callable[..., Written]:
    """Give a case: the strict run after a change of the stage."""

    def run(folder: Path) -> Written:
        scene = Scene(folder)
        with scene.stage:
            change(scene.stage)
            return scene.run()

    return run


def asks(*arguments: str, spec: Any = None, **env: str) -> Callable[..., Written]:
    """Give a case: a command line, where `SPEC` is the path of a spec and `STRICT` that of the strict one."""

    def run(folder: Path) -> Written:
        scene = Scene(folder)
        with scene.stage:
            port = scene.stage.opencode.url.rpartition(":")[2]
            path = scene.folder / "spec" / "mine.yml"
            if spec is not None:
                write_yaml(path, json.loads(json.dumps(spec).replace("PORT", port)))
            places = {"SPEC": str(path), "STRICT": str(scene.spec)}
            scene.env |= {name: places.get(value, value) for name, value in env.items()}
            return scene.run(*(places.get(part, part) for part in arguments))

    return run


def check(id_: str, **kind: Any) -> dict[str, Any]:
    """Give one check of a spec."""
    return {"id": id_, **kind}


def spec(*checks: dict[str, Any]) -> dict[str, Any]:
    """Give a spec."""
    return {"version": 1, "name": "mine", "checks": list(checks)}


WITH_CREDENTIALS = spec(
    check("a", tcp={"url": f"{CREDENTIALS}:PORT/"}),
    check(
        "b", opencode={"read": "health", "url": f"{CREDENTIALS}:PORT/x?token={QUERY.plain}", "password": SERVER.value}
    ),
)
WITH_VARIABLES = spec(
    check("a", opencode={"read": "health", "url": "http://127.0.0.1:PORT", "password": "${TEST_GEMINI_API_KEY}"}),
)
TAGS = {"models": [{"name": name} for name in (*names_of(OPENAI)[:7], names_of(OPENAI)[-1])]}
BROKEN_CONFIG = '{"provider": {"ollama": {"options": {"apiKey": ' + json.dumps(CONFIG.value) + "} // a comment\n}}}"


def with_headers(**headers: str) -> Callable[[Stage], object]:
    """Give a change of the stage: OpenCode's answers have these headers."""

    def change(stage: Stage) -> None:
        reply = stage.opencode.reply
        stage.opencode.reply = lambda status, body, *_, **more: reply(status, body, **{**more, **headers})  # type: ignore[method-assign]

    return change


def typed(stage: Stage) -> None:
    """Let OpenCode say that its answers are of a type that holds a secret."""
    reply = stage.opencode.reply
    stage.opencode.reply = lambda status, body, *_, **more: reply(  # type: ignore[method-assign]
        status, body, f"text/{SERVER.plain}", **more
    )


def scripted(**commands_: str) -> Callable[[Stage], object]:
    """Give a change of the stage: a command is this line of a shell."""

    def change(stage: Stage) -> None:
        for name, line in commands_.items():
            write_script(stage.commands[name], line)

    return change


CASES: dict[str, tuple[int, Callable[..., Written]]] = {
    "it passes": (0, passes),
    "it passes on a terminal": (0, lambda folder: passes(folder, terminal=True, on_github=False)),
    "URLs with credentials": (
        1,
        asks(
            *("run", "STRICT", "--out", "out"),
            **{
                role: f"{scheme}://{USER.plain}:{SERVER.plain}@127.0.0.1:1/api?key={QUERY.plain}#{QUERY.plain}"
                for role, scheme in URL_ROLES.items()
            },
        ),
    ),
    "a configuration with comments": (
        1,
        asks("run", "STRICT", "--out", "out", OPENCODE_CONFIG_CONTENT=BROKEN_CONFIG),
    ),
    "a key with a line feed": (1, asks("run", "STRICT", "--out", "out", TEST_GEMINI_API_KEY=f"{GEMINI.value}\r\n")),
    "commands that print a key": (
        1,
        changed(
            scripted(
                codex=f"printf %s {shlex.quote(names_of(OPENAI)[3])}",
                opencode=f"printf %s {shlex.quote(PASSWORD.value)} >&2; exit 3",
            )
        ),
    ),
    "Codex repeats keys in an error": (
        1,
        fails("codex", "error-answer", message=f"{ANTHROPIC.value}; authorization: Bearer {SERVER.plain}"),
    ),
    "Codex is at home in a key": (1, fails("codex", "foreign-home", home=f"/srv/{GEMINI.value}")),
    "Codex has a key for a version": (1, fails("codex", "wrong-version", version=OPENAI.value)),
    "OpenCode has a key for a version": (1, fails("opencode", "wrong-version", version=names_of(PASSWORD)[15])),
    "OpenCode repeats its configuration": (22, fails("opencode", "config-400")),
    "OpenCode repeats its configuration as text": (22, fails("opencode", "config-400", kind="ConfigJsonError")),
    "OpenCode does not know the password": (22, fails("opencode", "unauthorized")),
    "OpenCode runs with another key": (1, fails("opencode", "config-leaf-differs", path=("options", "apiKey"))),
    "a proxy's page": (22, fails("opencode", "status", body=PAGE)),
    "a page with status 200": (1, fails("opencode", "not-json", body=PAGE)),
    "a redirect with credentials": (
        1,
        fails("opencode", "redirect", location=f"http://{USER.plain}:{SERVER.plain}@127.0.0.1/?t={QUERY.plain}"),
    ),
    "a secret for a media type": (1, changed(typed)),
    "a secret for an encoding": (1, changed(with_headers(Content_Encoding=SERVER.plain[:20]))),
    "Ollama repeats a key": (22, fails("ollama", "status", **echo(f"bad key {json.dumps(GEMINI.value)}"))),
    "Ollama repeats the header": (
        22,
        fails("ollama", "status", **echo(f"at {CREDENTIALS}/: {names_of(PASSWORD)[18]}, token={SERVER.plain}")),
    ),
    "Ollama's proxy shows a page": (22, fails("ollama", "status", body=PAGE)),
    "models named by keys": (1, fails("ollama", "not-json", at="tags", body=json.dumps(TAGS))),
    "a load that fails with a key": (22, fails("ollama", "status", at="load", **echo(html.escape(GEMINI.value)))),
    "a report that cannot be written": (70, asks("run", "STRICT", "--json", "/dev/null/x", "--junit", "report.xml")),
    "a report in a place that is named by a key": (
        70,
        asks("run", "STRICT", "--json", f"/dev/null/{GEMINI.plain}/x", TEST_GEMINI_API_KEY=GEMINI.plain),
    ),
    "reports in a folder that is named by a key": (
        0,
        asks("run", "STRICT", "--out", f"out-{GEMINI.plain}", TEST_GEMINI_API_KEY=GEMINI.plain),
    ),
    "a spec with credentials": (1, asks("run", "SPEC", "--out", "out", spec=WITH_CREDENTIALS)),
    "the plan of a spec with credentials": (0, asks("plan", "SPEC", spec=WITH_CREDENTIALS)),
    "the plan of a spec with credentials as JSON": (0, asks("plan", "SPEC", "--json", spec=WITH_CREDENTIALS)),
    "the plan of a spec that is wrong": (2, asks("plan", "SPEC", spec=spec(check("a", tcp={"uri": CREDENTIALS})))),
    "the validation of a spec with credentials": (0, asks("validate", "SPEC", spec=WITH_CREDENTIALS)),
    "the validation of a spec that is wrong": (
        2,
        asks("validate", "SPEC", spec=spec(check(CREDENTIALS, tcp={"uri": CREDENTIALS}))),
    ),
    "a spec that is wrong": (2, asks("run", "SPEC", "--out", "out", spec=spec(check(CREDENTIALS, tcp={"url": 1})))),
    "a spec with a secret variable": (1, asks("run", "SPEC", "--out", "out", spec=WITH_VARIABLES)),
    "the plan of strict": (0, asks("plan", "strict")),
    "a key for a spec": (2, asks("run", OPENAI.value, "--out", "out")),
    "a key for a budget": (2, asks("run", "strict", "--out", "out", "--budget", ANTHROPIC.value)),
    "a key for a fault": (2, asks("demo", "--out", "out", "--fault", GEMINI.value)),
    "a key for a check": (2, asks("run", "STRICT", "--out", "out", "--only", OPENAI.value)),
    "a key for a file of variables": (2, asks("run", "STRICT", "--out", "out", "--env-file", OPENAI.value)),
    "a key for a code": (2, asks("explain", OPENAI.value)),
    "a key for an option": (2, asks("run", f"--{OPENAI.value}", "--out", "out")),
    "the action": (1, asks("action", PRECHECK_SPEC="STRICT", TEST_GEMINI_API_KEY=" ")),
    "the action with a key for an input": (2, asks("action", PRECHECK_ON_NOT_READY=OPENAI.value)),
}
UNMASKED = {
    "it passes on a terminal",
    "the plan of a spec with credentials",
    "the plan of a spec with credentials as JSON",
    "the plan of a spec that is wrong",
    "the validation of a spec with credentials",
    "the validation of a spec that is wrong",
    "a spec that is wrong",
    "the plan of strict",
    "a key for a spec",
    "a key for a budget",
    "a key for a fault",
    "a key for a check",
    "a key for a file of variables",
    "a key for a code",
    "a key for an option",
    "the action with a key for an input",
}
"""Not under Actions, or no run: there is no spec that says what is secret, and nothing that could show it."""


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("leaks")
    numbers = {name: str(number) for number, name in enumerate(CASES)}
    return Family(
        request,
        ("test_no_secret_is_in_anything_that_is_written",),
        CASES,
        lambda name: CASES[name][1](place / numbers[name]),
    )


@pytest.mark.parametrize("name", CASES)
def test_no_secret_is_in_anything_that_is_written(runs, name):
    written = runs[name]
    assert written.code == CASES[name][0], written
    places = written.places
    if name == "a spec with credentials":
        del places["what opencode saw"]  # the spec has it sent there, in so many words
    if name == "reports in a folder that is named by a key":
        places = {
            place: data for place, data in places.items() if not place.startswith("the name ")
        }  # it was asked for
    assert leaks(CANARIES, places) == [], written
    assert bool(written.masks) == (name not in UNMASKED), written
    assert written.out.splitlines()[: len(written.masks)] == written.masks, "they come before anything else"
    told = {one.name for one in (*commands(written.out), *commands(written.err))}
    assert told <= {"add-mask", "error", "warning"}, written


# What the runner is told to mask --------------------------------------------------------------------------------------

KEY = "-----BEGIN KEY-----\r\n  c2hvcnQ\n\n  a line with % and ::  \n-----END KEY-----\n"
SHOWN_ONCE = {
    "TEST_OPENAI_API_KEY": KEY,
    "TEST_ANTHROPIC_API_KEY": "seven77",
    "TEST_GEMINI_API_KEY": "eight888",
    "TEST_OPENCODE_USERNAME": "somebody",
    "TEST_OPENCODE_PASSWORD": "pass word",
}


@pytest.fixture
def roles(tmp_path):
    """Run the strict spec with these keys up to its roles, one of which is wrong: nothing is contacted."""

    def run(**how: Any) -> Written:
        with open_stage(tmp_path / "stage") as stage:
            config = json.dumps(json.loads(stage.environment["OPENCODE_CONFIG_CONTENT"]), indent=1)
            env = {**stage.environment, **SHOWN_ONCE, "OPENCODE_CONFIG_CONTENT": config, "TEST_CODEX_HOME": "here"}
            return write_all(tmp_path / "written", env, "run", "strict", **how)

    return run


def test_the_runner_is_told_to_mask_each_line_of_every_secret_role_and_nothing_short(roles):
    written = roles()
    found = [one.value for one in commands(written.out) if one.name == "add-mask"]
    assert len(found) == len(written.masks) == len(set(found))
    basic = base64.b64encode(b"somebody:pass word").decode()
    expected = {"-----BEGIN KEY-----", "a line with % and ::", "-----END KEY-----", "eight888", "pass word", basic}
    assert expected <= set(found)
    # The rest is the configuration, which is a secret as a whole: its lines, and the key in it.
    rest = set(found) - expected
    assert {"stand-in-ollama-key", '"apiKey": "stand-in-ollama-key"'} <= rest
    assert all('"' in line for line in rest - {"stand-in-ollama-key"})
    assert min(map(len, found)) >= 8


def test_nobody_is_told_to_mask_anything_outside_of_actions(roles):
    written = roles(on_github=False)
    assert commands(written.out) == commands(written.err) == []
    assert leaks_of(written, "eight888", "pass word", "stand-in-ollama-key", "BEGIN KEY") == []


def leaks_of(written: Written, *secrets: str) -> list[str]:
    """Say which of these texts can be found, and where."""
    return [f"{text} in {place}" for text in secrets for place, data in written.places.items() if text.encode() in data]


# The search itself ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", [name for name in SPELLINGS if name != "split by colour"])
def test_the_search_finds_a_canary_in_every_spelling(spelling):
    for canary in CANARIES:
        text = f"x{SPELLINGS[spelling](canary.value)}y".encode()
        assert leaks(CANARIES, {"here": text}) in ([f"{canary.name} in here"], [f"{canary.name}, encoded, in here"])
    assert leaks(CANARIES, {"here": SPELLINGS[spelling]("another secret that is long enough").encode()}) == []
