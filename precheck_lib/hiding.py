"""What of a run is shown and how: secrets are hidden in every text of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from precheck_lib.checks.env import EnvOptions
from precheck_lib.findings import NotReadyError
from precheck_lib.outcome import Finding, Host, Report, Source, SpecIdentity
from precheck_lib.redact import SECRET_NAME, Redactor, basic_token
from precheck_lib.spec.variables import expand, names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from precheck_lib.spec.model import Spec


def secret_values(spec: Spec, env: Mapping[str, str]) -> list[str]:
    """Return the values that must not be shown: of roles that the spec calls secret, or whose names say it.

    And what Basic authentication makes of them, where a check has the options for it.
    """
    secret: set[str] = set()
    made: list[str] = []
    for check in spec.checks:
        if isinstance(check.options, EnvOptions):
            roles = {**check.options.required, **check.options.optional}
            secret |= {name for name, role in roles.items() if role.secret or SECRET_NAME.search(name)}
        fields = {field: getattr(check.options, field) for field in check.options.__struct_fields__}
        secret |= {name for name in names(list(fields.values())) if SECRET_NAME.search(name)}
        if fields.get("password"):
            # What is missing or malformed is for the check itself to say.
            with contextlib.suppress(NotReadyError):
                username, password = expand([fields.get("username", ""), fields["password"]], env, spec.pins)
                made += [password, basic_token(username, password)] if password else []
    return list(dict.fromkeys([env[name] for name in sorted(secret) if env.get(name)] + made))


def shown(finding: Finding, redactor: Redactor, suffix: str = "") -> Finding:
    """Return a finding as it may be shown, with `suffix` at the end of its message."""
    return msgspec.structs.replace(
        finding,
        message=redactor.text(finding.message) + suffix,
        evidence=redactor.text(finding.evidence),
        remedy=redactor.text(finding.remedy),
    )


def with_evidence(finding: Finding, more: str) -> Finding:
    """Return a finding with more evidence."""
    return msgspec.structs.replace(finding, evidence=f"{finding.evidence}; {more}" if finding.evidence else more)


def as_warning(finding: Finding) -> Finding:
    """Return a finding that changes no verdict."""
    return msgspec.structs.replace(finding, severity="warning")


def hide_names(report: Report, redactor: Redactor) -> None:
    """Hide secrets in what the environment and the command line call things: a machine, a spec, a file."""
    host, spec = report.host, report.spec
    runner = host.runner and redactor.text(host.runner)
    report.host = Host(name=redactor.text(host.name), runner=runner, os=host.os, python=host.python)
    path = spec.path and redactor.text(spec.path)
    report.spec = SpecIdentity(name=spec.name, path=path, digest=spec.digest)
    report.observed = [
        msgspec.structs.replace(
            one,
            subject=redactor.text(one.subject),
            value=redactor.text(one.value) if isinstance(one.value, str) else one.value,
            wanted=redactor.text(one.wanted) if isinstance(one.wanted, str) else one.wanted,
        )
        for one in report.observed
    ]
    for result in report.checks:
        if result.source is not None:
            result.source = Source(redactor.text(result.source.file), result.source.line)
