"""Nodes: a kubelet that cannot write its Node does not join, or is taken for dead."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, Target

_TARGETS: Final = tuple(
    Target("", "nodes", subresource, operation, namespaced=False)
    for subresource, operation in (("", "CREATE"), ("", "UPDATE"), ("status", "UPDATE"))
)


class Nodes:
    """See the module."""

    id: ClassVar[str] = "nodes"
    reason: ClassVar[str] = (
        "no namespaceSelector leaves out what is in no namespace; Kyverno keeps nodes out of "
        "every Fail webhook by a matchCondition (pkg/controllers/webhook/bootstrap_exclusion.go)"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a rule."""
        del around
        if hook.conditional or hook.selects_objects:
            return
        for field in dict.fromkeys(one for target in _TARGETS for one in hook.covering(target)):
            yield told(
                self,
                Level.ERROR if hook.fails else Level.INFO,
                hook,
                field,
                "matches Nodes, so kubelets wait for it when they join and report: leave nodes "
                "out, with a matchCondition if they must be matched",
            )
