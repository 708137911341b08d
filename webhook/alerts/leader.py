"""What one of several replicas should do: tell of findings where a second voice would be noise.

A follower remembers for a while what it would have told. When it becomes the leader it tells what
the leader before may not have told any more: better twice after a crash than not at all.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from webhook.alerts.change import Change, Sink
from webhook.detection.finding import Finding
from webhook.running import running
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

KEPT_SECONDS: Final = 30.0
"""Longer than any handover takes."""
TICK_SECONDS: Final = 2.0
"""How often a candidate tries: a handover takes as long as a leadership lasts, and this."""
_MOST_LOOKS: Final = 1_000


class Leadership(Protocol):
    """Whether this replica is the one. Asked often: it does no I/O."""

    @property
    def is_leader(self) -> bool:
        """At this moment. Never true of two replicas at once, if the store or API can tell."""

    @property
    def vacant_since(self) -> float:
        """For a leader: the monotonic time at which another one was last known to lead."""


class Candidate(Leadership, Protocol):
    """Somebody who can come to lead."""

    async def tick(self) -> None:
        """Take or renew the leadership where that is due. Never raises."""

    async def release(self) -> None:
        """Let another one lead at once. Never raises."""


@asynccontextmanager
async def candidacy(candidate: Candidate, metrics: Metrics) -> AsyncIterator[None]:
    """Let it try to lead until the end, and then give way."""
    metrics.gauge(declarations.LEADER, lambda: float(candidate.is_leader))
    try:
        async with running((_try(candidate),)):
            yield
    finally:
        await candidate.release()


async def _try(candidate: Candidate) -> None:
    led = None
    while True:
        await candidate.tick()
        if candidate.is_leader is not led:
            led = candidate.is_leader
            LOGGER.info("leading" if led else "following")
        await asyncio.sleep(TICK_SECONDS)


class OrAlone:
    """A Leadership that also holds for who cannot know what the others tell."""

    def __init__(self, leadership: Leadership, is_alone: Callable[[], bool]) -> None:
        self._leadership: Final = leadership
        self._is_alone: Final = is_alone

    @property
    def is_leader(self) -> bool:
        """It leads, or it is alone."""
        return self._leadership.is_leader or self._is_alone()

    @property
    def vacant_since(self) -> float:
        """As the leadership's."""
        return self._leadership.vacant_since


class LeaderSink:
    """A Sink that is told only while this replica leads."""

    def __init__(
        self, sink: Sink, leadership: Leadership, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` as Leadership's."""
        self._sink: Final = sink
        self._leadership: Final = leadership
        self._clock: Final = clock
        self._missed: Final[deque[tuple[float, tuple[Change, ...]]]] = deque(maxlen=_MOST_LOOKS)

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Pass on, or remember."""
        now = self._clock()
        while self._missed and self._missed[0][0] < now - KEPT_SECONDS:
            self._missed.popleft()
        if not self._leadership.is_leader:
            if changes:
                self._missed.append((now, changes))
            return
        since = self._leadership.vacant_since
        missed = [one for at, turned in self._missed if at >= since for one in turned]
        self._missed.clear()
        await self._sink.tell((*missed, *changes), findings)

    async def close(self) -> None:
        """Close the sink behind it."""
        await self._sink.close()
