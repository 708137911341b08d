"""What reviews depend on: flags, files, what is known of the cluster, and writes under way.

Intents and annotations of writes under way are in the memory of one process, bounded in entries,
bytes and time; the oldest entries are removed first.
"""

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from genguard.admission.review import JoinKey
from genguard.detection.finding import FoundObject
from genguard.generation.custom import CustomResource, CustomResources
from genguard.generation.table import DEFAULT_SERVER_VERSION, load_table
from genguard.generation.transition import Engine
from genguard.objects.bounded import Bounded
from genguard.objects.intended import EVERY_OBSERVED_GENERATION, Intended, Restored
from genguard.review import Dependencies
from genguard.rules.assign_generation import AssignGeneration
from genguard.rules.flip_status import FlipStatus, NotFlippableError
from genguard.rules.preserve_observed_generation import PreserveObservedGeneration
from genguard.rules.restore_intent import Intents, RestoreIntent
from genguard.rules.rule import Rule

K = TypeVar("K")
V = TypeVar("V")

SECONDS_KEPT: Final = 30.0
"""The longest that a write can be between its phases: the API server's own webhook timeout."""
ENTRIES_KEPT: Final = 20_000
BYTES_OF_INTENTS: Final = 16 * 1024 * 1024
BYTES_OF_ROUNDS: Final = 8 * 1024 * 1024
_BYTES_OF_ENTRY: Final = 400
"""Bytes counted for an entry itself, and for a key that is a digest."""


class Recent(Bounded[K, tuple[float, V]]):
    """Remembers the newest entries, none older than `seconds`. The caller gives the time."""

    def __init__(self, seconds: float, entries: int, most_bytes: int) -> None:
        super().__init__(entries, most_bytes)
        self._seconds: Final = seconds

    def remember(self, key: K, value: V, size: int, now: float) -> None:
        """Remember `value`, of about `size` bytes with its key; forget what is too old."""
        self.pop(key)
        while (oldest := self.oldest()) and oldest[1][0] <= now - self._seconds:
            self.pop(oldest[0])
        self.put(key, (now, value), size)

    def recall(self, key: K, now: float) -> V | None:
        """Return the value, None when it is unknown or too old."""
        found = self.get(key)
        return found[1] if found is not None and found[0] > now - self._seconds else None


def _size_of_key(key: Hashable) -> int:
    return _BYTES_OF_ENTRY + (key.size if isinstance(key, JoinKey) else 0)


