"""What a DELETE does to generation: graceful deletion, finalizers, propagation.

Source: apiserver pkg/registry/rest/delete.go:BeforeDelete and
pkg/registry/generic/registry/store.go (shouldOrphanDependents, shouldDeleteDependents,
deletionFinalizersForGarbageCollection, markAsDeleting).
"""

from typing import Final

import msgspec

from genguard.generation.prediction import Cause, Prediction
from genguard.generation.strategy import OnDelete, Propagation, Strategy
from genguard.objects.metadata import ObjectMeta

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_GARBAGE_COLLECTION: Final = frozenset({ORPHAN, FOREGROUND})


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The part of meta/v1 DeleteOptions that decides which finalizers remain."""

    propagation_policy: str | None = None
    orphan_dependents: bool | None = None


def predict_delete(strategy: Strategy, old: ObjectMeta, options: DeleteOptions) -> Prediction:
    """The generation an object shows after a DELETE, in its last or its terminating state."""
    generation = old.stored_generation
    counted = _cause(strategy, old, options)
    step = 1 if counted is Cause.DELETION_STARTED and generation > 0 else 0
    if counted is Cause.DELETION_STARTED and not step:
        counted = Cause.KEEPS_NONE  # 0 stays 0 (BeforeDelete and markAsDeleting both ask for > 0)
    return Prediction(generation + step or None, step, counted)


def _cause(strategy: Strategy, old: ObjectMeta, options: DeleteOptions) -> Cause:
    if old.deletion_timestamp is not None:
        return Cause.ALREADY_DELETING
    if strategy.on_delete is OnDelete.NEVER:
        return Cause.DELETE_KEEPS
    # The graceful branch writes deletionTimestamp even when the grace period is zero.
    if strategy.on_delete is OnDelete.GRACEFUL or remaining_finalizers(strategy, old, options):
        return Cause.DELETION_STARTED
    return Cause.REMOVED_AT_ONCE


def remaining_finalizers(
    strategy: Strategy, old: ObjectMeta, options: DeleteOptions
) -> tuple[str, ...]:
    """The finalizers after the garbage collector's two have been removed or added."""
    own = old.finalizers or ()
    kept = tuple(name for name in own if name not in _GARBAGE_COLLECTION)
    if strategy.propagation is Propagation.UNSUPPORTED:
        return kept
    if options.orphan_dependents is not None:
        return (*kept, ORPHAN) if options.orphan_dependents else kept
    match options.propagation_policy:
        case "Orphan":
            return (*kept, ORPHAN)
        case "Foreground":
            return (*kept, FOREGROUND)
        case "Background":
            return kept
    # No policy was asked for: the first of the two that the object carries decides, then its kind.
    for name in own:
        if name in _GARBAGE_COLLECTION:
            return (*kept, name)
    return (*kept, ORPHAN) if strategy.propagation is Propagation.ORPHAN else kept
