"""admissionReviewVersions without v1."""

from collections.abc import Iterator
from typing import Final

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import Hook, texts

_KNOWN: Final = frozenset({"v1", "v1beta1"})


def find_problems(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report a list of versions without v1."""
    versions = texts(hook.body.get("admissionReviewVersions"))
    if "v1" not in versions:
        yield Problem(
            Level.WARNING if _KNOWN & set(versions) else Level.ERROR,
            hook.field("admissionReviewVersions"),
            f"has {', '.join(versions) or 'no version'} but not v1: support v1 and list it",
        )


CHECK: Final = Check(
    "review-versions",
    "the API server uses the first version in the list that it knows "
    "(apiserver pkg/admission/plugin/webhook/request/admissionreview.go); v1beta1 checks less",
    find_problems,
)
