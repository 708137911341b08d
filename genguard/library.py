"""The status of an object, and the dangers of webhook configurations, for plain dictionaries."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from genguard.linting import lint as linting
from genguard.linting.check import LintFinding
from genguard.status import evaluate as evaluating
from genguard.status.view import StatusView


def evaluate(
    document: Mapping[str, Any], children: Sequence[StatusView] = (), *, now: datetime | None = None
) -> StatusView:
    """Tell whether an object of any kind is ready, settled and healthy, and what blocks.

    document  the object as the API server shows it, decoded
    children  the views of the objects that it owns: the answer is that of the whole tree
    now       when; the present time where it is not given. It must have a time zone

    It never raises for what is in the object: a field of the wrong type blocks.

    >>> stored = {"apiVersion": "apps/v1", "kind": "Deployment",
    ...     "metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 1},
    ...     "status": {"observedGeneration": 1}}
    >>> view = evaluate(stored)
    >>> view.settled, str(view.reasons[0])
    (False, 'status.observedGeneration 1, want 2')
    """
    at = time.time() if now is None else now.timestamp()
    return evaluating.evaluate(document, None, children, at=at)


def lint(
    documents: Iterable[Mapping[str, Any]], *, now: datetime | None = None, live: bool = False
) -> tuple[LintFinding, ...]:
    """Return what is dangerous in webhook configurations, the worst first.

    documents  decoded manifests; those of other kinds are ignored, Services are looked up
    now        when, for certificates that expire; the present time where it is not given
    live       they come from a cluster, where the API server has filled in defaults

    >>> hook = {"name": "a.example.org", "rules": [{"apiGroups": ["*"], "resources": ["*"],
    ...     "operations": ["*"], "apiVersions": ["*"]}], "failurePolicy": "Fail"}
    >>> found = lint([{"kind": "MutatingWebhookConfiguration", "metadata": {"name": "a"},
    ...     "webhooks": [hook]}])
    >>> found[0].severity.value
    'error'
    """
    return linting.lint(documents, at=datetime.now(UTC) if now is None else now, live=live)
