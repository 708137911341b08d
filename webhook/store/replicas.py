"""What replicas of one store tell the one that leads: a stream, which it reads as a consumer group.

A message holds what one replica observed, its sender and a number. So a message that is sent
twice is taken once, and the leader sees from the numbers how many were lost. The stream keeps the
latest MOST_MESSAGES.

The leader examines what all replicas saw, itself included. It acknowledges a message some seconds
later, when its findings are saved. What is not acknowledged by then stays pending, and the next
leader reads it first: it may count a write twice, and loses none.

While the store is away, each replica keeps what it saw last. What it gives up is counted, and
lowers counts: no finding is resolved because of it.
"""

import asyncio
import itertools
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Final

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from genguard.admission.review import ObjectName, Phase
from genguard.detection.detection import Detection
from genguard.detection.observation import (
    Observation,
    UnreadableObservationError,
    decode_observation,
)
from genguard.objects.intended import Restored
from webhook.election.leader import Leadership
from webhook.store.address import ValkeyAddress
from webhook.store.client import Command, Store, StoreLostError
from webhook.store.intents import SharedIntents
from webhook.tasks.clock import CLOCK
from webhook.tasks.supervisor import Run, Supervisor
from webhook.telemetry.logs import LOGGER
from webhook.telemetry.metrics import Metrics

MOST_MESSAGES: Final = 4_000
"""Messages of the stream: a minute under load."""
MOST_OBSERVATIONS: Final = 50
"""Observations of one message."""
MOST_UNSENT: Final = 5_000
"""What a replica keeps while the store is away; the oldest are given up for new ones."""
LARGEST_OBSERVATION: Final = 8 * 1024
"""Bytes of an observation of a hundred changes; a larger one is not sent."""
MOST_WAITING: Final = 5_000
"""Observations that wait to be examined; with more the leader reads no further."""
MOST_NAMES: Final = 500
"""Missed objects of one message; with more of them everything counts as missed."""
LONGEST_NAME: Final = 1_000
"""Characters of all its parts. No API server has longer ones, so no finding is about them."""
KEPT_MILLISECONDS: Final = 3_600_000
"""The whole stream is removed when nobody has written for so long."""
MOST_SENDERS: Final = 1_000
"""Replicas whose last number is known; each start of a process is another one."""
GATHER_SECONDS: Final = 0.05
"""What is observed in so long is one message: each replica sends twenty a second at most."""
EXAMINE_MILLISECONDS: Final = 100
"""How long the server holds back its reply while the stream has no new message."""
SECONDS_ON_THE_WAY: Final = 0.5
"""How long a message takes to another replica, and the difference between their clocks."""
ACKNOWLEDGE_SECONDS: Final = 5.0
"""What was found is saved after so long (Persister): every two seconds, if there is news."""
_HEARTBEAT_SECONDS: Final = 1.0
_MOST_AT_ONCE: Final = 20
_GROUP: Final = "leader"
"""The name of the group and of its one consumer: what one leader has not acknowledged is pending
for the next."""
_PENDING: Final = b"0"
_NEW: Final = b">"
_RESULTS: Final = ("sent", "read", "missed", "dropped", "unreadable")
_ORDER: Final = {phase: index for index, phase in enumerate(Phase)}
_Fields = Annotated[tuple[bytes, ...], msgspec.Meta(min_length=2)] | None
_Streams = tuple[tuple[bytes, tuple[tuple[bytes, _Fields], ...]]] | None


class Observations(msgspec.Struct, frozen=True, array_like=True, tag="facts2"):
    """What a replica saw, in its order; see genguard/detection/observation.py.

    missed  reviews were answered that the replica did not look at, or whose record was given up
    names   what those are about; empty where nobody knows
    """

    sender: bytes
    number: int
    observations: tuple[bytes, ...]
    missed: bool = False
    names: tuple[ObjectName, ...] = ()


_decoder: Final = msgspec.msgpack.Decoder(Observations)


