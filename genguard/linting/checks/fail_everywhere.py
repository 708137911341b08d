"""failurePolicy Fail without a selector: no write passes while the webhook is down."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, mapping


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report failurePolicy Fail on built-in resources without any selector."""
    selects = mapping(hook.body.get("namespaceSelector")) or hook.selects_objects
    if hook.fails and not selects and hook.matches_built_in:
        yield Problem(
            Level.WARNING if hook.conditional else Level.ERROR,
            hook.field("failurePolicy"),
            "Fail without namespaceSelector or objectSelector: while the webhook is down, writes "
            "fail in every namespace, also in its own and in kube-system: set Ignore, or exclude "
            "these namespaces with a namespaceSelector on kubernetes.io/metadata.name",
        )


CHECK: Final = Check(
    "fail-without-selector",
    "Kubernetes, Admission Webhook Good Practices: fail open, exclude your own namespace; a "
    "webhook that must admit its own pods cannot start again",
    find_problems,
)
