"""Lets one of several replicas report, where reports of every replica would be noise.

A follower remembers for a while what it would have reported. When it becomes the leader, it reports
what the leader before it may have missed: after a crash a second report is better than none.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from genguard.detection.finding import Finding
from webhook.alerts.change import Change, Sink
from webhook.supervisor import Supervisor
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

KEPT_SECONDS: Final = 30.0
"""How long a follower remembers changes: longer than any handover takes."""
TICK_SECONDS: Final = 2.0
"""The pause between two attempts to lead; a handover lasts a term and this pause."""
_MOST_REMEMBERED: Final = 1_000
ELECTION: Final = "leader election"
"""The name of the task."""


class Leadership(Protocol):
    """Whether this replica leads. Read often, so it does no I/O."""

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads now. Only one does, while the store or API is reached."""

    @property
    def vacant_since(self) -> float:
        """On a leader: when another replica was last known to lead, in monotonic seconds."""


class LeaderElection(Leadership, Protocol):
    """An election in which this replica is a candidate."""

    async def tick(self) -> None:
        """Take or renew the leadership if that is due. Never raises."""

    async def release(self) -> None:
        """Give up the leadership, so that another replica can lead at once. Never raises."""


@asynccontextmanager
async def running_for_leader(
    election: LeaderElection, metrics: Metrics, supervisor: Supervisor
) -> AsyncIterator[None]:
    """Take part in an election while the context is entered, then give up the leadership."""
    metrics.gauge(declarations.LEADER, lambda: float(election.is_leader))
    async with taking_part(election, supervisor):
        yield


@asynccontextmanager
async def taking_part(election: LeaderElection, supervisor: Supervisor) -> AsyncIterator[None]:
    """Do the same without a metric."""
    try:
        async with supervisor.running({ELECTION: lambda: _take_part(election)}):
            yield
    finally:
        with supervisor.guard("leader election at the end"):
            await election.release()


async def _take_part(election: LeaderElection) -> None:
    led = None
    while True:
        await election.tick()
        if election.is_leader is not led:
            led = election.is_leader
            LOGGER.info("leading" if led else "following")
        await asyncio.sleep(TICK_SECONDS)


class LeaderOrAlone:
    """A Leadership that also holds for a replica that is cut off from the others."""

    def __init__(self, leadership: Leadership, is_alone: Callable[[], bool]) -> None:
        self._leadership: Final = leadership
        self._is_alone: Final = is_alone

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads, or is alone."""
        return self._leadership.is_leader or self._is_alone()

    @property
    def vacant_since(self) -> float:
        """When another replica was last known to lead, in monotonic seconds."""
        return self._leadership.vacant_since


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