class ObservationSender:
    """Sends what this replica observed, and finds out whether the store is away."""

    def __init__(self, store: Store, key: bytes, probe: Command) -> None:
        """`probe` is sent while there is nothing to tell."""
        self._store: Final = store
        self._key: Final = key
        self._probe: Final = probe
        self._sender: Final = secrets.token_bytes(8)
        self._numbers: Final = itertools.count(1)
        self._unsent: Final[deque[tuple[float, bytes]]] = deque()
        self._missed: dict[ObjectName | None, None] = {}
        self._message: tuple[float, Observations] | None = None
        """What is being sent, and since when its observations wait."""
        self._wake: Final = asyncio.Event()
        self.sent = 0
        self.dropped = 0
        """Observations that were given up."""

    def put(self, seen: bytes, name: ObjectName | None = None) -> None:
        """Send an observation soon, which is about `name`. Never raises."""
        if len(seen) > LARGEST_OBSERVATION:
            self.dropped += 1
            self.miss(name)
            return
        self._unsent.append((time.monotonic(), seen))
        self._wake.set()
        if len(self._unsent) > MOST_UNSENT:
            self._unsent.popleft()
            self.dropped += 1
            self.miss(None)

    def miss(self, name: ObjectName | None) -> None:
        """Tell the leader that this replica did not look at a review; None: nobody knows of what.

        Never raises.
        """
        if name is None or len(self._missed) >= MOST_NAMES:
            self._missed = {None: None}
        elif None not in self._missed and sum(map(len, name)) <= LONGEST_NAME:
            self._missed[name] = None
        self._wake.set()

    def lag(self) -> float:
        """Return how long the oldest observation has waited, in seconds; 0 without one."""
        oldest = self._message or (self._unsent[0] if self._unsent else None)
        return time.monotonic() - oldest[0] if oldest else 0.0

    async def run(self) -> None:
        """Send, for ever."""
        while True:
            self._wake.clear()
            if await self.send():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HEARTBEAT_SECONDS):
                        await self._wake.wait()
                await asyncio.sleep(GATHER_SECONDS)
            else:
                await asyncio.sleep(_HEARTBEAT_SECONDS)

    async def send(self) -> bool:
        """Send all that is gathered, or ask for an answer; return whether that was done."""
        try:
            if self._message is None and not (self._unsent or self._missed):
                await self._store.send("probe", self._probe)
            while self._message or self._unsent or self._missed:
                await self._send_one()
        except StoreLostError as error:
            self._store.note(str(error))
            return False
        self._store.note("")
        return True

    async def _send_one(self) -> None:
        """Send one message. One that failed is sent as it was: it may have been stored."""
        if self._message is None:
            since = time.monotonic() - self.lag()
            count = min(len(self._unsent), MOST_OBSERVATIONS)
            observations = tuple(self._unsent.popleft()[1] for _ in range(count))
            names = tuple(name for name in self._missed if name is not None)
            message = Observations(
                self._sender, next(self._numbers), observations, bool(self._missed), names
            )
            self._message, self._missed = (since, message), {}
        _, message = self._message
        content = msgspec.msgpack.encode(message)
        limit: Command = ("MAXLEN", "~", MOST_MESSAGES)
        append: Command = ("XADD", self._key, *limit, "*", "m", content)
        await self._store.send("tell", append, ("PEXPIRE", self._key, KEPT_MILLISECONDS))
        self._message = None
        self.sent += len(message.observations)


