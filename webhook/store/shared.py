"""Intents, and what writes were told, that replicas have in common.

The store decides; each replica keeps copies of what it wrote and what it asked for, and answers
from them. Whoever makes a copy of another replica wrong calls it back (scripts.py). Without the
store copies are all there is: a replica then goes by its own memory. What it published just
before is known a round trip later: an intent that is overtaken by its own write restores nothing.
Dry runs leave nothing behind and are remembered here alone.

Others may write to the store: what comes from there is opened (seal.py), and of it only that is
taken which this server might have said itself. The rest is dropped and counted.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from webhook.admission.join import JoinKey
from webhook.objects.intended import Intended, Restored
from webhook.rules.annotations import GENERATION
from webhook.rules.assign_generation import AssignGeneration
from webhook.rules.flip_status import FlipStatus
from webhook.rules.preserve_observed_generation import PreserveObservedGeneration
from webhook.rules.restore_intent import RestoreIntent
from webhook.rules.shadow_generation import ShadowGeneration
from webhook.store.circuit import Answer, LostError
from webhook.store.memory import MemoryIntents, MemoryRounds
from webhook.store.scripts import Command, Scripts
from webhook.store.seal import Seal, UnsealedError
from webhook.store.written import digest, pack_intent, pack_told, unpack_intent, unpack_told

_SHARED: Final = frozenset({RestoreIntent.name, PreserveObservedGeneration.name})
"""Who says something that another replica may say otherwise. The rest follows from the write."""
TOLD_KEYS: Final = _SHARED | {
    GENERATION,
    AssignGeneration.name,
    FlipStatus.name,
    ShadowGeneration.name,
}
"""Of audit annotations: those of a write that was judged."""
_LONGEST_TOLD: Final = 4_096
"""Characters; twenty places and their numbers take half of it."""
_Answer = tuple[bytes | None, bytes | None]
_DROPPED: Final = ("unreadable", "unsealed", "unfit")


class Known(NamedTuple):
    """What the others know of a write; None where they know nothing, or have cancelled it."""

    intended: Intended | None
    told: Mapping[str, str] | None


class Store(Protocol):
    """What a Circuit does."""

    def publish(self, operation: str, command: Command) -> None:
        """Send a command; nobody waits for it."""

    async def ask(self, operation: str, command: Command) -> Answer:
        """The answer, in time; raises LostError."""


class SharedIntents:
    """restore_intent's Intents."""

    def __init__(self, store: Store, scripts: Scripts, seal: Seal) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self._seal: Final = seal
        self.copies: Final = MemoryIntents()

    def put(self, key: JoinKey, intended: Intended, now: float) -> None:
        """Remember an intent, and tell the others."""
        mark = digest(key, self._seal.names)
        self.copies.put(mark, intended, now)
        if not key.dry_run:
            content = self._seal.close(_intent_of(mark), pack_intent(intended))
            self._store.publish("put", self._scripts.put(mark, content))

    def get(self, key: JoinKey, now: float) -> Intended | None:
        """The intent of this write as far as it is known here; it counts as asked for."""
        mark = digest(key, self._seal.names)
        # Where /mutate did not have to ask: the next intent of this key is another write's.
        is_status = key.subresource == "status" or self.copies.has(mark, now)
        if is_status and not key.dry_run and not self.copies.was_asked(mark, now):
            self._store.publish("mark", self._scripts.ask(mark))
        return self.copies.get(mark, now)


class SharedRounds:
    """The pipeline's Rounds."""

    def __init__(self, store: Store, scripts: Scripts, seal: Seal) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self._seal: Final = seal
        self.copies: Final = MemoryRounds()

    def put(self, key: JoinKey, annotations: Mapping[str, str], now: float) -> None:
        """Remember what was answered, and tell the others what they could not say by themselves."""
        mark = digest(key, self._seal.names)
        self.copies.put(mark, annotations, now)
        if not key.dry_run and not _SHARED.isdisjoint(annotations):
            content = self._seal.close(_told_of(mark), pack_told(annotations))
            self._store.publish("tell", self._scripts.tell(mark, content))

    def get(self, key: JoinKey, now: float) -> Mapping[str, str] | None:
        """What the same write was answered before."""
        return self.copies.get(digest(key, self._seal.names), now)

    def forget(self, key: JoinKey) -> None:
        """A new write begins; its intent, when published, makes the others forget too."""
        self.copies.forget(digest(key, self._seal.names))


