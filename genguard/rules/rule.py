"""The interface of a rule: a write goes in, edits of its object come out."""

from typing import ClassVar, Final, Protocol

import msgspec

from genguard.admission.review import AdmissionRequest, Operation, ReviewedObject
from genguard.generation.custom import StatusSubresource
from genguard.generation.prediction import Prediction
from genguard.objects.equality import same_raw
from genguard.objects.intended import Intended
from genguard.patch.operations import Edit


class RuleInput(msgspec.Struct, frozen=True):
    """One write, and everything that rules may know about it.

    intent  what the requester sent at /intent; None where that is not known
    at      the time of the review, in Unix seconds, for times that are written into objects
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
        """The edits that the object needs; none when it is right."""


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
    """Whether the server takes `status` from this write; see is_status_write."""
    return is_status_write(review.request, review.status)


_NO_INTENT: Final = frozenset({"metadata", "status"})


def intent_changed(new: ReviewedObject, old: ReviewedObject) -> bool:
    """Whether a top-level field other than metadata and status changes: in most kinds, spec."""
    keys = (new.fields.keys() | old.fields.keys()) - _NO_INTENT
    return any(not same_raw(new.fields.get(key), old.fields.get(key)) for key in keys)
