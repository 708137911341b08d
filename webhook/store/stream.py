"""The stream in which replicas tell the leader what they saw.

A message holds facts that one replica observed. It carries its sender and a number, so that a
message that is sent twice is taken once. The oldest messages are removed when there are too many,
and the whole stream when nobody writes for an hour.

StreamProducer sends: it gathers facts for a moment, sends them as one message, and sends again
what a lost store may have lost. StreamConsumer, on the leader, takes every message once, and counts
what it cannot read.
"""

import itertools
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from genguard.detection.correlate import FactQueue
from genguard.detection.fact import UnreadableFactError
from genguard.detection.life_fact import decode_any
from webhook.store.circuit_breaker import Command
from webhook.store.seal import Seal, UnsealedError

MOST_MESSAGES: Final = 4_000
MOST_BYTES: Final = 32 * 1024
"""A message that has reached this size is sent; most are far smaller."""
MOST_AT_ONCE: Final = 20
"""Messages that are read by one command."""
KEPT_MILLISECONDS: Final = 3_600_000
BEGINNING: Final = b"0-0"
"""An id that comes before the id of every message."""
KEPT_SECONDS: Final = 5.0
"""How long a message is kept after the leader has published what came of it: for so long two
replicas may believe that they lead, and what one of them has published does not count."""
MOST_SECONDS: Final = 50.0
"""A message that was not taken by then is too old to be joined with what others saw."""
MOST_KEPT_BYTES: Final = 8 * 1024 * 1024
LARGEST_FACT: Final = 64 * 1024
"""A fact of some thousand changes; a larger one is not sent."""
MOST_SENDERS: Final = 1_000
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

    missed  reviews were answered that the replica did not look at, or whose facts were too large
    """

    sender: bytes
    number: int
    facts: tuple[bytes, ...]
    missed: bool = False


_decoder: Final = msgspec.msgpack.Decoder(Facts)


class Stream:
    """Builds the commands of the stream under one prefix, and decodes its messages."""

    def __init__(self, prefix: str, seal: Seal) -> None:
        self.key: Final = f"{prefix}facts1".encode()
        self._seal: Final = seal

    def append(self, message: Facts) -> Command:
        """Return the command that appends one message."""
        content = self._seal.close(self.key, msgspec.msgpack.encode(message))
        return ("EVAL", _APPEND, 1, self.key, MOST_MESSAGES, content, KEPT_MILLISECONDS)

    def decode(self, raw: bytes) -> Facts:
        """Decode one message. Raises UnsealedError, or BadMessageError for another version's."""
        content = self._seal.open(self.key, raw)
        try:
            return _decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BadMessageError("not a message of this version") from None


def order(identity: bytes) -> tuple[int, int]:
    """Return an id as a sortable pair: milliseconds, and a number within them.

    Raises ValueError for bytes that are no id.
    """
    milliseconds, _, number = identity.partition(b"-")
    return int(milliseconds), int(number)


@dataclass(slots=True)
class _KeptMessage:
    message: Facts
    sent_at: float
    size: int
    confirmed_at: float | None = None


