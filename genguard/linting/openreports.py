"""Builds objects of OpenReports: what was found in a namespace, or in what has none.

Report and ClusterReport of openreports.io/v1alpha1 (github.com/openreports/reports-api,
apis/openreports.io/v1alpha1), which Policy Reporter and others show. The group was called
reports.x-k8s.io before its first release. `genguard lint` prints one for `kubectl apply`; the
findings of a cluster are kept in others.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from genguard.linting.check import Level, LintFinding
from genguard.objects.shown import printable

API_VERSION: Final = "openreports.io/v1alpha1"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
SOURCE: Final = "genguard"
LEFT_OUT: Final = "genguard.io/left-out"
"""The annotation that says how many results had no room."""
MOST_RESULTS: Final = 200
"""In one report: at most 2 KiB each, so that a report stays far below the 1.5 MiB of etcd."""
_LONGEST_MESSAGE: Final = 512
_LONGEST_PROPERTY: Final = 256


class Outcome(StrEnum):
    """What a result says; the API has pass, error and skip as well."""

    FAIL = "fail"
    WARN = "warn"


class ReportResult(msgspec.Struct, frozen=True):
    """One result, before it is cut to what a report has room for.

    policy     what was broken: a detector or a check
    severity   critical, high, medium, low or info
    timestamp  when it was found first, in RFC 3339; "" where nobody knows
    resources  the objects, as ObjectReferences
    """

    policy: str
    category: str
    outcome: Outcome
    severity: str
    message: str
    resources: Sequence[Mapping[str, str]]
    properties: Mapping[str, str]
    timestamp: str = ""


def report_of(namespace: str, name: str, results: Sequence[ReportResult]) -> dict[str, Any]:
    """Return a Report; a ClusterReport where the namespace is "".

    The first MOST_RESULTS results are in it, so the worst come first.
    """
    shown = results[:MOST_RESULTS]
    metadata: dict[str, Any] = {"name": name, "labels": {MANAGED_BY: SOURCE}}
    if namespace:
        metadata["namespace"] = namespace
    if len(results) > len(shown):
        metadata["annotations"] = {LEFT_OUT: str(len(results) - len(shown))}
    counts = {one.value: sum(each.outcome is one for each in shown) for one in Outcome}
    return {
        "apiVersion": API_VERSION,
        "kind": "Report" if namespace else "ClusterReport",
        "metadata": metadata,
        "source": SOURCE,
        "summary": {"pass": 0, **counts, "error": 0, "skip": 0},
        "results": [_body(one) for one in shown],
    }


def _body(one: ReportResult) -> dict[str, Any]:
    body: dict[str, Any] = {
        "source": SOURCE,
        "policy": one.policy,
        "category": one.category,
        "result": one.outcome.value,
        "severity": one.severity,
        "scored": one.outcome is Outcome.FAIL,
        "message": _cut(one.message, _LONGEST_MESSAGE),
        "resources": [
            {key: printable(text) for key, text in each.items() if text} for each in one.resources
        ],
        "properties": {
            key: _cut(text, _LONGEST_PROPERTY) for key, text in one.properties.items() if text
        },
    }
    if one.timestamp:
        # A Timestamp of protocol buffers in JSON with fields, as the CustomResourceDefinition says.
        seconds = int(datetime.fromisoformat(one.timestamp).timestamp())
        body["timestamp"] = {"seconds": seconds, "nanos": 0}
    return body


def _cut(text: str, most: int) -> str:
    """The text without what is not printable, in at most so many bytes."""
    return printable(text).encode()[:most].decode(errors="ignore")


NAME: Final = "genguard-lint"
_WEBHOOKS: Final = "Webhook configuration"
_DEFINITIONS: Final = "CustomResourceDefinition"
_VERDICTS: Final = {
    Level.ERROR: (Outcome.FAIL, "high"),
    Level.WARNING: (Outcome.WARN, "medium"),
    Level.INFO: (Outcome.WARN, "info"),
}


def to_open_report(
    found: Iterable[LintFinding], resources: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the ClusterReport of all findings, the worst first.

    resources  references to what was checked, by name
    """
    worst = sorted(found, key=lambda one: one.severity.rank)
    return report_of("", NAME, [_result(one, resources) for one in worst])


def _result(one: LintFinding, resources: Mapping[str, Mapping[str, str]]) -> ReportResult:
    outcome, severity = _VERDICTS[one.severity]
    name, _, webhook = one.subject.partition("/")
    resource = resources.get(name)
    where = {"webhook": webhook} if webhook else {}
    return ReportResult(
        policy=one.id,
        category=_DEFINITIONS if one.definition else _WEBHOOKS,
        outcome=outcome,
        severity=severity,
        message=one.message,
        resources=(resource,) if resource else (),
        properties={**where, "field": one.field, "reason": one.reason},
    )
