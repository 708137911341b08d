"""Logs each change of a finding as one line, with its actors."""

import logging
from typing import Final

from genguard.detection.finding import Finding, Severity
from webhook.alerts.change import ENDS, Change
from webhook.telemetry.logs import LOGGER, is_heard

_MESSAGE: Final = "finding %s"
_LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}


class LogSink:
    """Writes to the logger `genguard`."""

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Log one line for each change."""
        del findings
        for transition, finding in changes:
            level = logging.INFO if transition in ENDS else _LEVELS[finding.severity]
            if not is_heard(level, _MESSAGE):
                continue
            where = finding.object
            facts = {
                "id": finding.id,
                "detector": finding.detector,
                "severity": finding.severity,
                "resource": where.resource,
                "group": where.group,
                "namespace": where.namespace,
                "name": where.name,
                "paths": finding.paths,
                "actors": [f"{one.type} {one.name} ({one.confidence})" for one in finding.actors],
                "count": finding.count,
                "what": finding.message,
                **({"causedBy": finding.caused_by} if finding.caused_by else {}),
                **({"partOf": finding.part_of} if finding.part_of else {}),
                **({"objects": finding.objects.count} if finding.objects else {}),
            }
            LOGGER.log(level, _MESSAGE, transition, extra={"facts": facts})

    async def close(self) -> None:
        """Do nothing: no connection is open."""
