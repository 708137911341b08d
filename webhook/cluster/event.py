"""Builds Kubernetes Events (k8s.io/api events/v1/types.go).

StoreEvents reports by them that the shared store is lost, and that it is back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from genguard.objects.shown import printable
from webhook.telemetry.logs import LOGGER

CLUSTER_NAMESPACE: Final = "default"
"""The namespace of Events about objects that have none."""
_LONGEST_NOTE: Final = 1_024  # bytes, as Go counts (pkg/apis/core/validation/events.go)

CreateEvent = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Creates an events.k8s.io/v1 Event in a namespace; raises if that fails."""
_SECONDS: Final = 5.0


def event(
    at: datetime,
    controller: str,
    *,
    action: str,
    reason: str,
    is_good: bool,
    note: str,
    regarding: Mapping[str, str],
) -> dict[str, Any]:
    """Return the body of one Event, of type Normal if `is_good` and Warning otherwise.

    at         in UTC
    note       is escaped where it is not printable, and cut to the length the API server accepts
    regarding  apiVersion, kind, namespace, name and perhaps uid of what it is about
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "generateName": "genguard-",
            "labels": {"app.kubernetes.io/name": "genguard"},
        },
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": controller,
        "reportingInstance": "genguard",
        "action": action,
        "reason": reason,
        "type": "Normal" if is_good else "Warning",
        "note": cut(printable(note), _LONGEST_NOTE),
        "regarding": regarding,
    }


def cut(text: str, most: int) -> str:
    """Cut a text to `most` bytes, in whole characters."""
    return text.encode()[:most].decode(errors="ignore")


class StoreEvents:
    """Reports the loss and the return of the shared store as Events about this server.

    An Event that fails is logged and not tried again.
    """

    def __init__(
        self,
        create: CreateEvent,
        regarding: dict[str, str],
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`regarding` is the server: apiVersion, kind, namespace and name."""
        self._create: Final = create
        self._regarding: Final = regarding
        self._clock: Final = clock or (lambda: datetime.now(UTC))

    async def tell(self, up: bool, reason: str) -> None:  # noqa: FBT001 - the new state
        """Create one Event. Never raises."""
        try:
            async with asyncio.timeout(_SECONDS):
                await self._create(self._regarding["namespace"], self._event(reason, up=up))
        except Exception as error:  # noqa: BLE001 - whatever the client raises, serving goes on
            facts = {"reason": type(error).__name__}
            LOGGER.warning("event not created", extra={"facts": facts})

    def _event(self, reason: str, *, up: bool) -> dict[str, Any]:
        lost = f"The shared store is lost: {reason}. Each replica goes by its own memory."
        return event(
            self._clock(),
            "genguard.io/store",
            action="Reconnect",
            reason="StoreBack" if up else "StoreLost",
            is_good=up,
            note="The shared store is back." if up else lost,
            regarding=self._regarding,
        )
