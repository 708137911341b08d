"""TokenReviews and SubjectAccessReviews: asking who may do what waits for the webhook."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, Target

_TARGETS: Final = (
    Target("authentication.k8s.io", "tokenreviews", "", "CREATE", namespaced=False),
    Target("authentication.k8s.io", "selfsubjectreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "subjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectaccessreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "selfsubjectrulesreviews", "", "CREATE", namespaced=False),
    Target("authorization.k8s.io", "localsubjectaccessreviews", "", "CREATE"),
)


class VirtualAuth:
    """See the module."""

    id: ClassVar[str] = "auth-reviews"
    reason: ClassVar[str] = (
        "no API server before 1.37 leaves these out by itself (gate "
        "ExcludeAdmissionWebhookVirtualResources); no selector matches what is in no namespace"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a rule."""
        del around
        for field in dict.fromkeys(one for target in _TARGETS for one in hook.covering(target)):
            yield told(
                self,
                Level.ERROR if hook.fails and not hook.conditional else Level.WARNING,
                hook,
                field,
                "matches token or access reviews, so authentication and authorization of others "
                "wait for it: name the groups and resources that are meant",
            )
