"""What every rule is given and gives back."""

from typing import ClassVar, Final, Protocol

import msgspec

from webhook.admission.review import AdmissionRequest, Operation, ReviewedObject
from webhook.generation.custom import StatusSubresource
from webhook.generation.prediction import Prediction
from webhook.objects.equality import same_raw
from webhook.objects.intended import Intended
from webhook.patch.edit import Edit


class RuleInput(msgspec.Struct, frozen=True):
    """One write, and what is known about it.

    intent  what the requester's own write said at /intent; None where that is not known
    at      when it was asked for, in Unix seconds: for times that are written into objects
    """

    request: AdmissionRequest
    prediction: Prediction
    status: StatusSubresource
    intent: Intended | None = None
    at: float = 0.0


class Rule(Protocol):
    """A rule is pure: equal inputs give equal edits. Its `name` is its audit annotation's key."""

    name: ClassVar[str]

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """The edits that make the object right; none when it is."""


def is_status_write(request: AdmissionRequest, status: StatusSubresource) -> bool:
    """Whether the server takes `status` from this write.

    On the main endpoint of a kind with a status subresource it is the client's stale copy, which
    the server throws away. Where that is unknown, only a status that was sent counts as written.
    """
    if request.operation is not Operation.UPDATE or request.object is None:
        return False
    if request.subresource:
        return request.subresource == "status"
    if status is StatusSubresource.UNKNOWN:
        return request.object.status is not None
    return status is StatusSubresource.ABSENT


def writes_status(review: RuleInput) -> bool:
    """is_status_write, for rules."""
    return is_status_write(review.request, review.status)


_NO_INTENT: Final = frozenset({"metadata", "status"})


def intent_changed(new: ReviewedObject, old: ReviewedObject) -> bool:
    """Whether any top-level field but metadata and status is another one: what spec is to most."""
    keys = (new.fields.keys() | old.fields.keys()) - _NO_INTENT
    return any(not same_raw(new.fields.get(key), old.fields.get(key)) for key in keys)