class SharedWrites:
    """Both, and what an AdmissionHandler asks before it judges."""

    def __init__(self, store: Store, scripts: Scripts, seal: Seal, restored: Restored) -> None:
        """`restored` are the fields that this server puts back."""
        self._store: Final = store
        self._scripts: Final = scripts
        self._seal: Final = seal
        self._restored: Final = restored
        self._asking: Final[dict[bytes, bool]] = {}
        self.intents: Final = SharedIntents(store, scripts, seal)
        self.rounds: Final = SharedRounds(store, scripts, seal)
        self.dropped: Final = Counter(dict.fromkeys(_DROPPED, 0))
        """Values of the store that were not taken, or not whole, by the reason."""

    @property
    def copies(self) -> tuple[MemoryIntents, MemoryRounds]:
        """What this replica remembers itself."""
        return self.intents.copies, self.rounds.copies

    def lacks(self, key: JoinKey, now: float) -> bool:
        """Whether the others may know of this write what is not known here."""
        return not key.dry_run and not self.intents.copies.has(self._mark(key), now)

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Take over what the others know; one round trip, bounded in time. Never raises."""
        mark = self._mark(key)
        self._asking[mark] = True
        try:
            known = self._known(mark, await self._store.ask("fetch", self._scripts.ask(mark)))
        except LostError:
            return
        except UnsealedError:
            self.dropped["unsealed"] += 1
            return
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.dropped["unreadable"] += 1
            return
        finally:
            good = self._asking.pop(mark, False)
        if not good or self.intents.copies.has(mark, now):
            return  # called back, or an intent came meanwhile: what was fetched is out of date
        self.intents.copies.learn(mark, known.intended, now)
        if known.told:
            self.rounds.copies.put(mark, known.told, now)

    def call_back(self, message: bytes) -> None:
        """A copy is out of date."""
        mark = self._scripts.called_back(message)
        if mark is None:
            return
        if mark in self._asking:
            self._asking[mark] = False
        self.intents.copies.forget(mark)
        self.rounds.copies.forget(mark)

    def call_back_all(self) -> None:
        """Messages may have been missed: no copy can be relied on."""
        self.intents.copies.clear()
        self.rounds.copies.clear()

    def _mark(self, key: JoinKey) -> bytes:
        return digest(key, self._seal.names)

    def _known(self, mark: bytes, answer: Answer) -> Known:
        """What the answer says that this server might have said itself; raises as unpack does."""
        intent, told = msgspec.convert(answer, _Answer)
        intended, annotations = None, None
        if intent:  # and not cancelled
            sent = unpack_intent(self._seal.open(_intent_of(mark), intent))
            intended = self._restored.hold(sent)
            is_whole = sent.observed == intended.observed
            self.dropped["unfit"] += not (is_whole and len(sent.fields) == len(intended.fields))
        if told is not None:
            said = unpack_told(self._seal.open(_told_of(mark), told))
            annotations = {key: value for key, value in said.items() if _is_told(key, value)}
            self.dropped["unfit"] += len(annotations) != len(said)
        return Known(intended, annotations)


def _is_told(key: str, value: str) -> bool:
    return (
        key in TOLD_KEYS and len(value) <= _LONGEST_TOLD and value.isascii() and value.isprintable()
    )


def _intent_of(mark: bytes) -> bytes:
    """Where it stands, for its seal."""
    return b"i" + mark


def _told_of(mark: bytes) -> bytes:
    return b"t" + mark
