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

from dataclasses import replace
from typing import Final, NamedTuple

from webhook.status.evaluate import JUST, evaluate
from webhook.status.excerpt import Excerpt
from webhook.status.remembered import MOST_FLIPS, Remembered
from webhook.status.view import Health, Past, StatusView

_MAX_INT64: Final = 2**63 - 1


class Sighting(NamedTuple):
    """What is remembered from now on; durations in seconds where this sight has ended one."""

    after: Remembered
    moved: bool
    """The intent is new: `unfulfilled` for now, and as `after` says once JUST has passed."""
    observation: float | None = None
    reconcile: float | None = None
    flipped: bool = False


def judge(
    kind: int, sight: Excerpt, before: Remembered | None, at: float, *, created: bool = False
) -> Sighting:
    """Take in a sight that differs. `created`: it is the first state of a new object.

    Raises msgspec.MsgspecError and RecursionError for objects that cannot be decoded.
    """
    if before is None or before.generation != sight.generation:
        return _new_intent(kind, sight, before, at, is_known=created or before is not None)
    flips = before.flips_since(at)
    document, generation = sight.document, sight.generation
    # Where an observedGeneration is written it alone decides; see evaluate().
    written = at if before.observed is None else None
    past = Past(before.intent_at, before.observed_at or written, before.reconciled, len(flips))
    view = evaluate(document, past, at=at)
    flipped = (
        before.has_been_ready
        and None not in (before.ready, view.ready)
        and before.ready != view.ready
    )
    if flipped:
        flips = (*flips, max(int(at), 0))[-MOST_FLIPS:]
        view = evaluate(document, replace(past, ready_flips=len(flips)), at=at)
    after = _remembered(kind, sight, view)
    observed_at, settled_at = before.observed_at, before.settled_at
    measures = before.intent_seen and generation > 0
    observation = reconcile = None
    if observed_at is None and (after.observed is None or after.observed >= generation):
        observed_at = at
        observation = at - before.intent_at if measures and after.observed is not None else None
    if settled_at is None and view.settled:
        settled_at = at
        reconcile = at - before.intent_at if measures else None
    same = (view.ready, view.settled, view.health) == (before.ready, before.settled, before.health)
    after = after._replace(
        reconciled=after.reconciled or before.reconciled,
        intent_at=before.intent_at,
        intent_seen=before.intent_seen,
        observed_at=observed_at,
        settled_at=settled_at,
        changed_at=before.changed_at if same else at,
        has_been_ready=before.has_been_ready or view.ready is True,
        flips=flips,
    )
    return Sighting(
        after, moved=False, observation=observation, reconcile=reconcile, flipped=flipped
    )


def _new_intent(
    kind: int, sight: Excerpt, before: Remembered | None, at: float, *, is_known: bool
) -> Sighting:
    """The first sight of a generation, or of an object; the latter is as it is, and not new."""
    reconciled = before.reconciled if before else None
    flips = before.flips_since(at) if before else ()
    past = Past(at - JUST, None, reconciled, len(flips)) if is_known else None
    view = evaluate(sight.document, past, at=at)
    after = _remembered(kind, sight, view)
    is_observed = after.observed is not None and after.observed >= sight.generation
    moved = is_known and not is_observed and sight.generation > 0
    after = after._replace(
        reconciled=after.reconciled or reconciled,
        intent_at=at,
        intent_seen=moved,
        observed_at=at if is_observed or (view.settled and not moved) else None,
        settled_at=at if view.settled else None,
        changed_at=at,
        has_been_ready=view.ready is True,
        flips=flips,
    )
    return Sighting(after, moved)


def unfulfilled(after: Remembered, before: Remembered | None, at: float) -> Remembered:
    """The same with an intent that nobody has acted on, and perhaps nobody has stored, yet."""
    was_so = before is not None and (before.ready, before.settled) == (None, False)
    return after._replace(
        ready=None,
        settled=False,
        health=Health.YELLOW if after.health is Health.GREEN else after.health,
        settled_at=None,
        reconciled=before.reconciled if before else None,
        has_been_ready=False,
        changed_at=before.changed_at if before and was_so else at,
    )


def _remembered(kind: int, sight: Excerpt, view: StatusView) -> Remembered:
    """What the sight alone tells; the rest is the caller's to put in."""
    metadata = sight.metadata
    observed = view.observed_generation
    if observed is not None:
        observed = max(-_MAX_INT64, min(observed, _MAX_INT64))  # as it is packed
    return Remembered(
        kind=kind,
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        version=sight.version,
        digest=sight.digest,
        generation=sight.generation,
        observed=observed,
        reconciled=sight.generation if view.settled and sight.generation else None,
        intent_at=0.0,
        intent_seen=False,
        observed_at=None,
        settled_at=None,
        changed_at=0.0,
        ready=view.ready,
        settled=view.settled,
        health=view.health,
        has_been_ready=False,
        flips=(),
    )
