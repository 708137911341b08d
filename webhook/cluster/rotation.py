"""Keeps the shared pair renewed while this replica leads, and tells what stands in the way.

Between two looks is at most LONGEST_SECONDS: that long a caBundle that somebody has spoilt stays.
The Secret is watched, and spoilt contents wake it at once.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec

import certs
from webhook.alerts.leader import Leadership
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.cluster.rotating import Rotator
from webhook.telemetry.logs import LOGGER

LONGEST_SECONDS: Final = 10.0
_SHORTEST_SECONDS: Final = 0.2
"""Between two looks that each did something: two who undo each other's work do not storm."""
_AGAIN_SECONDS: Final = 5.0
_FOLLOWING_SECONDS: Final = 0.5
_DONE: Final = {
    certs.Prepare: "certificate prepared",
    certs.Spread: "certificate trusted",
    certs.Promote: "certificate promoted",
    certs.Tidy: "certificate tidied",
}


class Rotation:
    """`run` for ever; `wake` when the Secret has changed."""

    def __init__(
        self, rotator: Rotator, leadership: Leadership, clock: Callable[[], datetime]
    ) -> None:
        """`clock` as the Rotator's."""
        self._rotator: Final = rotator
        self._leadership: Final = leadership
        self._clock: Final = clock
        self._woken: Final = asyncio.Event()
        self._trouble = ""
        self._left = ""

    @property
    def is_failing(self) -> bool:
        """Whether this replica leads, and could not do what was due at its last look."""
        return bool(self._trouble) and self._leadership.is_leader

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    async def run(self) -> None:
        """One look after the other."""
        while True:
            seconds = await self._look() if self._leadership.is_leader else _FOLLOWING_SECONDS
            self._woken.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _look(self) -> float:
        """Seconds until the next one."""
        try:
            step = await self._rotator.look()
        except RefusedError as error:
            mend = "; genguard install makes it" if error.status == HTTPStatus.NOT_FOUND else ""
            self._tell(f"{error}{mend}")
        except (*UNREACHED, msgspec.MsgspecError, certs.CertificateError) as error:
            self._tell(str(error) or type(error).__name__)
        else:
            self._trouble = ""
            return self._done(step)
        return _AGAIN_SECONDS

    def _done(self, step: certs.Step) -> float:
        reason = step.reason if isinstance(step, (certs.Prepare, certs.Leave)) else ""
        if isinstance(step, certs.Wait):
            left = (step.until - self._clock()).total_seconds()
            return min(max(left, _SHORTEST_SECONDS), LONGEST_SECONDS)
        if isinstance(step, certs.Leave):
            if reason != self._left:
                LOGGER.info("certificate is somebody else's", extra={"facts": {"reason": reason}})
            self._left = reason
            return LONGEST_SECONDS
        facts = {"reason": reason} if reason else {}
        LOGGER.info(_DONE[type(step)], extra={"facts": facts})
        return _SHORTEST_SECONDS

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            LOGGER.error("certificate not rotated", extra={"facts": {"reason": trouble}})
        self._trouble = trouble
