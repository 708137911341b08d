"""What replicas share of each write: its intent, and the audit annotations it was answered with.

In the store each write is one hash, whose key is a digest: names and contents are not in it.

    i  what the requester asked for; empty: two different intents have cancelled each other
    a  1 once /mutate has asked for the intent: the next intent belongs to another write
    t  the audit annotations that the write was answered with

Three scripts change it, by the rules of MemoryIntents; the store decides. Each replica keeps copies
of what it wrote and what it asked for, and answers from them. A replica that makes the copies of
others wrong publishes the digest on a channel, and they forget their copies. Without the store the
copies are all that a replica knows. What it published just before is known to the others one round
trip later: an intent that is overtaken by its own write restores nothing. Dry runs stay in the
memory of their replica.

The scripts are run by EVAL, not EVALSHA: they are short, the server caches them by itself, and
nothing has to be loaded again after a restart.

Others may write to the store. So every value is sealed (seal.py), and what comes out of it is only
taken if this server might have written the same. The rest is dropped and counted.
"""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

import msgspec

from genguard.admission.review import JoinKey
from genguard.objects.intended import Intended, Restored
from genguard.review_setup import MemoryIntents, MemoryRounds
from genguard.rules.annotations import GENERATION
from genguard.rules.assign_generation import AssignGeneration
from genguard.rules.flip_status import FlipStatus
from genguard.rules.preserve_observed_generation import PreserveObservedGeneration
from genguard.rules.restore_intent import RestoreIntent
from webhook.store.circuit_breaker import Answer, Command, StoreLostError
from webhook.store.seal import Seal, UnsealedError

_DIGEST_BYTES: Final = 16
_intent_decoder: Final = msgspec.msgpack.Decoder(Intended)
_annotations_decoder: Final = msgspec.msgpack.Decoder(dict[str, str])
KEPT_MILLISECONDS: Final = 30_000
"""The longest that a write can be between its phases, as in genguard/review_setup.py."""
LARGEST_VALUE: Final = 1024 * 1024
"""Bytes of one value that are accepted; no replica writes nearly as many."""
REPLICA_BYTES: Final = 8
_NOBODY: Final = bytes(REPLICA_BYTES)
_PUT: Final = """\
local before = redis.call('HMGET', KEYS[1], 'i', 'a', 't')
local intent = ARGV[1]
if before[1] and before[2] == '0' and before[1] ~= intent then intent = '' end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'i', intent, 'a', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local replaced = before[1] and (before[1] ~= intent or before[2] ~= '0')
if intent == '' or replaced or before[3] then
  -- The copy of an intent that is cancelled is wrong at the sender too.
  redis.call('PUBLISH', ARGV[3], (intent == '' and ARGV[5] or ARGV[4]) .. ARGV[6])
end
"""
_ASK: Final = """\
local known = redis.call('HMGET', KEYS[1], 'i', 'a', 't')
if known[2] == '0' then
  redis.call('HSET', KEYS[1], 'a', '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local most = tonumber(ARGV[2])
if #(known[1] or '') > most or #(known[3] or '') > most then return {} end
return {known[1], known[3]}
"""
_PUT_ANNOTATIONS: Final = """\
redis.call('HSET', KEYS[1], 't', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
"""
_PROBE: Final = (
    _PUT_ANNOTATIONS
    + """\
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1, '*', 'm', '')
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('XREAD', 'COUNT', 1, 'STREAMS', KEYS[2], '0')
redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
redis.call('SET', KEYS[3], '', 'PX', ARGV[2])
redis.call('GET', KEYS[3])
"""
)
_SHARED: Final = frozenset({RestoreIntent.name, PreserveObservedGeneration.name})
"""Annotations whose text depends on an intent; all others follow from the write alone."""
ANNOTATION_KEYS: Final = _SHARED | {
    GENERATION,
    AssignGeneration.name,
    FlipStatus.name,
}
"""Keys of the audit annotations that a write may be answered with."""
_LONGEST_ANNOTATION: Final = 4_096
"""Characters of one annotation; twenty field paths with their numbers take half of it."""
_DROPPED: Final = ("unreadable", "unsealed", "unfit")


# The phases of one write, and the lookups of each of them, follow one another closely.
@lru_cache(maxsize=64)
def digest(key: JoinKey, secret: bytes) -> bytes:
    """Return 32 hexadecimal digits, which cannot be computed from a write without the secret."""
    content = msgspec.msgpack.encode(key)
    return blake2b(content, digest_size=_DIGEST_BYTES, key=secret).hexdigest().encode()


