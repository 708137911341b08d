"""admissionReviewVersions without v1."""

from collections.abc import Iterator
from typing import ClassVar, Final

from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, texts

_KNOWN: Final = frozenset({"v1", "v1beta1"})


class ReviewVersions:
    """See the module."""

    id: ClassVar[str] = "review-versions"
    reason: ClassVar[str] = (
        "the first version of the list that the API server knows decides "
        "(apiserver pkg/admission/plugin/webhook/request/admissionreview.go); v1beta1 checks less"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """One finding a webhook."""
        del around
        given = texts(hook.body.get("admissionReviewVersions"))
        if "v1" not in given:
            known = bool(_KNOWN & set(given))
            yield told(
                self,
                Level.WARNING if known else Level.ERROR,
                hook,
                hook.field("admissionReviewVersions"),
                f"has no v1, only {', '.join(given) or 'nothing'}: answer v1 and list it",
            )
