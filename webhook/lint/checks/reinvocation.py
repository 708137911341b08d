"""Reinvocation: who is not asked again when a later webhook changes the object, and who is."""

from collections.abc import Iterator
from typing import ClassVar

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook
from webhook.lint.overlap import overlap


class Reinvocation:
    """See the module."""

    id: ClassVar[str] = "reinvocation"
    reason: ClassVar[str] = (
        "apiserver pkg/admission/plugin/webhook/mutating/reinvocationcontext.go: after a change "
        "only IfNeeded webhooks are called again, once, and nobody checks that they agree"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """At most one finding a webhook."""
        if not hook.mutates or hook.own_phase:
            return
        field = hook.field("reinvocationPolicy")
        others = [one for one in around.mutating if not one.own_phase and overlap(one, hook)]
        later = [one for one in others if one.configuration.encode() > hook.configuration.encode()]
        again = [one for one in others if one.reinvoked and one != hook]
        if not hook.reinvoked and later:
            message = (
                f"Never: it does not see what {later[0].name} changes after it; where that "
                "matters set IfNeeded and answer the same for an object it has changed already"
            )
            yield told(self, Level.INFO, hook, field, message)
        elif hook.reinvoked and again:
            message = (
                f"IfNeeded like {again[0].name} for the same resources: each must answer nothing "
                "for an object that both have changed, or what is stored depends on the order"
            )
            yield told(self, Level.INFO, hook, field, message)
