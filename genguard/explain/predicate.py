"""Says whether GenerationChangedPredicate of controller-runtime is safe for a kind.

It drops each update event that leaves metadata.generation as it was. Events of creation, and of
the removal of an object, always pass. Source: controller-runtime pkg/predicate/predicate.go.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from genguard.generation.custom import StatusSubresource
from genguard.generation.strategy import OnCreate, OnDelete, Strategy, SubresourceRule


class PredicateVerdict(StrEnum):
    """What the predicate does for a controller that acts on what a kind's objects ask for."""

    SAFE = "safe"
    """It passes each change of what is asked for, and the start of a deletion, and drops others."""
    NOISY = "noisy"
    """It also passes writes that ask for nothing new."""
    PARTLY = "partly"
    """It drops some writes that such a controller may need."""
    UNSAFE = "unsafe"
    """It drops every update."""
    UNKNOWN = "unknown"
    """Whether status is a subresource is not known."""
    NEVER_STORED = "neverStored"
    """There are no events."""


class GenerationPredicate(msgspec.Struct, frozen=True, rename="camel"):
    """What GenerationChangedPredicate does with the updates of a kind.

    passes  the fields that move generation when they change; metadata.deletionTimestamp does while
            finalizers, or a grace period, keep the object
    misses  the fields and subresources whose writes leave generation as it was
    """

    verdict: PredicateVerdict
    passes: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()


DELETION: Final = "metadata.deletionTimestamp"
EVERYTHING: Final = "every field but metadata"
EVERYTHING_BUT_STATUS: Final = "every field but metadata and status"
STATUS: Final = "status"
_METADATA: Final = (
    "metadata.labels",
    "metadata.annotations",
    "metadata.ownerReferences",
    "metadata.finalizers",
)


def judge_predicate(
    strategy: Strategy, subresources: Mapping[str, SubresourceRule], status: StatusSubresource
) -> GenerationPredicate:
    """Return what the predicate does, for the subresources that the kind really has."""
    if strategy.on_create is OnCreate.NONE:
        return GenerationPredicate(PredicateVerdict.NEVER_STORED)
    fields = tuple(pointer[1:].replace("/", ".") for pointer in strategy.compare)
    if strategy.excluded:
        # A custom resource, of which everything but the excluded fields counts.
        fields = (EVERYTHING_BUT_STATUS if "status" in strategy.excluded else EVERYTHING,)
    # Without a generation from the start, there is none to move when the deletion begins.
    counts_deletion = (
        strategy.on_delete in (OnDelete.GRACEFUL, OnDelete.FINALIZERS)
        and strategy.on_create is OnCreate.ONE
    )
    misses = [field for field in _METADATA if field not in fields]
    misses += [] if counts_deletion else [DELETION]
    kept = [name for name, rule in subresources.items() if rule is SubresourceRule.KEEP]
    others = [f"/{name}" for name in sorted(kept) if name != STATUS]
    has_status = STATUS in kept
    misses += [*others, *([STATUS] if has_status else [])]
    passes = (*fields, DELETION) if counts_deletion else fields
    return GenerationPredicate(
        _verdict(strategy, status, fields, is_partly=bool(others) or not counts_deletion),
        passes,
        tuple(misses),
    )


def _verdict(
    strategy: Strategy, status: StatusSubresource, fields: tuple[str, ...], *, is_partly: bool
) -> PredicateVerdict:
    if not strategy.compare:
        return PredicateVerdict.UNSAFE
    if strategy.excluded and status is StatusSubresource.UNKNOWN:
        return PredicateVerdict.UNKNOWN
    if is_partly:
        return PredicateVerdict.PARTLY
    if EVERYTHING in fields or any(field in _METADATA for field in fields):
        return PredicateVerdict.NOISY
    return PredicateVerdict.SAFE