class StreamProducer:
    """Sends what this replica observed. Never waits, never raises.

    A message is kept until the leader has published what came of it, and a little longer: the store
    may be lost with the message in it.
    """

    def __init__(
        self,
        publish: Callable[[Facts], None],
        sender: bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`publish` sends a message, if the store is connected; `clock` gives seconds."""
        self._publish: Final = publish
        self._sender: Final = sender
        self._clock: Final = clock
        self._numbers: Final = itertools.count(1)
        self._facts: list[bytes] = []
        self._size = 0
        self._missed = False
        self._kept: Final[deque[_KeptMessage]] = deque()
        self._kept_bytes = 0
        self.dropped = 0
        """Messages that were given up before the leader has taken them."""

    def put(self, fact: bytes) -> bool:
        """Gather a fact of LARGEST_FACT bytes at most; return whether it is time to send."""
        self._facts.append(fact)
        self._size += len(fact)
        return self._size >= MOST_BYTES

    def miss(self) -> None:
        """Tell with the next message that something was not seen."""
        self._missed = True

    def flush(self) -> None:
        """Send the gathered facts as one message."""
        facts, self._facts, self._size = tuple(self._facts), [], 0
        missed, self._missed = self._missed, False
        if not facts and not missed:
            return
        message, now = Facts(self._sender, next(self._numbers), facts, missed), self._clock()
        self._publish(message)
        size = sum(map(len, facts))
        self._kept.append(_KeptMessage(message, now, size))
        self._kept_bytes += size
        self._forget(now)

    def confirm(self, number: int) -> None:
        """Take in that the leader has published what came of all messages up to this one."""
        now = self._clock()
        for one in self._kept:
            if one.confirmed_at is None and one.message.number <= number:
                one.confirmed_at = now
        self._forget(now)

    def kept(self) -> Iterator[Facts]:
        """Yield the messages that may not have been taken, in their order."""
        self._forget(self._clock())
        return (one.message for one in tuple(self._kept))

    def send_again(self) -> None:
        """Send every message that may not have been taken: after a loss, or to another leader."""
        for message in self.kept():
            self._publish(message)

    def lag(self) -> float:
        """Return the seconds since the oldest unconfirmed message was sent; 0 without one."""
        now = self._clock()
        return next((now - one.sent_at for one in self._kept if one.confirmed_at is None), 0.0)

    def _forget(self, now: float) -> None:
        while self._kept:
            oldest = self._kept[0]
            confirmed = oldest.confirmed_at
            is_taken = confirmed is not None and confirmed < now - KEPT_SECONDS
            is_old = oldest.sent_at < now - MOST_SECONDS
            if not (is_taken or is_old or self._kept_bytes > MOST_KEPT_BYTES):
                return
            self.dropped += confirmed is None
            self._kept_bytes -= oldest.size
            self._kept.popleft()


class StreamConsumer:
    """Takes every message once, whoever sent it, and queues its facts to be judged in time order.

    The numbers of a sender grow. So what is not greater than the last one was sent again, and a
    number that is left out was lost.
    """

    def __init__(self, stream: Stream, miss: Callable[[], None]) -> None:
        """`miss` is called when something was not seen."""
        self._stream: Final = stream
        self._miss: Final = miss
        self._taken: OrderedDict[bytes, int] = OrderedDict()
        self.queue: Final = FactQueue()
        self.at = BEGINNING
        """The id of the message that was read last."""
        self.counts: Final[Counter[str]] = Counter()

    @property
    def taken(self) -> dict[bytes, int]:
        """Return the number of the last message of each sender."""
        return dict(self._taken)

    def begin(self, at: bytes, taken: dict[bytes, int]) -> None:
        """Go on where the leader before has published what it knew."""
        self.queue.clear()
        self.at, self._taken = at, OrderedDict(taken)

    def read(self, at: bytes, raw: bytes, now: float) -> None:
        """Take one entry of the stream; `now` is monotonic."""
        self.at = at
        try:
            message = self._stream.decode(raw)
        except UnsealedError:
            self.counts["unsealed"] += 1
        except BadMessageError:
            self.counts["unreadable"] += 1
        else:
            self.take(message, now)

    def take(self, message: Facts, now: float) -> bool:
        """Queue the facts of a message; return whether it is a new one."""
        latest = self._taken.get(message.sender)
        if latest is not None and message.number <= latest:
            return False
        lost = 0 if latest is None else message.number - latest - 1
        self.counts["missed"] += lost
        if lost or message.missed:
            self._miss()
        self._taken[message.sender] = message.number
        self._taken.move_to_end(message.sender)
        if len(self._taken) > MOST_SENDERS:
            self._taken.popitem(last=False)
        for raw in message.facts:
            try:
                self.queue.put(decode_any(raw), now)
            except UnreadableFactError:
                self.counts["unreadable"] += 1
                self._miss()
            else:
                self.counts["read"] += 1
        return True
