"""Runs every check on webhook configurations and on CustomResourceDefinitions."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from genguard.linting.check import Check, DefinitionCheck, LintContext, LintFinding, Problem
from genguard.linting.checks import CHECKS
from genguard.linting.definition import read_versions
from genguard.linting.hook import mapping, read_hooks, text

_ORDER: Final = attrgetter("severity.rank", "definition", "webhook", "id", "field", "message")
"""The worst first, and webhooks before definitions, which have an empty `definition`."""


def lint(
    documents: Iterable[Any],
    *,
    at: datetime,
    live: bool,
    checks: tuple[Check | DefinitionCheck, ...] = CHECKS,
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
        if isinstance(check, Check):
            for hook in context.hooks:
                problems = check.find_problems(hook, context)
                found |= {_finding(check, problem, webhook=hook.name) for problem in problems}
        else:
            for version in versions:
                name, problems = version.definition, check.find_problems(version)
                found |= {_finding(check, problem, definition=name) for problem in problems}
    return tuple(sorted(found, key=_ORDER))


def _finding(check: Check | DefinitionCheck, problem: Problem, **subject: str) -> LintFinding:
    level, field, message = problem
    return LintFinding(
        id=check.id, severity=level, field=field, message=message, reason=check.reason, **subject
    )


def _read_services(documents: Iterable[Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for document in documents:
        found = mapping(document)
        if found.get("kind") == "Service":
            metadata = mapping(found.get("metadata"))
            key = text(metadata.get("namespace")), text(metadata.get("name"))
            yield key, dict(mapping(found.get("spec")))
