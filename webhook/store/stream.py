"""The stream in which replicas tell each other what they saw, in one order for all of them.

A message holds facts that one replica observed, or findings that it made alone while the store was
lost. It carries its sender and a number, so that a message that is sent twice is taken once. The
oldest messages are removed when there are too many, and the whole stream when nobody writes for an
hour.

StreamProducer sends: it gathers facts for a moment, sends them as one message, and sends again
what a lost store may have lost. StreamConsumer reads: it takes every message once, and counts what
it cannot read.
"""

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
from cachetools import LRUCache

from genguard.detection.fact import UnreadableFactError
from webhook.store.circuit_breaker import Command
from webhook.store.seal import Seal, UnsealedError

T = TypeVar("T")

Row = tuple[str, bytes]
"""One finding, as a ledger exports it."""

MOST_MESSAGES: Final = 4_000
MOST_BYTES: Final = 32 * 1024
"""A message that has reached this size is sent; most are far smaller."""
MOST_AT_ONCE: Final = 20
"""Messages that are read by one command."""
KEPT_MILLISECONDS: Final = 3_600_000
BEGINNING: Final = b"0-0"
"""An id that comes before the id of every message."""
KEPT_SECONDS: Final = 3.0
"""How long a sent message is kept after it was read back: longer than any replica is behind."""
MOST_SECONDS: Final = 60.0
"""A message that was not read back by then is too old to be joined with what others saw."""
MOST_KEPT_BYTES: Final = 8 * 1024 * 1024
LARGEST_FACT: Final = 64 * 1024
"""A fact of some thousand changes; a larger one is not sent."""
_MOST_REMEMBERED: Final = 10_000
"""Messages that the consumer recognizes as taken: more than the stream holds."""

_MOST_SENDERS: Final = 1_000
"""Replicas whose last number is known; each start of a process is another one."""

_APPEND: Final = """\
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'm', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
"""

AFTER_ALL: Final[Command] = ("EVAL", "return 1", 0)
"""A command that is answered when every command before it is done."""


class BadMessageError(ValueError):
    """Bytes that are no message of this version; the error repeats nothing of them."""


class Facts(msgspec.Struct, frozen=True, array_like=True, tag="facts1"):
    """What a replica saw, in its order; see genguard/detection/fact.py.

    Without facts: it sees no fact on its way, so none waits for another. Each replica ends the wait
    at the same place of the stream; by its own clock it would find other counts than the others.
    """

    sender: bytes
    number: int
    facts: tuple[bytes, ...]


class Found(msgspec.Struct, frozen=True, array_like=True, tag="found1"):
    """Findings that a replica made alone; see Ledger.absorb."""

    sender: bytes
    number: int
    rows: tuple[Row, ...]


Message = Facts | Found
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Stream:
    """Builds the commands of the stream under one prefix, and decodes its messages."""

    def __init__(self, prefix: str, seal: Seal) -> None:
        self.key: Final = f"{prefix}facts1".encode()
        self._seal: Final = seal

    def append(self, message: Message) -> Command:
        """Return the command that appends a message."""
        content = self._seal.close(self.key, msgspec.msgpack.encode(message))
        return ("EVAL", _APPEND, 1, self.key, MOST_MESSAGES, content, KEPT_MILLISECONDS)

    def decode(self, raw: bytes) -> Message:
        """Decode one message. Raises UnsealedError, or BadMessageError for another version's."""
        content = self._seal.open(self.key, raw)
        try:
            message: Message = _decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BadMessageError("not a message of this version") from None
        return message


def order(identity: bytes) -> tuple[int, int]:
    """Return an id as a sortable pair: milliseconds, and a number within them.

    Raises ValueError for bytes that are no id.
    """
    milliseconds, _, number = identity.partition(b"-")
    return int(milliseconds), int(number)


