"""The observedGeneration values in each view of a write: stored, asked, sent on, stored then."""

from typing import Any, Final, NamedTuple

import msgspec

from webhook.admission.review import AdmissionRequest, ReviewedObject, WireObject
from webhook.objects.observed import NOTHING_OBSERVED, Observed

_NOTHING: Final = ReviewedObject(WireObject(), dict)


class ObservedViews(NamedTuple):
    """`anywhere`: whether a status of this write has an observedGeneration at all, be it 0."""

    before: Observed
    asked: Observed
    sent: Observed
    after: Observed
    anywhere: bool


def observed_in(
    last: AdmissionRequest, intent: AdmissionRequest | None, first: AdmissionRequest | None
) -> ObservedViews:
    """Of the last review of a write, its intent and its first mutate call; equal ones once."""
    after = viewed(last)
    # The rules have read what was sent to /mutate.
    sent = after if first is None else viewed(first)
    after = _same_status(after, sent)
    asked = sent if intent is None else _same_status(viewed(intent), sent)
    before = _NOTHING if last.old_object is None else last.old_object
    views = asked, sent, after
    anywhere = any(_read(one).own is not None for one in views)
    return ObservedViews(
        before=_read(before),
        asked=_read(asked),
        sent=_read(sent),
        after=_read(after),
        anywhere=anywhere or any(_observes(one.status) for one in views),
    )


def viewed(request: AdmissionRequest) -> ReviewedObject:
    """What a request would store; on DELETE an object without fields."""
    return _NOTHING if request.object is None else request.object


def _read(found: ReviewedObject) -> Observed:
    return found.observed or NOTHING_OBSERVED


def _same_status(one: ReviewedObject, other: ReviewedObject) -> ReviewedObject:
    return other if one.status == other.status else one


class _Observes(msgspec.Struct, rename="camel"):
    observed_generation: Any = None


_observes_decoder: Final = msgspec.json.Decoder(_Observes | None)


def _observes(raw: msgspec.Raw | None) -> bool:
    try:
        found = None if raw is None else _observes_decoder.decode(raw)
    except msgspec.ValidationError:
        return False
    return found is not None and found.observed_generation is not None
