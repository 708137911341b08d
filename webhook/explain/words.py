"""What each rule of the table means, in a line."""

from typing import Final

from webhook.generation.custom import StatusSubresource
from webhook.generation.strategy import (
    Equality,
    OnCreate,
    OnDelete,
    Propagation,
    SubresourceRule,
)

ON_CREATE: Final = {
    OnCreate.ONE: "1, whatever was sent",
    OnCreate.KEPT: "stored as sent: normally absent",
    OnCreate.NONE: "it is never stored",
}
EQUALITY: Final = {
    Equality.SEMANTIC: "compared as Go values; empty and absent are the same",
    Equality.REFLECT: "compared as Go values; empty and absent differ",
    Equality.UNTYPED: "compared as JSON; empty and absent differ",
}
SUBRESOURCE: Final = {
    SubresourceRule.KEEP: "keeps it",
    SubresourceRule.EPHEMERAL_CONTAINERS: "+1 when spec.ephemeralContainers change",
    SubresourceRule.RESIZE: "+1 when resources or resizePolicy of the pod or a container change",
    SubresourceRule.SCALE: "+1 when spec.replicas change",
    SubresourceRule.EVICT: "+1: it deletes the pod gracefully",
}
ON_DELETE: Final = {
    OnDelete.GRACEFUL: "+1 with the first DELETE",
    OnDelete.FINALIZERS: "+1 if finalizers keep it; else it is gone at once",
    OnDelete.NEVER: "keeps it: deletionTimestamp is set without counting",
    OnDelete.NONE: "cannot be deleted",
}
PROPAGATION: Final = {
    Propagation.BACKGROUND: "",
    Propagation.ORPHAN: "without propagationPolicy its dependents are orphaned, by a finalizer",
    Propagation.UNSUPPORTED: "propagationPolicy adds no finalizer",
}
WRITTEN: Final = {
    StatusSubresource.PRESENT: "through /status alone: other writes leave status as it was, and "
    "writes of /status leave spec as it was",
    StatusSubresource.ABSENT: "with the object: there is no /status",
    StatusSubresource.UNKNOWN: "not known: give --crds or --kubeconfig",
}
SUBRESOURCE_OF_STATUS: Final = {
    StatusSubresource.PRESENT: "with status subresource",
    StatusSubresource.ABSENT: "without status subresource",
    StatusSubresource.UNKNOWN: "its status subresource is not known",
}
NO_STATUS: Final = "by nobody: the kind has no /status"
TRAILS: Final = (
    "every write of status counts as one of spec: a controller that writes observedGeneration = "
    "generation trails by one for ever"
)