class _BetweenPhases(Generic[V]):
    """Remembers something of each write under way, within a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._recent: Final = Recent[Hashable, V](SECONDS_KEPT, ENTRIES_KEPT, most_bytes)

    @property
    def dropped(self) -> int:
        """Entries that were removed for newer ones while their writes may have been under way."""
        return self._recent.dropped

    def forget(self, key: Hashable) -> None:
        """Forget a write, because its entry is out of date or a new write begins."""
        self._recent.pop(key)


class _Intent(msgspec.Struct, frozen=True, gc=False):
    intended: Intended | None  # None: two different intents have cancelled each other
    asked: bool = False


class MemoryIntents(_BetweenPhases[_Intent]):
    """The Intents of restore_intent, in the memory of this process.

    A key is anything hashable that identifies a write.
    """

    def __init__(self) -> None:
        super().__init__(BYTES_OF_INTENTS)

    def put(self, key: Hashable, intended: Intended, now: float) -> None:
        """Remember an intent; two different ones that are both under way cancel each other."""
        before = self._recent.recall(key, now)
        cancels = before is not None and not before.asked and before.intended != intended
        self._put(key, _Intent(None if cancels else intended), now)

    def get(self, key: Hashable, now: float) -> Intended | None:
        """Return the intent of a write; a reinvocation gets it once more."""
        found = self._recent.recall(key, now)
        if found is None:
            return None
        if not found.asked:
            # Cancelled intents too: otherwise a refused write would cancel the intents of all
            # later writes of an object that does not change.
            self._put(key, _Intent(found.intended, asked=True), now)
        return found.intended

    def learn(self, key: Hashable, intended: Intended | None, now: float) -> None:
        """Remember an intent as the store has it; it counts as asked for."""
        self._put(key, _Intent(intended, asked=True), now)

    def has(self, key: Hashable, now: float) -> bool:
        """Whether the intent is known and not cancelled."""
        found = self._recent.recall(key, now)
        return found is not None and found.intended is not None

    def was_asked(self, key: Hashable, now: float) -> bool:
        """Whether the intent, known or cancelled, was asked for before."""
        found = self._recent.recall(key, now)
        return found is not None and found.asked

    def _put(self, key: Hashable, intent: _Intent, now: float) -> None:
        size = 0 if intent.intended is None else intent.intended.size
        self._recent.remember(key, intent, _size_of_key(key) + size, now)


class MemoryRounds(_BetweenPhases[Mapping[str, str]]):
    """The Rounds of the pipeline, in the memory of this process."""

    def __init__(self) -> None:
        super().__init__(BYTES_OF_ROUNDS)

    def put(self, key: Hashable, annotations: Mapping[str, str], now: float) -> None:
        """Remember the annotations of an answer."""
        size = sys.getsizeof(annotations)
        size += sum([sys.getsizeof(text) for pair in annotations.items() for text in pair])
        self._recent.remember(key, annotations, _size_of_key(key) + size, now)

    def get(self, key: Hashable, now: float) -> Mapping[str, str] | None:
        """Return the annotations that the same write was answered with before."""
        return self._recent.recall(key, now)


class GenerationPatch(StrEnum):
    """Whether metadata.generation is patched at all."""

    AUTO = "auto"  # unless a connected API server is known to override it
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """What decides how reviews are examined."""

    audit_only: bool = False
    generation_patch: GenerationPatch = GenerationPatch.AUTO
    server_version: str = DEFAULT_SERVER_VERSION
    custom_resources: tuple[CustomResource, ...] = ()
    restored: Restored = EVERY_OBSERVED_GENERATION
    flipped_resources: tuple[str, ...] = ()
    connects: bool = False
    """A cluster is asked: resources that are not known yet may be flipped later."""


_UNDEFINED: Final = (
    "no CustomResourceDefinition is known of it: give --crds or --kubeconfig, and its name as in "
    "widgets.example.org"
)


class KeptIntents(Intents, Protocol):
    """What is remembered of writes between their phases."""

    @property
    def dropped(self) -> int:
        """How many made room for others while their writes may have been under way."""


class ReviewSetup:
    """Holds the current Dependencies, and replaces them as a whole when the cluster changes."""

    def __init__(self, options: ReviewOptions, shared: KeptIntents | None = None) -> None:
        """`shared`: the intents that replicas share; without them, each has its own.

        Raises UnknownServerVersionError or NotFlippableError.
        """
        self._options: Final = options
        self._about: Callable[[], Mapping[str, str]] = dict
        self._flip: FlipStatus | None = None
        self._intents: Final = MemoryIntents() if shared is None else shared
        self._rounds: Final = MemoryRounds()
        self.dependencies = self._make(options.server_version, (), connected=False)
        for resource, reason in self.not_flipped().items():
            if not (options.connects and reason == _UNDEFINED):
                raise NotFlippableError(f"--flip-status {resource}: {reason}")

    def describe_server(self, about: Callable[[], Mapping[str, str]]) -> None:
        """Answer probes with what `about` returns; called once, before the first review."""
        self._about = about

    def _describe(self) -> Mapping[str, str]:
        return {"mode": "audit-only" if self._options.audit_only else "enforcing", **self._about()}

    def not_flipped(self) -> dict[str, str]:
        """The resources of --flip-status whose status cannot be flipped, and why."""
        if self._flip is None:
            return {}
        return {**self._flip.refused, **dict.fromkeys(sorted(self._flip.unknown), _UNDEFINED)}

    def learn(
        self, server_version: str, custom_resources: tuple[CustomResource, ...]
    ) -> dict[str, str]:
        """Use the version and the custom resources of a connected cluster from now on.

        Returns the resources of `not_flipped` that are new, or whose reason is.
        """
        before = self.not_flipped()
        self.dependencies = self._make(server_version, custom_resources, connected=True)
        now = self.not_flipped().items()
        return {resource: reason for resource, reason in now if before.get(resource) != reason}

    def dropped(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Count the intents and answers that made room for others before they were too old."""
        yield ("intents",), self._intents.dropped
        yield ("answers",), self._rounds.dropped

    def knows(self, group: str, resource: str) -> bool:
        """Whether a resource is built in or a known custom one, and may so label a metric."""
        engine = self.dependencies.engine
        return engine.table.find(group, resource) is not None or engine.custom.has(group, resource)

    def kind_of(self, found: FoundObject) -> str:
        """The Kind of the object of a finding; "" when it is not known."""
        engine = self.dependencies.engine
        strategy = engine.table.find(found.group, found.resource)
        if strategy is None:
            _, strategy = engine.custom.find(found.group, found.version, found.resource)
        return strategy.kind

    def _make(
        self, server_version: str, found: tuple[CustomResource, ...], *, connected: bool
    ) -> Dependencies:
        options = self._options
        table = load_table(server_version)
        generation_rules: list[Rule] = []
        # A connected kube-apiserver overrides what is patched: the patch would be noise that
        # makes it reinvoke other webhooks.
        if options.generation_patch is GenerationPatch.ALWAYS or (
            options.generation_patch is GenerationPatch.AUTO and not connected
        ):
            generation_rules.append(AssignGeneration())
        # The definitions of the cluster come last, and so win over those of a file.
        custom = CustomResources((*options.custom_resources, *found))
        repair_rules: tuple[Rule, ...] = (RestoreIntent(), PreserveObservedGeneration())
        if options.flipped_resources:
            self._flip = FlipStatus(table, custom, options.flipped_resources)
            # First, for it replaces the list that the others put values into.
            repair_rules = (self._flip, *repair_rules)
        return Dependencies(
            engine=Engine(table, custom),
            repair_rules=repair_rules,
            generation_rules=tuple(generation_rules),
            intents=self._intents,
            rounds=self._rounds,
            audit_only=options.audit_only,
            restored=options.restored,
            about=self._describe,
        )
