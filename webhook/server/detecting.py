"""Run detection after the answers: one bounded queue, read in batches on the loop.

Reviews that do not fit are dropped and counted; no answer waits for detection. A batch takes some
0.4 ms, about six reviews, and delays answers by no more than that. Large reviews, and those that
evaluate conditions, are compared in a thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from genguard.admission.review import ObjectName, Operation, Phase
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.ledger import Row
from genguard.detection.observation import encode_observation
from genguard.detection.reduce import Reviewed
from genguard.review import ReviewResult
from genguard.status.tracking import Tracking
from webhook.alerts.change import Sink, TransitionTracker
from webhook.alerts.pipeline import QueuedSink
from webhook.election.leader import Leadership
from webhook.server.options import Limits
from webhook.tasks.clock import CLOCK, Clock
from webhook.tasks.supervisor import Supervisor
from webhook.tasks.threads import in_thread

if TYPE_CHECKING:
    from webhook.store.replicas import ObservationSender

_BYTES_OF_FINALIZER: Final = 64
"""The memory of a finalizer of one character: up to 16 times its bytes in the body."""
_BATCH_SECONDS: Final = 0.000_2
_BATCH_WRITES: Final = 16
"""A batch reads the queue for so long, or until so many writes are complete, and examines them.
Many writes in a row cost less each, and a pass of the event loop costs a third of a review."""
_ADVANCE_SECONDS: Final = 1.0
DETECTION: Final = "detection"
RESOLVING: Final = "resolving"
"""The names of the tasks."""


class _Waiting(NamedTuple):
    """An answered review that waits, since `at` by the clock."""

    phase: Phase
    reviewed: Reviewed
    at: float
    weight: int
    is_large: bool


class Detecting:
    """Feeds a Detection, and sends changes of findings to the alert sinks."""

    def __init__(
        self,
        detection: Detection,
        sinks: Mapping[str, Sink],
        tracking: Tracking,
        shared: "ObservationSender | None" = None,
        *,
        active: Leadership | None = None,
        supervisor: Supervisor | None = None,
        clock: Clock = CLOCK,
        limits: Limits | None = None,
    ) -> None:
        """`sinks` by name.

        tracking  the objects that watches show; they have the time of day
        active    leads while findings are made here; else those of the active pod are shown
        """
        self._active: Final = active
        self.detection: Final = detection
        self.tracking: Final = tracking
        self._supervisor: Final = supervisor or Supervisor()
        self.clock: Final = clock
        self._ahead = 0.0
        self._limits: Final = limits or Limits()
        self.sinks: Final = tuple(QueuedSink(name, sink, active) for name, sink in sinks.items())
        self._shared: Final = shared
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._wake: Final = asyncio.Event()
        self.shown_at = 0.0
        """When another replica had saved what is known now, in Unix seconds; 0: none has."""
        self._transitions: Final = TransitionTracker()
        self.latest: tuple[Finding, ...] = ()
        """All findings, at most a second old."""
        self.dropped = 0
        self._shed_at = 0.0
        self._now()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def last_shed(self) -> float:
        """When a review was last not examined for lack of time, in Unix seconds; 0: never."""
        return self._shed_at and self._shed_at + self.clock.ahead

    def put(self, phase: Phase, result: ReviewResult, size: int, *, is_large: bool = False) -> None:
        """Add an answered review of `size` bytes to the queue, if there is room.

        is_large  comparing it would hold the event loop. Such reviews leave half of the bytes to
                  others, so that they alone never make the queue full
        """
        request, prediction = result.request, result.prediction
        if request is None:
            return
        if prediction is None:
            self._miss(request.object_name)
            return
        # Detection looks at all but deletions on their way.
        is_write = request.operation in (Operation.CREATE, Operation.UPDATE)
        if not is_write and phase is not Phase.OUTCOME:
            return
        now = self._now()
        objects = [state for state in (request.object, request.old_object) if state is not None]
        finalizers = sum([len(state.metadata.finalizers or ()) for state in objects])
        weight = size + finalizers * _BYTES_OF_FINALIZER
        limits = self._limits
        most = limits.detection_queue_bytes // (2 if is_large else 1)
        has_room = len(self._queue) < limits.detection_queue and self._bytes + weight <= most
        if not has_room or not request.has_short_names:
            self.dropped += 1
            self.shed(request.object_name)
            return
        self._bytes += weight
        reviewed = Reviewed(request, prediction, result.status)
        self._queue.append(_Waiting(phase, reviewed, now, weight, is_large))
        self._wake.set()

    def see_version(self, reviewed: Reviewed, now: float) -> None:
        """Examine a write that a watch shows, where findings are made here."""
        if self.detects:
            self.detection.see_version(reviewed, now)

    def shed(self, name: ObjectName | None) -> None:
        """Note that there was no time to examine a review; None: nobody knows what it is about."""
        self._shed_at = self._now()
        self._miss(name)

    def _miss(self, name: ObjectName | None) -> None:
        if self._shared is None:
            self.detection.miss(name, self._now())
        else:
            self._shared.miss(name)

    @property
    def detects(self) -> bool:
        """Whether findings are made here; else another replica makes them, and they are shown."""
        return self._active is None or self._active.is_leader

    def start(self) -> None:
        """Start; needs a running loop. Findings that exist already are not sent."""
        self.latest = self.findings()
        self._transitions.since(self.latest)
        self._supervisor.start(DETECTION, self._work)
        self._supervisor.start(RESOLVING, self._advance)
        for sink in self.sinks:
            self._supervisor.start(sink.task, sink.run)

    async def stop(self) -> None:
        """Stop, whatever has failed before. Never raises."""
        await self._supervisor.end((DETECTION, RESOLVING, *(sink.task for sink in self.sinks)))

    def take_over(self, rows: Iterable[Row]) -> None:
        """Go on with what an earlier leader has saved.

        Raises msgspec.MsgspecError, ValueError or RecursionError.
        """
        self.know(self.detection.ledger.restore(rows, keeps_own=True))

    def show(self, rows: Iterable[Row]) -> None:
        """Show what the leader has saved; raises the same."""
        self.know(self.detection.ledger.restore(rows))

    def know(self, ids: Collection[str]) -> None:
        """Do not send these findings, nor those that they are part of: another replica has."""
        self.shown_at = self.clock.wall()
        found = self.findings()
        known = {*ids, *(finding.part_of for finding in found if finding.id in ids)}
        self._transitions.know(finding for finding in found if finding.id in known)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings."""
        self._now()  # who asks compares their times with the time of day
        return self.detection.findings()

    def _now(self) -> float:
        """Return the time by the clock."""
        now, ahead = self.clock.now(), self.clock.ahead
        if ahead != self._ahead:
            self.tracking.shift(ahead - self._ahead, self.clock.wall())
            self._ahead = ahead
        self.detection.ledger.tell_time(now, ahead)
        return now

    async def _work(self) -> None:
        while True:
            # Before it waits: what came before a failure is still there.
            while self._queue or self.detection.unexamined:
                await self._take_batch()
                await asyncio.sleep(0)
            await self._wake.wait()
            self._wake.clear()

    async def _take_batch(self) -> None:
        end = time.perf_counter() + _BATCH_SECONDS
        while (
            self._queue and time.perf_counter() < end and self.detection.unexamined < _BATCH_WRITES
        ):
            waiting = self._queue[0]  # until it is examined: nothing is resolved past it
            try:
                with self._supervisor.guard("reviews"):
                    await self._detect(waiting)
            finally:
                self._queue.popleft()
                self._bytes -= waiting.weight
        # A write whose examination fails is left out; the next call examines those behind it.
        for _ in range(self.detection.unexamined):
            with self._supervisor.guard("writes"):
                self.detection.detect()

    async def _detect(self, waiting: _Waiting) -> None:
        phase, reviewed, now, _, is_large = waiting
        if reviewed.request.operation is Operation.CONNECT:
            return
        if self._shared is not None and phase is Phase.OUTCOME:
            self.detection.expect_outcomes(reviewed.request)
        if not is_large and not self.detection.is_slow(reviewed.request):
            observation = self.detection.observe(phase, reviewed, now)
        else:
            # Answers do not wait for it; the reviews behind it do: observations are in order.
            observation = await in_thread(self.detection.observe, phase, reviewed, now)
        if observation is None:
            return
        if self._shared is None:
            self.detection.take(observation)
        else:
            shown = replace(observation, time=observation.time + self.clock.ahead)
            self._shared.put(encode_observation(shown), reviewed.request.object_name)

    async def _advance(self) -> None:
        while True:
            await asyncio.sleep(_ADVANCE_SECONDS)
            self.advance()

    def advance(self) -> None:
        """Resolve what is over by now, and send what has changed to the sinks."""
        now = self._now()
        if self.detects:
            with self._supervisor.guard("resolving of findings"):
                self.detection.resolve_quiet(self._queue[0].at if self._queue else now)
        with self._supervisor.guard("tracking of objects"):
            self.tracking.advance(self.clock.wall())
        findings = self.latest = self.findings()
        changes = self._transitions.since(findings)
        for sink in self.sinks:
            sink.put(changes, findings)
