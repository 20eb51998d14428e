"""Runs precheck from a checkout: `python3 entrypoint.py demo`, and the same from `action.yml`.

Standard library only. It starts itself again isolated (`-I`: no module of the working folder, the user's site or
PYTHONPATH) and leaves the rest to `precheck_lib.bootstrap`: that finds or installs the hash-pinned dependencies of
scripts/requirements.lock, and this hands over to the command line in the same process, so that a signal reaches it.

The syntax is that of Python 3.6, so that an old one gets a sentence and not a traceback. Nothing keeps the bytecode of
this file: every start compiles it anew, so it is short.
"""
# ruff: noqa: I002, UP032

import contextlib
import os
import sys

OLDEST = (3, 10)
ROOT = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    """Make sure of the Python, isolate, hand over."""
    if sys.version_info < OLDEST:
        fail(
            "Python {}.{} or newer is needed; {} is {}.{}.".format(*OLDEST, sys.executable, *sys.version_info[:2]),
            "Install one, or name it (the action's input `python`).",
        )
    if os.name != "posix":
        fail("precheck runs on Linux and macOS; this is {}.".format(sys.platform), "Run the job on another machine.")
    if not sys.executable:
        fail("This Python does not know where it is.", "Start it by its whole path.")
    fill_closed_streams()
    if not (sys.flags.isolated and sys.flags.utf8_mode):
        # exec, not a child: the process stays the one that gets the signals.
        command = [sys.executable, "-I", "-X", "utf8", os.path.abspath(__file__), *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606 - this very program
    sys.path.insert(0, ROOT)
    from precheck_lib.interrupt import Interrupts

    try:
        interrupts = Interrupts()
    except OSError as error:  # a process that may open no descriptor can ask nobody anything
        fail("It cannot run here: {}.".format(error.strerror), "See `ulimit -n`.")
    interrupts.install()
    from precheck_lib.bootstrap import CannotStartError, StoppedError, look_back, make_ready

    try:
        folder = make_ready(ROOT, sys.argv[1:], interrupts)
    except CannotStartError as error:
        fail(error.text, error.remedy)
    except StoppedError as error:
        say(2, "precheck: ended by a signal while its dependencies were installed")
        code = 128 + error.signum
        give_outputs("cancelled", code)
        sys.exit(code)
    from precheck_lib.cli import run_command_line

    code = run_command_line(sys.argv[1:], interrupts)
    look_back(folder, code)
    sys.exit(code)


def fail(text: str, remedy: str) -> None:
    """End with one clear message; under GitHub with an annotation and the outputs of a run that could not begin."""
    text, remedy = (" ".join(part.split()).replace("##[", "## [") for part in (text, remedy))  # paths may be anything
    say(2, "precheck: {}\n    do: {}".format(text, remedy))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        line = "Your code was not tested. {} What to do: {}".format(text, remedy)
        for raw, coded in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
            line = line.replace(raw, coded)
        say(1, "::error title=precheck could not start::{}".format(line))
    give_outputs("error", 70)
    sys.exit(70)


def fill_closed_streams() -> None:
    """Put something on each standard descriptor that is closed, as `precheck_lib` does, before it can be another's."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest that is free


def say(descriptor: int, text: str) -> None:
    """Write a line, where it can be written."""
    with contextlib.suppress(OSError):
        os.write(descriptor, (text + "\n").encode("utf-8", "backslashreplace"))


def give_outputs(status: str, code: int) -> None:
    """Write the outputs of the action, so that a step that asks for `status` gets an answer."""
    path = os.environ.get("GITHUB_OUTPUT")
    if os.environ.get("GITHUB_ACTIONS") == "true" and path:
        # An output that is not there counts as not ready, too.
        with contextlib.suppress(OSError), open(path, "a") as file:
            file.write("status={}\nexit-code={}\n".format(status, code))


if __name__ == "__main__":
    main()
