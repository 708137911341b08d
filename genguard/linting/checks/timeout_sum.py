"""The timeouts of mutating webhooks add up: they are called one after the other.

Together they may take longer than the 60 s of a request. Then the request itself has timed out, so
failurePolicy Ignore does not help.
"""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, targets_of

_REQUEST_SECONDS: Final = 60


def find_problems(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report the webhook whose timeout makes the sum exceed the timeout of the request."""
    if not hook.mutates:
        return
    for target in targets_of(hook):
        total = 0
        for other in context.mutating:
            if not any(other.covering(target)):
                continue
            before, total = total, total + other.timeout
            if other == hook and before <= _REQUEST_SECONDS < total:
                name = "/".join(filter(None, (target.resource, target.subresource)))
                yield Problem(
                    Level.WARNING,
                    hook.field("timeoutSeconds"),
                    f"the mutating webhooks that match {name} may take {total} s up to and "
                    f"including this one, but a request has {_REQUEST_SECONDS} s: lower their "
                    "timeoutSeconds",
                )
                return


CHECK: Final = Check(
    "timeouts-add-up",
    "kubernetes/kubernetes#128162: all matching mutating webhooks share the timeout of the "
    "request (kube-apiserver --request-timeout, 60 s)",
    find_problems,
)
