"""What happened to a finding since it was last looked at."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from webhook.detection.finding import Finding, Severity

_ORDER: Final = {severity: rank for rank, severity in enumerate(Severity)}


class Turn(StrEnum):
    """Only turns are told, not each sign: a loop must not become a loop of alerts."""

    OPENED = "opened"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
    REOPENED = "reopened"


class Change(NamedTuple):
    """One turn of one finding."""

    turn: Turn
    finding: Finding


class Sink(Protocol):
    """One place to tell. Slow or failing sinks keep nobody waiting."""

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Called after each look: what turned, and everything that is known."""

    async def close(self) -> None:
        """Give up what is held."""


class Turns:
    """Remembers the last look, and tells what turned since."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, Severity]] = {}
        self._last: tuple[Finding, ...] = ()

    def since(self, findings: tuple[Finding, ...]) -> tuple[Change, ...]:
        """The turns between the last look and this one."""
        if findings is self._last:
            return ()
        self._last = findings
        found: list[Change] = []
        seen: dict[str, tuple[str, Severity]] = {}
        for finding in findings:
            turn = self._turn(finding)
            if turn is not None:
                found.append(Change(turn, finding))
            seen[finding.id] = (finding.state, finding.severity)
        self._seen = seen
        return tuple(found)

    def know(self, findings: Iterable[Finding]) -> None:
        """Take these as told: somebody else has told of them."""
        self._seen |= {one.id: (one.state, one.severity) for one in findings}

    def _turn(self, finding: Finding) -> Turn | None:
        before = self._seen.get(finding.id)
        if before is None:
            return None if finding.state == "resolved" else Turn.OPENED
        state, severity = before
        # From open to quiet and back is no news: what is wrong has been wrong all the time.
        if (state == "resolved") != (finding.state == "resolved"):
            return Turn.RESOLVED if finding.state == "resolved" else Turn.REOPENED
        return Turn.ESCALATED if _ORDER[finding.severity] > _ORDER[severity] else None
