"""Lets one of several replicas report, where reports of every replica would be noise.

A follower remembers for a while what it would have reported. When it becomes the leader, it reports
what the leader before it may have missed: after a crash a second report is better than none.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from genguard.detection.finding import Finding
from webhook.alerts.change import Change, Sink
from webhook.election.leader import Leadership

KEPT_SECONDS: Final = 30.0
"""How long a follower remembers changes: longer than any handover takes."""
_MOST_REMEMBERED: Final = 1_000


class LeaderSink:
    """Passes changes on to another sink only while this replica leads."""

    def __init__(
        self, sink: Sink, leadership: Leadership, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives monotonic seconds."""
        self._sink: Final = sink
        self._leadership: Final = leadership
        self._clock: Final = clock
        self._missed: Final[deque[tuple[float, tuple[Change, ...]]]] = deque(
            maxlen=_MOST_REMEMBERED
        )

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Pass changes on as the leader, remember them as a follower."""
        now = self._clock()
        while self._missed and self._missed[0][0] < now - KEPT_SECONDS:
            self._missed.popleft()
        if not self._leadership.is_leader:
            if changes:
                self._missed.append((now, changes))
            return
        since = self._leadership.vacant_since
        missed = [one for at, several in self._missed if at >= since for one in several]
        self._missed.clear()
        await self._sink.tell((*missed, *changes), findings)

    async def close(self) -> None:
        """Close the sink behind it."""
        await self._sink.close()
