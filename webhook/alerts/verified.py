"""Checks that the object of a finding exists before the finding is reported.

Where no client certificate is required, an untrusted client may send reviews of objects that do not
exist. A finding is not reported if its object does not exist or has another uid. If the object
could not be looked up, the finding is reported, and its message says that it is unverified.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from cachetools import LRUCache
from msgspec import structs

from genguard.detection.finding import Finding, FoundObject, Severity
from webhook.alerts.change import ENDS, Change, Sink
from webhook.tasks.supervisor import Supervisor

MOST_LOOKUPS: Final = 20
"""Lookups in each WINDOW_SECONDS; findings beyond that are reported as unverified."""
WINDOW_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 60.0
"""Seconds until an object is looked up again that did not exist or could not be looked up."""
UNVERIFIED: Final = "unverified, as its object could not be looked up: "
_SECONDS: Final = 5.0
_OBJECTS: Final = 4_096

Lookup: TypeAlias = Callable[[FoundObject], Awaitable[bool | None]]
"""Returns whether the API has this object with this uid, None if unknown. Never raises."""


class Verification:
    """Remembers which objects exist, for all sinks. True is final; other results expire."""

    def __init__(
        self,
        lookup: Lookup,
        supervisor: Supervisor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`supervisor` counts lookups that fail; `clock` gives seconds."""
        self._supervisor: Final = supervisor
        self._lookup: Final = lookup
        self._clock: Final = clock
        self._known: Final[LRUCache[FoundObject, tuple[bool | None, float]]] = LRUCache(_OBJECTS)
        self._window = (0.0, 0)

    async def of(self, thing: FoundObject) -> bool | None:
        """Return whether the object exists, None if that is unknown."""
        if not thing.uid:
            return None  # it comes and goes: whether it exists just now proves nothing
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
        verdict = None
        try:
            async with asyncio.timeout(_SECONDS):
                with self._supervisor.guard("lookups"):  # then it is unverified
                    verdict = await self._lookup(thing)
        except TimeoutError:
            self._window = now, MOST_LOOKUPS  # the next lookup would wait as long
        self._known[thing] = verdict, now
        return verdict


class VerifiedSink:
    """Passes on findings whose objects exist, and marks those that are unverified."""

    def __init__(self, sink: Sink, verification: Verification, supervisor: Supervisor) -> None:
        """`sink` receives the verified findings; `supervisor` counts those left out."""
        self._supervisor: Final = supervisor
        self._sink: Final = sink
        self._verification: Final = verification
        self._reported: Final[LRUCache[str, None]] = LRUCache(_OBJECTS)

    async def tell(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Pass on verified findings, and the end of every finding that was passed on before."""
        passed_changes, passed_findings = list[Change](), list[Finding]()
        for one in changes:
            with self._supervisor.guard("findings"):
                found = await self._passed(one.finding, is_end=one.transition in ENDS)
                if found is not None:
                    passed_changes.append(Change(one.transition, found))
        for finding in findings:
            with self._supervisor.guard("findings"):
                found = await self._passed(finding, is_end=False)
                if found is not None:
                    passed_findings.append(found)
        await self._sink.tell(tuple(passed_changes), tuple(passed_findings))

    async def close(self) -> None:
        """Close the sink behind it."""
        await self._sink.close()

    async def _passed(self, finding: Finding, *, is_end: bool) -> Finding | None:
        if finding.severity is Severity.INFO or finding.state == "resolved":
            # Not reported, except for the end of a finding that was reported before.
            return finding if not is_end or finding.id in self._reported else None
        verdict = await self._verification.of(finding.subject)
        if verdict is False:
            return None
        self._reported[finding.id] = None
        if verdict is None:
            return structs.replace(finding, message=f"{UNVERIFIED}{finding.message}")
        return finding
