"""Changes of findings, and the sink that logs each as one line, with its actors."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from genguard.detection.finding import Finding, Severity, names_of
from webhook.telemetry.logs import LOGGER, is_heard

_MESSAGE: Final = "finding %s"
_LEVELS: Final = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.ERROR,
}


class Transition(StrEnum):
    """How a finding changed. Further signals are no change, or a loop would alert endlessly.

    FOLDED: it was a warning or worse, and is now known to be caused by another finding, or to be
            part of one
    """

    OPENED = "opened"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    REOPENED = "reopened"
    FOLDED = "folded"


ENDS: Final = frozenset({Transition.RESOLVED, Transition.FOLDED})
"""Nobody is alerted any more after these."""


class Change(NamedTuple):
    """One transition of one finding."""

    transition: Transition
    finding: Finding


Sink = Callable[[tuple[Change, ...], tuple[Finding, ...]], Awaitable[None]]
"""Reports changes to one receiver, given all findings. Nothing waits for a slow or failing one."""


class TransitionTracker:
    """Compares findings with those of the last call, and returns the changes."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, Severity]] = {}

    def since(self, findings: tuple[Finding, ...]) -> tuple[Change, ...]:
        """Return the changes since the last call."""
        found = tuple(
            Change(transition, finding)
            for finding in findings
            if (transition := self._transition(finding)) is not None
        )
        self._seen = {}
        self.know(findings)
        return found

    def know(self, findings: Iterable[Finding]) -> None:
        """Take these findings as reported: another replica has reported them."""
        self._seen |= {finding.id: (finding.state, finding.severity) for finding in findings}

    def _transition(self, finding: Finding) -> Transition | None:
        before = self._seen.get(finding.id)
        if before is None:
            return None if finding.state == "resolved" else Transition.OPENED
        state, severity = before
        # From open to quiet and back is not reported: the damage was there all the time.
        if (state == "resolved") != (finding.state == "resolved"):
            return Transition.RESOLVED if finding.state == "resolved" else Transition.REOPENED
        if finding.above and finding.severity.rank < severity.rank:
            return Transition.FOLDED
        return Transition.ESCALATED if finding.severity.rank > severity.rank else None


async def log_changes(changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
    """Log one line for each change."""
    del findings
    for transition, finding in changes:
        level = logging.INFO if transition in ENDS else _LEVELS[finding.severity]
        if not is_heard(level, _MESSAGE):
            continue
        where = finding.object
        fields = {
            "id": finding.id,
            "detector": finding.detector,
            "severity": finding.severity,
            "resource": where.resource,
            "group": where.group,
            "namespace": where.namespace,
            "name": where.name,
            "paths": finding.paths,
            "actors": [
                f"{actor.type} {name} ({actor.confidence})"
                for actor, name in zip(finding.actors, names_of(finding.actors), strict=True)
            ],
            "count": finding.count,
            "what": finding.message,
            **({"causedBy": finding.caused_by} if finding.caused_by else {}),
            **({"partOf": finding.part_of} if finding.part_of else {}),
            **({"objects": finding.objects.count} if finding.objects else {}),
        }
        LOGGER.log(level, _MESSAGE, transition, extra={"fields": fields})
