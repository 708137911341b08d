"""Checks of scope: which requests the rules of a webhook match, and which they miss."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import Hook, Target, mapping, text, texts

_BINDING: Final = Target("", "pods", "binding", "CREATE")
_LEASE: Final = Target("coordination.k8s.io", "leases", "", "UPDATE")
_ANY_STATUS: Final = Target("*", "*", "status", "UPDATE")
_NODES: Final = tuple(
    Target("", "nodes", subresource, operation, namespaced=False)
    for subresource, operation in (("", "CREATE"), ("", "UPDATE"), ("status", "UPDATE"))
)
_REVIEWS: Final = (
    Target("authentication.k8s.io", "tokenreviews", "", "CREATE", namespaced=False),
    Target("authentication.k8s.io", "selfsubjectreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "subjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectrulesreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "localsubjectaccessreviews", "", "CREATE"),
)


@webhook_check(
    "pods-binding",
    "the scheduler binds each pod by POST pods/binding (kubernetes pkg/scheduler/framework/"
    "plugins/defaultbinder), so such a webhook delays every pod",
)
def pods_binding(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches pods/binding."""
    level = Level.ERROR if hook.fails else Level.WARNING
    for field in hook.covering(_BINDING):
        message = "matches pods/binding, so scheduling waits for it: leave out this subresource"
        yield Problem(level, field, message)


@webhook_check(
    "node-leases",
    "Kubernetes, Admission Webhook Good Practices: never match Leases in kube-node-lease; "
    "every kubelet writes one each 10 s",
)
def node_leases(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches the Leases of nodes: without them a node becomes NotReady."""
    if not hook.selects_namespace("kube-node-lease") or hook.selects_objects:
        return
    for field in hook.covering(_LEASE):
        yield Problem(
            Level.ERROR if hook.fails else Level.WARNING,
            field,
            "matches the Leases in kube-node-lease, which nodes renew to show that they are alive: "
            "leave out leases, or exclude the namespace with a namespaceSelector",
        )


@webhook_check(
    "nodes",
    "a namespaceSelector does not exclude objects without a namespace; Kyverno excludes nodes "
    "from Fail webhooks by a matchCondition (pkg/controllers/webhook/bootstrap_exclusion.go)",
)
def nodes(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches Nodes: a kubelet that cannot write its Node cannot join."""
    if hook.conditional or hook.selects_objects:
        return
    for field in hook.covering(*_NODES):
        yield Problem(
            Level.ERROR if hook.fails else Level.INFO,
            field,
            "matches Nodes, so kubelets wait for it when they join and report their status: leave "
            "out nodes, or add a matchCondition",
        )


@webhook_check(
    "auth-reviews",
    "API servers before 1.37 call webhooks for them too (gate "
    "ExcludeAdmissionWebhookVirtualResources), and no selector matches a cluster-scoped review",
)
def auth_reviews(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches reviews of tokens or access."""
    for field in hook.covering(*_REVIEWS):
        yield Problem(
            Level.ERROR if hook.fails and not hook.conditional else Level.WARNING,
            field,
            "matches token or access reviews, so authentication and authorization of other "
            "components wait for it: name only the groups and resources that you need",
        )


@webhook_check(
    "wildcard-resources",
    "Kubernetes, Admission Webhook Good Practices: limit the scope of each webhook; "
    "`*` excludes subresources, `*/*` includes leases, tokens and events",
)
def wildcard_resources(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each wildcard among the resources of the rules."""
    for rule in hook.rules:
        for index, name in enumerate(rule.resources):
            if name not in ("*", "*/*"):
                continue
            every = "*" in rule.groups
            groups = ", ".join(group or "core" for group in rule.groups)
            scope = "every resource of every group" if every else f"all of {groups}"
            policy = " with failurePolicy Fail" if hook.fails else ""
            yield Problem(
                Level.ERROR if every and hook.fails else Level.WARNING,
                hook.field(f"rules[{rule.position}].resources[{index}]"),
                f"`{name}` matches {scope}{policy}: name the resources and subresources that you "
                "need",
            )


@webhook_check(
    "match-policy-exact",
    "Kubernetes, Dynamic Admission Control: with Equivalent, the default of v1, requests in "
    "other API versions reach the webhook too, also after an upgrade",
)
def match_policy_exact(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report matchPolicy Exact, unless the rules match every API version."""
    rules = hook.body.get("rules")
    matches_every_version = isinstance(rules, list) and all(
        "*" in texts(mapping(rule).get("apiVersions")) for rule in rules
    )
    if text(hook.body.get("matchPolicy")) == "Exact" and not matches_every_version:
        yield Problem(
            Level.WARNING,
            hook.field("matchPolicy"),
            "Exact: requests for the same resource in another API version do not reach the "
            "webhook: set Equivalent",
        )


@webhook_check(
    "status-subresource-missing",
    "apiserver pkg/admission/plugin/webhook/predicates/rules: `pods` and `*` match no "
    "subresource; status is written to pods/status",
)
def status_subresource_missing(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a webhook with `status` in its name or path that is never called for status."""
    names = f"{text(hook.body.get('name'))} {hook.path}".lower()
    subresources = {name.partition("/")[2] for rule in hook.rules for name in rule.resources}
    if "status" in names and subresources and not subresources & {"status", "*"}:
        yield Problem(
            Level.WARNING,
            hook.field("rules"),
            "its name or path contains `status`, but no rule matches a status subresource, so it "
            "is not called when status is written: add `<resource>/status`",
        )


@webhook_check(
    "status-mutated",
    "KEP-5067: a webhook built with older types drops status.observedGeneration on each write "
    "(endless loop); kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688",
)
def status_mutated(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule of a mutating webhook that matches a status subresource."""
    if not hook.mutates or hook.own_phase:
        return
    for field in hook.covering(_ANY_STATUS):
        yield Problem(
            Level.WARNING,
            field,
            "mutates status: patch single fields of the raw object instead of encoding a decoded "
            "one, which loses unknown fields, or leave out the subresource",
        )
