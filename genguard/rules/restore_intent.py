"""Put back a status field that another webhook cleared on the way: observedGeneration, or others.

Reads   what the requester sent at /intent, and status of object at /mutate
Acts on the writes preserve_observed_generation acts on, when their intent was seen
Result  an edit for each value that the requester sent and that is now 0, null, empty or absent,
        even if it was never persisted: this ends the kubelet's endless loop of KEP-5067. Which
        fields is the user's choice; without one, every observedGeneration
Relies  on the two phases being joined (genguard/admission/review.py); an intent that cannot be told
        from another one restores nothing
"""

from collections.abc import Iterator
from typing import ClassVar, Protocol

import msgspec

from genguard.admission.review import JoinKey, ReviewedObject
from genguard.objects.fields import decode_field, get
from genguard.objects.intended import Intended, cleared
from genguard.objects.observed import restorations
from genguard.patch.operations import Edit
from genguard.rules.rule import RuleInput, writes_status


class Intents(Protocol):
    """Remembers for a short time what requesters sent. `now` is seconds on any clock."""

    def put(self, key: JoinKey, intended: Intended, now: float) -> None:
        """Remember an intent; two that differ under one key cancel each other."""

    def get(self, key: JoinKey, now: float) -> Intended | None:
        """The intent of this write; round 1 of the same write gets it again."""


class RestoreIntent:
    """See the module."""

    name: ClassVar[str] = "restore-intent"

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """One edit for each value that the requester sent and another webhook cleared."""
        new = review.request.object
        if review.intent is None or new is None or not writes_status(review):
            return ()
        found = new.observed
        if found is None:
            return ()
        lost = restorations(review.intent.observed, found)
        edits = [Edit(path, value) for path, value in lost]
        return (*edits, *_other_fields(review.intent, new))


def _other_fields(intent: Intended, new: ReviewedObject) -> Iterator[Edit]:
    if not intent.fields:
        return
    document = {"status": decode_field(new.fields, "status")}
    for path, value in intent.fields:
        if cleared(get(document, *map(str, path))):
            yield Edit(path, msgspec.json.decode(value))
