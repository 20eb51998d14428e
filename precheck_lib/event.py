"""What GitHub says of the run that this job belongs to: what started it, and whether it was given secrets."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_BYTES = 8 << 20
_DEPENDABOT = "dependabot[bot]"


class _Repository(msgspec.Struct):
    full_name: str


class _Ref(msgspec.Struct):
    sha: str = ""
    repo: _Repository | None = None


class _PullRequest(msgspec.Struct):
    head: _Ref
    base: _Ref


class _File(msgspec.Struct):
    pull_request: _PullRequest | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The event of a workflow run: its `name`, its `actor`; of a pull request the `base` commit, and which `fork`."""

    name: str
    actor: str
    base: str | None = None
    fork: str | None = None

    @property
    def withheld(self) -> str:
        """Why GitHub has given this run no secrets; empty where it has."""
        # `pull_request_target` runs in the base repository, with its secrets.
        if self.name == "pull_request" and self.fork is not None:
            return f"this run is for a pull request from {self.fork}, and GitHub gives such runs no secrets"
        if self.actor == _DEPENDABOT:
            return "Dependabot has started this run, and GitHub gives such runs only the secrets of Dependabot"
        return ""


def read_event(env: Mapping[str, str]) -> Event | None:
    """Return the event of this run from GitHub's variables and its event file; `None` outside of GitHub Actions.

    A file that cannot be read, or is something else, tells nothing: the event is then what the variables say.
    """
    name = env.get("GITHUB_EVENT_NAME", "")
    if env.get("GITHUB_ACTIONS") != "true" or not name:
        return None
    event = Event(name=name, actor=env.get("GITHUB_ACTOR", ""))
    request = _pull_request(env.get("GITHUB_EVENT_PATH", ""))
    if request is None:
        return event
    head, base = request.head.repo, request.base.repo
    fork = None
    if head is None:
        fork = "a fork that is not there any more"
    elif base is not None and head.full_name != base.full_name:
        fork = f"the fork {head.full_name}"
    return msgspec.structs.replace(event, base=request.base.sha or None, fork=fork)


def _pull_request(path: str) -> _PullRequest | None:
    try:
        # Not blocking: what the variable names may be anything.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        try:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=_File).pull_request
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