def pack_intent(intended: Intended) -> bytes:
    """Encode an intent. Equal intents give equal bytes, and never none: that means cancelled."""
    return msgspec.msgpack.encode(intended)


def pack_annotations(annotations: Mapping[str, str]) -> bytes:
    """Encode the annotations of an answer, in their order."""
    return msgspec.msgpack.encode(dict(annotations))


def unpack_intent(content: bytes) -> Intended:
    """Decode an intent. Raises msgspec.MsgspecError or UnicodeDecodeError for anything else."""
    return _intent_decoder.decode(content)


def unpack_annotations(content: bytes) -> Mapping[str, str]:
    """Decode the annotations of an answer. Raises as unpack_intent does."""
    return _annotations_decoder.decode(content)


class Scripts:
    """Builds the commands of one replica, under one prefix."""

    def __init__(self, prefix: str, replica: bytes) -> None:
        """`replica` are REPLICA_BYTES that are unique to this process."""
        self._writes: Final = f"{prefix}w1:".encode()  # 1: the form of what is kept
        self._replica: Final = replica
        self.channel: Final = f"{prefix}forget1".encode()
        own = f"{prefix}probe:{replica.hex()}"
        self.probe_keys: Final = (own, f"{prefix}probe:stream", f"{prefix}probe:value")

    def put(self, digest: bytes, intent: bytes) -> Command:
        """Store an intent; two different ones that are both under way cancel each other."""
        command = (*self._eval(_PUT, digest), intent, KEPT_MILLISECONDS, self.channel)
        return (*command, self._replica, _NOBODY, digest)

    def ask(self, digest: bytes) -> Command:
        """Return the intent and the annotations of a write, and mark the intent as asked for."""
        return (*self._eval(_ASK, digest), KEPT_MILLISECONDS, LARGEST_VALUE)

    def put_annotations(self, digest: bytes, packed: bytes) -> Command:
        """Store the annotations that a write was answered with."""
        to = self._replica + digest
        return (*self._eval(_PUT_ANNOTATIONS, digest), packed, KEPT_MILLISECONDS, self.channel, to)

    def to_forget(self, message: bytes) -> bytes | None:
        """Return the digest of the write to forget; None for this replica's own message."""
        replica, digest = message[:REPLICA_BYTES], message[REPLICA_BYTES:]
        return None if replica == self._replica else digest

    def probe(self) -> Command:
        """Return a command that succeeds only where every command that is used may succeed."""
        return ("EVAL", _PROBE, 3, *self.probe_keys, b"", 1_000, self.channel, self._replica)

    def _eval(self, script: str, digest: bytes) -> Command:
        return ("EVAL", script, 1, self._writes + digest)


_Answer = tuple[bytes | None, bytes | None]


class KnownWrite(NamedTuple):
    """What other replicas know of a write; None for what they do not know or have cancelled."""

    intended: Intended | None
    annotations: Mapping[str, str] | None


class Store(Protocol):
    """What is used of a CircuitBreaker."""

    def publish(self, operation: str, command: Command) -> None:
        """Send a command for which nothing waits."""

    async def ask(self, operation: str, command: Command) -> Answer:
        """Return the answer, in time; raises StoreLostError."""


class SharedIntents:
    """The Intents of restore_intent, shared by replicas."""

    def __init__(self, store: Store, scripts: Scripts, seal: Seal) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self._seal: Final = seal
        self.copies: Final = MemoryIntents()

    def put(self, key: JoinKey, intended: Intended, now: float) -> None:
        """Remember an intent, and share it."""
        mark = digest(key, self._seal.names)
        self.copies.put(mark, intended, now)
        if not key.dry_run:
            content = self._seal.close(_intent_of(mark), pack_intent(intended))
            self._store.publish("put", self._scripts.put(mark, content))

    def get(self, key: JoinKey, now: float) -> Intended | None:
        """Return the intent of a write as far as it is known here, and mark it as asked for."""
        mark = digest(key, self._seal.names)
        # Where /mutate did not ask the store: the next intent of this key belongs to another write.
        is_status = key.subresource == "status" or self.copies.has(mark, now)
        if is_status and not key.dry_run and not self.copies.was_asked(mark, now):
            self._store.publish("mark", self._scripts.ask(mark))
        return self.copies.get(mark, now)


