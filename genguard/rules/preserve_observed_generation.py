"""Put back an observedGeneration that an update clears.

Reads   status.observedGeneration and status.conditions[*].observedGeneration of object, oldObject
Acts on UPDATE of `status`, and of the main resource where no status subresource exists; any kind
Result  an edit for each value that was set and is now 0, null or absent; conditions are paired
        k-th with k-th of the same type. Any other value, a lower one too, is let through
Relies  on the same care kube-apiserver takes for Pods alone
        (pkg/registry/core/pod/strategy.go:preserveOldObservedGeneration; KEP-5067)
"""

from typing import ClassVar

from genguard.objects.observed import restorations
from genguard.patch.operations import Edit
from genguard.rules.rule import RuleInput, writes_status


class PreserveObservedGeneration:
    """See the module."""

    name: ClassVar[str] = "preserve-observed-generation"

    def evaluate(self, review: RuleInput) -> tuple[Edit, ...]:
        """One edit for each cleared value."""
        new, old = review.request.object, review.request.old_object
        if new is None or old is None or not writes_status(review):
            return ()
        sent, stored = new.status, old.status
        if stored is None or sent == stored:
            return ()
        found = new.observed
        if found is None or found.complete:
            return ()
        wanted = old.observed
        if wanted is None:
            return ()
        return tuple(Edit(path, value) for path, value in restorations(wanted, found))
