"""Findings of `genguard lint` as a ClusterReport of OpenReports, for `kubectl apply`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from genguard.linting.check import Level, LintFinding
from genguard.objects.open_report import Outcome, ReportResult, report_of

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
