"""Webhooks that are called outside genguard's two looks at a write."""

from collections.abc import Iterator
from typing import ClassVar

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook
from webhook.lint.overlap import overlap


class OrderGenguard:
    """See the module."""

    id: ClassVar[str] = "order-genguard"
    reason: ClassVar[str] = (
        "genguard sees what others did between its intent and its mutate, the first and the last "
        "name: manifests/base/registrations"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """At most one finding a webhook."""
        if not hook.mutates or hook.own_phase:
            return
        for own in around.mutating:
            if not overlap(own, hook):
                continue
            if own.own_phase == "/mutate" and hook.order > own.order:
                yield told(
                    self,
                    Level.WARNING,
                    hook,
                    "metadata.name",
                    f"is called after {own.configuration}, so what it changes is repaired only "
                    "where genguard is reinvoked: choose a name that sorts before",
                )
            elif own.own_phase == "/intent" and hook.order < own.order:
                yield told(
                    self,
                    Level.WARNING,
                    hook,
                    "metadata.name",
                    f"is called before {own.configuration}, so what it changes looks as if the "
                    "requester had sent it: choose a name that sorts after",
                )
