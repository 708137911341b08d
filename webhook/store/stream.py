"""What replicas tell each other of what they see: messages in one stream, in one order for all.

A message is many facts of one replica, or findings that it made alone while the store was lost. It
has its sender and a number: one that is sent twice is taken once. The oldest go when there are
too many, and the whole stream when nobody writes for an hour.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from webhook.store.scripts import Command
from webhook.store.seal import Seal

T = TypeVar("T")

Row = tuple[str, bytes]
"""One finding, as a ledger exports it."""

MOST_MESSAGES: Final = 4_000
MOST_BYTES: Final = 32 * 1024
"""After which a message is not added to. Most are far smaller."""
MOST_AT_ONCE: Final = 20
"""Messages that are read in one go."""
KEPT_MILLISECONDS: Final = 3_600_000
BEGINNING: Final = b"0-0"
"""Comes before the id of every message."""

_APPEND: Final = """\
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'm', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
"""

AFTER_ALL: Final[Command] = ("EVAL", "return 1", 0)
"""Answered when all that was sent before is done."""


class BadMessageError(ValueError):
    """Bytes that are no message of this version; nothing of them is repeated."""


class Facts(msgspec.Struct, frozen=True, array_like=True, tag="facts1"):
    """What a replica saw, in its order; see webhook/detection/fact.py."""

    sender: bytes
    number: int
    facts: tuple[bytes, ...]


class Found(msgspec.Struct, frozen=True, array_like=True, tag="found1"):
    """What a replica found alone; see Ledger.absorb."""

    sender: bytes
    number: int
    rows: tuple[Row, ...]


Message = Facts | Found
_decoder: Final = msgspec.msgpack.Decoder(Message)


class Stream:
    """The commands, under one prefix, and what comes of them."""

    def __init__(self, prefix: str, seal: Seal) -> None:
        self.key: Final = f"{prefix}facts1".encode()
        self._seal: Final = seal

    def append(self, message: Message) -> Command:
        """Add a message."""
        content = self._seal.close(self.key, msgspec.msgpack.encode(message))
        return ("EVAL", _APPEND, 1, self.key, MOST_MESSAGES, content, KEPT_MILLISECONDS)

    def decode(self, raw: bytes) -> Message:
        """One message. Raises UnsealedError, or BadMessageError for those of another version."""
        content = self._seal.open(self.key, raw)
        try:
            message: Message = _decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise BadMessageError("not a message of this version") from None
        return message


def order(identity: bytes) -> tuple[int, int]:
    """An id as what it is sorted by: milliseconds, and a number within them."""
    milliseconds, _, number = identity.partition(b"-")
    return int(milliseconds), int(number)


def by_size(them: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """In as many pieces as it takes for none to be large."""
    some, size = list[T](), 0
    for one in them:
        if some and size + size_of(one) > MOST_BYTES:
            yield some
            some, size = [], 0
        some.append(one)
        size += size_of(one)
    if some:
        yield some
