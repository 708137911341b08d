"""reinvocationPolicy: who is called again when a later webhook changes the object."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, overlap


def find_problems(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a webhook that misses later changes, and webhooks that are reinvoked together."""
    if not hook.mutates or hook.own_phase:
        return
    field = hook.field("reinvocationPolicy")
    others = [other for other in context.mutating if not other.own_phase and overlap(other, hook)]
    later = [
        other for other in others if other.configuration.encode() > hook.configuration.encode()
    ]
    reinvoked = [other for other in others if other.reinvoked and other != hook]
    if not hook.reinvoked and later:
        message = (
            f"Never: it does not see what {later[0].name} changes after it. If it must, set "
            "IfNeeded, and return no patch for an object that it has changed already"
        )
        yield Problem(Level.INFO, field, message)
    elif hook.reinvoked and reinvoked:
        message = (
            f"IfNeeded, like {reinvoked[0].name} for the same resources: each must return no patch "
            "for an object that both have changed, or what is stored depends on their order"
        )
        yield Problem(Level.INFO, field, message)


CHECK: Final = Check(
    "reinvocation",
    "apiserver pkg/admission/plugin/webhook/mutating/reinvocationcontext.go: after a change "
    "only IfNeeded webhooks are called again, once, and no one checks that they agree",
    find_problems,
)
