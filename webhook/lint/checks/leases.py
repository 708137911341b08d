"""Leases of kube-node-lease: nodes that cannot renew theirs are taken for dead."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, Target

_TARGET: Final = Target("coordination.k8s.io", "leases", "", "UPDATE")
_NAMESPACE: Final = "kube-node-lease"


class Leases:
    """See the module."""

    id: ClassVar[str] = "node-leases"
    reason: ClassVar[str] = (
        "Kubernetes, Admission Webhook Good Practices: never match Leases in kube-node-lease; "
        "every kubelet writes one each 10 s"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a rule."""
        del around
        if not hook.selects_namespace(_NAMESPACE) or hook.selects_objects:
            return
        for field in hook.covering(_TARGET):
            yield told(
                self,
                Level.ERROR if hook.fails else Level.WARNING,
                hook,
                field,
                f"matches the Leases of {_NAMESPACE}, by which nodes show that they live: leave "
                "leases out, or the namespace by a namespaceSelector",
            )
