"""The way of a change to a receiver: a queue, and the questions who leads and what exists.

`QueuedSink(verification.before(receiver))`, the same for each receiver.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from cachetools import LRUCache
from msgspec import structs

from genguard.detection.finding import Finding, FoundObject, Severity
from genguard.detection.ledger import MOST_FINDINGS
from webhook.alerts.change import ENDS, Change, Sink
from webhook.election.leader import Leadership
from webhook.tasks.supervisor import Supervisor

SINK_SECONDS: Final = 30.0
"""How long a sink may take for all that waits; each call that it makes has a shorter limit."""
KEPT_SECONDS: Final = 30.0
"""How long a follower remembers changes: longer than any handover takes."""
MOST_LOOKUPS: Final = 20
"""Lookups in each WINDOW_SECONDS; findings beyond that are reported as unverified."""
WINDOW_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 60.0
"""Seconds until an object that was not found, or not looked up, is looked up again."""
UNVERIFIED: Final = "unverified, as its object could not be looked up: "
_SECONDS: Final = 5.0
_OBJECTS: Final = 4_096

Lookup: TypeAlias = Callable[[FoundObject], Awaitable[bool | None]]
"""Returns whether the API has this object with this uid, None if unknown. Never raises."""


class QueuedSink:
    """One sink, and what waits for it, so that a slow one delays nobody. `run` it in a task.

    The latest change of each finding waits, in the order in which they came, and the latest state
    of all findings. A change that had no room is counted, and so is one that a later change of the
    same finding replaces. What the sink fails to take is offered again.

    The leader of several replicas tells the sink. Changes wait for KEPT_SECONDS on the others: the
    next leader tells what the one before it may have missed. A second report after a crash is
    better than none.
    """

    def __init__(
        self,
        name: str,
        sink: Sink,
        leadership: Leadership | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` gives monotonic seconds."""
        self.name: Final = name
        self.task: Final = f"sink {name}"
        """The name of the task."""
        self._sink: Final = sink
        self._leadership: Final = leadership
        self._clock: Final = clock
        self._changes: Final[dict[str, tuple[float, Change]]] = {}
        """The changes by the id of the finding, and since when each waits."""
        self._findings: tuple[Finding, ...] = ()
        self._wake: Final = asyncio.Event()
        self.replaced = 0

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
        """Have the sink told of these changes soon, and of all findings; never waits."""
        for change in changes:
            self._add(self._clock(), change)
        self._findings = findings
        self._wake.set()

    async def run(self) -> None:
        """Tell the sink what waits, for ever. Raises what the sink raises, or TimeoutError."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.tell()

    async def tell(self) -> None:
        """Tell the sink what waits, as the leader. Raises what the sink raises, or TimeoutError."""
        since = float("-inf")
        if self._leadership is not None:
            if not self._leadership.is_leader:
                begin = self._clock() - KEPT_SECONDS
                for name in [name for name, (at, _) in self._changes.items() if at < begin]:
                    del self._changes[name]
                return
            since = self._leadership.vacant_since
        taken = [change for change in self._changes.values() if change[0] >= since]
        self._changes.clear()
        try:
            async with asyncio.timeout(SINK_SECONDS):
                await self._sink(tuple(change for _, change in taken), self._findings)
        except BaseException:
            # They wait again, before those that came meanwhile.
            later = tuple(self._changes.values())
            self._changes.clear()
            for change in (*taken, *later):
                self._add(*change)
            self._wake.set()
            raise

    def _add(self, at: float, change: Change) -> None:
        name = change.finding.id
        if self._changes.pop(name, None) is not None:
            self.replaced += 1
        elif len(self._changes) >= MOST_FINDINGS:
            del self._changes[next(iter(self._changes))]
            self.replaced += 1
        self._changes[name] = at, change


class Verification:
    """Passes on findings whose objects exist, to all receivers, and marks those it cannot verify.

    Where no client certificate is required, an untrusted client may send reviews of objects that do
    not exist. A finding is not reported if its object does not exist or has another uid. An
    object that was found is not looked up again; other results expire.
    """

    def __init__(
        self, lookup: Lookup, supervisor: Supervisor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`supervisor` counts what fails; `clock` gives seconds."""
        self._supervisor: Final = supervisor
        self._lookup: Final = lookup
        self._clock: Final = clock
        self._known: Final[LRUCache[FoundObject, tuple[bool | None, float]]] = LRUCache(_OBJECTS)
        self._reported: Final[LRUCache[str, None]] = LRUCache(_OBJECTS)
        self._window = (0.0, 0)

    def before(self, sink: Sink) -> Sink:
        """Return a sink that passes on what is verified, and the end of what it passed on."""

        async def tell(changes: tuple[Change, ...], findings: tuple[Finding, ...]) -> None:
            passed = [
                Change(transition, found)
                for transition, finding in changes
                if (found := await self._passed(finding, is_end=transition in ENDS)) is not None
            ]
            known = [await self._passed(finding) for finding in findings]
            await sink(tuple(passed), tuple(finding for finding in known if finding is not None))

        return tell

    async def _passed(self, finding: Finding, *, is_end: bool = False) -> Finding | None:
        """Return a finding as it may be reported, None where it may not.

        is_end  the finding is over: this is reported if the finding was
        """
        with self._supervisor.guard("findings"):
            if finding.severity is Severity.INFO or finding.state == "resolved":
                return finding if not is_end or finding.id in self._reported else None
            exists = await self._exists(finding.subject)
            if exists is not False:
                self._reported[finding.id] = None
                message = finding.message if exists else f"{UNVERIFIED}{finding.message}"
                return structs.replace(finding, message=message)
        return None

    async def _exists(self, thing: FoundObject) -> bool | None:
        """Return whether the object exists, None if that is unknown."""
        if not thing.uid:
            return None  # it comes and goes: whether it exists just now proves nothing
        now = self._clock()
        exists, at = self._known.get(thing, (None, float("-inf")))
        if exists or now - at < AGAIN_SECONDS:
            return exists
        began, asked = self._window
        if now - began >= WINDOW_SECONDS:
            began, asked = now, 0
        if asked >= MOST_LOOKUPS:
            return exists
        self._window = began, asked + 1
        exists = None
        try:
            async with asyncio.timeout(_SECONDS):
                with self._supervisor.guard("lookups"):  # then it is unverified
                    exists = await self._lookup(thing)
        except TimeoutError:
            self._window = now, MOST_LOOKUPS  # the next lookup would wait as long
        self._known[thing] = exists, now
        return exists
