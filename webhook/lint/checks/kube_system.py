"""failurePolicy Fail with a selector that leaves kube-system in."""

from collections.abc import Iterator
from typing import ClassVar

from webhook.lint.check import Surroundings, told
from webhook.lint.checks.fail_everywhere import is_of_built_in
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, mapping


class KubeSystem:
    """See the module."""

    id: ClassVar[str] = "fail-covers-kube-system"
    reason: ClassVar[str] = (
        "Kubernetes, Admission Webhook Good Practices: do not intercept kube-system, where the "
        "network, DNS and storage that the webhook needs are run"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        selector = mapping(hook.body.get("namespaceSelector"))
        if not hook.fails or not selector or hook.selects_objects or not is_of_built_in(hook):
            return
        if hook.selects_namespace("kube-system"):
            yield told(
                self,
                Level.INFO if hook.conditional else Level.WARNING,
                hook,
                hook.field("namespaceSelector"),
                "Fail and a namespaceSelector that selects kube-system: add kube-system to a "
                "NotIn on kubernetes.io/metadata.name",
            )