def split_by_size(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Split items into lists of MOST_BYTES at most; an item that is larger stands alone."""
    some, size = list[T](), 0
    for item in items:
        if some and size + size_of(item) > MOST_BYTES:
            yield some
            some, size = [], 0
        some.append(item)
        size += size_of(item)
    if some:
        yield some


@dataclass(slots=True)
class _SentMessage:
    number: int
    sent_at: float
    command: Command
    size: int
    has_findings: bool
    read_back_at: float | None = None


class StreamProducer:
    """Sends what this replica observed. Never waits, never raises.

    A message is kept until it was read back from the stream and a little longer: the store may be
    lost, with the message in it, before every replica has read it.
    """

    def __init__(
        self,
        publish: Callable[[Command], None],
        stream: Stream,
        sender: bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`publish` sends a command, if the store is connected; `clock` gives seconds."""
        self._publish: Final = publish
        self._stream: Final = stream
        self._sender: Final = sender
        self._clock: Final = clock
        self._numbers: Final = itertools.count(1)
        self._facts: list[bytes] = []
        self._size = 0
        self._sent: Final[deque[_SentMessage]] = deque()
        self._kept_bytes = 0
        self.dropped = 0
        """Messages that were given up before they were read back."""

    def put(self, fact: bytes) -> bool:
        """Gather a fact of LARGEST_FACT bytes at most; return whether it is time to send."""
        self._facts.append(fact)
        self._size += len(fact)
        return self._size >= MOST_BYTES

    def flush(self) -> None:
        """Send the gathered facts as one message."""
        facts, self._facts, self._size = tuple(self._facts), [], 0
        if facts:
            self._send(Facts(self._sender, next(self._numbers), facts))

    def send_end_of_wait(self) -> None:
        """Say that no fact is on its way, as far as this replica sees."""
        self._send(Facts(self._sender, next(self._numbers), ()))

    def send_findings(self, rows: Iterable[Row]) -> None:
        """Send findings, in as many messages as their size needs."""
        for some in split_by_size(rows, lambda row: len(row[1])):
            self._send(Found(self._sender, next(self._numbers), tuple(some)))

    def confirm(self, number: int) -> None:
        """Take in that a message of this replica was read back from the stream."""
        now = self._clock()
        for message in self._sent:
            if message.number == number:
                message.read_back_at = now
        self._forget(now)

    def send_again(self) -> None:
        """After a loss, send every message that other replicas may not have read."""
        self._forget(self._clock())
        for message in self._sent:
            self._publish(message.command)

    @property
    def has_unconfirmed_findings(self) -> bool:
        """Whether findings were sent that have not been read back yet."""
        return any(one.has_findings and one.read_back_at is None for one in self._sent)

    def lag(self) -> float:
        """Return the seconds since the oldest unconfirmed message was sent; 0 without one."""
        now = self._clock()
        return next((now - one.sent_at for one in self._sent if one.read_back_at is None), 0.0)

    def _send(self, message: Message) -> None:
        command, now = self._stream.append(message), self._clock()
        self._publish(command)
        size = sum(len(part) for part in command if isinstance(part, bytes))
        has_findings = isinstance(message, Found)
        self._sent.append(_SentMessage(message.number, now, command, size, has_findings))
        self._kept_bytes += size
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._sent:
            oldest = self._sent[0]
            read_back = oldest.read_back_at
            is_read = read_back is not None and read_back < now - KEPT_SECONDS
            is_old = oldest.sent_at < now - MOST_SECONDS
            if not (is_read or is_old or self._kept_bytes > MOST_KEPT_BYTES):
                return
            self.dropped += read_back is None
            self._kept_bytes -= oldest.size
            self._sent.popleft()


class Snapshot(NamedTuple):
    """What was known after one message of the stream; see Detection.restore.

    at       id of the message
    rows     findings
    waiting  facts that are not judged yet
    """

    at: bytes
    rows: tuple[Row, ...]
    waiting: tuple[bytes, ...]


class Past(NamedTuple):
    """What a new replica begins with; `is_over`: the stream has no older message to read."""

    snapshot: Snapshot
    is_over: bool


class StreamDetection(Protocol):
    """What is used of a Detection."""

    def see_encoded(self, fact: bytes) -> None:
        """Judge a fact. Raises UnreadableFactError."""

    def end_wait(self) -> None:
        """Judge facts that wait for another one: no fact is on its way."""

    def found_alone(self) -> list[Row]:
        """Return findings of facts that no other replica saw, since the last call."""

    def absorb(self, rows: Iterable[Row]) -> None:
        """Add what another replica found alone.

        Raises MsgspecError, ValueError or RecursionError.
        """

    def restore(self, rows: Iterable[Row], waiting: Collection[bytes]) -> None:
        """Replace all findings by these, and the facts that wait by these.

        Raises MsgspecError, ValueError or RecursionError.
        """


class StreamConsumer:
    """Passes every message of the stream to detection once, whoever sent it.

    A new replica reads the messages that are still in the stream, then takes the findings of the
    snapshot, and goes on after the message that the snapshot belongs to.
    """

    def __init__(
        self,
        detection: StreamDetection,
        stream: Stream,
        replica: bytes,
        confirm: Callable[[int], None],
    ) -> None:
        """`confirm` is called with the number of each message that this `replica` has sent."""
        self._detection: Final = detection
        self._stream: Final = stream
        self._replica: Final = replica
        self._confirm: Final = confirm
        self._taken: Final[LRUCache[tuple[bytes, int], None]] = LRUCache(_MOST_REMEMBERED)
        self._latest: Final[LRUCache[bytes, int]] = LRUCache(_MOST_SENDERS)
        self._snapshot: Snapshot | None = None
        self._found_alone: list[Row] = []
        self.at = BEGINNING
        """The id of the message that was read last."""
        self.counts: Final[Counter[str]] = Counter()

    def begin(self, past: Past | None, found_alone: list[Row]) -> None:
        """Prepare for messages; `found_alone` is what this replica found without the others."""
        self._snapshot = None if past is None else past.snapshot
        self._found_alone = found_alone
        if past is not None and past.is_over:
            self.finish_past()

    def finish_past(self) -> None:
        """Every message of the past is read: replace what came of them by the snapshot."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        try:
            self._detection.restore(snapshot.rows, snapshot.waiting)
            self._detection.absorb(self._found_alone)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.counts["unreadable"] += 1

    def skip_past(self) -> None:
        """The rest of the past cannot be read: take the snapshot, and go on after it."""
        if self._snapshot is not None:
            self.at = max(self.at, self._snapshot.at, key=order)
            self.finish_past()

    async def take(self, at: bytes, raw: bytes) -> None:
        """Judge the facts of one message, giving way to other tasks after each of them."""
        if self._snapshot is not None and order(at) > order(self._snapshot.at):
            self.finish_past()
        self.at = at
        try:
            message = self._stream.decode(raw)
        except UnsealedError:
            self.counts["unsealed"] += 1
            return
        except BadMessageError:
            self.counts["unreadable"] += 1
            return
        if message.sender == self._replica:
            self._confirm(message.number)
        if not self._is_new(message):
            return
        if isinstance(message, Facts):
            for fact in message.facts:
                self._judge_fact(fact)
                await asyncio.sleep(0)
            if not message.facts:
                self._detection.end_wait()
        elif message.sender != self._replica:
            self._absorb(message)

    def _is_new(self, message: Message) -> bool:
        key = message.sender, message.number
        if key in self._taken:
            return False
        self._taken[key] = None
        latest = self._latest.get(message.sender)
        if latest is not None:
            self.counts["missed"] += max(0, message.number - latest - 1)
        self._latest[message.sender] = max(message.number, latest or 0)
        return True

    def _judge_fact(self, fact: bytes) -> None:
        try:
            self._detection.see_encoded(fact)
        except UnreadableFactError:
            self.counts["unreadable"] += 1
        else:
            self.counts["read"] += 1

    def _absorb(self, message: Found) -> None:
        try:
            self._detection.absorb(message.rows)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.counts["unreadable"] += 1
