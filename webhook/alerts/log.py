"""Findings as log lines: one for each turn, with the actor in it."""

import logging
from typing import Final

from webhook.alerts.change import Change, Turn
from webhook.detection.finding import Finding, Severity
from webhook.telemetry.logs import LOGGER, is_heard

_MESSAGE: Final = "finding %s"
_LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}


class LogSink:
    """Writes to the `genguard` logger."""

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """One line a turn."""
        del findings
        for turn, finding in changes:
            level = logging.INFO if turn is Turn.RESOLVED else _LEVELS[finding.severity]
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
            }
            LOGGER.log(level, _MESSAGE, turn, extra={"facts": facts})

    async def close(self) -> None:
        """Nothing is held."""
