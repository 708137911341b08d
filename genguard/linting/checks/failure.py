"""Checks of failure: which writes fail or wait while a webhook is down or slow."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import DEFAULT_TIMEOUT, Hook, targets_of
from genguard.objects.fields import mapping, text

_ACCEPTED_SECONDS: Final = range(1, 31)
_REQUEST_SECONDS: Final = 60


@webhook_check
def fail_without_selector(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report failurePolicy Fail on built-in resources without any selector."""
    selects = mapping(hook.body.get("namespaceSelector")) or hook.selects_objects
    if hook.fails and not selects and hook.matches_built_in and hook.may_match:
        of_cluster = hook.is_of_cluster
        level = Level.WARNING if hook.conditional or of_cluster else Level.ERROR
        said = "fails-of-cluster" if of_cluster else "fails"
        yield Problem(level, hook.field("failurePolicy"), said)


@webhook_check
def fail_covers_kube_system(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report failurePolicy Fail on built-in resources in kube-system."""
    selector = mapping(hook.body.get("namespaceSelector"))
    if not hook.fails or not selector or hook.selects_objects or not hook.matches_built_in:
        return
    if hook.selects_namespace("kube-system"):
        level = Level.INFO if hook.conditional else Level.WARNING
        yield Problem(level, hook.field("namespaceSelector"), "fails")


@webhook_check
def side_effects(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report any value but None and NoneOnDryRun."""
    value = text(hook.body.get("sideEffects"))
    if value not in ("None", "NoneOnDryRun"):
        yield Problem(Level.ERROR, hook.field("sideEffects"), "has", {"value": value or "not set"})


@webhook_check
def timeout_long(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a timeout beyond the default, and one that the API server rejects."""
    field, named = hook.field("timeoutSeconds"), {"seconds": hook.timeout}
    if hook.timeout not in _ACCEPTED_SECONDS:
        yield Problem(Level.ERROR, field, "refused", named)
    elif hook.timeout > DEFAULT_TIMEOUT:
        yield Problem(Level.WARNING, field, "long", named)


@webhook_check
def timeouts_add_up(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report the webhook whose timeout makes the sum exceed the timeout of the request.

    Mutating webhooks are called one after the other. When the request itself has timed out,
    failurePolicy Ignore does not help.
    """
    for target in targets_of(hook) if hook.mutates else ():
        total = 0
        for other in context.mutating:
            if not other.covering(target):
                continue
            before, total = total, total + other.timeout
            if other == hook and before <= _REQUEST_SECONDS < total:
                resource = target.writes.resource
                named = {"resource": resource, "total": total, "most": _REQUEST_SECONDS}
                yield Problem(Level.WARNING, hook.field("timeoutSeconds"), "adds-up", named)
                return
