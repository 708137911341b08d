"""What leadership and an election are for the parts that use them, and the task that takes part.

Elections themselves are in webhook/cluster/lease.py and webhook/store/leader_lock.py.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from webhook.supervisor import Supervisor
from webhook.telemetry import declarations
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

TICK_SECONDS: Final = 2.0
"""The pause between two attempts to lead; a handover lasts a term and this pause."""
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
