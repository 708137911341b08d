"""Looks again and again at stored objects that findings have left damaged, and has them healed.

A loop may end while its damage stays, and somebody may repair an object without a write that
genguard sees: only the stored object can tell whether a finding is over.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.detection.damage import is_broken
from webhook.detection.finding import FoundObject
from webhook.detection.ledger import Damaged
from webhook.telemetry.logs import LOGGER

AGAIN_SECONDS: Final = 30.0
"""Between two looks at one object."""
FRESH_SECONDS: Final = 5.0
"""For so long after the last sign an object is left alone: its writer is often about to write
again. Controllers answer a conflict or a change of their own within a second or two, and a value
that the writer itself sends needs no repair."""
MOST_LOOKS: Final = 20
"""In each WINDOW_SECONDS: the API server has more to do than to answer genguard."""
WINDOW_SECONDS: Final = 10.0
_TURN_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 5.0

Stored: TypeAlias = Mapping[str, Any]
"""A whole object as the API server has it, decoded."""


class Findings(Protocol):
    """What is known of damage; see Ledger."""

    def damaged(self) -> Iterator[Damaged]:
        """Findings that are not resolved and whose damage is not known to be gone."""

    def see_damage(self, finding: str, *, is_broken: bool, now: float) -> None:
        """Take in what a look at the stored object has shown; a gone one is not broken."""


class Objects(Protocol):
    """Stored objects; see StoredObjects."""

    async def read(self, thing: FoundObject) -> Stored | None:
        """The whole object, None when it is gone.

        Raises RefusedError, one of UNREACHED, or msgspec.MsgspecError.
        """


class Healer(Protocol):
    """Puts lost values back; see Healing."""

    def begins(self) -> bool:
        """Whether it may heal now and could not before: then every object is due at once."""

    async def heal(self, one: Damaged, stored: Stored) -> Stored | None:
        """The object as it is stored after a heal, None where nothing was stored. Never raises."""


class Rechecking:
    """`run` beside the answers."""

    def __init__(
        self,
        findings: Findings,
        objects: Objects,
        healer: Healer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since the epoch."""
        self._findings: Final = findings
        self._objects: Final = objects
        self._healer: Final = healer
        self._clock: Final = clock
        self._looked: dict[FoundObject, float] = {}
        self._window = (0.0, 0)
        self._refused: Final[set[tuple[str, str]]] = set()

    async def run(self) -> None:
        """One turn after the other, for ever."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            try:
                await self.turn()
            except Exception:  # noqa: BLE001 - a look that fails must not end all later ones
                LOGGER.error("recheck failed", exc_info=True)

    async def turn(self) -> None:
        """Look at the objects that are due, those that were not looked at for longest first."""
        if self._healer is not None and self._healer.begins():
            self._looked.clear()
        damaged: dict[FoundObject, list[Damaged]] = {}
        for one in self._findings.damaged():
            damaged.setdefault(one.object, []).append(one)
        # What is not damaged any more is forgotten: no more is remembered than there are findings.
        self._looked = {thing: at for thing, at in self._looked.items() if thing in damaged}
        now = self._clock()
        due = [thing for thing, several in damaged.items() if self._is_due(thing, several, now)]
        due.sort(key=lambda thing: self._looked.get(thing, 0.0))
        for thing in due:
            if not self._take():
                return
            self._looked[thing] = self._clock()
            await self._look(thing, damaged[thing])

    def _is_due(self, thing: FoundObject, damaged: list[Damaged], now: float) -> bool:
        # Less than no time: the clock was put back.
        if 0 <= now - max(one.last for one in damaged) < FRESH_SECONDS:
            return False
        looked = self._looked.get(thing)
        return looked is None or not 0 <= now - looked < AGAIN_SECONDS

    def _take(self) -> bool:
        """Whether one more look is allowed now."""
        now = self._clock()
        began, looks = self._window
        if not 0 <= now - began < WINDOW_SECONDS:
            began, looks = now, 0
        if looks >= MOST_LOOKS:
            return False
        self._window = began, looks + 1
        return True

    async def _look(self, thing: FoundObject, damaged: list[Damaged]) -> None:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                stored = await self._objects.read(thing)
        except RefusedError as error:
            if not error.is_passing:
                self._tell(thing, error.status)
            return
        except msgspec.MsgspecError:
            return
        except UNREACHED:
            self._window = self._clock(), MOST_LOOKS  # the next one would wait as long
            return
        for one in damaged:
            remains = self._see(one, stored)
            if remains and stored is not None and self._healer is not None:
                healed = await self._healer.heal(one, stored)
                if healed is not None:
                    stored = healed
                    self._see(one, stored)

    def _see(self, one: Damaged, stored: Stored | None) -> bool:
        remains = stored is not None and is_broken(one.damage, stored)
        self._findings.see_damage(one.finding, is_broken=remains, now=self._clock())
        return remains

    def _tell(self, thing: FoundObject, status: int) -> None:
        """Once for each resource: it is a right that is not granted."""
        resource = (thing.group, thing.resource)
        if resource not in self._refused:
            self._refused.add(resource)
            facts = {"group": thing.group, "resource": thing.resource, "status": status}
            LOGGER.info("damaged objects cannot be looked at", extra={"facts": facts})
