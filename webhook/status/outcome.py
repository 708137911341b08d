"""What an admission review tells Tracking, which follows the outcome phase alone.

An outcome shows the object as every mutating webhook and the strategy left it. At /intent and
/mutate writes pass that never reach an outcome, with stale copies of status: where no outcome is
registered, only watches tell.
"""

from typing import Final

import msgspec

from webhook.admission.review import AdmissionRequest, Operation
from webhook.generation.prediction import Prediction
from webhook.status.tally import Kind
from webhook.status.tracking import Tracking

_WHOLE: Final = frozenset({"", "status", "resize", "ephemeralcontainers"})
"""Subresources whose reviews carry the object itself."""


def see_outcome(
    tracking: Tracking, request: AdmissionRequest, prediction: Prediction, at: float
) -> bool:
    """Take in the review of an outcome; False when the object cannot be decoded.

    A dry run tells nothing: it is never stored. After a DELETE, whatever still writes to an object
    that finalizers or a grace period keep makes it known again.
    """
    wire = request.wire
    if wire.dry_run:
        return True
    new, old = request.object, request.old_object
    if request.operation is Operation.DELETE and not request.subresource and old is not None:
        tracking.forget(old.metadata.uid or "")
        return True
    if request.operation not in (Operation.CREATE, Operation.UPDATE) or new is None:
        return True
    if request.subresource == "scale" and prediction.moves and old is not None:
        tracking.moved(new.metadata.uid or "", at)
    if request.subresource not in _WHOLE:
        return True
    if _is_last(request):
        tracking.forget(new.metadata.uid or "")
        return True
    kind = Kind(wire.resource.group, wire.resource.resource, wire.kind.kind)
    try:
        tracking.review(kind, old, new, at)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _is_last(request: AdmissionRequest) -> bool:
    """The last finalizer goes: the object too (registry/store.go:deleteWithoutFinalizers)."""
    new, old = request.object, request.old_object
    return bool(
        new is not None
        and old is not None
        and new.metadata.deletion_timestamp
        and old.metadata.finalizers
        and not new.metadata.finalizers
        and not new.metadata.deletion_grace_period_seconds
    )
