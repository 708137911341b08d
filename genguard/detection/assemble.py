"""One write of the observations of its phases."""

from collections.abc import Sequence
from typing import Final

from genguard.admission.review import Operation, Phase
from genguard.detection.diff import NO_DIFF, NOTHING_DIFFERS, Diff, PartDiffs, between, diff_of
from genguard.detection.observation import Observation
from genguard.detection.values import Digest
from genguard.detection.write import NOBODY, Called, Outcome, Write
from genguard.generation.custom import StatusSubresource

ROUNDS: Final = 2
"""A write has no more mutate calls: the API server reinvokes once."""


def assemble(
    intent: Observation | None,
    mutates: Sequence[Observation],
    last: Observation,
    now: float,
    missing: tuple[str, ...] = (),
) -> Write:
    """Make a Write of its phases; `last` is the outcome, or the last mutate call without one.

    `missing` names the phases of it that were not seen.
    """
    has_outcome = last.phase is Phase.OUTCOME
    # The outcome decides where nobody has described the resource: with a subresource the strategy
    # would have put the stored status back by now.
    takes_status = has_outcome and bool(last.compared_status)
    # Where a webhook takes the whole status away, only the request has one.
    phases = [phase for phase in (intent, *mutates, last) if phase is not None]
    writes_status = takes_status or any(phase.writes_status for phase in phases)
    touches_status = writes_status and any(phase.compared_status for phase in phases)
    left = last.compared(takes_status=takes_status)
    asked: Diff | None = None
    if intent is not None:
        asked = intent.compared(takes_status=takes_status)
        # As if it had not been seen: a definition was learnt, or something stored, in between.
        if intent.status is not last.status or asked.before != left.before:
            intent = asked = None
    rounds = [
        mutate.compared(takes_status=takes_status)
        for mutate in mutates
        if mutate.status is last.status
    ]
    if Phase.MUTATE in missing and last.writes_status and last.key.subresource:
        # The mutate call went elsewhere. On a status subresource the server itself changes next to
        # nothing, so what differs at the end was done by other webhooks.
        rounds = [left]
    is_creation = last.operation is Operation.CREATE
    if is_creation and asked and len({bool(diff.changes) for diff in (asked, *rounds)}) > 1:
        # Leaves of one phase alone would look as if webhooks had made them.
        intent = asked = None
    before_outcome = [*mutates] if intent is None else [intent, *mutates]
    sent, asking = [*mutates, last][0], [*before_outcome, last][0]
    content = _joined(asked, rounds, left)
    metadata, *of_metadata = _metadata(before_outcome, last, has_intent=intent is not None)
    policies = [phase.policies for phase in (*before_outcome, last) if phase.policies is not None]
    # In a creation the state that was asked for stands for the stored one.
    states = [phase.state for phase in (asking, last) if phase.state is not None] or [NO_DIFF]
    return Write(
        time=now,
        operation=last.operation,
        object=last.object,
        subresource=last.key.subresource,
        requester=last.requester,
        base=last.key.resource_version,
        writes_status=writes_status,
        status_counts=not last.key.subresource
        and (takes_status or last.status is StatusSubresource.ABSENT),
        content=content,
        content_hash=content.sent.content_hash,
        state_before=states[0].before,
        state_after=states[-1].after,
        outcome=_outcome(last, missing),
        generation_before=last.generation_before,
        # Before the strategy has run an object still shows the generation that it comes from.
        generation_after=last.generation
        if has_outcome or last.predicted is None
        else last.predicted,
        generation_predicted=last.predicted if has_outcome else None,
        observed_before=last.observed_before,
        observed_asked=asking.observed,
        observed_sent=sent.observed,
        observed_after=last.observed,
        touches_status=touches_status,
        touches_more=bool(last.compared_fields) and last.operation is Operation.UPDATE,
        policies=policies[0] if policies else (),
        called=_called(before_outcome, last),
        missing=missing,
        metadata=metadata,
        metadata_before=of_metadata[0],
        metadata_after=of_metadata[1],
        owner=last.owner,
        gates=asking.gates,
    )


def _outcome(last: Observation, missing: tuple[str, ...]) -> Outcome:
    if last.is_stale:
        return Outcome.STALE
    if last.phase is Phase.OUTCOME:
        return Outcome.ADMITTED
    return Outcome.REFUSED if Phase.OUTCOME in missing else Outcome.UNSEEN


def _metadata(
    before: Sequence[Observation], last: Observation, *, has_intent: bool
) -> tuple[PartDiffs, Digest | None, Digest | None]:
    """Return what differs in metadata, and its digests as stored and as left: see Write.

    The first digest of a creation is that of what was asked for, where that is known.
    """
    shown = [phase.compared_metadata for phase in (*before, last)]
    stored = {diff.before for diff in shown if diff is not None}
    if len(stored) != 1:
        return NOTHING_DIFFERS, None, None  # or nobody knows from what they differ
    (at,) = stored
    *rounds, left = [Diff(at, at) if diff is None else diff for diff in shown]
    asked = rounds.pop(0) if has_intent else None
    if last.operation is Operation.CREATE:
        at = (left if asked is None else asked).after
    return _joined(asked, rounds, left), at, left.after


def _joined(asked: Diff | None, rounds: Sequence[Diff], admitted: Diff) -> PartDiffs:
    """Join what each phase of one write shows of one part; `asked` is None without an intent.

    Two mutate calls are its rounds. More than two are several writes of one user, for there is no
    third round. Without an intent, two calls may be several writes as well.
    """
    requested = webhook = reinvocation = None
    if asked is not None:
        requested = admitted if asked == admitted else asked
        webhook = between(asked, rounds[0]) if rounds else None
        reinvocation = between(*rounds) if len(rounds) == ROUNDS else None
    again = [
        change
        for change in reinvocation or ()
        # genguard itself repairs what round 1 changed.
        if change.before is not None or change.key[-1] != "observedGeneration"
    ]
    made = PartDiffs(requested, webhook, diff_of(again), admitted)
    has_leaves = any(diff.changes for diff in (admitted, requested, webhook) if diff is not None)
    return made if has_leaves or again else made.without_leaves()


def _called(before: Sequence[Observation], last: Observation) -> Called:
    """Return the called webhooks; without those whose conditions no phase of the write meets."""
    if not last.called or not last.called.first:
        return NOBODY
    shown = [set(observation.unmet) for observation in before if observation.unmet is not None]
    unmet = set.intersection(*shown) if shown else ()
    if not unmet:
        return last.called
    return Called(*(tuple(name for name in names if name not in unmet) for names in last.called))
