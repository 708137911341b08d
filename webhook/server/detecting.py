"""Runs detection and tracking behind the answers: one bounded queue, worked off on the loop.

What does not fit is dropped and counted; an answer never waits for its own. A bite takes some
0.4 ms, about six reviews, and answers in between are late by no more than that; what is large, or
has conditions evaluated, is looked at in a thread.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, Protocol

import msgspec

from webhook.admission.review import AdmissionRequest, Operation, Phase
from webhook.alerts.change import Sink, TransitionTracker
from webhook.detection.detection import Detection
from webhook.detection.fact import Fact, encode_fact
from webhook.detection.finding import Finding
from webhook.detection.reduce import Reviewed
from webhook.pipeline import Verdict
from webhook.server.limits import LARGE_BYTES
from webhook.status.tracking import Tracking, record_outcome
from webhook.telemetry.logs import LOGGER
from webhook.threads import in_thread

MOST_QUEUED: Final = 5_000
MOST_QUEUED_BYTES: Final = 24 * 1024 * 1024
_BYTES_OF_FINALIZER: Final = 64
"""A name of one character takes so much: up to 16 times what it takes in the body."""
_BITE_SECONDS: Final = 0.000_2
_BITE_WRITES: Final = 16
"""A bite takes in for as long, or until so many writes are complete, and judges those. What is
done for many in a row costs less of each, and a turn of the event loop a third of a review."""
_LOOK_SECONDS: Final = 1.0


def _finalizers(request: AdmissionRequest) -> int:
    objects = request.object, request.old_object
    return sum([len(one.metadata.finalizers or ()) for one in objects if one is not None])


class Shared(Protocol):
    """What the replicas of one store have in common."""

    def put(self, fact: bytes) -> bool:
        """Whether all replicas will judge this fact, this one too, when it comes back."""


class Detecting:
    """Feeds a Detection and a Tracking, and tells the sinks what turned."""

    def __init__(
        self,
        detection: Detection,
        sinks: Iterable[Sink],
        tracking: Tracking,
        shared: Shared | None = None,
    ) -> None:
        self.detection: Final = detection
        self.tracking: Final = tracking
        self._sinks: Final = tuple(sinks)
        self._shared: Final = shared
        self._holds = False
        self._queue: deque[tuple[Phase, Reviewed, float, int, int]] = deque()
        self._bytes = 0
        self._wake: Final = asyncio.Event()
        self._turns: Final = TransitionTracker()
        self._tasks: list[asyncio.Task[None]] = []
        self.latest: tuple[Finding, ...] = ()
        """Everything found by the last look, a second ago at most."""
        self.dropped = 0
        self.untracked = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, phase: Phase, verdict: Verdict, size: int) -> None:
        """Take in an answered review of `size` bytes, if there is room."""
        request, prediction = verdict.request, verdict.prediction
        if request is None or prediction is None:
            return
        # Detection looks at updates alone, tracking at outcomes alone.
        if request.operation is not Operation.UPDATE and phase is not Phase.OUTCOME:
            return
        weight = size + _finalizers(request) * _BYTES_OF_FINALIZER
        has_room = len(self._queue) < MOST_QUEUED and self._bytes + weight <= MOST_QUEUED_BYTES
        if not has_room or not request.has_short_names:
            self.dropped += 1
            return
        self._bytes += weight
        reviewed = Reviewed(request, prediction, verdict.status)
        self._queue.append((phase, reviewed, time.time(), size, weight))
        self._wake.set()

    def start(self) -> None:
        """Begin to work; needs a running loop. What is known by now is no news."""
        self.latest = self.findings()
        self._turns.since(self.latest)
        self._tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._look())]

    async def stop(self) -> None:
        """Stop working, and close the sinks."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for sink in self._sinks:
            await sink.close()

    def hold(self) -> None:
        """Tell nothing for now: what is found is of the past."""
        self._holds = True

    def go_on(self) -> None:
        """Tell again; what is known by now is no news, if telling was held."""
        if self._holds:
            self.latest = self.findings()
            self._turns.since(self.latest)
        self._holds = False

    def know(self, ids: Collection[str]) -> None:
        """These findings are no news: another replica has told of them."""
        self._turns.know(one for one in self.findings() if one.id in ids)

    def findings(self) -> tuple[Finding, ...]:
        """Everything found by now."""
        return self.detection.findings()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._bite()
                await asyncio.sleep(0)

    async def _bite(self) -> None:
        end = time.perf_counter() + _BITE_SECONDS
        while self._queue and time.perf_counter() < end and self.detection.unjudged < _BITE_WRITES:
            phase, reviewed, now, size, weight = self._queue.popleft()
            self._bytes -= weight
            if reviewed.request.operation is Operation.UPDATE:
                if size <= LARGE_BYTES and not self.detection.is_slow(reviewed.request):
                    fact = self.detection.fact(phase, reviewed, now)
                else:
                    # Answers do not wait for it; the reviews behind it do: facts are in order.
                    fact = await in_thread(self.detection.fact, phase, reviewed, now)
                self._take(fact)
            if reviewed.request.operation is Operation.DELETE:
                self.detection.forget(reviewed.request, now)
            if phase is Phase.OUTCOME:
                self._track(reviewed, now)
        self.detection.judge()

    def _take(self, fact: Fact | None) -> None:
        if fact is None:
            return
        if self._shared is None:
            self.detection.take(fact)
        elif not self._shared.put(encode_fact(fact)):
            self.detection.see_alone(fact)

    def _track(self, reviewed: Reviewed, now: float) -> None:
        try:
            record_outcome(self.tracking, reviewed.request, reviewed.prediction, now)
        except (msgspec.MsgspecError, RecursionError):
            self.untracked += 1

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.detection.settle(time.time())
            self.tracking.settle(time.time())
            findings = self.latest = self.findings()
            if self._holds:
                continue
            changes = self._turns.since(findings)
            for sink in self._sinks:
                try:
                    await sink.tell(changes, findings)
                except Exception:  # noqa: BLE001 - a sink must not end the others
                    LOGGER.error("sink failed", exc_info=True)