class ObservationQueue:
    """Holds what all replicas observed for a moment, and gives it in the order of their times.

    Each waits for SECONDS_ON_THE_WAY after it came in, by the clock of the leader alone: then no
    earlier observation is still on its way.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Observation]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, seen: Observation, now: float) -> None:
        """Add an observation that came in at `now`, in monotonic seconds."""
        self._waiting.append((now, seen))

    def due(self, now: float) -> list[Observation]:
        """Remove and return those that have waited for long enough, and those before them."""
        until = now - SECONDS_ON_THE_WAY
        latest = max((seen.time for came, seen in self._waiting if came <= until), default=None)
        if latest is None:
            return []
        due = [seen for _, seen in self._waiting if seen.time <= latest]
        self._waiting = [entry for entry in self._waiting if entry[1].time > latest]
        return sorted(due, key=lambda seen: (seen.time, _ORDER[seen.phase]))


class ObservationReader:
    """On the leader, takes every message of the stream and examines what it holds in time order."""

    def __init__(self, store: Store, key: bytes, detection: Detection) -> None:
        self._store: Final = store
        self._key: Final = key
        self._detection: Final = detection
        self.counts: Final[Counter[str]] = Counter()
        self._forget()

    def _forget(self) -> None:
        """Another replica leads, and reads what is pending."""
        self._numbers = LRUCache[bytes, int](MOST_SENDERS)
        """The number of the last message of each sender."""
        self._queue = ObservationQueue()
        self._taken = deque[tuple[float, bytes]]()
        """The ids of messages that are not acknowledged, and when they came in."""
        self._after, self._has_group = _PENDING, False

    async def run(self, leadership: Leadership, supervisor: Supervisor) -> None:
        """Take messages and examine what has waited, while this replica leads, for ever."""
        while True:
            if not leadership.is_leader:
                self._forget()
                await asyncio.sleep(EXAMINE_MILLISECONDS / 1000)
                continue
            try:
                if len(self._queue) < MOST_WAITING:
                    await self._read()
            except StoreLostError:
                self._after, self._has_group = _PENDING, False
                self._miss()  # nothing is resolved merely because nothing is seen
                await asyncio.sleep(_HEARTBEAT_SECONDS)
            if leadership.is_leader:
                await self.take_due(time.monotonic(), supervisor)

    async def take_due(self, now: float, supervisor: Supervisor) -> None:
        """Examine what is due at `now`, and acknowledge what was examined some seconds before.

        Never raises.
        """
        for seen in self._queue.due(now):
            with supervisor.guard("writes"):  # one that fails is left out
                self._detection.see(seen)
            await asyncio.sleep(0)
        until = now - ACKNOWLEDGE_SECONDS
        if examined := [identity for came, identity in self._taken if came <= until]:
            with suppress(StoreLostError):  # they stay pending, and are read again
                await self._store.send("read", ("XACK", self._key, _GROUP, *examined))
                for _ in examined:
                    self._taken.popleft()
        await asyncio.sleep(0)

    async def _read(self) -> None:
        """Take the next messages, pending ones first. Raises StoreLostError."""
        if not self._has_group:
            create: Command = ("XGROUP", "CREATE", self._key, _GROUP, "0", "MKSTREAM")
            try:
                await self._store.send("read", create)
            except StoreLostError as error:
                if "BUSYGROUP" not in str(error.__cause__):  # it is there
                    raise
            self._has_group = True
        command: Command = (
            *("XREADGROUP", "GROUP", _GROUP, _GROUP, "COUNT", _MOST_AT_ONCE),
            *(("BLOCK", EXAMINE_MILLISECONDS) if self._after == _NEW else ()),
            *("STREAMS", self._key, self._after),
        )
        (reply,) = await self._store.send("read", command)
        try:
            found = msgspec.convert(reply, _Streams)
        except msgspec.ValidationError as error:
            raise StoreLostError("the store gave an answer of no known form") from error
        entries = () if found is None else found[0][1]
        for identity, fields in entries:
            if self._after != _NEW:
                self._after = identity
            self._taken.append((time.monotonic(), identity))
            if fields is None:
                self._miss(1)  # trimmed while it was pending
            else:
                self._take(fields[1])
        if not entries:
            self._after = _NEW

    def _take(self, raw: bytes) -> None:
        try:
            message = _decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.counts["unreadable"] += 1
            return
        last = self._numbers.get(message.sender, message.number - 1)
        if message.number <= last:
            return  # sent or read again
        self._numbers[message.sender] = message.number
        lost = message.number - last - 1
        if lost:
            self._miss(lost)
        for name in (message.names or (None,)) if message.missed else ():
            self._detection.miss(name, CLOCK.now())
        for content in message.observations:
            try:
                seen = decode_observation(content)
                self._queue.put(replace(seen, time=CLOCK.of_wall(seen.time)), time.monotonic())
            except UnreadableObservationError:
                self.counts["unreadable"] += 1
                self._miss()
            else:
                self.counts["read"] += 1

    def _miss(self, messages: int = 0) -> None:
        self.counts["missed"] += messages
        self._detection.miss(None, CLOCK.now())


class Replicas:
    """What the replicas of one store share. Before `joined`, nothing is shared."""

    def __init__(self, address: ValkeyAddress, detection: Detection, restored: Restored) -> None:
        """Prepare without connecting.

        detection the leader has it examine what all replicas see
        restored  the fields that this server restores
        """
        key = f"{address.prefix}facts2".encode()  # the older name: replicas are updated in turn
        self._address: Final = address
        self.store: Final = Store(address)
        self.intents: Final = SharedIntents(self.store, address.prefix, restored)
        self.observations: Final = ObservationSender(self.store, key, self.intents.probe)
        self._reader: Final = ObservationReader(self.store, key, detection)

    @asynccontextmanager
    async def joined(
        self, leadership: Leadership, metrics: Metrics, supervisor: Supervisor
    ) -> AsyncIterator[None]:
        """Share while the context is entered; at the end, what was gathered last is still sent.

        Does not wait for the connection: a webhook must start without its store.
        """
        metrics.gauge("genguard_store_up", lambda: float(self.store.up))
        metrics.counts("genguard_store_requests_total", self.store.requests.items)
        metrics.counts("genguard_store_observations_total", self._counts)
        metrics.gauge("genguard_store_lag_seconds", self.observations.lag)
        metrics.counts(
            "genguard_store_dropped_total",
            lambda: (((reason,), count) for reason, count in self.intents.unused.items()),
        )
        LOGGER.info("joining replicas", extra={"fields": {"store": str(self._address)}})
        work: dict[str, Run] = {
            "shared intents": self.intents.run,
            "shared observations": self.observations.run,
            "observations of replicas": lambda: self._reader.run(leadership, supervisor),
        }
        try:
            async with supervisor.running(work):
                yield
            await self.observations.send()
            if leadership.is_leader:
                await self._reader.take_due(float("inf"), supervisor)  # the findings are saved next
        finally:
            await self.store.close()

    def _counts(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Yield the number of observations, and of a few messages, by what became of them."""
        known = self._reader.counts + Counter(
            sent=self.observations.sent, dropped=self.observations.dropped
        )
        return (((result,), known[result]) for result in _RESULTS)
