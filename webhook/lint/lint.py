"""lint(): documents in, findings out, the worst first."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from webhook.lint.check import Check, Surroundings
from webhook.lint.checks import ALL
from webhook.lint.finding import LintFinding
from webhook.lint.hook import mapping, read_hooks, text


def lint(
    documents: Iterable[Any], *, at: datetime, live: bool, checks: tuple[Check, ...] = ALL
) -> tuple[LintFinding, ...]:
    """Look at every webhook configuration; other documents are context, or nothing."""
    given: Final = list(documents)
    around = Surroundings(
        hooks=tuple(read_hooks(given)),
        services=dict(_services(given)),
        at=at,
        live=live,
    )
    found = {one for hook in around.hooks for check in checks for one in check.look(hook, around)}
    return tuple(sorted(found, key=lambda one: (one.severity.rank, one.webhook, one.id, one.field)))


def _services(documents: Iterable[Any]) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for document in documents:
        found = mapping(document)
        if found.get("kind") == "Service":
            metadata = mapping(found.get("metadata"))
            key = text(metadata.get("namespace")), text(metadata.get("name"))
            yield key, dict(mapping(found.get("spec")))
