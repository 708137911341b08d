"""Intents, and what writes were told, that replicas have in common.

The store decides; each replica keeps copies of what it wrote and what it asked for, and answers
from them. Whoever makes a copy of another replica wrong calls it back (scripts.py). Without the
store copies are all there is: a replica then goes by its own memory. What it published just
before is known a round trip later: an intent that is overtaken by its own write restores nothing.
Dry runs leave nothing behind and are remembered here alone.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from webhook.admission.join import JoinKey
from webhook.objects.intended import Intended
from webhook.rules.preserve_observed_generation import PreserveObservedGeneration
from webhook.rules.restore_intent import RestoreIntent
from webhook.store.circuit import Answer, LostError
from webhook.store.memory import MemoryIntents, MemoryRounds
from webhook.store.scripts import Command, Scripts
from webhook.store.written import digest, pack_intent, pack_told, unpack

_SHARED: Final = frozenset({RestoreIntent.name, PreserveObservedGeneration.name})
"""Who says something that another replica may say otherwise. The rest follows from the write."""


class Store(Protocol):
    """What a Circuit does."""

    def publish(self, operation: str, command: Command) -> None:
        """Send a command; nobody waits for it."""

    async def ask(self, operation: str, command: Command) -> Answer:
        """The answer, in time; raises LostError."""


class SharedIntents:
    """restore_intent's Intents."""

    def __init__(self, store: Store, scripts: Scripts) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self.copies: Final = MemoryIntents()

    def put(self, key: JoinKey, intended: Intended, now: float) -> None:
        """Remember an intent, and tell the others."""
        mark = digest(key)
        self.copies.put(mark, intended, now)
        if not key.dry_run:
            self._store.publish("put", self._scripts.put(mark, pack_intent(intended)))

    def get(self, key: JoinKey, now: float) -> Intended | None:
        """The intent of this write as far as it is known here; it counts as asked for."""
        mark = digest(key)
        # Where /mutate did not have to ask: the next intent of this key is another write's.
        is_status = key.subresource == "status" or self.copies.has(mark, now)
        if is_status and not key.dry_run and not self.copies.was_asked(mark, now):
            self._store.publish("mark", self._scripts.ask(mark))
        return self.copies.get(mark, now)


class SharedRounds:
    """The pipeline's Rounds."""

    def __init__(self, store: Store, scripts: Scripts) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self.copies: Final = MemoryRounds()

    def put(self, key: JoinKey, annotations: Mapping[str, str], now: float) -> None:
        """Remember what was answered, and tell the others what they could not say by themselves."""
        mark = digest(key)
        self.copies.put(mark, annotations, now)
        if not key.dry_run and not _SHARED.isdisjoint(annotations):
            self._store.publish("tell", self._scripts.tell(mark, pack_told(annotations)))

    def get(self, key: JoinKey, now: float) -> Mapping[str, str] | None:
        """What the same write was answered before."""
        return self.copies.get(digest(key), now)

    def forget(self, key: JoinKey) -> None:
        """A new write begins; its intent, when published, makes the others forget too."""
        self.copies.forget(digest(key))


class SharedWrites:
    """Both, and what an AdmissionHandler asks before it judges."""

    def __init__(self, store: Store, scripts: Scripts) -> None:
        self._store: Final = store
        self._scripts: Final = scripts
        self._asking: Final[dict[bytes, bool]] = {}
        self.intents: Final = SharedIntents(store, scripts)
        self.rounds: Final = SharedRounds(store, scripts)
        self.unreadable = 0

    @property
    def copies(self) -> tuple[MemoryIntents, MemoryRounds]:
        """What this replica remembers itself."""
        return self.intents.copies, self.rounds.copies

    def lacks(self, key: JoinKey, now: float) -> bool:
        """Whether the others may know of this write what is not known here."""
        return not key.dry_run and not self.intents.copies.has(digest(key), now)

    async def fetch(self, key: JoinKey, now: float) -> None:
        """Take over what the others know; one round trip, bounded in time. Never raises."""
        mark = digest(key)
        self._asking[mark] = True
        try:
            intent, told = await self._store.ask("fetch", self._scripts.ask(mark))
            known = unpack(intent, told)
        except LostError:
            return
        except msgspec.MsgspecError:
            self.unreadable += 1
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
