"""One detection for all replicas: each judges what all of them saw, in the order of one stream.

    alone ──the stream is read──► shared ──the store is lost──► alone

While detection is shared, this replica sends what it saw, and judges it when it reads it back among
what the others saw. So all replicas hold the same findings with the same counts. Alone, it judges
at once what it saw, and sends the others what it found afterwards. No admission answer waits for
any of this.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, Protocol

from webhook.store.circuit_breaker import (
    MOST_UNANSWERED,
    Answer,
    Command,
    Pipeline,
    StoreLostError,
    answer_of,
)
from webhook.store.seal import Seal
from webhook.store.snapshot import KnownFindings, Snapshots, SnapshotWriter
from webhook.store.stream import (
    AFTER_ALL,
    BEGINNING,
    LARGEST_FACT,
    MOST_AT_ONCE,
    Past,
    Stream,
    StreamConsumer,
    StreamDetection,
    StreamProducer,
    order,
)
from webhook.telemetry.logs import LOGGER

GATHER_SECONDS: Final = 0.05
"""Facts of so long go into one message: each replica sends twenty messages a second at most."""
_RESULTS: Final = ("sent", "read", "alone", "missed", "dropped", "unreadable", "unsealed")
_SHORTEST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_ANSWER_SECONDS: Final = 5.0


class ReplicatedDetection(StreamDetection, KnownFindings, Protocol):
    """What is used of a Detection."""


class Reporter(Protocol):
    """Reports changes of findings to the alert sinks."""

    def hold(self) -> None:
        """Report nothing for now."""

    def go_on(self) -> None:
        """Report again; what is known by now is not reported."""


class Reader(Protocol):
    """A connection that follows the stream; see StreamClient. All raise StoreLostError."""

    async def read(self, key: bytes, after: bytes, *, wait: bool) -> Sequence[tuple[bytes, bytes]]:
        """Return the next MOST_AT_ONCE messages with their ids; with `wait`, wait for one."""

    async def ends(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the ids of the first and the last message."""

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
    """Shares the facts of this replica, and judges those of all replicas. `run` it in a task.

    Before that, and whenever the store is lost, `put` refuses facts.
    """

    def __init__(self, store: SharedStore, detection: ReplicatedDetection) -> None:
        self._store: Final = store
        self._detection: Final = detection
        self._stream: Final = Stream(store.prefix, store.seal)
        snapshots = Snapshots(store.prefix, store.seal)
        self._writer: Final = SnapshotWriter(self._publish, snapshots, detection)
        self._producer: Final = StreamProducer(self._publish, self._stream, store.replica)
        self._consumer: Final = StreamConsumer(
            detection, self._stream, store.replica, self._producer.confirm
        )
        self._pipeline: Pipeline | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._reason: str | None = None
        self._counts: Final[Counter[str]] = Counter()

    @property
    def is_shared(self) -> bool:
        """Whether all replicas judge what this one sees."""
        return self._pipeline is not None and not self._pipeline.ended.done()

    @property
    def is_saved(self) -> bool:
        """Whether the latest snapshot holds everything that was read here."""
        return self._writer.saved == self._consumer.at

    def lag(self) -> float:
        """Return the seconds for which the oldest sent message has not been read back."""
        return self._producer.lag()

    def counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the number of facts, and of a few messages, by what became of them."""
        known = self._counts + self._consumer.counts
        known["dropped"] += self._producer.dropped
        return (((result,), known[result]) for result in _RESULTS)

    def put(self, fact: bytes) -> bool:
        """Send what this replica saw; return False where it has to judge the fact itself."""
        if not self.is_shared:
            self._counts["alone"] += 1
            return False
        if len(fact) > LARGEST_FACT:
            self._counts["dropped"] += 1
            return True
        self._counts["sent"] += 1
        if self._producer.put(fact):
            self.flush()
        elif self._flushing is None:
            loop = asyncio.get_running_loop()
            self._flushing = loop.call_later(GATHER_SECONDS, self.flush)
        return True

    async def run(self, reporter: Reporter, leads: Callable[[], bool]) -> None:
        """Follow the stream whenever the store is reached, for ever.

        leads  whether this replica is the one that writes snapshots
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

    async def finish(self) -> None:
        """Send what is gathered, and wait until the store has it. Never raises."""
        self.flush()
        if self._pipeline is not None:
            with contextlib.suppress(StoreLostError, TimeoutError):
                await answer_of(self._pipeline, AFTER_ALL, _ANSWER_SECONDS)

    def flush(self) -> None:
        """Send what is gathered."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._producer.flush()

    async def _connect(self, reporter: Reporter, leads: Callable[[], bool]) -> None:
        """Follow the stream until something fails. Raises StoreLostError."""
        async with AsyncExitStack() as stack:
            reader = await self._store.open_reader()
            stack.push_async_callback(reader.close)
            pipeline = await self._store.open_pipeline()
            stack.push_async_callback(pipeline.close)
            try:
                await answer_of(pipeline, self._store.probe, _ANSWER_SECONDS)
                await self._follow(reader, pipeline, reporter, leads)
            except TimeoutError:
                raise StoreLostError("no answer in time") from None
            finally:
                self._pipeline = None
                self._consumer.skip_past()
                reporter.go_on()

    async def _follow(
        self, reader: Reader, pipeline: Pipeline, reporter: Reporter, leads: Callable[[], bool]
    ) -> None:
        consumer = self._consumer
        is_new = consumer.at == BEGINNING
        past = await self._past(reader)
        if is_new or past is not None:
            reporter.hold()
        self._join(pipeline, past)
        is_waiting = False
        while True:
            found = await self._read(reader, pipeline.ended, wait=is_waiting)
            for at, raw in found:
                await consumer.take(at, raw)
            if is_waiting and not found and self._detection.waiting():
                self._producer.send_end_of_wait()
            is_waiting = len(found) < MOST_AT_ONCE
            if is_waiting:
                consumer.finish_past()
                reporter.go_on()
                # Findings sent after a message are not part of what is known as of that message.
                if leads() and not self._producer.has_unconfirmed_findings:
                    await self._writer.save(consumer.at)

    async def _read(
        self, reader: Reader, ended: asyncio.Future[str], *, wait: bool
    ) -> Sequence[tuple[bytes, bytes]]:
        """Return the next messages. Raises StoreLostError when either connection fails."""
        reading = asyncio.ensure_future(reader.read(self._stream.key, self._consumer.at, wait=wait))
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise StoreLostError(ended.result())
            return reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _past(self, reader: Reader) -> Past | None:
        """Return what to begin with, where messages since the last one read are missing."""
        consumer, key = self._consumer, self._stream.key
        first, last = await reader.ends(key) or (BEGINNING, BEGINNING)
        if order(last) < order(consumer.at):
            consumer.at = BEGINNING  # another stream: the clock of its store may be behind
        elif first != BEGINNING and order(first) <= order(consumer.at):
            return None
        snapshot = await self._writer.snapshots.read(reader.get)
        if snapshot is None or order(snapshot.at) <= order(consumer.at):
            return None
        ends = await reader.ends(key)
        if ends is not None and order(snapshot.at) > order(ends[1]):
            return None  # the snapshot belongs to another stream
        return Past(snapshot, is_over=ends is None)

    def _join(self, pipeline: Pipeline, past: Past | None) -> None:
        """Share from now on. One step without an await, so that no fact comes in between."""
        found_alone = self._detection.found_alone()
        self._consumer.begin(past, found_alone)
        self._pipeline, self._writer.saved = pipeline, BEGINNING
        self._producer.send_again()
        self._producer.send_findings(found_alone)
        if self._reason is not None:
            self._reason = None
            LOGGER.info("findings are shared again")

    def _publish(self, command: Command) -> None:
        pipeline = self._pipeline
        if pipeline is None:
            return
        if len(pipeline) >= MOST_UNANSWERED:
            pipeline.end("no answer in time")  # what was sent is sent again
        pipeline.send(command, _ignore)

    def _log_loss(self, reason: str) -> None:
        if reason != self._reason:
            facts = {"reason": reason, "effect": "each replica finds what it sees itself"}
            LOGGER.warning("findings not shared", extra={"facts": facts})
        self._reason = reason


def _ignore(answer: Answer) -> None:
    """Ignore a reply: an error ends the pipeline, and what was sent is read back or sent again."""
    del answer
