"""failurePolicy Fail with a selector that includes kube-system."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, mapping


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report failurePolicy Fail on built-in resources in kube-system."""
    selector = mapping(hook.body.get("namespaceSelector"))
    if not hook.fails or not selector or hook.selects_objects or not hook.matches_built_in:
        return
    if hook.selects_namespace("kube-system"):
        yield Problem(
            Level.INFO if hook.conditional else Level.WARNING,
            hook.field("namespaceSelector"),
            "failurePolicy Fail and a namespaceSelector that includes kube-system: exclude "
            "kube-system with NotIn on kubernetes.io/metadata.name",
        )


CHECK: Final = Check(
    "fail-covers-kube-system",
    "Kubernetes, Admission Webhook Good Practices: do not intercept kube-system, where the "
    "network, DNS and storage run that the webhook itself needs",
    find_problems,
)
