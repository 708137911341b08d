"""Checks of scope: which requests the rules of a webhook match, and which they miss."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem, webhook_check
from genguard.linting.hook import Hook, Target, mapping, text, texts

_REVIEWS: Final = (
    Target("authentication.k8s.io", "tokenreviews", "", "CREATE", namespaced=False),
    Target("authentication.k8s.io", "selfsubjectreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "subjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectrulesreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "localsubjectaccessreviews", "", "CREATE"),
)


def _covering(
    name: str,
    reason: str,
    targets: Sequence[Target],
    message: str,
    *,
    level: Callable[[Hook], Level],
    applies: Callable[[Hook], bool] = lambda _: True,
) -> Check:
    """Make a check that reports each rule of a webhook that matches one of some requests."""

    def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
        for field in hook.covering(*targets) if applies(hook) else ():
            yield Problem(level(hook), field, message)

    return Check(name, reason, find_problems)


def _error_if_it_fails(hook: Hook) -> Level:
    return Level.ERROR if hook.fails else Level.WARNING


pods_binding: Final = _covering(
    "pods-binding",
    "the scheduler binds each pod by POST pods/binding (kubernetes pkg/scheduler/framework/"
    "plugins/defaultbinder), so such a webhook delays every pod",
    (Target("", "pods", "binding", "CREATE"),),
    "matches pods/binding, so scheduling waits for it: leave out this subresource",
    level=_error_if_it_fails,
)
node_leases: Final = _covering(
    "node-leases",
    "Kubernetes, Admission Webhook Good Practices: never match Leases in kube-node-lease; "
    "every kubelet writes one each 10 s",
    (Target("coordination.k8s.io", "leases", "", "UPDATE"),),
    "matches the Leases in kube-node-lease, which nodes renew to show that they are alive: "
    "leave out leases, or exclude the namespace with a namespaceSelector",
    level=_error_if_it_fails,
    applies=lambda hook: hook.selects_namespace("kube-node-lease") and not hook.selects_objects,
)
nodes: Final = _covering(
    "nodes",
    "a namespaceSelector does not exclude objects without a namespace; Kyverno excludes nodes "
    "from Fail webhooks by a matchCondition (pkg/controllers/webhook/bootstrap_exclusion.go)",
    [
        Target("", "nodes", subresource, operation, namespaced=False)
        for subresource, operation in (("", "CREATE"), ("", "UPDATE"), ("status", "UPDATE"))
    ],
    "matches Nodes, so kubelets wait for it when they join and report their status: leave "
    "out nodes, or add a matchCondition",
    level=lambda hook: Level.ERROR if hook.fails else Level.INFO,
    applies=lambda hook: not (hook.conditional or hook.selects_objects),
)
auth_reviews: Final = _covering(
    "auth-reviews",
    "API servers before 1.37 call webhooks for them too (gate "
    "ExcludeAdmissionWebhookVirtualResources), and no selector matches a cluster-scoped review",
    _REVIEWS,
    "matches token or access reviews, so authentication and authorization of other "
    "components wait for it: name only the groups and resources that you need",
    level=lambda hook: Level.ERROR if hook.fails and not hook.conditional else Level.WARNING,
)
status_mutated: Final = _covering(
    "status-mutated",
    "KEP-5067: a webhook built with older types drops status.observedGeneration on each write "
    "(endless loop); kubernetes-sigs/kueue#2878, kubernetes/kubernetes#96688",
    (Target("*", "*", "status", "UPDATE"),),
    "mutates status: patch single fields of the raw object instead of encoding a decoded "
    "one, which loses unknown fields, or leave out the subresource",
    level=lambda _: Level.WARNING,
    applies=lambda hook: hook.mutates and not hook.own_phase,
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
