"""Runs every check on webhook configurations and definitions, and writes what it finds as SARIF."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from genguard.formats.sarif import SarifResult, make_sarif
from genguard.linting.check import Check, Level, LintContext, LintFinding, Problem
from genguard.linting.checks import CHECKS
from genguard.linting.definition import DEFINITION, read_versions
from genguard.linting.hook import MUTATING, VALIDATING, read_hooks
from genguard.objects.fields import mapping, text

_ORDER: Final = attrgetter("severity.rank", "definition", "webhook", "id", "field", "message")
"""The worst first, and webhooks before definitions, which have an empty `definition`."""
_LEVELS: Final = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}
_FINGERPRINT: Final = "genguardLint/v1"


def lint(
    documents: Iterable[Any], *, at: datetime, live: bool, checks: tuple[Check, ...] = CHECKS
) -> tuple[LintFinding, ...]:
    """Return the problems of webhook configurations and definitions, the worst first.

    Services among the documents are used by checks; other documents are ignored.
    """
    given = list(documents)
    context = LintContext(
        hooks=tuple(read_hooks(given)), services=dict(_read_services(given)), at=at, live=live
    )
    versions = list(read_versions(given))
    found: set[LintFinding] = set()
    for check in checks:
        if check.of_definitions:
            for version in versions:
                name, problems = version.definition, check.find_problems(version)
                found |= {_finding(check, problem, definition=name) for problem in problems}
        else:
            for hook in context.hooks:
                problems = check.find_problems(hook, context)
                found |= {_finding(check, problem, webhook=hook.name) for problem in problems}
    return tuple(sorted(found, key=_ORDER))


def _finding(check: Check, problem: Problem, **subject: str) -> LintFinding:
    return LintFinding(
        id=check.id,
        severity=problem.level,
        field=problem.field,
        message=check.message(problem),
        reason=check.reason,
        **subject,
    )


def _read_services(documents: Iterable[Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for document in documents:
        found = mapping(document)
        if found.get("kind") == "Service":
            metadata = mapping(found.get("metadata"))
            key = text(metadata.get("namespace")), text(metadata.get("name"))
            yield key, dict(mapping(found.get("spec")))


def to_sarif(
    findings: Iterable[LintFinding], texts: Mapping[str, str], version: str
) -> dict[str, Any]:
    """Return a SARIF log, with the line of each field that is in a file.

    A configuration or definition that several files have is shown in the first one.

    texts    the files that were checked, by name
    version  genguard's
    """
    results = [
        SarifResult(
            rule=finding.id,
            level=_LEVELS[finding.severity],
            subject=finding.subject,
            field=finding.field,
            message=finding.message,
            kinds=(DEFINITION,) if finding.definition else (MUTATING, VALIDATING),
            name=finding.subject.partition("/")[0],
        )
        for finding in findings
    ]
    reasons = {check.id: check.reason for check in CHECKS}
    return make_sarif(reasons, results, texts, version=version, fingerprint=_FINGERPRINT)
