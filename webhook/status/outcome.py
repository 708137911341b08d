"""What an admission review tells Tracking, which follows the outcome phase alone.

An outcome shows the object as every mutating webhook and the strategy left it. At /intent and
/mutate writes pass that never reach an outcome, with stale copies of status: where no outcome is
registered, only watches tell.
"""

from typing import Final

from webhook.admission.review import AdmissionRequest, Operation
from webhook.generation.prediction import Prediction
from webhook.objects.metadata import ObjectMeta
from webhook.status.tally import Kind
from webhook.status.tracking import Tracking

_WHOLE: Final = frozenset({"", "status", "resize", "ephemeralcontainers"})
"""Subresources whose reviews carry the object itself."""


def see_outcome(
    tracking: Tracking, request: AdmissionRequest, prediction: Prediction, at: float
) -> None:
    """Take in the review of an outcome.

    A dry run tells nothing: it is never stored. After a DELETE, whatever still writes to an object
    that finalizers or a grace period keep makes it known again. Raises msgspec.MsgspecError or
    RecursionError when the object cannot be decoded.
    """
    wire = request.wire
    if wire.dry_run:
        return
    new, old = request.object, request.old_object
    if request.operation is Operation.DELETE and old is not None:
        if not request.subresource:
            tracking.forget(old.metadata.uid or "")
    elif request.operation not in (Operation.CREATE, Operation.UPDATE) or new is None:
        return
    elif request.subresource == "scale":
        if prediction.moves:
            tracking.moved(new.metadata.uid or "", at)
    elif request.subresource in _WHOLE:
        if old is not None and _ends(new.metadata, old.metadata):
            tracking.forget(new.metadata.uid or "")
            return
        kind = Kind(wire.resource.group, wire.resource.resource, wire.kind.kind)
        group, version = wire.kind.group, wire.kind.version
        tracking.review(kind, f"{group}/{version}" if group else version, old, new, at)


def _ends(new: ObjectMeta, old: ObjectMeta) -> bool:
    """The last finalizer goes, and the object with it (registry/store.go:Update).

    A grace period that is left keeps it: pods go with a last DELETE.
    """
    return bool(
        new.deletion_timestamp
        and old.finalizers
        and not new.finalizers
        and not new.deletion_grace_period_seconds
    )
