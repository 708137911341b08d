"""TokenReviews and SubjectAccessReviews: authentication waits for the webhook."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, Target

_TARGETS: Final = (
    Target("authentication.k8s.io", "tokenreviews", "", "CREATE", namespaced=False),
    Target("authentication.k8s.io", "selfsubjectreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "subjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectrulesreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "localsubjectaccessreviews", "", "CREATE"),
)


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report each rule that matches reviews of tokens or access."""
    for field in hook.covering_any(_TARGETS):
        yield Problem(
            Level.ERROR if hook.fails and not hook.conditional else Level.WARNING,
            field,
            "matches token or access reviews, so authentication and authorization of other "
            "components wait for it: name only the groups and resources that you need",
        )


CHECK: Final = Check(
    "auth-reviews",
    "API servers before 1.37 call webhooks for them too (gate "
    "ExcludeAdmissionWebhookVirtualResources), and no selector matches a cluster-scoped review",
    find_problems,
)
