"""failurePolicy Fail on built-in resources without a selector: when it is away, all stand still."""

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, mapping

_BUILT_IN: Final = frozenset({"*", "", "apps", "autoscaling", "batch", "extensions", "policy"})
_BUILT_IN_K8S_IO: Final = re.compile(
    "(admissionregistration|apiextensions|apiregistration|authentication|authorization"
    "|certificates|coordination|discovery|events|flowcontrol.apiserver|networking|node"
    "|rbac.authorization|resource|scheduling|storage)[.]k8s[.]io"
)


class FailEverywhere:
    """See the module."""

    id: ClassVar[str] = "fail-without-selector"
    reason: ClassVar[str] = (
        "Kubernetes, Admission Webhook Good Practices: fail open, exclude your own namespace; a "
        "webhook whose own pods it must admit never starts again"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        selects = mapping(hook.body.get("namespaceSelector")) or hook.selects_objects
        if not hook.fails or selects or not is_of_built_in(hook):
            return
        yield told(
            self,
            Level.WARNING if hook.conditional else Level.ERROR,
            hook,
            hook.field("failurePolicy"),
            "Fail without namespaceSelector or objectSelector refuses writes in every namespace, "
            "its own and kube-system, while the webhook is away: set Ignore, or leave these "
            "namespaces out with a namespaceSelector on kubernetes.io/metadata.name",
        )


def is_of_built_in(hook: Hook) -> bool:
    """Whether it is called for resources of Kubernetes' own."""
    return any(
        group in _BUILT_IN or _BUILT_IN_K8S_IO.fullmatch(group) is not None
        for rule in hook.rules
        for group in rule.groups
    )
