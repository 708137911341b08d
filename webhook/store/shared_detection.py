"""One detection for all replicas: each sends what it saw, and the leader judges it.

    follow ──elected──► lead: reads the stream, judges, publishes the findings once a second
    lead ──another is elected──► follow: sends what it sees, shows what is published

While the store is lost, the leader judges what it sees itself. The others keep what they see, and
send it afterwards; without a leader that all can reach, each of them leads meanwhile. What a
replica has kept counts once, whoever leads then. No admission answer waits for any of this.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, Protocol

import msgspec

from genguard.admission.review import AdmissionRequest
from genguard.detection.ledger import Row
from genguard.detection.life_fact import AnyFact
from webhook.store.circuit_breaker import (
    MOST_UNANSWERED,
    Answer,
    Command,
    Pipeline,
    StoreLostError,
    answer_of,
)
from webhook.store.seal import Seal
from webhook.store.snapshot import NO_HEAD, Head, ShownFindings, Snapshots, SnapshotWriter
from webhook.store.stream import (
    AFTER_ALL,
    BEGINNING,
    LARGEST_FACT,
    Facts,
    Stream,
    StreamConsumer,
    StreamProducer,
    order,
)
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

GATHER_SECONDS: Final = 0.05
"""Facts of so long go into one message: each replica sends twenty messages a second at most."""
JUDGE_SECONDS: Final = 0.1
"""The pause of the leader before it judges what has waited for long enough."""
FOLLOW_SECONDS: Final = 1.0
"""The pause before a replica reads again what the leader has published."""
_RESULTS: Final = ("sent", "read", "alone", "missed", "dropped", "unreadable", "unsealed")
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_ANSWER_SECONDS: Final = 5.0
_MOST_TRIES: Final = 3
"""A part that is being written is whole a moment later."""


class SharedLedger(ShownFindings, Protocol):
    """What is used of a Ledger."""

    def follow(self, rows: Iterable[Row], gone: Iterable[str] | None = None) -> None:
        """Take findings as another replica shows them; None: all others are gone.

        Raises MsgspecError, ValueError or RecursionError.
        """

    def lead(self) -> None:
        """Go on with what is known."""


class ReplicatedDetection(Protocol):
    """What is used of a Detection."""

    @property
    def ledger(self) -> SharedLedger:
        """The findings."""

    def see(self, fact: AnyFact) -> None:
        """Judge a fact."""

    def miss(self, request: AdmissionRequest | None, now: float) -> None:
        """Note that something was not seen."""


class Reporter(Protocol):
    """Reports changes of findings to the alert sinks."""

    def know(self, ids: Collection[str]) -> None:
        """Do not report these findings: they are no news."""


class Reader(Protocol):
    """A connection that reads the stream and keys; see StreamClient. All raise StoreLostError."""

    async def read(self, key: bytes, after: bytes, *, wait: bool) -> Sequence[tuple[bytes, bytes]]:
        """Return the next MOST_AT_ONCE messages with their ids; with `wait`, wait for one."""

    async def last(self, key: bytes) -> bytes | None:
        """Return the id of the last message."""

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of another key."""

    async def close(self) -> None:
        """Close the connection."""


class SharedStore(NamedTuple):
    """A store, and this replica in it. Its connections serve detection alone: they may be slow.

    open_reader, open_pipeline  new connections; raise StoreLostError
    probe                       a command that succeeds only where every other command may succeed
    replica                     bytes that are unique to this process
    seal                        seals every value that is stored
    """

    open_reader: Callable[[], Awaitable[Reader]]
    open_pipeline: Callable[[], Awaitable[Pipeline]]
    probe: Command
    prefix: str
    replica: bytes
    seal: Seal


