"""The time of day, and by how much it was put forth or back."""

import time
from collections.abc import Callable
from typing import Final

_LEAST_STEP: Final = 5.0
"""In seconds. Two clocks are not read at the same moment, and NTP moves the time of day slowly."""


class TimeOfDay:
    """The time of day beside the monotonic clock, which nobody can put."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wall` gives seconds since the epoch, `monotonic` seconds."""
        self._wall: Final = wall
        self._monotonic: Final = monotonic
        self._ahead = wall() - monotonic()

    def read(self) -> tuple[float, float]:
        """Return the seconds since the epoch, and by how many it was put forth since the last call.

        Less than 0: back. A machine that slept counts as put forth: its monotonic clock stood
        still.
        """
        now = self._wall()
        ahead = now - self._monotonic()
        step = ahead - self._ahead
        if abs(step) < _LEAST_STEP:
            return now, 0.0
        self._ahead = ahead
        return now, step