class SharedRounds:
    """The Rounds of the pipeline, shared by replicas."""

    def __init__(self, store: Store, scripts: Scripts, seal: Seal) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self._seal: Final = seal
        self.copies: Final = MemoryRounds()

    def put(self, key: JoinKey, annotations: Mapping[str, str], now: float) -> None:
        """Remember annotations, and share those that other replicas could not compute."""
        mark = digest(key, self._seal.names)
        self.copies.put(mark, annotations, now)
        if not key.dry_run and not _SHARED.isdisjoint(annotations):
            content = self._seal.close(_annotations_of(mark), pack_annotations(annotations))
            self._store.publish("tell", self._scripts.put_annotations(mark, content))

    def get(self, key: JoinKey, now: float) -> Mapping[str, str] | None:
        """Return the annotations that the same write was answered with before."""
        return self.copies.get(digest(key, self._seal.names), now)

    def forget(self, key: JoinKey) -> None:
        """Forget the write before: its published intent makes the other replicas forget too."""
        self.copies.forget(digest(key, self._seal.names))


class SharedWrites:
    """Shares intents and annotations of writes between replicas through the store."""

    def __init__(self, store: Store, scripts: Scripts, seal: Seal, restored: Restored) -> None:
        """`restored` are the fields that this server restores."""
        self._store: Final = store
        self._scripts: Final = scripts
        self._seal: Final = seal
        self._restored: Final = restored
        self._asking: Final[dict[bytes, bool]] = {}
        self.intents: Final = SharedIntents(store, scripts, seal)
        self.rounds: Final = SharedRounds(store, scripts, seal)
        self.dropped: Final = Counter(dict.fromkeys(_DROPPED, 0))
        """Values of the store that were not taken, or not entirely, by reason."""

    @property
    def copies(self) -> tuple[MemoryIntents, MemoryRounds]:
        """The copies of this replica."""
        return self.intents.copies, self.rounds.copies

    def lacks(self, key: JoinKey, now: float) -> bool:
        """Whether other replicas may know an intent of this write that is not known here."""
        return not key.dry_run and not self.intents.copies.has(self._mark(key), now)

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Ask the store once for what other replicas know of a write.

        Waits for ANSWER_SECONDS of the circuit breaker at most. Never raises.
        """
        mark = self._mark(key)
        self._asking[mark] = True
        try:
            known = self._known(mark, await self._store.ask("fetch", self._scripts.ask(mark)))
        except StoreLostError:
            return
        except UnsealedError:
            self.dropped["unsealed"] += 1
            return
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.dropped["unreadable"] += 1
            return
        finally:
            is_current = self._asking.pop(mark, False)
        if not is_current or self.intents.copies.has(mark, now):
            return  # invalidated, or an intent came meanwhile: what was fetched is out of date
        self.intents.copies.learn(mark, known.intended, now)
        if known.annotations:
            self.rounds.copies.put(mark, known.annotations, now)

    def invalidate(self, message: bytes) -> None:
        """Forget the copy of the write that a message names."""
        mark = self._scripts.to_forget(message)
        if mark is None:
            return
        if mark in self._asking:
            self._asking[mark] = False
        self.intents.copies.forget(mark)
        self.rounds.copies.forget(mark)

    def invalidate_all(self) -> None:
        """Forget all copies: messages may have been missed."""
        self.intents.copies.clear()
        self.rounds.copies.clear()

    def _mark(self, key: JoinKey) -> bytes:
        return digest(key, self._seal.names)

    def _known(self, mark: bytes, answer: Answer) -> KnownWrite:
        """Return the part of an answer that this server might have written.

        Raises UnsealedError, msgspec.MsgspecError or UnicodeDecodeError.
        """
        intent, packed = msgspec.convert(answer, _Answer)
        intended, annotations = None, None
        if intent:  # and not cancelled
            sent = unpack_intent(self._seal.open(_intent_of(mark), intent))
            intended = self._restored.hold(sent)
            is_whole = sent.observed == intended.observed
            self.dropped["unfit"] += not (is_whole and len(sent.fields) == len(intended.fields))
        if packed is not None:
            given = unpack_annotations(self._seal.open(_annotations_of(mark), packed))
            annotations = {key: value for key, value in given.items() if _is_acceptable(key, value)}
            self.dropped["unfit"] += len(annotations) != len(given)
        return KnownWrite(intended, annotations)


def _is_acceptable(key: str, value: str) -> bool:
    return (
        key in ANNOTATION_KEYS
        and len(value) <= _LONGEST_ANNOTATION
        and value.isascii()
        and value.isprintable()
    )


def _intent_of(mark: bytes) -> bytes:
    """Return the place of an intent, which its seal authenticates."""
    return b"i" + mark


def _annotations_of(mark: bytes) -> bytes:
    return b"t" + mark
