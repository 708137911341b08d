"""Run detection and tracking after the answers: one bounded queue, read in batches on the loop.

Reviews that do not fit are dropped and counted; no answer waits for detection. A batch takes some
0.4 ms, about six reviews, and delays answers by no more than that. Reviews of more than 64 KiB, and
those that evaluate conditions, are compared in a thread; rules in CEL are evaluated there too.
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
from webhook.detection.fact import encode_fact
from webhook.detection.finding import Finding
from webhook.detection.life_fact import AnyFact
from webhook.detection.reduce import Reviewed
from webhook.objects.fields import Fields
from webhook.pipeline import Verdict
from webhook.status.health_rules import RuleAnswers
from webhook.status.tracking import NOT_JUDGED, Judged, Tracking, record_outcome, shows_object
from webhook.telemetry.logs import LOGGER
from webhook.threads import in_thread

MOST_QUEUED: Final = 5_000
MOST_QUEUED_BYTES: Final = 24 * 1024 * 1024
_BYTES_OF_FINALIZER: Final = 64
"""Of a name of one character: up to 16 times its bytes in the body."""
COMPARED_AT_ONCE: Final = 64 * 1024
"""Bytes of a body. Of a larger one up to 2,000 leaves are compared, which takes 40 ms: in a thread,
while answers go on."""
_BATCH_SECONDS: Final = 0.000_2
_BATCH_WRITES: Final = 16
"""A batch reads the queue for so long, or until so many writes are complete, and judges them. Many
writes in a row cost less each, and a turn of the event loop costs a third of a review."""
_SETTLE_SECONDS: Final = 1.0
_JUDGED: Final = frozenset({Operation.CREATE, Operation.UPDATE})


def _finalizers(request: AdmissionRequest) -> int:
    objects = request.object, request.old_object
    return sum([len(one.metadata.finalizers or ()) for one in objects if one is not None])


class Shared(Protocol):
    """The stream of facts that replicas of one store share."""

    def put(self, fact: bytes) -> bool:
        """Send a fact; return whether it comes back to all replicas, this one too, to be judged."""


class Rules(Protocol):
    """Rules in CEL."""

    def covers(self, group: str, kind: str) -> bool:
        """Whether a kind has a rule."""

    def judge(self, group: str, kind: str, document: Fields) -> RuleAnswers | None:
        """Return what the rule of a kind says of an object; it may block for seconds."""


class Detecting:
    """Feeds a Detection and a Tracking, and sends changes of findings to the alert sinks."""

    def __init__(
        self,
        detection: Detection,
        sinks: Iterable[Sink],
        tracking: Tracking,
        shared: Shared | None = None,
        rules: Rules | None = None,
    ) -> None:
        """`rules` judge objects of kinds that have a rule in CEL; None: no kind has one."""
        self._rules: Final = rules
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
        """All findings, at most a second old."""
        self.dropped = 0
        self.untracked = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, phase: Phase, verdict: Verdict, size: int) -> None:
        """Add an answered review of `size` bytes to the queue, if there is room."""
        request, prediction = verdict.request, verdict.prediction
        if request is None or prediction is None:
            return
        # Detection looks at all but deletions on their way, tracking at outcomes alone.
        if request.operation not in _JUDGED and phase is not Phase.OUTCOME:
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
        """Start; needs a running loop. Findings that exist already are not sent."""
        self.latest = self.findings()
        self._turns.since(self.latest)
        self._tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._settle())]

    async def stop(self) -> None:
        """Stop, and close the sinks."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for sink in self._sinks:
            await sink.close()

    def hold(self) -> None:
        """Send nothing to the sinks for now: the findings are about the past."""
        self._holds = True

    def go_on(self) -> None:
        """Send changes again; after `hold`, findings that exist already are not sent."""
        if self._holds:
            self.latest = self.findings()
            self._turns.since(self.latest)
        self._holds = False

    def know(self, ids: Collection[str]) -> None:
        """Do not send these findings: another replica has sent them."""
        self._turns.know(one for one in self.findings() if one.id in ids)

    def findings(self) -> tuple[Finding, ...]:
        """Return all findings."""
        return self.detection.findings()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._take_batch()
                await asyncio.sleep(0)

    async def _take_batch(self) -> None:
        end = time.perf_counter() + _BATCH_SECONDS
        while self._queue and time.perf_counter() < end and self.detection.unjudged < _BATCH_WRITES:
            phase, reviewed, now, size, weight = self._queue.popleft()
            self._bytes -= weight
            if reviewed.request.operation is not Operation.CONNECT:
                if size <= COMPARED_AT_ONCE and not self.detection.is_slow(reviewed.request):
                    fact = self.detection.fact(phase, reviewed, now)
                else:
                    # Answers do not wait for it; the reviews behind it do: facts are in order.
                    fact = await in_thread(self.detection.fact, phase, reviewed, now)
                self._take(fact)
            if phase is Phase.OUTCOME:
                self._track(reviewed, now, await self._judged(reviewed.request))
        self.detection.judge()

    def _take(self, fact: AnyFact | None) -> None:
        if fact is None:
            return
        if self._shared is None:
            self.detection.take(fact)
        elif not self._shared.put(encode_fact(fact)):
            self.detection.see_alone(fact)

    async def _judged(self, request: AdmissionRequest) -> Judged:
        """Have the objects of a write judged in a thread, if their kind has a rule in CEL."""
        rules, kind = self._rules, request.wire.kind
        if rules is None or not rules.covers(kind.group, kind.kind) or not shows_object(request):
            return NOT_JUDGED

        def judged() -> Judged:
            both = (
                None if one is None else rules.judge(kind.group, kind.kind, one.fields)
                for one in (request.old_object, request.object)
            )
            return Judged(*both)

        try:
            return await in_thread(judged)
        except (msgspec.MsgspecError, RecursionError):
            return NOT_JUDGED  # its record cannot be made either

    def _track(self, reviewed: Reviewed, now: float, judged: Judged) -> None:
        try:
            record_outcome(self.tracking, reviewed.request, reviewed.prediction, now, judged)
        except (msgspec.MsgspecError, RecursionError):
            self.untracked += 1

    async def _settle(self) -> None:
        while True:
            await asyncio.sleep(_SETTLE_SECONDS)
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
