"""Runs every check on webhook configurations."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from webhook.lint import checks as checks_folder
from webhook.lint.check import Check, LintContext, LintFinding
from webhook.lint.hook import mapping, read_hooks, text

CHECKS: Final[tuple[Check, ...]] = tuple(
    import_module(f"{checks_folder.__name__}.{module.name}").CHECK
    for module in iter_modules(checks_folder.__path__)
)
"""The check of each module in webhook/lint/checks."""


def lint(
    documents: Iterable[Any], *, at: datetime, live: bool, checks: tuple[Check, ...] = CHECKS
) -> tuple[LintFinding, ...]:
    """Return the problems of every webhook configuration among the documents, the worst first.

    Services among the documents are used by checks; other documents are ignored.
    """
    given = list(documents)
    context = LintContext(
        hooks=tuple(read_hooks(given)), services=dict(_read_services(given)), at=at, live=live
    )
    found = {
        LintFinding(check.id, level, hook.name, field, message, check.reason)
        for hook in context.hooks
        for check in checks
        for level, field, message in check.find_problems(hook, context)
    }
    return tuple(
        sorted(
            found,
            key=lambda finding: (
                finding.severity.rank,
                finding.webhook,
                finding.id,
                finding.field,
                finding.message,
            ),
        )
    )


def _read_services(documents: Iterable[Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for document in documents:
        found = mapping(document)
        if found.get("kind") == "Service":
            metadata = mapping(found.get("metadata"))
            key = text(metadata.get("namespace")), text(metadata.get("name"))
            yield key, dict(mapping(found.get("spec")))
