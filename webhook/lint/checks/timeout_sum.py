"""Mutating webhooks are asked one after the other, within the 60 s that a request has.

A webhook with failurePolicy Ignore does not help then: the request itself is over.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook
from webhook.lint.overlap import targets_of

_REQUEST_SECONDS: Final = 60


class TimeoutSum:
    """See the module."""

    id: ClassVar[str] = "timeouts-add-up"
    reason: ClassVar[str] = (
        "kubernetes/kubernetes#128162: the request's timeout (kube-apiserver --request-timeout, "
        "60 s) is shared by all mutating webhooks that match"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding for the webhook with which a request's time may be over."""
        if not hook.mutates:
            return
        for target in targets_of(hook):
            spent = 0
            for other in around.mutating:
                if not any(other.covering(target)):
                    continue
                before, spent = spent, spent + other.timeout
                if other == hook and before <= _REQUEST_SECONDS < spent:
                    name = "/".join(filter(None, (target.resource, target.subresource)))
                    yield told(
                        self,
                        Level.WARNING,
                        hook,
                        hook.field("timeoutSeconds"),
                        f"the mutating webhooks that match {name} may take {spent} s up to this "
                        f"one, and a request has {_REQUEST_SECONDS} s: lower their timeoutSeconds",
                    )
                    return
