"""Leases in kube-node-lease: a node that cannot renew its Lease becomes NotReady."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, Target

_TARGET: Final = Target("coordination.k8s.io", "leases", "", "UPDATE")
_NAMESPACE: Final = "kube-node-lease"


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches the Leases of nodes."""
    if not hook.selects_namespace(_NAMESPACE) or hook.selects_objects:
        return
    for field in hook.covering(_TARGET):
        yield Problem(
            Level.ERROR if hook.fails else Level.WARNING,
            field,
            f"matches the Leases in {_NAMESPACE}, which nodes renew to show that they are alive: "
            "leave out leases, or exclude the namespace with a namespaceSelector",
        )


CHECK: Final = Check(
    "node-leases",
    "Kubernetes, Admission Webhook Good Practices: never match Leases in kube-node-lease; "
    "every kubelet writes one each 10 s",
    find_problems,
)
