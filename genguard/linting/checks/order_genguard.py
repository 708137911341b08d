"""Webhooks that are called outside of genguard's two calls, intent and mutate."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, overlap


def find_problems(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a mutating webhook that is called before genguard's intent or after its mutate."""
    if not hook.mutates or hook.own_phase:
        return
    for own in context.mutating:
        if not overlap(own, hook):
            continue
        if own.own_phase == "/mutate" and hook.order > own.order:
            yield Problem(
                Level.WARNING,
                "metadata.name",
                f"is called after {own.configuration}, so genguard repairs its changes only when "
                "it is reinvoked: choose a name that sorts before",
            )
        elif own.own_phase == "/intent" and hook.order < own.order:
            yield Problem(
                Level.WARNING,
                "metadata.name",
                f"is called before {own.configuration}, so its changes look as if the requester "
                "had sent them: choose a name that sorts after",
            )


CHECK: Final = Check(
    "order-genguard",
    "genguard sees what other webhooks change between its intent and its mutate webhook, which "
    "need the first and the last name: manifests/base/registrations",
    find_problems,
)
