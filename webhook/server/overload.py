"""Overload: a review whose answer would come too late is not judged but shed, at once.

An API server that has given up waiting does not read the answer, so work on it only delays the
next one. How long a request has waited is known: since the event loop has read it, or since when
the loop has not looked (webhook/server/lag.py). Each request is measured by itself, so that as
many are judged as there is time for; of a spike only what is too much is shed.

An episode goes on until nothing was shed for a while. In it less waiting is allowed than before:
the queue that a spike has left is worked off by shedding, and is not carried along.
"""

from enum import StrEnum
from typing import Final

from webhook.telemetry.logs import LOGGER

MOST_WAITED: Final = 0.4
"""Share of the client's timeout. As long again a request may have waited unseen, on uvloop and
while its connection was made."""
MOST_WAITED_IN_EPISODE: Final = 0.2


class Shed(StrEnum):
    """What there was too much of."""

    LATE = "late"  # waiting for this review to be looked at
    LARGE = "large"  # large reviews that wait for their turn
    READING = "reading"  # bytes of bodies that are being read


class Overload:
    """Decides, counts, and tells in the log when an episode begins and when it is over."""

    def __init__(self, quiet_seconds: float) -> None:
        """`quiet_seconds` without anything shed end an episode."""
        self._quiet_seconds: Final = quiet_seconds
        self._began: float | None = None
        self._last = 0.0
        self._in_episode = 0
        self.shed: Final = dict.fromkeys(Shed, 0)

    def is_too_late(self, waited: float, timeout: float) -> bool:
        """Whether a client that gives up after `timeout` seconds has waited too long already."""
        share = MOST_WAITED if self._began is None else MOST_WAITED_IN_EPISODE
        return waited > timeout * share

    def count(self, shed: Shed, now: float) -> None:
        """A request is shed; `now` is seconds on any clock."""
        if self._began is None:
            self._began, self._in_episode = now, 0
            LOGGER.warning("overloaded: reviews are shed", extra={"facts": {"reason": shed}})
        self.shed[shed] += 1
        self._in_episode += 1
        self._last = now

    def look(self, now: float) -> None:
        """End an episode that is over; to be called every few seconds."""
        if self._began is None or now - self._last < self._quiet_seconds:
            return
        facts = {"shed": self._in_episode, "seconds": round(self._last - self._began, 3)}
        LOGGER.warning("no longer overloaded", extra={"facts": facts})
        self._began = None
