"""Nodes: a kubelet that cannot write its Node cannot join, or its node becomes NotReady."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, Target

_TARGETS: Final = tuple(
    Target("", "nodes", subresource, operation, namespaced=False)
    for subresource, operation in (("", "CREATE"), ("", "UPDATE"), ("status", "UPDATE"))
)


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches Nodes."""
    if hook.conditional or hook.selects_objects:
        return
    for field in hook.covering_any(_TARGETS):
        yield Problem(
            Level.ERROR if hook.fails else Level.INFO,
            field,
            "matches Nodes, so kubelets wait for it when they join and report their status: leave "
            "out nodes, or add a matchCondition",
        )


CHECK: Final = Check(
    "nodes",
    "a namespaceSelector does not exclude objects without a namespace; Kyverno excludes nodes "
    "from Fail webhooks by a matchCondition (pkg/controllers/webhook/bootstrap_exclusion.go)",
    find_problems,
)
