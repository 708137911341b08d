"""The one loop for all that a replica does in a cluster again and again, most of it as the leader.

A Reconciler takes a step, rests for as long as the step says, and takes the next. A step that the
API server refuses or does not answer is tried again after a pause that doubles, with jitter, so
that replicas and loops do not come at once (controller-runtime pkg/internal/controller, client-go
util/workqueue). It is logged once an episode, and counted each time. Whatever else a step raises
ends in the supervisor, which starts the loop again.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.election.leader import Leadership
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

SHORTEST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
_FOLLOWING_SECONDS: Final = 0.5
"""Between two looks whether this replica leads by now."""
_JITTER: Final = 0.5
NEVER: Final = float("inf")
"""What a step returns that need not be taken again."""
_EVERY_SECONDS: Final = 0.3
"""Between two looks of `until`."""

Step = Callable[[], Awaitable[float]]
"""Does what is due, and returns the seconds until it is due again."""


@dataclass(slots=True)
class Reconciler:
    """Takes the steps of one concern while it is `running`.

    what        names it in the log
    leadership  steps are taken only while this replica leads; None: always
    errors      what a step may raise besides RefusedError and UNREACHED
    """

    what: str
    step: Step
    leadership: Leadership | None = None
    errors: tuple[type[Exception], ...] = ()
    jitter: Callable[[], float] = random.random
    _wait: float = SHORTEST_SECONDS
    _trouble: str = ""
    _due: asyncio.Event = field(default_factory=asyncio.Event)
    _count: Callable[[str], object] = bool

    @property
    def is_failing(self) -> bool:
        """Whether the last step failed, of those that are this replica's."""
        return bool(self._trouble) and self._leads

    @property
    def _leads(self) -> bool:
        return self.leadership is None or self.leadership.is_leader

    def wake(self) -> None:
        """Take the next step now."""
        self._due.set()

    def running(self, supervisor: Supervisor) -> AbstractAsyncContextManager[None]:
        """Take steps while the context is entered; `supervisor` counts those that fail."""
        self._count = supervisor.count_failure
        return supervisor.running({self.what: self.run})

    async def run(self) -> None:
        """Take one step after the other, for ever."""
        while True:
            self._due.clear()  # what changes during a step is seen by the next one
            seconds = await self.take_step() if self._leads else _FOLLOWING_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds if seconds < NEVER else None):
                    await self._due.wait()

    async def take_step(self) -> float:
        """Take a step; return the seconds until the next one is due."""
        expected: tuple[type[Exception], ...] = (RefusedError, *UNREACHED, *self.errors)
        try:
            seconds = await self.step()
        except expected as error:
            return self._failed(error)
        self._wait, self._trouble = SHORTEST_SECONDS, ""
        return seconds

    def _failed(self, error: Exception) -> float:
        """Count and log a failure; return the pause after it."""
        if isinstance(error, RefusedError) and error.status == HTTPStatus.CONFLICT:
            return SHORTEST_SECONDS * (1 + _JITTER * self.jitter())  # written since it was read
        self._count(self.what)
        reason = str(error) or type(error).__name__
        if not self._trouble:
            LOGGER.error(f"{self.what} failed", extra={"fields": {"reason": reason}})
        self._trouble = reason
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_SECONDS)
        return wait * (1 + _JITTER * self.jitter())


class NotInTimeError(Exception):
    """Something is still missing; the message says what, and what to do."""


async def until(
    check: Callable[[], Awaitable[str]], seconds: float, *, next_step: str = ""
) -> None:
    """Repeat `check`, which returns what is missing, until it returns "".

    An API server that is not reached, or is overloaded, is waited for as well. Raises
    NotInTimeError, or RefusedError.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            missing = await check()
        except UNREACHED as error:
            missing = f"the API server is not reached: {str(error) or type(error).__name__}"
        except RefusedError as error:
            if not error.is_passing:
                raise
            missing = str(error)
        if not missing:
            return
        if time.monotonic() >= end:
            message = f"after {seconds:g} s: {missing}"
            raise NotInTimeError(f"{message}. {next_step}" if next_step else message)
        await asyncio.sleep(_EVERY_SECONDS)
