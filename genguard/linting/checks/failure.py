"""Checks of failure: which writes fail or wait while a webhook is down or slow."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import DEFAULT_TIMEOUT, Hook, mapping, targets_of, text

_ACCEPTED_SECONDS: Final = range(1, 31)
_REQUEST_SECONDS: Final = 60


@webhook_check(
    "fail-without-selector",
    "Kubernetes, Admission Webhook Good Practices: fail open, exclude your own namespace; a "
    "webhook that must admit its own pods cannot start again",
)
def fail_without_selector(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report failurePolicy Fail on built-in resources without any selector."""
    selects = mapping(hook.body.get("namespaceSelector")) or hook.selects_objects
    if hook.fails and not selects and hook.matches_built_in:
        yield Problem(
            Level.WARNING if hook.conditional else Level.ERROR,
            hook.field("failurePolicy"),
            "Fail without namespaceSelector or objectSelector: while the webhook is down, writes "
            "fail in every namespace, also in its own and in kube-system: set Ignore, or exclude "
            "these namespaces with a namespaceSelector on kubernetes.io/metadata.name",
        )


@webhook_check(
    "fail-covers-kube-system",
    "Kubernetes, Admission Webhook Good Practices: do not intercept kube-system, where the "
    "network, DNS and storage run that the webhook itself needs",
)
def fail_covers_kube_system(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report failurePolicy Fail on built-in resources in kube-system."""
    selector = mapping(hook.body.get("namespaceSelector"))
    if not hook.fails or not selector or hook.selects_objects or not hook.matches_built_in:
        return
    if hook.selects_namespace("kube-system"):
        yield Problem(
            Level.INFO if hook.conditional else Level.WARNING,
            hook.field("namespaceSelector"),
            "failurePolicy Fail and a namespaceSelector that includes kube-system: exclude "
            "kube-system with NotIn on kubernetes.io/metadata.name",
        )


@webhook_check(
    "side-effects",
    "admissionregistration.k8s.io/v1 requires None or NoneOnDryRun; with any other value the API "
    "server rejects dry runs (kubectl diff, server-side apply previews)",
)
def side_effects(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report any value but None and NoneOnDryRun."""
    value = text(hook.body.get("sideEffects"))
    if value not in ("None", "NoneOnDryRun"):
        yield Problem(
            Level.ERROR,
            hook.field("sideEffects"),
            f"is {value or 'not set'}: set None, or set NoneOnDryRun and have no side effects when "
            "request.dryRun is true",
        )


@webhook_check(
    "timeout-long",
    "Kubernetes, Admission Webhook Good Practices: use a small timeout; the API server allows "
    "1 to 30 s",
)
def timeout_long(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a timeout beyond the default, and one that the API server rejects."""
    field = hook.field("timeoutSeconds")
    if hook.timeout not in _ACCEPTED_SECONDS:
        message = f"the API server rejects timeoutSeconds {hook.timeout}: set 1 to 30"
        yield Problem(Level.ERROR, field, message)
    elif hook.timeout > DEFAULT_TIMEOUT:
        message = f"each matching write waits {hook.timeout} s while the webhook does not answer: "
        yield Problem(Level.WARNING, field, f"{message}set a few seconds")


@webhook_check(
    "timeouts-add-up",
    "kubernetes/kubernetes#128162: all matching mutating webhooks share the timeout of the "
    "request (kube-apiserver --request-timeout, 60 s)",
)
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
                name = "/".join(filter(None, (target.resource, target.subresource)))
                yield Problem(
                    Level.WARNING,
                    hook.field("timeoutSeconds"),
                    f"the mutating webhooks that match {name} may take {total} s up to and "
                    f"including this one, but a request has {_REQUEST_SECONDS} s: lower their "
                    "timeoutSeconds",
                )
                return
