"""Running one check of a kind, and what a look that does not come back is."""

from __future__ import annotations

import threading

import pytest

from precheck_lib.bounded.budget import Budget
from precheck_lib.bounded.journal import Journal
from precheck_lib.checks import kind_named
from precheck_lib.checks.kind import Context
from precheck_lib.findings import NotReadyError
from precheck_lib.spec.typed import BAD, convert
from precheck_lib.spec.variables import expand


class Checker:
    """Runs checks; options are written as a spec has them."""

    def context(self, env=None, seconds=10.0):
        env = dict(env or {})
        return Context(
            env=env,
            budget=Budget(seconds),
            journal=Journal(),
            expand=lambda value: expand(value, env, {}),
            exit_code=lambda error: error.curl,
        )

    def options(self, kind, options):
        faults = []
        made = convert(options, kind_named(kind).options, (), lambda path, text: faults.append((path, text)))
        assert made is not BAD, faults
        return made

    def passes(self, kind, options, *, env=None):
        """What a check that passes warns of."""
        return kind_named(kind).run(self.options(kind, options), self.context(env))

    def error(self, kind, options, *, env=None, seconds=10.0):
        """How a check ended that did not pass."""
        with pytest.raises(NotReadyError) as caught:
            kind_named(kind).run(self.options(kind, options), self.context(env, seconds))
        return caught.value

    def said(self, kind, options, *, env=None):
        """The outcome, and code and message of every finding, of a check that does not pass."""
        error = self.error(kind, options, env=env)
        return error.word, [(finding.code, finding.message) for finding in error.findings]

    def refused(self, kind, options):
        """What is said of options that cannot be."""
        error = self.error(kind, options)
        assert error.usage
        assert {finding.code for finding in error.findings} == {"spec.invalid"}
        return [finding.message for finding in error.findings]

    def planned(self, kind, options):
        return [deed.text for deed in kind_named(kind).plan(self.options(kind, options))]


@pytest.fixture
def checker():
    return Checker()


@pytest.fixture
def hangs():
    """A function that does not come back before the test is over."""
    over = threading.Event()
    before = set(threading.enumerate())
    yield lambda *_, **__: over.wait(20)
    over.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
