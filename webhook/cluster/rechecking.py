"""Reads damaged objects again and again, and has them healed.

A loop may end while its damage stays, and somebody may repair an object without a write that
genguard sees. So only the stored object shows whether a finding is over.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from genguard.detection.damage import is_broken
from genguard.detection.finding import FoundObject
from genguard.detection.ledger import Damaged
from webhook.cluster.rest import UNREACHED, RefusedError
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

AGAIN_SECONDS: Final = 5.0
"""The pause between two reads of one object: within 10 s the dashboard shows that it is whole."""
AGAIN_IN_DOUBT_SECONDS: Final = 2.0
"""The same while a write may have passed unseen."""
FRESH_SECONDS: Final = 5.0
"""An object is left alone for so long after its last signal: its writer is often about to write
again. Controllers answer a conflict or a change of their own within a second or two, and a value
that the writer itself sends needs no repair."""
MOST_READS: Final = 20
"""Reads in each WINDOW_SECONDS, so that genguard does not load the API server."""
WINDOW_SECONDS: Final = 10.0
DOUBT_SECONDS: Final = 10.0
"""How long restored values are read again after a replica was lost: kube-proxy learns of it a
second later, and calls that wait for it end by timeoutSeconds."""
_TICK_SECONDS: Final = 1.0
_CALL_SECONDS: Final = 5.0

Stored: TypeAlias = Mapping[str, Any]
"""A whole object as the API server stores it, decoded."""


class Findings(Protocol):
    """Findings with damage; see Ledger."""

    def damaged(self, *, in_doubt: bool) -> Iterator[Damaged]:
        """Yield findings that are not resolved and whose damage is not known to be gone.

        in_doubt  those as well whose damage was averted
        """

    def see_damage(self, damaged: Damaged, *, is_broken: bool, now: float) -> None:
        """Record whether the stored object is still damaged; a deleted object is not."""

    def doubt(self) -> None:
        """Take values that were restored for damaged until somebody looks."""


class Objects(Protocol):
    """Stored objects; see StoredObjects."""

    async def read(self, thing: FoundObject) -> Stored | None:
        """Return the whole object, None when it is gone.

        Raises RefusedError, one of UNREACHED, or msgspec.MsgspecError.
        """


class Healer(Protocol):
    """Restores lost values; see Healing."""

    async def heal(self, one: Damaged, stored: Stored) -> Stored | None:
        """Return the object as stored after a patch, None if none was stored. Never raises."""


class Rechecking:
    """Rechecks damaged objects."""

    def __init__(
        self,
        findings: Findings,
        objects: Objects,
        healer: Healer | None = None,
        clock: Callable[[], float] = time.time,
        *,
        supervisor: Supervisor | None = None,
        lost_at: Callable[[], float] | None = None,
    ) -> None:
        """`clock` gives seconds since the epoch.

        lost_at  when a replica that answered was lost, in monotonic seconds: writes may have passed
                 unseen
        """
        self._lost_at: Final = lost_at
        self._doubted = float("-inf")
        """The loss after which restored values were taken for damaged."""
        self._supervisor: Final = supervisor or Supervisor()
        self._findings: Final = findings
        self._objects: Final = objects
        self._healer: Final = healer
        self._clock: Final = clock
        self._read_at: dict[FoundObject, float] = {}
        self._window = (0.0, 0)
        self._refused: Final[set[tuple[str, str]]] = set()

    async def recheck(self) -> float:
        """Read the objects that are due, those first that were not read for longest.

        Raises one of UNREACHED.
        """
        lost_at = float("-inf") if self._lost_at is None else self._lost_at()
        in_doubt = time.monotonic() < lost_at + DOUBT_SECONDS
        if in_doubt and lost_at != self._doubted:
            self._findings.doubt()
            self._doubted = lost_at
        damaged: dict[FoundObject, list[Damaged]] = {}
        for one in self._findings.damaged(in_doubt=in_doubt):
            damaged.setdefault(one.object, []).append(one)
        # Times of objects that are no longer damaged are removed: memory is bounded by findings.
        self._read_at = {thing: at for thing, at in self._read_at.items() if thing in damaged}
        now = self._clock()
        pause = AGAIN_IN_DOUBT_SECONDS if in_doubt else AGAIN_SECONDS
        due = [one for one, several in damaged.items() if self._is_due(one, several, now, pause)]
        due.sort(key=lambda thing: self._read_at.get(thing, 0.0))
        for thing in due:
            if not self._may_read():
                break
            self._read_at[thing] = self._clock()
            unreached: Exception | None = None
            with self._supervisor.guard("damaged objects"):
                unreached = await self._recheck(thing, damaged[thing])
            if unreached is not None:
                raise unreached  # the next read would wait as long
        return _TICK_SECONDS

    def _is_due(self, thing: FoundObject, damaged: list[Damaged], now: float, pause: float) -> bool:
        # Less than 0: the clock was set back.
        if 0 <= now - max(one.last for one in damaged) < FRESH_SECONDS:
            return False
        read_at = self._read_at.get(thing)
        return read_at is None or not 0 <= now - read_at < pause

    def _may_read(self) -> bool:
        """Whether one more read is allowed now; count it."""
        now = self._clock()
        began, reads = self._window
        if not 0 <= now - began < WINDOW_SECONDS:
            began, reads = now, 0
        if reads >= MOST_READS:
            return False
        self._window = began, reads + 1
        return True

    async def _recheck(self, thing: FoundObject, damaged: list[Damaged]) -> Exception | None:
        """Read an object, and have it healed; return why the API server was not reached."""
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                stored = await self._objects.read(thing)
        except RefusedError as error:
            if not error.is_passing:
                self._log_refusal(thing, error.status)
            return None
        except msgspec.MsgspecError:
            return None
        except UNREACHED as error:
            return error
        for one in damaged:
            remains = self._record(one, stored)
            if remains and stored is not None and self._healer is not None:
                healed = await self._healer.heal(one, stored)
                if healed is not None:
                    stored = healed
                    self._record(one, stored)
        return None

    def _record(self, one: Damaged, stored: Stored | None) -> bool:
        remains = stored is not None and is_broken(one.damage, stored)
        self._findings.see_damage(one, is_broken=remains, now=self._clock())
        return remains

    def _log_refusal(self, thing: FoundObject, status: int) -> None:
        """Log once for each resource that a right is missing."""
        resource = (thing.group, thing.resource)
        if resource not in self._refused:
            self._refused.add(resource)
            facts = {"group": thing.group, "resource": thing.resource, "status": status}
            LOGGER.info("damaged objects cannot be looked at", extra={"facts": facts})