class SharedDetection:
    """Shares the facts of this replica, and as the leader judges those of all replicas.

    Run `keep_connected` and `keep_judging` in tasks.
    """

    def __init__(
        self,
        store: SharedStore,
        detection: ReplicatedDetection,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since the epoch."""
        self._store: Final = store
        self._detection: Final = detection
        self._clock: Final = clock
        self._stream: Final = Stream(store.prefix, store.seal)
        self._snapshots: Final = Snapshots(store.prefix, store.seal)
        self._writer: Final = SnapshotWriter(self._publish, self._snapshots, detection.ledger)
        self._producer: Final = StreamProducer(self._send, store.replica)
        self._consumer: Final = StreamConsumer(self._stream, self._note_miss)
        self._step: Final = asyncio.Lock()
        """Held while facts are judged and findings are published: no fact comes in between."""
        self._head: Head | None = None
        """What was taken in last of what is published; None: all of it is to be read again."""
        self._names: list[frozenset[str]] = []
        self._has_begun = False
        """Whether it was seen what an earlier leader has published."""
        self._pipeline: Pipeline | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        self._counts: Final[Counter[str]] = Counter()
        self.judges = False
        """Whether this replica judges: it leads, and has what an earlier leader knew."""

    @property
    def is_shared(self) -> bool:
        """Whether what this replica sees reaches the stream."""
        return self._pipeline is not None and not self._pipeline.ended.done()

    def lag(self) -> float:
        """Return the seconds for which the leader has not judged the oldest message of ours."""
        return self._producer.lag()

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the number of facts, and of a few messages, by what became of them."""
        known = self._counts + self._consumer.counts
        known["dropped"] += self._producer.dropped
        return (((result,), known[result]) for result in _RESULTS)

    def put(self, fact: bytes) -> None:
        """Send what this replica saw."""
        if len(fact) > LARGEST_FACT:
            self._counts["dropped"] += 1
            self.miss()
            return
        self._counts["sent"] += 1
        if self._producer.put(fact):
            self.flush()
        else:
            self._flush_soon()

    def miss(self) -> None:
        """Tell the leader that this replica did not look at a review."""
        self._producer.miss()
        self._flush_soon()

    async def keep_connected(self, reporter: Reporter, leads: Callable[[], bool]) -> None:
        """Use the store whenever it is reached, for ever.

        leads  whether this replica is the one that judges
        """
        pause = 0.0
        while True:
            began = time.monotonic()
            try:
                await self._connect(reporter, leads)
            except StoreLostError as error:
                reason = str(error)
            if time.monotonic() - began > _LONGEST_PAUSE:
                pause = _SHORTEST_PAUSE
            else:
                pause = min(max(2 * pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            if pause > _SHORTEST_PAUSE:
                self._log_loss(reason)
            await asyncio.sleep(pause)

    async def keep_judging(self, leads: Callable[[], bool], supervisor: Supervisor) -> None:
        """As the leader, judge what has waited, and publish what is found, for ever."""
        while True:
            await asyncio.sleep(JUDGE_SECONDS)
            if not leads():
                self._stop_leading()
            elif self.judges:
                async with self._step:
                    await self._judge(time.monotonic(), supervisor)
                    await self._write(is_last=False)
            elif not self.is_shared:
                self._lead()

    async def finish(self, supervisor: Supervisor) -> None:
        """Send what is gathered, or judge and publish it, and wait for the store. Never raises."""
        self.flush()
        with contextlib.suppress(StoreLostError, TimeoutError):
            if self.judges:
                async with self._step:
                    await self._judge(float("inf"), supervisor)
                    await self._write(is_last=True)
            if self._pipeline is not None:
                await answer_of(self._pipeline, AFTER_ALL, _ANSWER_SECONDS)

    def flush(self) -> None:
        """Send what is gathered."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._producer.flush()

    def _flush_soon(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(GATHER_SECONDS, self.flush)

    async def _connect(self, reporter: Reporter, leads: Callable[[], bool]) -> None:
        """Use the store until something fails. Raises StoreLostError."""
        async with AsyncExitStack() as stack:
            reader = await self._store.open_reader()
            stack.push_async_callback(reader.close)
            pipeline = await self._store.open_pipeline()
            stack.push_async_callback(pipeline.close)
            try:
                await answer_of(pipeline, self._store.probe, _ANSWER_SECONDS)
                await self._use(reader, pipeline, reporter, leads)
            except TimeoutError:
                raise StoreLostError("no answer in time") from None
            finally:
                self._pipeline = None

    async def _use(
        self, reader: Reader, pipeline: Pipeline, reporter: Reporter, leads: Callable[[], bool]
    ) -> None:
        await self._check_place(reader)
        self._pipeline = pipeline
        self._producer.send_again()
        self._writer.write_all()
        if self._reason is not None:
            self._reason = None
            LOGGER.info("findings are shared again")
        while not pipeline.ended.done():
            if leads() and self.judges and self._has_begun:
                await self._read(reader, pipeline.ended)
                continue
            has_begun, is_whole = self._has_begun, await self._follow(reader, reporter)
            if not leads():
                self._stop_leading()
                await asyncio.wait((pipeline.ended,), timeout=FOLLOW_SECONDS)
                continue
            for _ in range(_MOST_TRIES):
                is_whole = is_whole or await self._follow(reader, reporter)
            self._has_begun = True  # a part that is missing for good must not stop it
            if not (self.judges and has_begun):
                self._lead()
                await self._check_place(reader)
        raise StoreLostError(pipeline.ended.result())

    async def _check_place(self, reader: Reader) -> None:
        """Begin anew where this is another stream: the clock of its store may be behind."""
        last = await reader.last(self._stream.key)
        if last is None or order(last) < order(self._consumer.at):
            self._consumer.at = BEGINNING

    async def _read(self, reader: Reader, ended: asyncio.Future[str]) -> None:
        """Take the next messages. Raises StoreLostError when either connection fails."""
        at = self._consumer.at
        reading = asyncio.ensure_future(reader.read(self._stream.key, at, wait=True))
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise StoreLostError(ended.result())
            found = reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if not self.judges:
            return
        for identity, raw in found:
            self._consumer.read(identity, raw, time.monotonic())
            await asyncio.sleep(0)

    async def _follow(self, reader: Reader, reporter: Reporter) -> bool:
        """Take in what is published; return whether it was whole. Raises StoreLostError."""
        head = await self._snapshots.head(reader.get)
        if head is not None:
            before = (self._head or NO_HEAD).versions
            changed = [
                (number, version)
                for number, version in enumerate(head.versions)
                if self._head is None or version != before[number]
            ]
            parts = dict[int, tuple[Row, ...]]()
            for number, version in changed:
                found = await self._snapshots.part(reader.get, number, version)
                if found is None:
                    return False
                parts[number] = found
            if not (self.judges and self._has_begun):  # it leads alone by now
                self._take_in(head, parts)
        if not self._has_begun:
            self._has_begun = True
            reporter.know({one.id for one in self._detection.ledger.shown().values()})
        return True

    def _take_in(self, head: Head, parts: dict[int, tuple[Row, ...]]) -> None:
        if self._head is None:
            self._names = [frozenset()] * len(head.versions)
            self._consumer.queue.clear()
        names, now = self._names, list(self._names)
        gone, rows = set[str](), list[Row]()
        for number, found in parts.items():
            now[number] = frozenset(name for name, _ in found)
            gone |= names[number] - now[number]
            rows += found
        try:
            if parts:
                self._detection.ledger.follow(rows, None if self._head is None else gone)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._counts["unreadable"] += 1
        self._head, self._names = head, now
        self._producer.confirm(head.taken.get(self._store.replica, 0))

    def _lead(self) -> None:
        """Judge from now on, after what an earlier leader has published, if that is known."""
        head = self._head
        if head is not None:
            self._consumer.begin(head.at, head.taken)
            self._writer.go_on(head)
        self.judges = True
        self._detection.ledger.lead()

    def _stop_leading(self) -> None:
        if not self.judges:
            return
        self.judges = False
        self._head = None  # what is queued stays until a head says what is known
        self._producer.send_again()

    async def _judge(self, now: float, supervisor: Supervisor) -> None:
        if not self.is_shared:
            for message in self._producer.kept():
                if self._consumer.take(message, time.monotonic()):
                    self._counts["alone"] += len(message.facts)
        for fact in self._consumer.queue.due(now):
            with supervisor.guard("writes"):  # one that fails is left out
                self._detection.see(fact)
            await asyncio.sleep(0)

    async def _write(self, *, is_last: bool) -> None:
        # What is queued was taken, too: of a leader that crashes it is lost.
        at, taken = self._consumer.at, self._consumer.taken
        if self.is_shared and await self._writer.write(at, taken, is_last=is_last):
            self._producer.confirm(taken.get(self._store.replica, 0))

    def _note_miss(self) -> None:
        self._detection.miss(None, self._clock())

    def _send(self, message: Facts) -> None:
        self._publish(self._stream.append(message))

    def _publish(self, command: Command) -> None:
        pipeline = self._pipeline
        if pipeline is None:
            return
        if len(pipeline) >= MOST_UNANSWERED:
            pipeline.end("no answer in time")  # what was sent is sent again
        pipeline.send(command, _ignore)

    def _log_loss(self, reason: str) -> None:
        if reason != self._reason:
            facts = {"reason": reason, "effect": "the leader finds what it sees itself"}
            LOGGER.warning("findings not shared", extra={"facts": facts})
        self._reason = reason


def _ignore(answer: Answer) -> None:
    """Ignore a reply: an error ends the pipeline, and what was sent is sent again."""
    del answer
