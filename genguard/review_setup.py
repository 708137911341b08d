"""What reviews depend on, made from flags, files and what is known of the cluster."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from genguard.detection.finding import FoundObject
from genguard.generation.custom import CustomResource, CustomResources
from genguard.generation.table import DEFAULT_SERVER_VERSION, load_table
from genguard.generation.transition import Engine
from genguard.objects.intended import EVERY_OBSERVED_GENERATION, Restored
from genguard.review import Dependencies, Rounds
from genguard.review_memory import MemoryIntents, MemoryRounds
from genguard.rules.assign_generation import AssignGeneration
from genguard.rules.flip_status import FlipStatus, NotFlippableError
from genguard.rules.preserve_observed_generation import PreserveObservedGeneration
from genguard.rules.restore_intent import Intents, RestoreIntent
from genguard.rules.rule import Rule


class GenerationPatch(StrEnum):
    """Whether metadata.generation is patched at all."""

    AUTO = "auto"  # unless a connected API server is known to override it
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """What decides how reviews are judged."""

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


class WriteMemory(Protocol):
    """What is remembered of writes between their phases, where replicas share it."""

    @property
    def intents(self) -> Intents:
        """What requesters sent."""

    @property
    def rounds(self) -> Rounds:
        """The annotations of answers."""

    @property
    def copies(self) -> tuple[MemoryIntents, MemoryRounds]:
        """What of both is in the memory of this process."""


class ReviewSetup:
    """Holds the current Dependencies, and replaces them as a whole when the cluster changes."""

    def __init__(
        self,
        options: ReviewOptions,
        shared: WriteMemory | None = None,
    ) -> None:
        """`shared`: the memory of writes that replicas share; without it, each has its own.

        Raises UnknownServerVersionError or NotFlippableError.
        """
        self._options: Final = options
        self._about: Callable[[], Mapping[str, str]] = dict
        self._flip: FlipStatus | None = None
        here = (MemoryIntents(), MemoryRounds())
        self._intents: Final[Intents] = here[0] if shared is None else shared.intents
        self._rounds: Final[Rounds] = here[1] if shared is None else shared.rounds
        self._memory: Final = here if shared is None else shared.copies
        self.dependencies = self._make(options.server_version, (), connected=False)
        for resource, reason in self.not_flipped().items():
            if not (options.connects and reason == _UNDEFINED):
                raise NotFlippableError(f"--flip-status {resource}: {reason}")

    def describe_server(self, about: Callable[[], Mapping[str, str]]) -> None:
        """Answer probes with what `about` returns; called once, before the first review."""
        self._about = about

    def _describe(self) -> Mapping[str, str]:
        mode = "audit-only" if self._options.audit_only else "enforcing"
        return {"mode": mode, **self._about()}

    def not_flipped(self) -> dict[str, str]:
        """The resources of --flip-status whose status cannot be flipped, and why."""
        if self._flip is None:
            return {}
        return {**self._flip.refused, **dict.fromkeys(sorted(self._flip.unknown), _UNDEFINED)}

    def learn(
        self, server_version: str, custom_resources: tuple[CustomResource, ...]
    ) -> dict[str, str]:
        """Judge by the version and the custom resources of a connected cluster from now on.

        Returns the resources of `not_flipped` that are new, or whose reason is.
        """
        before = self.not_flipped()
        self.dependencies = self._make(server_version, custom_resources, connected=True)
        now = self.not_flipped().items()
        return {resource: reason for resource, reason in now if before.get(resource) != reason}

    def dropped(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Count the intents and answers that made room for others before they were too old."""
        intents, rounds = self._memory
        yield ("intents",), intents.dropped
        yield ("answers",), rounds.dropped

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
