"""The loss of a shared store, and its return, as Kubernetes Events about this very server."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from webhook.alerts.event import CreateEvent, event
from webhook.telemetry.logs import LOGGER

_SECONDS: Final = 5.0


class StoreEvents:
    """Makes them through `create`; one that fails is logged and not tried again."""

    def __init__(
        self,
        create: CreateEvent,
        regarding: dict[str, str],
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """`regarding`: apiVersion, kind, namespace and name of what the Events are about."""
        self._create: Final = create
        self._regarding: Final = regarding
        self._clock: Final = clock or (lambda: datetime.now(UTC))

    async def tell(self, up: bool, reason: str) -> None:  # noqa: FBT001 - it is the whole news
        """One Event. Never raises."""
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
