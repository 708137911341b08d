"""Runs every check on webhook configurations and on CustomResourceDefinitions."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from genguard.linting.check import Check, DefinitionCheck, LintContext, LintFinding, Problem
from genguard.linting.checks import CHECKS
from genguard.linting.definition import read_versions
from genguard.linting.hook import mapping, read_hooks, text


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
    of_webhooks = [check for check in checks if isinstance(check, Check)]
    of_definitions = [check for check in checks if isinstance(check, DefinitionCheck)]
    hooks = {
        _finding(check, problem, webhook=hook.name)
        for hook in context.hooks
        for check in of_webhooks
        for problem in check.find_problems(hook, context)
    }
    definitions = {
        _finding(check, problem, definition=version.definition)
        for version in read_versions(given)
        for check in of_definitions
        for problem in check.find_problems(version)
    }
    return tuple(
        sorted(
            hooks | definitions,
            key=lambda finding: (
                finding.severity.rank,
                finding.definition,
                finding.webhook,
                finding.id,
                finding.field,
                finding.message,
            ),
        )
    )


def _finding(
    check: Check | DefinitionCheck, problem: Problem, *, webhook: str = "", definition: str = ""
) -> LintFinding:
    level, field, message = problem
    return LintFinding(
        id=check.id,
        severity=level,
        webhook=webhook,
        definition=definition,
        field=field,
        message=message,
        reason=check.reason,
    )


def _read_services(documents: Iterable[Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for document in documents:
        found = mapping(document)
        if found.get("kind") == "Service":
            metadata = mapping(found.get("metadata"))
            key = text(metadata.get("namespace")), text(metadata.get("name"))
            yield key, dict(mapping(found.get("spec")))
