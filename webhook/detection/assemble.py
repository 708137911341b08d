"""From the joined facts of one write to the Write that detectors see."""

from collections.abc import Sequence

import msgspec

from webhook.admission.review import Phase
from webhook.detection.changes import Change
from webhook.detection.compared import between, together
from webhook.detection.difference import NO_DIFFERENCE, Difference
from webhook.detection.fact import Fact
from webhook.detection.write import NOBODY, Acted, Called, Write
from webhook.generation.custom import StatusSubresource
from webhook.objects.observed import Observed


def assemble(
    intent: Fact | None,
    mutates: Sequence[Fact],
    last: Fact,
    now: float,
    missing: tuple[str, ...] = (),
) -> Write:
    """One Write; `last` is the outcome, or the last mutate call where there is none.

    `missing` names the phases of it that were not seen.
    """
    has_outcome = last.phase is Phase.OUTCOME
    takes_status = has_outcome and _is_status_taken(last)
    if takes_status:
        intent, last = intent and _with_status(intent), _with_status(last)
        mutates = [_with_status(one) for one in mutates]
    if intent is not None and not _is_comparable(intent, last):
        intent = None  # as if it had not been seen
    first = mutates[0] if mutates else None
    sent, result = first or last, last.compared.changes
    asked = others = None
    if intent is not None:
        asked = intent.compared.changes
        if first is not None and first.status is last.status:
            others = between(intent.compared, first.compared)
        elif Phase.MUTATE in missing and last.writes_status and last.key.subresource:
            # The mutate call went elsewhere. On a status subresource the server itself changes
            # next to nothing, so what differs at the end was done by other webhooks.
            others = between(intent.compared, last.compared)
        if intent.compared.same_as(last.compared):
            asked = result  # one value in memory too
    # Where an intent is missing, so may be the one that told two writes of one user apart.
    are_rounds = has_outcome and Phase.INTENT not in missing
    again = _again(mutates) if intent is not None or are_rounds else NO_DIFFERENCE
    asking, states = intent or sent, last.states
    return Write(
        time=now,
        object=last.object,
        subresource=last.key.subresource,
        requester=last.requester,
        base=last.key.resource_version,
        writes_status=last.writes_status or takes_status,
        status_counts=not last.key.subresource
        and (takes_status or last.status is StatusSubresource.ABSENT),
        asked=asked,
        others=others,
        again=again,
        result=result,
        known_wanted=None,
        state_before=states.before if states else 0,
        state_after=states.after if states else 0,
        has_outcome=has_outcome,
        generation_before=last.generation_before,
        # Before the strategy has run an object still shows the generation that it comes from.
        generation_after=last.generation
        if has_outcome or last.predicted is None
        else last.predicted,
        generation_predicted=last.predicted if has_outcome else None,
        observed_before=last.observed_before,
        observed_asked=_shared(asking.observed, sent.observed),
        observed_sent=sent.observed,
        observed_after=_shared(last.observed, sent.observed),
        observes=asking.observes or sent.observes or last.observes,
        policies=_policies(asking, mutates, last),
        called=_called(intent, mutates, last),
        missing=missing,
    )


def _is_status_taken(outcome: Fact) -> bool:
    """Of a custom resource that nobody has described, what the server does with its status."""
    found = outcome.compared_status
    # With a subresource the strategy would have put the stored status back by now.
    return found is not None and found.before != found.after


def _with_status(fact: Fact) -> Fact:
    if fact.compared_status is None:
        return fact
    return msgspec.structs.replace(fact, compared=together(fact.compared, fact.compared_status))


def _is_comparable(one: Fact, last: Fact) -> bool:
    """Whether both tell of the same fields, compared with the same object."""
    # Another status: a definition was learnt in between.
    return one.status is last.status and one.compared.before == last.compared.before


def _again(mutates: Sequence[Fact]) -> Difference:
    """What round 1 changed on top of round 0, genguard's own repairs left out.

    More than two calls are several writes of one user, for there is no round 2. Nor can writes
    of one user be told from rounds where mutate calls are all that is seen: a PATCH that begins
    with a stale copy of the object is run again.
    """
    if len(mutates) != 2 or mutates[0].status is not mutates[1].status:  # noqa: PLR2004 - rounds
        return NO_DIFFERENCE
    found = between(mutates[0].compared, mutates[1].compared)
    if not found:
        return NO_DIFFERENCE
    return Difference(tuple(change for change in found if not _is_repair(change)))


def _is_repair(change: Change) -> bool:
    return change.key[-1] == "observedGeneration" and change.before is None


def _shared(one: Observed, other: Observed) -> Observed:
    """Equal values as one, for they are kept."""
    return other if one == other else one


def _policies(asking: Fact, mutates: Sequence[Fact], last: Fact) -> tuple[Acted, ...]:
    """As told by the earliest phase that was asked."""
    for one in (asking, *mutates, last):
        if one.policies is not None:
            return one.policies
    return ()


def _called(intent: Fact | None, mutates: Sequence[Fact], last: Fact) -> Called:
    """Without the webhooks that no state of the object that was seen would have them called for."""
    if not last.called or not last.called.first:
        return NOBODY
    shown = [one.unmet for one in (intent, *mutates) if one is not None and one.unmet is not None]
    unmet = set(shown[0]).intersection(*shown) if shown else ()
    if not unmet:
        return last.called
    return Called(*(tuple(name for name in names if name not in unmet) for names in last.called))
