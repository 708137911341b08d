"""Checks of order, and of what others write back: genguard's own rules, and selectors on AKS."""

import re
from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import FOLLOWED, GENGUARD, Hook, overlap

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@webhook_check
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
            yield Problem(Level.WARNING, "metadata.name", "before", {"other": other.configuration})
            return


@webhook_check
def order_genguard(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a mutating webhook that is called before genguard's intent or after its mutate."""
    if not hook.mutates or hook.own_phase:
        return
    for own in context.mutating:
        is_late = own.own_phase == "/mutate" and hook.order > own.order
        is_early = own.own_phase == "/intent" and hook.order < own.order
        if (is_late or is_early) and overlap(own, hook):
            said, named = "after" if is_late else "before", {"own": own.configuration}
            yield Problem(Level.WARNING, "metadata.name", said, named)


@webhook_check
def reinvocation(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a webhook that misses later changes, and webhooks that are reinvoked together."""
    if not hook.mutates or hook.own_phase:
        return
    field, name = hook.field("reinvocationPolicy"), hook.configuration.encode()
    others = [other for other in context.mutating if not other.own_phase and overlap(other, hook)]
    later = [other for other in others if other.configuration.encode() > name]
    reinvoked = [other for other in others if other.reinvoked and other != hook]
    if not hook.reinvoked and later:
        yield Problem(Level.INFO, field, "never", {"other": later[0].name})
    elif hook.reinvoked and reinvoked:
        yield Problem(Level.INFO, field, "together", {"other": reinvoked[0].name})


@webhook_check
def registrations_reverted(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report rules of genguard's own webhook that somebody else has written after its server."""
    is_kept = hook.own_phase in ("/intent", "/mutate") and FOLLOWED in hook.annotations
    if is_kept and (by := hook.rules_writer) not in ("", GENGUARD):
        yield Problem(Level.WARNING, hook.field("rules"), "reverted", {"by": by})


_AKS: Final = frozenset({"control-plane", "kubernetes.azure.com/managedby"})
"""Labels of namespaces that the Admissions Enforcer of AKS leaves out of each webhook."""


@webhook_check
def aks_selectors(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report selectors to which the Admissions Enforcer adds, where another webhook shows it."""
    is_aks = any(hook.namespace_keys >= _AKS for hook in context.hooks)
    if is_aks and not (hook.namespace_keys >= _AKS or hook.own_phase or hook.leaves_out_enforcer):
        yield Problem(Level.WARNING, hook.field("namespaceSelector"), "missing")
