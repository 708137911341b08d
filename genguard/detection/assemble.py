"""One write of the facts of its phases."""

from collections.abc import Sequence
from typing import Final

import msgspec

from genguard.admission.review import Phase
from genguard.detection.diff import (
    NOTHING_DIFFERS,
    Diff,
    PartDiffs,
    between,
    diff_of,
    together,
)
from genguard.detection.fact import NO_STATES, Fact
from genguard.detection.values import Digest
from genguard.detection.write import NOBODY, Called, Outcome, Write
from genguard.generation.custom import StatusSubresource

ROUNDS: Final = 2
"""Of mutate calls: the API server reinvokes once."""


def assemble(
    intent: Fact | None,
    mutates: Sequence[Fact],
    last: Fact,
    now: float,
    missing: tuple[str, ...] = (),
) -> Write:
    """Make a Write of its phases; `last` is the outcome, or the last mutate call without one.

    `missing` names the phases of it that were not seen.
    """
    has_outcome, of_status = last.phase is Phase.OUTCOME, last.compared_status
    # Of an unknown custom resource. With a subresource the strategy would have put the stored
    # status back by now.
    takes_status = has_outcome and bool(of_status)
    phases = [one for one in (intent, *mutates, last) if one is not None]
    if takes_status:
        phases = [_with_status(one) for one in phases]
    *mutates, last = phases
    if intent is not None:
        intent, *mutates = mutates
        # As if it had not been seen: a definition was learnt, or something stored, in between.
        if intent.status is not last.status or intent.compared.before != last.compared.before:
            intent = None
    before_outcome = [*mutates] if intent is None else [intent, *mutates]
    sent, asking = [*mutates, last][0], [*before_outcome, last][0]
    rounds = [one.compared for one in mutates if one.status is last.status]
    if Phase.MUTATE in missing and last.writes_status and last.key.subresource:
        # The mutate call went elsewhere. On a status subresource the server itself changes next to
        # nothing, so what differs at the end was done by other webhooks.
        rounds = [last.compared]
    content = _joined(None if intent is None else intent.compared, rounds, last.compared)
    metadata, *of_metadata = _metadata(before_outcome, last, has_intent=intent is not None)
    policies = [one.policies for one in (*before_outcome, last) if one.policies is not None]
    states = last.states
    # Where a webhook takes the whole status away, only the request has one.
    writes_status = takes_status or any(one.writes_status for one in phases)
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
        # What the requester of a creation asked for stands for what was stored.
        state_before=(asking.states or states or NO_STATES).before,
        state_after=(states or NO_STATES).after,
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
        touches_status=writes_status and any(one.touches_status for one in phases),
        touches_more=last.touches_more,
        policies=policies[0] if policies else (),
        called=_called(before_outcome, last),
        missing=missing,
        metadata=metadata,
        metadata_before=of_metadata[0],
        metadata_after=of_metadata[1],
        owner=last.owner,
        gates=asking.gates,
    )


def _outcome(last: Fact, missing: tuple[str, ...]) -> Outcome:
    if last.is_stale:
        return Outcome.STALE
    if last.phase is Phase.OUTCOME:
        return Outcome.ADMITTED
    return Outcome.REFUSED if Phase.OUTCOME in missing else Outcome.UNSEEN


def _with_status(fact: Fact) -> Fact:
    if fact.compared_status is None:
        return fact
    return msgspec.structs.replace(fact, compared=together(fact.compared, fact.compared_status))


def _metadata(
    before: Sequence[Fact], last: Fact, *, has_intent: bool
) -> tuple[PartDiffs, Digest | None, Digest | None]:
    """Return what differs in metadata, and its digests as stored and as left: see Write."""
    shown = [one.compared_metadata for one in (*before, last)]
    stored = {one.before for one in shown if one is not None}
    if len(stored) != 1:
        return NOTHING_DIFFERS, None, None  # or nobody knows from what they differ
    (at,) = stored
    *rounds, left = [Diff(at, at) if one is None else one for one in shown]
    asked = rounds.pop(0) if has_intent else None
    return _joined(asked, rounds, left), at, left.after


def _joined(asked: Diff | None, rounds: Sequence[Diff], admitted: Diff) -> PartDiffs:
    """Join what each phase of one write shows of one part; `asked` is None without an intent.

    Two mutate calls are its rounds. More are several writes of one user, for there is no third
    round; and so may be two, without an intent.
    """
    requested = webhook = reinvocation = None
    if asked is not None:
        requested = admitted if asked.same_as(admitted) else asked
        webhook = between(asked, rounds[0]) if rounds else None
    if asked is not None and len(rounds) == ROUNDS:
        reinvocation = between(*rounds)
    # genguard itself repairs what round 1 changed.
    again = diff_of(
        one
        for one in reinvocation or ()
        if one.before is not None or one.key[-1] != "observedGeneration"
    )
    made = PartDiffs(requested, webhook, again, admitted)
    has_leaves = any(one and one.changes for one in (admitted, requested, webhook, again))
    return made if has_leaves else made.without_leaves()


def _called(before: Sequence[Fact], last: Fact) -> Called:
    """Return the called webhooks; without those whose conditions no phase of the write meets."""
    if not last.called or not last.called.first:
        return NOBODY
    shown = [set(one.unmet) for one in before if one.unmet is not None]
    unmet = set.intersection(*shown) if shown else ()
    if not unmet:
        return last.called
    return Called(*(tuple(name for name in names if name not in unmet) for names in last.called))
