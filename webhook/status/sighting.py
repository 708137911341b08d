"""One more sight of an object: what it makes of what was remembered, and what it measures.

- The intent changes when the generation does. Of generations that follow each other unsettled,
  the latest counts: it is what its author waits for.
- `observed_at` and `settled_at` are set once for each generation. A duration is measured only
  from an intent that was seen to change, and never where the same sight shows it fulfilled: then
  nobody knows how long it took.
- A kind that writes no observedGeneration is taken to have acted when its status is written. That
  is good enough to believe its status, and too little to measure by.
- A flip is a turn of Ready within one generation after it has been ready once. What comes before
  is convergence, and what a new generation does to Ready is its author's doing.
- Kinds without a generation have no intent that could be told from status, so no durations.
"""

from typing import Final

import msgspec

from webhook.status.evaluate import JUST, evaluate
from webhook.status.excerpt import Excerpt
from webhook.status.remembered import MOST_FLIPS, Remembered
from webhook.status.view import Health, Past, StatusView

_MAX_INT64: Final = 2**63 - 1


class Sighting(msgspec.Struct, frozen=True, gc=False):
    """What is remembered from now on; durations in seconds where this sight has ended one."""

    after: Remembered
    moved: bool
    """The intent is new: `unfulfilled` for now, and as `after` says once JUST has passed."""
    observation: float | None = None
    reconcile: float | None = None
    flipped: bool = False


def judge(
    kind: int,
    sight: Excerpt,
    before: Remembered | None,
    at: float,
    version: int,
    *,
    always_observes: bool,
    created: bool = False,
) -> Sighting:
    """Take in a sight that differs from what was before.

    version          the resourceVersion of the latest state that is known to be stored
    always_observes  its controller writes an observedGeneration: without one it has not acted
    created          it is the first state of a new object
    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    if before is None or before.generation != sight.generation:
        # A generation that goes back was believed and never stored: of the one before it nothing
        # more is known than of an object that is seen for the first time.
        is_new = created or (before is not None and before.generation < sight.generation)
        return _new_intent(kind, sight, before, at, version, is_new=is_new)
    flips = before.flips_since(at)
    document, generation = sight.document, sight.generation
    # Where an observedGeneration is written it alone decides; see evaluate().
    silent = before.observed is None and not always_observes
    acted = before.observed_at or (at if silent else None)
    past = Past(before.intent_at, acted, before.reconciled, len(flips))
    view = evaluate(document, past, at=at, with_table=False)
    flipped = (
        before.has_been_ready
        and before.ready is not view.ready
        and before.ready is not None
        and view.ready is not None
    )
    if flipped:
        flips = (*flips, max(int(at), 0))[-MOST_FLIPS:]
        past = Past(before.intent_at, acted, before.reconciled, len(flips))
        view = evaluate(document, past, at=at, with_table=False)
    observed = _observed(view)
    observed_at, settled_at = before.observed_at, before.settled_at
    measures = before.intent_seen and generation > 0
    observation = reconcile = None
    if observed_at is None and observed is not None and observed >= generation:
        observed_at = at
        observation = at - before.intent_at if measures else None
    if settled_at is None and view.settled:
        settled_at = at
        reconcile = at - before.intent_at if measures else None
    same = (
        view.ready is before.ready
        and view.settled is before.settled
        and view.health is before.health
    )
    after = Remembered(
        kind,
        before.namespace,
        before.name,
        version,
        sight.digest,
        generation,
        observed,
        generation if view.settled and generation else before.reconciled,
        before.intent_at,
        before.intent_seen,
        observed_at,
        settled_at,
        before.changed_at if same else at,
        view.ready,
        view.settled,
        view.health,
        before.has_been_ready or view.ready is True,
        flips,
        sight.owner,
    )
    return Sighting(
        after, moved=False, observation=observation, reconcile=reconcile, flipped=flipped
    )


def _new_intent(
    kind: int,
    sight: Excerpt,
    before: Remembered | None,
    at: float,
    version: int,
    *,
    is_new: bool,
) -> Sighting:
    """The first sight of a generation, or of an object; the latter is as it is, and not new."""
    reconciled = before.reconciled if before else None
    flips = before.flips_since(at) if before else ()
    past = Past(at - JUST, None, reconciled, len(flips)) if is_new else None
    view = evaluate(sight.document, past, at=at, with_table=False)
    generation, observed = sight.generation, _observed(view)
    is_observed = observed is not None and observed >= generation
    moved = is_new and not is_observed and generation > 0
    after = Remembered(
        kind=kind,
        namespace=sight.metadata.namespace or "",
        name=sight.metadata.name or "",
        version=version,
        digest=sight.digest,
        generation=generation,
        observed=observed,
        reconciled=generation if view.settled and generation else reconciled,
        intent_at=at,
        intent_seen=moved,
        observed_at=at if is_observed else None,
        settled_at=at if view.settled else None,
        changed_at=at,
        ready=view.ready,
        settled=view.settled,
        health=view.health,
        has_been_ready=view.ready is True,
        flips=flips,
        owner=sight.owner,
    )
    return Sighting(after, moved)


def unfulfilled(after: Remembered, before: Remembered | None, at: float) -> Remembered:
    """The same with an intent that nobody has acted on, and perhaps nobody has stored, yet."""
    was_so = before is not None and before.ready is None and not before.settled
    return msgspec.structs.replace(
        after,
        ready=None,
        settled=False,
        health=Health.YELLOW if after.health is Health.GREEN else after.health,
        settled_at=None,
        reconciled=before.reconciled if before else None,
        has_been_ready=False,
        changed_at=before.changed_at if before and was_so else at,
    )


def _observed(view: StatusView) -> int | None:
    """An int64, as it is packed."""
    observed = view.observed_generation
    return None if observed is None else max(-_MAX_INT64, min(observed, _MAX_INT64))
