"""The time of detection: seconds that nobody can put, and that stand still while nobody reads.

They look like Unix seconds, as those were when the process started. A process that was stopped, or
whose machine was frozen, has read nothing meanwhile: what it did not read is no silence, so such a
pause takes no time here. What is shown, saved or sent to another replica is turned into the time of
day where it leaves, by the difference of that moment, and what comes in is turned back.
"""

import time
from collections.abc import Callable
from typing import Final

from webhook.telemetry.logs import LOGGER

LONGEST_PAUSE: Final = 3.0
"""A server that runs asks for the time once a second. In a longer pause it did not run."""
_LEAST_STEP: Final = 5.0
"""In seconds. Two clocks are not read at the same moment, and NTP moves the time of day slowly."""


class Clock:
    """Seconds in which this process has read."""

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`wall` gives the time of day in Unix seconds, `monotonic` seconds that nobody can put."""
        self.wall: Final = wall
        self._monotonic: Final = monotonic
        self._asked = monotonic()
        self._offset = wall() - self._asked
        self.ahead = 0.0
        """By how many seconds the time of day is ahead of this one."""

    def now(self) -> float:
        """Return the time in seconds; it never goes back."""
        asked = self._monotonic()
        pause, self._asked = asked - self._asked, asked
        if pause > LONGEST_PAUSE:
            self._offset -= pause
            self.ahead += pause
        now = asked + self._offset
        step = self.wall() - now - self.ahead
        if abs(step) >= _LEAST_STEP:
            self.ahead += step
            LOGGER.warning("clock was put", extra={"fields": {"seconds": round(step)}})
        return now

    def of_wall(self, at: float) -> float:
        """Return the time of a time of day; what another machine tells is never later than now."""
        now = self.now()
        return max(min(at - self.ahead, now), 0.0)


CLOCK: Final = Clock()
"""The one of this process."""
