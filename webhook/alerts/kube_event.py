"""Findings as Kubernetes Events on the object, as client-go would rate-limit them.

A token bucket for each object (client-go tools/record/events_cache.go: 25 at once, then one each
300 s), and one Event a turn: a finding's own count stands in its note, so nothing is aggregated
again here. Dry runs never reach a finding.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from webhook.alerts.change import Change, Turn
from webhook.alerts.event import CLUSTER_NAMESPACE, CreateEvent, cut, event
from webhook.detection.finding import Finding, FoundObject, Severity
from webhook.objects.shown import printable
from webhook.telemetry.logs import LOGGER

BURST: Final = 25
REFILL_SECONDS: Final = 300.0
_OBJECTS: Final = 4_096
_LONGEST_MESSAGE: Final = 512  # bytes
_SECONDS: Final = 5.0


class KubeEventSink:
    """Makes Events through `create`; one that fails is logged and not tried again."""

    def __init__(
        self,
        create: CreateEvent,
        kind_of: Callable[[FoundObject], str],
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`kind_of` names the Kind of a resource, "" where it is not known."""
        self._create: Final = create
        self._kind_of: Final = kind_of
        self._clock: Final = clock or (lambda: datetime.now(UTC))
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """One Event a turn, within the limits.

        All of them together get _SECONDS: an API server that hangs would hold up every sink.
        """
        del findings
        try:
            async with asyncio.timeout(_SECONDS):
                for turn, finding in changes:
                    now = self._clock()
                    if finding.severity is not Severity.INFO and self._take(finding, now):
                        await self._send(turn, finding, now)
        except TimeoutError:
            LOGGER.warning("events not created", extra={"facts": {"reason": "TimeoutError"}})

    async def close(self) -> None:
        """Nothing is held."""

    async def _send(self, turn: Turn, finding: Finding, now: datetime) -> None:
        namespace = finding.object.namespace or CLUSTER_NAMESPACE
        try:
            await self._create(namespace, self._event(turn, finding, now))
        except Exception as error:  # noqa: BLE001 - whatever the client raises, alerts go on
            facts = {"finding": finding.id, "reason": type(error).__name__}
            LOGGER.warning("event not created", extra={"facts": facts})

    def _event(self, turn: Turn, finding: Finding, now: datetime) -> dict[str, Any]:
        where = finding.object
        version = f"{where.group}/{where.version}" if where.group else where.version
        actors = ", ".join(one.told for one in finding.actors) or "unknown"
        # A user may be called anything of any length, and must not push the actors out of the note.
        message = cut(printable(finding.message), _LONGEST_MESSAGE)
        note = f"{finding.detector} {turn}: {message} ({finding.count}x). By: {actors}"
        return event(
            now,
            "genguard.io/detection",
            action=turn.value.capitalize(),
            reason="".join(part.capitalize() for part in finding.detector.split("-")),
            is_good=turn is Turn.RESOLVED,
            note=note,
            regarding={
                "apiVersion": version,
                "kind": self._kind_of(where),
                "namespace": where.namespace,
                "name": where.name,
                "uid": where.uid,
            },
        )

    def _take(self, finding: Finding, time: datetime) -> bool:
        key, now = finding.object.uid or finding.id, time.timestamp()
        tokens, at = self._buckets.get(key, (float(BURST), now))
        # A clock that was put back takes no tokens.
        tokens = min(BURST, tokens + max(0.0, now - at) / REFILL_SECONDS)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > _OBJECTS:
            self._buckets.popitem(last=False)
        return allowed
