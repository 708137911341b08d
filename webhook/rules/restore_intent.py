"""Put back an observedGeneration that another webhook cleared on the way.

Reads   what the requester sent at /intent, and status of object at /mutate
Acts on the writes preserve_observed_generation acts on, when their intent was seen
Result  an edit for each value that the requester sent and that is now 0, null or absent, even if
        it was never persisted: this ends the kubelet's endless loop of KEP-5067
Relies  on the two phases being joined (webhook/admission/join.py); an intent that cannot be told
        from another one restores nothing
"""

from typing import ClassVar, Protocol

from webhook.admission.join import JoinKey
from webhook.objects.observed import Observed, read_observed, restorations
from webhook.patch.edit import Edit
from webhook.rules.rule import RuleInput, writes_status


class Intents(Protocol):
    """Remembers for a short time what requesters asked for. `now` is seconds on any clock."""

    def put(self, key: JoinKey, observed: Observed, now: float) -> None:
        """Remember an intent; two that differ under one key cancel each other."""

    def get(self, key: JoinKey, now: float) -> Observed | None:
        """The intent of this write, also when asked again in round 1."""


class RestoreIntent:
    """See the module."""

    name: ClassVar[str] = "restore-intent"

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """One edit for each value that was sent and is gone."""
        new = review.request.object
        if review.intent is None or new is None or not writes_status(review):
            return ()
        found = read_observed(new.fields.get("status"))
        if found is None:
            return ()
        return tuple(Edit(path, value) for path, value in restorations(review.intent, found))
