"""Builds Kubernetes Events (k8s.io/api events/v1/types.go), and creates them.

KubeEventSink reports findings, limited as client-go limits Events: each object has a token bucket
(client-go tools/record/events_cache.go: 25 at once, then one every 300 s). Each change is one
Event. They are not aggregated: the note holds the finding's own count. Dry runs never become a
finding.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cachetools import LRUCache

from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.detection.write import ObjectKey
from genguard.objects.shown import printable
from webhook.alerts.change import Change, Transition
from webhook.telemetry.logs import LOGGER

if TYPE_CHECKING:  # it loads the Kubernetes client
    from webhook.cluster.rest import Rest

CLUSTER_NAMESPACE: Final = "default"
"""The namespace of Events about objects that have none."""
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
_OBJECTS: Final = 4_096
_LONGEST_MESSAGE: Final = 512  # bytes
_LONGEST_NOTE: Final = 1_024  # bytes, as Go counts (pkg/apis/core/validation/events.go)

_SECONDS: Final = 5.0
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"


async def tell(
    calls: "Rest",
    at: datetime,
    controller: str,
    *,
    action: str,
    reason: str,
    is_good: bool,
    note: str,
    regarding: Mapping[str, str],
    **about: str,
) -> None:
    """Create an Event, of type Normal if `is_good` and Warning otherwise.

    at         in UTC
    note       is escaped where it is not printable, and cut to the length the API server accepts
    regarding  apiVersion, kind, namespace, name and perhaps uid of what it is about

    Never raises: what fails is logged with `about`, and not tried again.
    """
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "genguard-", "labels": {"app.kubernetes.io/name": "genguard"}},
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": controller,
        "reportingInstance": "genguard",
        "action": action,
        "reason": reason,
        "type": "Normal" if is_good else "Warning",
        "note": cut(printable(note), _LONGEST_NOTE),
        "regarding": regarding,
    }
    namespace = regarding.get("namespace") or CLUSTER_NAMESPACE
    try:
        async with asyncio.timeout(_SECONDS):
            await calls.call("POST", _EVENTS.format(quote(namespace, safe="")), body)
    except Exception as error:  # noqa: BLE001 - whatever the client raises, its caller goes on
        fields = {**about, "reason": type(error).__name__}
        LOGGER.warning("event not created", extra={"fields": fields})


def naming(api_version: str, kind: str, where: ObjectKey) -> dict[str, str]:
    """Return what an Event is regarding."""
    names = {"namespace": where.namespace, "name": where.name, "uid": where.uid}
    return {"apiVersion": api_version.lstrip("/"), "kind": kind, **names}


def cut(text: str, most: int) -> str:
    """Cut a text to `most` bytes, in whole characters."""
    return text.encode()[:most].decode(errors="ignore")


@dataclass(slots=True)
class KubeEventSink:
    """Creates Events. One that fails is logged and not tried again.

    kind_of  returns the kind of an object's resource, "" for an unknown one
    clock    gives the time in UTC
    """

    calls: "Rest"
    kind_of: Callable[[FoundObject], str]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _buckets: LRUCache[str, tuple[float, float]] = field(default_factory=lambda: LRUCache(_OBJECTS))
    """Tokens left, and when that was."""

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Create one Event for each change, within the limits.

        All of them together take _SECONDS at most: a hanging API server must not delay other sinks.
        """
        del findings
        end = asyncio.get_running_loop().time() + _SECONDS
        for transition, finding in changes:
            now = self.clock()
            if finding.severity is not Severity.INFO and self._take_token(finding, now):
                await self._tell(transition, finding, now)
            if asyncio.get_running_loop().time() >= end:
                LOGGER.warning("events not created", extra={"fields": {"reason": "TimeoutError"}})
                return

    async def _tell(self, transition: Transition, finding: Finding, now: datetime) -> None:
        where = finding.subject
        actors = finding.actor_labels
        # A user may have a name of any length, which must not push the actors out of the note.
        message = cut(printable(finding.message), _LONGEST_MESSAGE)
        note = f"{finding.detector} {transition}: {message} ({finding.count}x). By: {actors}"
        await tell(
            self.calls,
            now,
            "genguard.io/detection",
            action=transition.value.capitalize(),
            reason="".join(part.capitalize() for part in finding.detector.split("-")),
            is_good=transition is Transition.RESOLVED,
            note=note,
            regarding=naming(f"{where.group}/{where.version}", self.kind_of(where), where),
            finding=finding.id,
        )

    def _take_token(self, finding: Finding, time: datetime) -> bool:
        key, now = finding.object.uid or finding.id, time.timestamp()
        tokens, at = self._buckets.get(key, (float(BURST), now))
        # A clock that was set back takes no tokens away.
        tokens = min(BURST, tokens + max(0.0, now - at) / REFILL_SECONDS)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        return allowed
