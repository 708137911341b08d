"""Before a finding alerts, its object is looked for in the API: a forged review finds nothing.

Whoever reaches the admission port may send reviews of objects that never were, where no client
certificate is asked for. A finding whose object is not there, or has another uid, is kept from the
alerts; one that could not be looked up alerts, and its message says that it is unverified.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec import structs

from webhook.alerts.change import Change, Sink, Turn
from webhook.detection.finding import Finding, FoundObject, Severity

MOST_LOOKUPS: Final = 20
"""In each WINDOW_SECONDS: what is found beyond that alerts unverified."""
WINDOW_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 60.0
"""Until an object that was not there, or could not be looked up, is looked up again."""
UNVERIFIED: Final = "unverified, as its object could not be looked up: "
_SECONDS: Final = 5.0
_OBJECTS: Final = 4_096

Lookup: TypeAlias = Callable[[FoundObject], Awaitable[bool | None]]
"""Whether the API has this very object, None when that cannot be told. Never raises."""


class Verification:
    """Verdicts on objects, shared by every sink: True is for good, all else for a while."""

    def __init__(self, lookup: Lookup, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._lookup: Final = lookup
        self._clock: Final = clock
        self._known: Final[OrderedDict[FoundObject, tuple[bool | None, float]]] = OrderedDict()
        self._window = (0.0, 0)

    async def of(self, thing: FoundObject) -> bool | None:
        """Whether the object exists; None when it is not known."""
        now = self._clock()
        verdict, at = self._known.get(thing, (None, float("-inf")))
        if verdict or now - at < AGAIN_SECONDS:
            return verdict
        began, asked = self._window
        if now - began >= WINDOW_SECONDS:
            began, asked = now, 0
        if asked >= MOST_LOOKUPS:
            return verdict
        self._window = began, asked + 1
        try:
            async with asyncio.timeout(_SECONDS):
                verdict = await self._lookup(thing)
        except TimeoutError:
            verdict = None
            self._window = now, MOST_LOOKUPS  # the next one would wait as long
        self._known[thing] = verdict, now
        self._known.move_to_end(thing)
        if len(self._known) > _OBJECTS:
            self._known.popitem(last=False)
        return verdict


class VerifiedSink:
    """A Sink that is told of objects that are there, and with a mark of those nobody knows of."""

    def __init__(self, sink: Sink, verification: Verification) -> None:
        """`sink` is told what is verified."""
        self._sink: Final = sink
        self._verification: Final = verification
        self._told: Final[OrderedDict[str, None]] = OrderedDict()

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Pass on what is verified; what was told before is passed on when it resolves, too."""
        turned = [
            Change(one.turn, found)
            for one in changes
            if (found := await self._passed(one.finding, is_end=one.turn is Turn.RESOLVED))
        ]
        standing = [
            found
            for one in findings
            if (found := await self._passed(one, is_end=False)) is not None
        ]
        await self._sink.tell(tuple(turned), tuple(standing))

    async def close(self) -> None:
        """Close the sink behind it."""
        await self._sink.close()

    async def _passed(self, finding: Finding, *, is_end: bool) -> Finding | None:
        if finding.severity is Severity.INFO or finding.state == "resolved":
            # Of no interest to alerts, but for the end of what they were told.
            return finding if not is_end or finding.id in self._told else None
        verdict = await self._verification.of(finding.object)
        if verdict is False:
            return None
        self._told[finding.id] = None
        self._told.move_to_end(finding.id)
        if len(self._told) > _OBJECTS:
            self._told.popitem(last=False)
        if verdict is None:
            return structs.replace(finding, message=f"{UNVERIFIED}{finding.message}")
        return finding
