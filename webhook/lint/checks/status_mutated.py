"""Webhooks that mutate status: whoever decodes it into types loses what these do not know."""

from collections.abc import Iterator
from typing import ClassVar

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, Target

_TARGET = Target("*", "*", "status", "UPDATE")


class StatusMutated:
    """See the module."""

    id: ClassVar[str] = "status-mutated"
    reason: ClassVar[str] = (
        "KEP-5067: a webhook built with older types drops status.observedGeneration on each write "
        "(endless loop); kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a rule."""
        del around
        if not hook.mutates or hook.own_phase:
            return
        for field in hook.covering(_TARGET):
            yield told(
                self,
                Level.WARNING,
                hook,
                field,
                "mutates status: answer with operations on single fields, made from the raw "
                "object and never from a round trip through types, or leave the subresource out",
            )
