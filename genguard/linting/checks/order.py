"""Checks of order, and that nobody writes back the rules that genguard's own server keeps."""

import re
from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import FOLLOWED, GENGUARD, Hook, overlap

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@webhook_check(
    "order-of-numbers",
    "apiserver pkg/admission/configuration/mutating_webhook_manager.go sorts configurations "
    "by name as text: 10-x comes before 9-y",
)
def order_of_numbers(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a webhook that is called before another one although its number is higher."""
    mine = _NUMBER.match(hook.configuration)
    if not hook.mutates or mine is None:
        return
    for other in context.mutating:
        theirs = _NUMBER.match(other.configuration)
        if theirs is None or not overlap(hook, other):
            continue
        if int(mine[0]) > int(theirs[0]) and hook.order < other.order:
            yield Problem(
                Level.WARNING,
                "metadata.name",
                f"is called before {other.configuration} although its number is higher: give both "
                "numbers the same count of digits",
            )
            return


@webhook_check(
    "order-genguard",
    "genguard sees what other webhooks change between its intent and its mutate webhook, which "
    "need the first and the last name: manifests/base/registrations",
)
def order_genguard(hook: Hook, context: LintContext) -> Iterator[Problem]:
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


@webhook_check(
    "reinvocation",
    "apiserver pkg/admission/plugin/webhook/mutating/reinvocationcontext.go: after a change "
    "only IfNeeded webhooks are called again, once, and no one checks that they agree",
)
def reinvocation(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a webhook that misses later changes, and webhooks that are reinvoked together."""
    if not hook.mutates or hook.own_phase:
        return
    field, name = hook.field("reinvocationPolicy"), hook.configuration.encode()
    others = [other for other in context.mutating if not other.own_phase and overlap(other, hook)]
    later = [other for other in others if other.configuration.encode() > name]
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


@webhook_check(
    "registrations-reverted",
    "`genguard serve --registrations follow` writes the rules of its own mutating webhooks, and a "
    "tool that applies its manifests again and again writes them back: docs/registrations.md",
)
def registrations_reverted(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report rules of genguard's own webhook that somebody else has written after its server."""
    del context
    by = hook.rules_writer
    if hook.own_phase and FOLLOWED in hook.annotations and by not in ("", GENGUARD):
        yield Problem(
            Level.WARNING,
            hook.field("rules"),
            f"are written by {by} too, against genguard's server, which then leaves them as they "
            f"are: let {by} ignore /webhooks/0/rules of this configuration, or start the server "
            "with --registrations fixed",
        )
