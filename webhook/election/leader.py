"""What leadership and an election are for the parts that use them, and the task that takes part.

The election itself is in webhook/cluster/lease.py.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

TICK_SECONDS: Final = 1.0
"""The time between two attempts to lead."""
_SHORTEST_SECONDS: Final = 0.1
"""The pause after a tick that took as long as TICK_SECONDS."""
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
async def taking_part(
    election: LeaderElection, supervisor: Supervisor, wake: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """Take part in an election while the context is entered, then give up the leadership.

    wake  set when the next tick is due at once
    """
    woken = wake or asyncio.Event()
    try:
        async with supervisor.running({ELECTION: lambda: _take_part(election, woken)}):
            yield
    finally:
        with supervisor.guard("leader election at the end"):
            await election.release()


async def _take_part(election: LeaderElection, wake: asyncio.Event) -> None:
    led = None
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK_SECONDS
        wake.clear()
        await election.tick()
        if election.is_leader is not led:
            led = election.is_leader
            LOGGER.info("leading" if led else "following")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(max(due, loop.time() + _SHORTEST_SECONDS)):
                await wake.wait()
